"""DU-19: a replica that runs the turns of a daemon decides the same and has the same events, from whatever moment on it reads."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from fragments import draw_fragments
from ganghistories import ResourceManager
from histories import S_NS, draw_history
from preemptinghistories import Preempting
from recorded import DEFAULT, Happening, Life, Step, record
from seeds import IS_NIGHT, scaled, seeds
from test_replay import BUDGETS, scheduler_config, steps_of

from bench.beside import bodies
from ykactor.actors import partition
from ykactor.actors.commands import PartitionCommand, read_partition
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.turn_stream import TurnReader
from ykactor.core.config.model import SchedulerConfig
from ykactor.core.messages.facts import Fact
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps, finished
from ykactor.core.values.times import NEVER
from ykactor.journal.reading import Reader
from ykactor.sim.replica import Copy, MismatchError, copied
from ykactor.surfaces.sessions.missed_turns import MissedTurns, NotKeptError
from ykactor.wire import queuefile
from ykactor.wire.history import decode_facts
from ykactor.wire.si.events import events
from ykactor.wire.turns import Base, Facts, Renewed, Turn, Wanted, packed, unpacked


class Replica:
    """The copies of one replica, and the number of its newest event (0: none)."""

    def __init__(self) -> None:
        self.copies: dict[PartitionName, Copy] = {}
        self.newest = 0

    def wanted(self) -> Wanted:
        return Wanted(self.newest, copies={name: copy.last for name, copy in self.copies.items() if copy.last is not None})


#: How often a replica is compared with the daemon after it has run some turns: always in ``make test-nightly``.
COMPARED = 1.0 if IS_NIGHT else 0.1
CLOSED: Mailbox[PartitionCommand] = Mailbox("none", 1)
CLOSED.close()


class Readers:
    """Replicas that join at different moments of each life of a daemon, and what they have run.

    One of them loses its connection again and again, also with a life of the daemon, and goes on with what it has missed.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.turns = self.facts = self.bases = self.renewals = self.events = self.resumed = self.compared = 0
        self.mismatches: list[MismatchError] = []
        self.refusals: list[NotKeptError] = []
        self._lasting = Replica()

    async def read(self, life: Life) -> None:
        async with trio.open_nursery() as nursery:
            for begin_s in (0.0, self._rng.uniform(0, 30)):
                nursery.start_soon(self._read_from, life, begin_s)
            nursery.start_soon(self._read_again_and_again, life)

    async def _read_from(self, life: Life, begin_s: float) -> None:
        await trio.sleep(begin_s)
        await self._read(life, Replica())

    async def _read_again_and_again(self, life: Life) -> None:
        while True:
            with trio.move_on_after(self._rng.uniform(0, 12)):
                await self._read(life, self._lasting)
            await trio.sleep(self._rng.uniform(0, 6))

    async def _read(self, life: Life, replica: Replica) -> None:
        """Read the stream as a session of the daemon sends it, without its sockets."""
        wanted = replica.wanted()
        reader = life.turns.join(wanted.copies)
        try:
            await life.feed.published(DEFAULT)
            await life.journal.flushed()
            if not (wanted.copies and self._resume(life, replica, wanted, reader)):
                replica.copies.clear()
                replica.newest = life.feed.ring.durable  # it is sent those of before
                for name in wanted.copies:
                    reader.forget(name)
            if reader.lacks(life.partitions.inboxes):
                await life.turns.make_bases()
            while True:
                for message in unpacked(packed(await reader.next())):
                    self._handle(life, replica, message)
                if self._rng.random() < COMPARED:
                    await self._compare(life, replica)
        finally:
            life.turns.leave(reader)

    async def _compare(self, life: Life, replica: Replica) -> None:
        """Compare all bodies with those of the daemon, where that is as far."""
        for name, copy in list(replica.copies.items()):
            with suppress(trio.ClosedResourceError):  # it leaves
                found = await read_partition(life.partitions.inboxes.get(name, CLOSED), partial(self._both, life, copy))
                self.compared += found

    def _both(self, life: Life, copy: Copy, core: PartitionCore, state: SchedulerState, now_ns: int) -> Steps[bool]:
        """True if both have run the same turns, and been made anew as often; then they show the same."""
        actor = life.partitions.actors.get(copy.name)
        if actor is None or actor._base is not None:
            return False  # it leaves, or has just been made anew, of which it tells with its next turn
        copy.settle()
        expected = yield from bodies(core, state, now_ns)
        found = yield from bodies(copy.cores[0], copy.cores[1].state, now_ns)
        if expected[0] != found[0]:
            return False
        assert expected == found
        return True

    def _resume(self, life: Life, replica: Replica, wanted: Wanted, reader: TurnReader) -> bool:
        replica.copies = {name: copy for name, copy in replica.copies.items() if name in wanted.copies}
        with Reader.open(life.store.directory) as journal:
            missed = MissedTurns(journal, life.store.newest, wanted)
            try:
                parts = list(missed.parts())
            except NotKeptError as reason:
                self.refusals.append(reason)
                return False
        for part in parts:
            for message in unpacked(packed(part)):
                self._handle(life, replica, message)
        reader.resume(missed.last)
        self.resumed += 1
        return True

    def _handle(self, life: Life, replica: Replica, message: object) -> None:
        facts, first, name, copies = list[Fact](), 0, PartitionName(""), replica.copies
        match message:
            case Base():
                copies[message.partition] = finished(copied(message))
                self.bases += 1
            case Renewed():
                if message.partition in copies:
                    finished(copies[message.partition].renew())
                    self.renewals += 1
            case Facts():
                facts, first, name = decode_facts(message.facts), message.first_event, message.partition
                assert not message.turn or name not in copies
            case Turn():
                first, name = message.first_event, message.partition
                if name not in copies:  # of before it was known that the copy does not go on: its events were sent again
                    assert first <= replica.newest + 1
                    return
                try:
                    decided = finished(copies[name].run(message))
                except MismatchError as mismatch:
                    self.mismatches.append(mismatch)
                    return
                facts = decided.facts
                if decided.is_last:
                    del copies[name]
                self.turns += 1
                self.facts += len(facts)
        if not facts:
            return
        made = list[object]()
        for fact in facts:
            made += events(fact, name, first + len(made))
        last = first + len(made) - 1
        if last <= replica.newest:
            return  # the feed of a replica has them already
        assert first == replica.newest + 1 or not replica.newest
        kept = range(max(first, life.feed.ring.lowest), last + 1)  # this life has no others
        assert made[len(made) - len(kept) :] == [life.feed.ring.event(number) for number in kept]
        replica.newest = last
        self.events += len(made)


