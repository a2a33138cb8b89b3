"""The copies that a replica has, each behind an inbox, through which it is read as a partition of a daemon is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable
from math import inf
from typing import Any

import trio

from ykactor.actors.clock import Clock
from ykactor.actors.commands import FeedCommand, PartitionCommand, PartitionSnapshot, Read, TakeSnapshot
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.partition import INBOX_MAX
from ykactor.actors.pauses import checkpoint, drive
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.values.ids import PartitionName
from ykactor.sim.replica import Copy
from ykactor.wire.turns import LastTurn


class Copies:
    """The copies by name.

    An inbox is closed while there is no copy, as that of a partition that does not run. A reading holds ``reading``, and so does
    who runs turns. A snapshot needs neither: the feed takes it while no turns are run (``FeedActor.still``).

    Args:
        publish: sends a snapshot to the feed.
        cycles_of: how long the cycles of a partition take at the daemon.

    Attributes:
        inboxes: of all partitions that the daemon has, in its order.
        of: the copies that there are.
    """

    def __init__(
        self,
        publish: Callable[[FeedCommand], Awaitable[None]],
        cycles_of: Callable[[PartitionName], dict[str, float]],
        clock: Clock,
    ) -> None:
        self.inboxes: dict[PartitionName, Mailbox[PartitionCommand]] = {}
        self.of: dict[PartitionName, Copy] = {}
        self.reading = trio.Lock()
        self._publish = publish
        self._cycles_of = cycles_of
        self._clock = clock
        self._new_in, self._new = trio.open_memory_channel[tuple[Copy, Mailbox[PartitionCommand]]](inf)

    async def run(self) -> None:
        """Serve readers of the copies until cancelled."""
        async with trio.open_nursery() as nursery:
            async for copy, inbox in self._new:
                nursery.start_soon(self._serve, copy, inbox, name=f"copy of partition {copy.name}")

    # ---- which there are

    def arrange(self, names: Iterable[PartitionName]) -> None:
        """The daemon has these partitions, in this order; those of which there is a copy go only when they end."""
        wanted = list(names)
        known = {name: self.inboxes[name] for name in self.inboxes if name in wanted or name in self.of}
        self.inboxes.clear()
        for name in [*wanted, *known]:
            if name not in self.inboxes:
                self.inboxes[name] = known.get(name) or _closed(name)

    def add(self, copy: Copy) -> None:
        """Take over a copy, in place of an earlier one."""
        self.lose(copy.name)
        self.of[copy.name] = copy
        inbox = self.inboxes[copy.name] = Mailbox(f"partition {copy.name}", INBOX_MAX)
        self._new_in.send_nowait((copy, inbox))

    def lose(self, name: PartitionName) -> None:
        """Forget a copy; readings that wait fail."""
        if self.of.pop(name, None) is not None:
            self.inboxes[name].close()

    def last_turns(self) -> dict[PartitionName, LastTurn]:
        """The last turn of each copy that has run one."""
        return {name: copy.last for name, copy in self.of.items() if copy.last is not None}

    def keep(self, names: Container[PartitionName]) -> None:
        """Forget all other copies."""
        for name in [name for name in self.of if name not in names]:
            self.lose(name)

    def end(self, name: PartitionName) -> None:
        """The partition has left the configuration."""
        self.lose(name)
        self.inboxes.pop(name, None)

    # ---- reading

    async def _serve(self, copy: Copy, inbox: Mailbox[PartitionCommand]) -> None:
        """Serve readers of a copy until its inbox is closed and empty."""
        while True:
            try:
                command = await inbox.get()
            except trio.EndOfChannel:
                return
            match command:
                case TakeSnapshot():
                    await self._show(copy, command)
                case Read(done=done):
                    done(await self._read(copy, command))
                case _:
                    raise AssertionError(f"found {type(command).__name__}, expected what only reads")

    async def _show(self, copy: Copy, command: TakeSnapshot) -> None:
        copy.settle()
        core, scheduler = copy.cores
        shown = await drive(partition_state(core, scheduler.state, every_ask=command.every_ask))
        await self._publish(PartitionSnapshot(copy.name, command.snapshot_id, shown, self._cycles_of(copy.name)))

    async def _read(self, copy: Copy, command: Read) -> Any:
        """Read between two turns. A failure harms only who asked, and is returned, as by a partition."""
        async with self.reading:
            if self.of.get(copy.name) is not copy:
                return trio.ClosedResourceError()
            copy.settle()
            core, scheduler = copy.cores
            now_ns = max(self._clock.now_ns(), copy.turned_ns)
            try:
                return await drive(command.read(core, scheduler.state, now_ns), checkpoint)
            except Exception as failure:
                return failure


def _closed(name: PartitionName) -> Mailbox[PartitionCommand]:
    inbox: Mailbox[PartitionCommand] = Mailbox(f"partition {name}", INBOX_MAX)
    inbox.close()
    return inbox
