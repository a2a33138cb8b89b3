"""Histories that are recorded as a daemon records them: partitions, feed and journal over a real store, with sudden ends.

Time is virtual; each life of the daemon is a run of trio, which is cancelled at any moment.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import trio
import trio.testing
from deliveries import FakeDelivery
from msgspec import Struct

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Administer, Awaited, Intake
from ykactor.actors.feed import FeedActor
from ykactor.actors.journal import History, Journal, Recording
from ykactor.actors.partition import Cycling, PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.actors.turn_stream import TurnStream
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.messages.acts import Administration
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Submission
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import NEVER, S_NS
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.journal.transaction import Batch
from ykactor.surfaces.files.daemon_rows import ChangeRow, DaemonRows
from ykactor.surfaces.files.recovery import Recovered, recover
from ykactor.wire.history import encode_cause, encode_facts
from ykactor.wire.si.events import events
from ykactor.wire.turns import EncodedTurns

DEFAULT, GPU = PartitionName("default"), PartitionName("gpu")
#: What happens to a daemon at a time: input for a partition, or another configuration.
Happening = list[Submission] | Administration | SchedulerConfig
#: Seconds in which no daemon runs: most restarts take no time, and some are so long that timers are due meanwhile.
AWAY_S = (0, 0, 0, 2, 45)


class Step(Struct):
    """Something that happens; ``draw`` makes it at its time, because it may depend on what was decided before."""

    at_ns: int
    draw: Callable[[], Happening]
    partition: PartitionName = DEFAULT


def no_failure(partition: PartitionName, failure: Exception) -> None:
    """Called by a ``Recording`` if a partition cannot be made anew."""
    raise AssertionError(partition) from failure


class StoreInTheLoop:
    """The store without a thread: virtual time must not pass while the disk works."""

    def __init__(self, opened: Store, directory: Path) -> None:
        self._store = opened
        self.directory = directory

    @property
    def newest(self) -> int:
        """The newest transaction."""
        return self._store.number

    async def commit(self, group: Batch) -> None:
        await trio.lowlevel.checkpoint()
        self._store.commit(group)

    async def tidy(self) -> bool:
        """Nothing is deleted."""
        return False

    async def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        await trio.lowlevel.checkpoint()
        with Reader.open(self.directory) as reader:
            return list(reader.records(prefix))


class Life:
    """One run of the daemon, from what the journal has.

    Args:
        config: of a new journal.
        hear: called with all facts, before they are durable.
        keep_bytes: of the history; nothing is deleted, but partitions are made anew.
        away_ns: how long no daemon ran before.
    """

    def __init__(
        self,
        store: StoreInTheLoop,
        known: Recovered | None,
        config: SchedulerConfig,
        budget: Budget,
        hear: Callable[[list[Fact]], None],
        keep_bytes: int,
        away_ns: int,
    ) -> None:
        self.store = store
        self.known, self.config = known, config if known is None else known.config
        self.clock = Clock(0 if known is None else known.at_ns + 1000 + away_ns)
        last = 0 if known is None else known.last_event
        history = History(keep_bytes)
        self.journal = Journal(store, encode_facts, self.clock.now_ns, last_event=last, history=history)
        self.rows = DaemonRows(self.journal)
        self.partitions = Partitions(self.make, self.rows.forget_partition, self.published)
        inboxes = self.partitions.inboxes
        self.feed = FeedActor(FakeDelivery(events, lambda _, facts: hear(facts)), inboxes, journal=self.journal)
        self.feed.restore([], last)
        self.turns = self.feed.turns = TurnStream(self.journal, inboxes, EncodedTurns())
        self.budget = budget

    def make(self, config: PartitionConfig) -> PartitionActor:
        restored = None if self.known is None else self.known.partitions.get(config.name)
        recording = Recording(self.journal.room, encode_cause, self.journal.history, no_failure)
        put, budget = self.feed.inbox.put, self.budget
        return PartitionActor(config, self.clock, put, Cycling(budget=budget), recording=recording, restored=restored)

    async def published(self, name: PartitionName) -> None:
        await self.feed.published(name)

    async def begin(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.journal.run)
        nursery.start_soon(self.feed.run)
        if self.known is None:
            self.rows.end_switch(self.config, ChangeRow())
        await self.partitions.start(nursery, self.config)
        unfinished = None if self.known is None else self.known.unfinished
        self.known = None
        if unfinished is not None:  # as the daemon does, before anybody is served
            await self.switch(unfinished.config)

    async def switch(self, config: SchedulerConfig) -> None:
        """Change to another configuration."""
        self.rows.begin_switch(config, ChangeRow())
        refusal = await self.partitions.switch(config)
        self.config = self.config if refusal else config
        self.rows.end_switch(self.config, ChangeRow())

    async def happen(self, step: Step) -> None:
        """Carry out a step at its time; one for a partition that is not there is left out."""
        await trio.sleep_until(max(trio.current_time(), self.clock.to_trio(step.at_ns)))
        happening = step.draw()
        if isinstance(happening, SchedulerConfig):
            await self.switch(happening)
        elif step.partition in self.partitions.inboxes:
            inbox = self.partitions.inboxes[step.partition]
            done = Awaited()
            await inbox.put(Intake(happening, done) if isinstance(happening, list) else Administer(happening, done))
            await done.wait()


def record(
    directory: Path,
    config: SchedulerConfig,
    steps: list[Step],
    *,
    seed: int,
    budget: Budget,
    hear: Callable[[list[Fact]], None] = lambda _: None,
    ends: float = 0.1,
    sudden: float = 0.5,
    keep_bytes: int = NEVER,
    away_s: Sequence[int] = (0,),
    beside: Callable[[Life], Awaitable[None]] | None = None,
) -> int:
    """Play the steps. Returns how often the daemon has started.

    Args:
        budget: of the cycles.
        hear: called with all facts, before they are durable.
        ends: how probable it is that the daemon ends after a step, and starts again before the next one.
        sudden: how probable it is that this loses what is not durable yet.
        keep_bytes: as of ``Life``.
        away_s: how long no daemon runs before it starts again is one of these.
        beside: runs in each life, from its begin to its end.
    """
    rng, left, starts, away = random.Random(seed), steps[::-1], 0, random.Random(seed)
    trio._core._run._r.seed(seed)  # the order in which tasks run that are ready together

    async def live(opened: Store, known: Recovered | None) -> None:
        life = Life(StoreInTheLoop(opened, directory), known, config, budget, hear, keep_bytes, away.choice(away_s) * S_NS)
        async with trio.open_nursery() as nursery:
            await life.begin(nursery)
            if beside is not None:
                nursery.start_soon(beside, life)
            while left:
                await life.happen(left.pop())
                if rng.random() < 0.2:
                    await life.feed.snapshot()  # who looks changes nothing
                if rng.random() < ends:
                    break
            if not left or rng.random() >= sudden:  # else the last decisions are not durable yet
                await trio.sleep(1)
            nursery.cancel_scope.cancel()

    while left:
        starts += 1
        with closing(Store.open(directory, "off", now_ns=0)) as opened:
            with Reader.open(directory) as reader:
                known = recover(reader, reserves=True)
            trio.run(partial(live, opened, known), clock=trio.testing.MockClock(autojump_threshold=0))
    return starts