def play(directory: Path, config: SchedulerConfig, steps: list[Step], seed: int, keep_bytes: int = NEVER) -> Readers:
    readers = Readers(seed)
    record(directory, config, steps, seed=seed, budget=BUDGETS[seed % 3], ends=0.02, keep_bytes=keep_bytes, beside=readers.read)
    assert readers.mismatches == []
    assert all("does not fit to turn 1" in str(reason) for reason in readers.refusals), "only of a partition that came again"
    return readers


@pytest.mark.parametrize("seed", seeds(20))
def test_decides_the_same(seed: int, tmp_path: Path) -> None:
    """Reloads, administrators, partitions that come and go, restarts of the daemon: each turn has the same facts."""
    found = [
        play(tmp_path / str(number), scheduler_config(history.config), list(steps_of(history, seed)), seed)
        for number, history in enumerate((draw_history(seed, batches=40), draw_fragments(seed)))
    ]
    assert sum(readers.bases for readers in found) > 1
    assert sum(readers.facts for readers in found) > 20
    assert sum(readers.events for readers in found) > 20
    assert sum(readers.resumed for readers in found) > 20
    assert sum(readers.compared for readers in found) > 5


def test_decides_the_same_about_gangs_and_victims(tmp_path: Path) -> None:
    """Placeholders, reservations, preemption for guarantees and quotas; partitions are made anew meanwhile."""
    found = []
    for seed in seeds(16):
        manager = Preempting(seed) if seed % 2 else ResourceManager(seed)

        def draw(manager: ResourceManager = manager) -> Happening:
            return [*manager.draw()]

        def opening(manager: ResourceManager = manager) -> Happening:
            return [*manager.opening()]

        steps = [Step(0, opening), *(Step(number * S_NS, draw) for number in range(40))]
        found.append(play(tmp_path / str(seed), queuefile.load(manager.text), steps, seed))
    assert sum(readers.facts for readers in found) > scaled(200)


@pytest.mark.parametrize("seed", seeds(8))
def test_follows_partitions_that_are_made_anew(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica makes its copy anew where the daemon does: both forget what was known of searches."""
    monkeypatch.setattr(partition, "BASES_APART", 0)
    history = draw_history(seed, batches=40)
    readers = play(tmp_path, scheduler_config(history.config), list(steps_of(history, seed)), seed, keep_bytes=2_000)
    assert readers.renewals > 0
