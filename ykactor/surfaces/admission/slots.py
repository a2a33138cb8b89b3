"""Slots: how many sessions and connections of a kind are open, how many of them a holder has, and their pace (SE-48, SE-96).

A holder is an identity, and without one an address block (``Caller.holder``). One rule holds for all kinds: a holder has at most
a quarter of what the others leave. So nobody keeps others out, and many holders share what there is.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from ykactor.access.limits import Limits
from ykactor.access.model import Role
from ykactor.core.messages.submissions import exceeded
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.pacing import FairQueue, TokenBucket
from ykactor.surfaces.net.descriptors import fitting

#: What the others leave is divided by it.
_SHARE = 4
#: The paths of websockets, and the role that each is for.
RM_PATH = "/v1/rm"
FEED_PATH = "/v1/feed"
OPERATOR_PATH = "/v1/operator"
TURNS_PATH = "/v1/turns"
JOURNAL_PATH = "/v1/journal"
BASES_PATH = "/v1/bases"
SESSION_ROLES = {
    RM_PATH: Role.RM,
    FEED_PATH: Role.READER,
    OPERATOR_PATH: Role.OPERATOR,
    TURNS_PATH: Role.REPLICA,
    JOURNAL_PATH: Role.REPLICA,
    BASES_PATH: Role.REPLICA,
}
#: Connections of websockets that are in their handshake; connections of the REST API that have not shown whose they are, those of
#: readers, and those that have asked for metrics only.
HANDSHAKES_MAX = 4000
UNPROVEN_MAX, READERS_MAX, METRICS_MAX = 1000, 1000, 64
#: Requests in a second, of all connections of one kind; more have to wait. So many may come at once.
#: One takes 0.3 ms of the loop.
REQUESTS_PER_S = 500
BURST = 100


class Slots:
    """The slots of one kind, or something else of which holders take parts, such as memory.

    Args:
        noun: what takes them, in the plural, for messages.
        most: how many there may be at present. A lower number takes nothing away.
    """

    def __init__(self, noun: str, most: Callable[[], int]) -> None:
        self._noun = noun
        self._most = most
        #: By holder, the oldest first.
        self._held: dict[str, dict[Slot, None]] = {}
        self._count = 0

    def held(self, holder: str) -> int:
        """The number of slots that a holder has."""
        return sum(slot.size for slot in self._held.get(holder, ()))

    def refusal(self, holder: str, size: int = 1) -> str:
        """The reason for which a holder gets no further slot, or so many together; "" if it gets one."""
        held, most = self.held(holder), self._most()
        if not most or self._count + size > max(most, size):  # if there are any, one is allowed however large
            return f"{most} {self._noun} are open, no more are allowed"
        if held and held + size > (most - self._count + held) // _SHARE:
            return f"{held} {self._noun} of {holder} are open, no more are allowed: a quarter of what others leave of {most}"
        return ""

    def take(self, holder: str, end: Callable[[], object] = lambda: None, size: int = 1) -> Slot:
        """Take a slot, until the end of the block that it is entered for.

        Args:
            end: called when another one needs the slot (``make_room``).
            size: as how many it counts.
        """
        return Slot(self, holder, end, size)

    def make_room(self, holder: str) -> str:
        """Make room for a holder that would get no further slot: end its oldest one, or if no slot is free, that of the largest.

        For what has shown nothing yet: the latest may be the one that will. Returns why it was ended; "" if there was room.
        """
        refusal = self.refusal(holder)
        if refusal and self._held:
            held = max(self._held.values(), key=len) if self._count >= self._most() else self._held[holder]
            oldest = next(iter(held))
            oldest.release()
            oldest.end()
        return refusal

    def add(self, slot: Slot) -> None:
        """Count a slot."""
        self._held.setdefault(slot.holder, {})[slot] = None
        self._count += slot.size

    def discard(self, slot: Slot) -> None:
        """Count a slot no longer, if it is counted."""
        held = self._held.get(slot.holder, {})
        if slot in held:
            del held[slot]
            self._count -= slot.size
        if not held:
            self._held.pop(slot.holder, None)


class Slot:
    """One slot.

    Attributes:
        slots: of which it is one.
        end: ends what has it.
        size: as how many it counts.
    """

    def __init__(self, slots: Slots, holder: str, end: Callable[[], object], size: int) -> None:
        self.slots = slots
        self.holder = holder
        self.end = end
        self.size = size
        slots.add(self)

    def move(self, slots: Slots, holder: str) -> None:
        """Give it back, and take one of others, which must have one."""
        self.release()
        self.slots, self.holder = slots, holder
        slots.add(self)

    def release(self) -> None:
        """Give it back; nothing if that was done before."""
        self.slots.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.release()


class ConnectionSlots:
    """The slots of all connections of a daemon (SE-48, SE-96). No kind of connection can take those of another one.

    A connection has one, of the kind that it has shown it may have.

    Args:
        in_force: the limits of the access file, as they are now.

    Attributes:
        handshakes, unproven: of those that have shown nothing, of websockets and of the REST API.
        readers, metrics: of the REST API.
        sessions: by path.
    """

    def __init__(self, in_force: Callable[[], Limits]) -> None:
        def kind(noun: str, most: Callable[[], int]) -> Slots:
            return Slots(noun, lambda: fitting(most()))

        self.handshakes = kind("connections in their handshake", lambda: HANDSHAKES_MAX)
        self.unproven = kind("connections that have not shown whose they are", lambda: UNPROVEN_MAX)
        self.readers = kind("connections of readers", lambda: READERS_MAX)
        self.metrics = kind("connections for metrics", lambda: METRICS_MAX)

        def reserved() -> int:
            return in_force().reserved_sessions

        def followers() -> int:
            return in_force().total_sessions - 2 * reserved()

        self.sessions = {
            path: kind(f"sessions on {path}", followers if path == FEED_PATH else reserved) for path in SESSION_ROLES
        }
        self._requests = {
            slots: FairQueue(TokenBucket(lambda: REQUESTS_PER_S, BURST / REQUESTS_PER_S))
            for slots in (self.unproven, self.readers, self.metrics)
        }

    def claim_session(self, slot: Slot, caller: Caller, path: str) -> str:
        """Move the slot of a connection to the sessions of a path; returns why it may not have one there, or ""."""
        name, limits, holder = caller.identity.name, caller.identity.limits, caller.holder
        if sum(slots.held(holder) for slots in self.sessions.values()) >= limits.sessions:
            return exceeded("sessions", limits.sessions, name, "so many are open")
        if path == FEED_PATH and self.sessions[path].held(holder) >= limits.subscriptions:
            return exceeded("subscriptions", limits.subscriptions, name, "so many are open")
        return _moved(slot, self.sessions[path], holder)

    def claim_requests(self, slot: Slot, caller: Caller, *, is_scrape: bool) -> str:
        """Move the slot of a connection to where the caller of a request may have one; returns why it may not, or "".

        A connection counts for the caller that it has shown first.
        """
        if slot.slots is self.readers or (is_scrape and slot.slots is self.metrics):
            return ""
        holder = caller.holder
        most, held = caller.identity.limits.connections, self.readers.held(holder) + self.metrics.held(holder)
        if held - (slot.slots is self.metrics) >= most:
            return exceeded("connections", most, caller.identity.name, "so many are open")
        return _moved(slot, self.metrics if is_scrape else self.readers, holder)

    async def wait_for_request(self, slot: Slot) -> None:
        """Wait until the next request of a connection may be answered; the holders of slots of its kind take turns."""
        await self._requests[slot.slots].take(slot.holder, 1)


def _moved(slot: Slot, slots: Slots, holder: str) -> str:
    refusal = slots.refusal(holder)
    if not refusal:
        slot.move(slots, holder)
    return refusal
