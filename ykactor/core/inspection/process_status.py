"""The status of the daemon itself, beside its partitions."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ykactor.core.inspection.shown import Shown
from ykactor.core.values.times import utc_text
from ykactor.core.values.words import plural


class Registration(Struct, frozen=True):
    """The resource manager that is registered.

    Attributes:
        build_info: what it has told of itself, as far as that is shown.
        is_connected: whether it has a session.
        since_ns: the Unix time at which this session began, or without one, at which the last one ended.
    """

    rm_id: str
    build_info: Mapping[str, str]
    is_connected: bool
    since_ns: int


class UnconfirmedStatus(Shown, frozen=True, kw_only=True):
    """A configuration that is in force, and awaits confirmation (CF-91).

    Attributes:
        checksum: of it.
        replaced: the checksum of the one that comes back without confirmation.
        who: the operator who has put it into force.
        since, until: the Unix times at which the window begins and ends, in ns.
        problem: why the other one could not come back at the end; "" if it is not over, or goes on.
    """

    checksum: str
    replaced: str
    who: str
    since: int
    until: int
    problem: str = ""

    def __str__(self) -> str:
        """A sentence such as ``91AB0C3D of ops awaits confirmation until 2026-07-31T09:30:00Z, then 74C70A1B comes back``."""
        until = f"awaits confirmation until {utc_text(self.until)}, then {self.replaced[:8]} comes back"
        return f"configuration {self.checksum[:8]} of {self.who} {until}"


class StandbyStatus(Shown, frozen=True, kw_only=True):
    """A standby that is connected.

    Attributes:
        name: its identity; "anybody" without an access file.
        origin: its address, or the user of a Unix socket.
        transaction: the newest one that it has on its disk.
        behind: the number of newer ones.
        behind_seconds: the age of the oldest of them; 0 if there is none.
        counts: True if it has everything, so that it is one of those that are wanted.
    """

    name: str
    origin: str
    transaction: int
    behind: int
    behind_seconds: float
    counts: bool

    @property
    def host(self) -> str:
        """The origin without a port."""
        return self.origin.rpartition(":")[0] or self.origin

    def __str__(self) -> str:
        """A sentence such as ``replica-1 at 10.0.0.2:41822 has transaction 1204 on its disk, the newest``."""
        behind = f"{self.behind} behind, for {self.behind_seconds:g} s" if self.behind else "the newest"
        return f"{self.name} at {self.origin} has transaction {self.transaction} on its disk, {behind}"


class StandbysStatus(Shown, frozen=True, kw_only=True):
    """The standbys of a daemon.

    Attributes:
        wanted: how many have to have a transaction before anybody is told of it.
        transaction: the newest one of the daemon.
        alone_since: since when too few have it, although they were waited for; 0 if enough have.
        goes_on: True if the daemon goes on without them; otherwise nobody is told anything more.
        connected: in the order in which they came.
    """

    wanted: int
    transaction: int
    alone_since: int
    goes_on: bool
    connected: list[StandbyStatus]

    @property
    def lack(self) -> str:
        """The sentence that says how many standbys have the newest transaction."""
        found, connected = sum(standby.counts for standby in self.connected), len(self.connected)
        on = plural(found, "standby") if found else "no standby"
        are = f"{connected or 'none'} {'are' if connected > 1 else 'is'} connected"
        return f"transaction {self.transaction} is on {on}, expected {self.wanted}: {are}"

    @property
    def problem(self) -> str:
        """The sentence that says since when too few have everything, and what follows; "" if enough have."""
        if not self.alone_since:
            return ""
        what = "goes on alone" if self.goes_on else "tells nobody anything"
        return f"{what} since {utc_text(self.alone_since)}: {self.lack}"
