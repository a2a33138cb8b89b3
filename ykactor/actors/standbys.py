"""The standbys of a daemon: each has the beginning of its journal on another disk, and gets every transaction after it (DU-20).

A transaction is committed here first, so a standby is never ahead. The newest ones are kept in memory for all standbys together,
up to a bound; a standby that lacks an older one gets a copy of the rest of the history instead. The daemon never waits for a
standby to read, only for as many as it wants to have the newest transaction on their disks (``Settings``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import trio
from msgspec import Struct, structs

from ykactor.core.inspection.process_status import StandbysStatus, StandbyStatus
from ykactor.journal.errors import NotWrittenError
from ykactor.journal.terms import Beginning, Terms
from ykactor.journal.transaction import Transaction

#: The bytes of transactions that are kept for standbys; the newest one is kept in any case.
KEPT_BYTES_MAX = 2**26
#: The bytes that a standby takes at once, but for a transaction that is larger: what is being sent is kept too.
TAKEN_BYTES_MAX = 2**20


class Settings(Struct, frozen=True):
    """The standbys that a daemon waits for.

    Attributes:
        wanted: how many have to have a transaction on their disks before anybody is told of it.
        wait_s: how long they are waited for.
        goes_on: whether the daemon then goes on without; otherwise nothing becomes durable before they are there.
    """

    wanted: int = 0
    wait_s: float = 2.0
    goes_on: bool = False


class Missed(Exception):
    """A transaction that comes next is not kept any more."""


class Standby:
    """A standby that is connected.

    Attributes:
        number: the newest transaction that it has on its disk.
        name, origin: as of ``StandbyStatus``.
        complete_s: when it had everything, of trio's clock; at first when it has joined.
    """

    def __init__(self, number: int, name: str, origin: str) -> None:
        self.number = number
        self.name = name
        self.origin = origin
        self.complete_s = trio.current_time()


class Standbys:
    """The newest transactions, and which standby has which of them.

    Args:
        directory: of the journal.
        number: the newest transaction that is committed there.
        beginnings: of the terms of its history.
        settings: how many standbys are waited for.

    Attributes:
        copying: held while a standby is sent a copy: there is one at a time.
        copier: of the thread that makes a copy, also when the standby has gone meanwhile.
        is_alone: whether it goes on without the standbys that it wants.
        alone_since_ns: since when it does, or is stalled because of them; 0 if enough have everything.
    """

    def __init__(self, directory: Path, number: int, beginnings: list[Beginning], settings: Settings) -> None:
        self.directory = directory
        self.number = number
        self.beginnings = beginnings
        self.settings = settings
        self.copying = trio.Lock()
        self.copier = trio.CapacityLimiter(1)
        self.is_alone = False
        self.alone_since_ns = 0
        self._joined: dict[Standby, None] = {}
        #: What the thread that commits has written since the last call of ``committed``.
        self._written: deque[tuple[int, bytes | None]] = deque()
        #: The newest transactions, the last of which is ``number``; and when each was committed, of trio's clock.
        self._kept: deque[bytes] = deque()
        self._kept_s: deque[float] = deque()
        self._kept_bytes = 0
        self._grown = trio.Event()
        self._confirmed = trio.Event()
        self._alone_changed = trio.Event()
        #: Whether a commit is under way, and whether no other one may begin: the thread that commits sets one and then reads the
        #: other, and who ends the journal does it the other way round, so one of them sees what the other has set.
        self._is_committing = self._has_ended = False

    def begin_commit(self) -> None:
        """Begin a commit; called in the thread that commits. Raises:  NotWrittenError after ``end``."""
        self._is_committing = True
        if self._has_ended:
            raise NotWrittenError("a standby has taken over")

    def on_commit(self, transaction: Transaction) -> None:
        """Take a transaction that was committed; called in the thread that commits, before ``committed``."""
        is_wanted = self.settings.wanted or self._joined
        self._written.append((transaction.number, transaction.encode() if is_wanted else None))

    def committed(self) -> bool:
        """Show standbys what was committed. True if it is not enough that it is on the disk of the daemon (``confirmed``)."""
        self._is_committing = False
        while self._written:
            self.number, data = self._written.popleft()
            self._keep(data)
        self._wake()
        return self._lacks() > 0 and not self.is_alone

    def not_committed(self) -> None:
        """Take note that a commit has failed, and that nothing was written."""
        self._is_committing = False
        self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = trio.Event()

    def _keep(self, data: bytes | None) -> None:
        """Keep the newest transaction; None: it has none for standbys."""
        if data is None:
            self._kept.clear()
            self._kept_s.clear()
            self._kept_bytes = 0
            return
        self._kept.append(data)
        self._kept_s.append(trio.current_time())
        self._kept_bytes += len(data)
        while self._kept_bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popleft())
            self._kept_s.popleft()

    def _lacks(self) -> int:
        """The number of wanted standbys that do not have the newest transaction."""
        return self.settings.wanted - sum(1 for standby in self._joined if standby.number >= self.number)

    async def confirmed(self, stall: Callable[[str], None], now_ns: Callable[[], int]) -> None:
        """Wait until enough standbys have the newest transaction, or the daemon goes on alone.

        Args:
            stall: called with a sentence when they were waited for in vain, and no longer.
        """
        with trio.move_on_after(self.settings.wait_s):
            await self._enough()
            return
        self.alone_since_ns = now_ns()
        if self.settings.goes_on:
            self._set_alone(is_alone=True)
            return
        stall(self.lack())
        await self._enough()

    async def _enough(self) -> None:
        while self._lacks() > 0:
            await self._confirmed.wait()

    def lack(self) -> str:
        """The sentence that says which standbys are missing."""
        return self.status().lack

    def status(self) -> StandbysStatus:
        """All standbys that are connected."""
        return StandbysStatus(
            wanted=self.settings.wanted,
            transaction=self.number,
            alone_since=self.alone_since_ns,
            goes_on=self.settings.goes_on,
            connected=[self._status_of(standby) for standby in self._joined],
        )

    def _status_of(self, standby: Standby) -> StandbyStatus:
        behind = self.number - standby.number
        since_s = trio.current_time()
        if behind:
            since_s = self._kept_s[-behind] if behind <= len(self._kept_s) else standby.complete_s
        return StandbyStatus(
            name=standby.name,
            origin=standby.origin,
            transaction=standby.number,
            behind=behind,
            behind_seconds=round(trio.current_time() - since_s, 3),
            counts=not behind,
        )

    def _set_alone(self, *, is_alone: bool) -> None:
        if not is_alone:
            self.alone_since_ns = 0
        if self.is_alone != is_alone:
            self.is_alone = is_alone
            self._alone_changed.set()
            self._alone_changed = trio.Event()

    async def changed(self) -> None:
        """Wait until ``is_alone`` has changed."""
        await self._alone_changed.wait()

    def hand_over(self) -> None:
        """Tell nobody anything more that no standby has: one of them takes over."""
        self.settings = structs.replace(self.settings, wanted=max(1, self.settings.wanted), goes_on=False)
        self._set_alone(is_alone=False)

    async def end(self) -> None:
        """Let no other commit begin, and wait for the one that is under way."""
        self._has_ended = True
        while self._is_committing:
            await self._grown.wait()

    # ---- for the sessions of standbys

    def join(self, number: int, name: str = "", origin: str = "") -> Standby:
        """A standby that has the transactions up to this number: from now on those that are committed are kept for it."""
        standby = Standby(number, name, origin)
        self._joined[standby] = None
        self.told(standby, number)
        return standby

    def leave(self, standby: Standby) -> None:
        """Forget a standby."""
        self._joined.pop(standby, None)
        if not self._joined and not self.settings.wanted:
            self._keep(None)

    def told(self, standby: Standby, number: int) -> None:
        """The standby has told that it has the transactions up to this number on its disk."""
        standby.number = number
        if number >= self.number:
            standby.complete_s = trio.current_time()
        if self._lacks() <= 0:
            self._confirmed.set()
            self._confirmed = trio.Event()
            self._set_alone(is_alone=False)

    def strange(self, number: int, beginnings: list[Beginning]) -> str:
        """The reason for which a journal is no beginning of this one (``Terms.strange``); "" if it is one."""
        reason = Terms(self.beginnings).strange(number, beginnings)
        return reason or (f"it has transaction {number}, the newest one here is {self.number}" if number > self.number else "")

    async def after(self, number: int) -> list[bytes]:
        """Wait for transactions after this number, and take the next ones.

        Raises:
            Missed: the next one is not kept.
        """
        while number == self.number:
            await self._grown.wait()
        behind = self.number - number
        if behind > len(self._kept):
            raise Missed
        taken, size = list[bytes](), 0
        while behind and size < TAKEN_BYTES_MAX:
            taken.append(self._kept[-behind])
            size += len(taken[-1])
            behind -= 1
        return taken
