"""A replica beside the daemon of a soak, without sockets: it runs all turns, and shows all that the daemon shows."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import trio

from bench.lives import Life
from ykactor.actors.commands import read_partition
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps, finished
from ykactor.sim.replica import Copy, MismatchError, copied
from ykactor.surfaces.http.readings import applications, partitions, queues, usage
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.turns import Base, Renewed, Turn, packed, unpacked


def bodies(core: PartitionCore, state: SchedulerState, now_ns: int) -> Steps[tuple[int, list[object]]]:
    """The number of the last turn, and all answers of the REST API about all that is in a partition, with its snapshot."""
    look = Look(core, state, now_ns)
    shown: list[object] = [(yield from partition_state(core, state, every_ask=True))]
    lists = (applications.live, applications.completed, applications.rejected, partitions.all_nodes, usage.users, usage.groups)
    for read in lists:
        shown += [(yield from read(look))]
    shown += [(yield from queues.everything(look)), partitions.placement_rules(look)]
    for name in core.registry.applications:
        shown += [(yield from applications.records(look, name)), (yield from applications.pending_asks(look, name))]
    return core.turns, shown


class Beside:
    """Replicas of the lives of a daemon, one after the other.

    Attributes:
        turns: the number of turns that they have run.
        compared: how often they were compared with their daemon.
    """

    def __init__(self) -> None:
        self.turns = self.compared = 0
        self._copies: dict[PartitionName, Copy] = {}
        self._mismatches: list[str] = []
        self._has_run = trio.lowlevel.ParkingLot()

    async def follow(self, life: Life) -> None:
        """Run the turns of a life until cancelled."""
        turns = life.daemon.turns
        reader = turns.join()
        try:
            await turns.make_bases()
            while True:
                for message in unpacked(packed(await reader.next())):
                    self._handle(message)
                self._has_run.unpark_all()
        finally:
            turns.leave(reader)
            self._copies.clear()

    def _handle(self, message: object) -> None:
        match message:
            case Base():
                self._copies[message.partition] = finished(copied(message))
            case Renewed():
                finished(self._copies[message.partition].renew())
            case Turn():
                try:
                    decided = finished(self._copies[message.partition].run(message))
                except MismatchError as mismatch:
                    self._mismatches.append(str(mismatch))
                    raise
                self.turns += 1
                if decided.is_last:
                    del self._copies[message.partition]

    async def violations(self, life: Life) -> list[str]:
        """A sentence for each partition that the replica shows otherwise, when it has run all turns."""
        found = list(self._mismatches)
        for name, copy in list(self._copies.items()):
            with suppress(KeyError, trio.ClosedResourceError):  # it leaves
                read = partial(self._differs, copy)
                while (differs := await read_partition(life.daemon.partitions[name], read)) is None:
                    await self._has_run.park()
                if differs:
                    found.append(f"partition {name}: the replica shows something else after turn {copy.turns}")
        return found

    def _differs(self, copy: Copy, core: PartitionCore, state: SchedulerState, now_ns: int) -> Steps[bool | None]:
        """True if a copy shows something else; None if it has not run all turns yet."""
        if copy.turns != core.turns:
            return None
        copy.settle()
        expected = yield from bodies(core, state, now_ns)
        found = yield from bodies(copy.cores[0], copy.cores[1].state, now_ns)
        self.compared += 1
        return expected != found
