"""The order in which a change of several partitions becomes durable (DU-9): the daemon's own rows follow the turns."""

from functools import partial

import pytest
import trio
from deliveries import FakeDelivery
from memorystore import MemoryStore
from partitiontexts import several_loaded
from recorded import no_failure
from seeds import seeds
from world import queue

from ykactor.actors.clock import Clock
from ykactor.actors.feed import FeedActor, SnapshotError
from ykactor.actors.journal import Journal, Recording
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.partition import PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.journal.transaction import changed_records
from ykactor.surfaces.files.daemon_rows import CONFIG, ChangeRow, DaemonRows
from ykactor.wire.history import encode_cause, encode_facts

BEFORE, AFTER = [queue("a")], [queue("a"), queue("b")]


class Reloaded:
    """Two partitions and a feed over a journal, and one more inbox that never answers, so that each snapshot takes 5 s."""

    def __init__(self) -> None:
        self.store, self.clock = MemoryStore(lambda: 0.01), Clock(0)
        self.journal = Journal(self.store, encode_facts, self.clock.now_ns)
        self.rows = DaemonRows(self.journal)
        self.partitions = Partitions(self.make, self.rows.forget_partition, self.published)
        self.inboxes = {}
        self.feed = FeedActor(FakeDelivery(), self.inboxes, journal=self.journal)

    def make(self, config):
        recording = Recording(self.journal.room, encode_cause, self.journal.history, no_failure)
        return PartitionActor(config, self.clock, self.feed.inbox.put, recording=recording)

    async def published(self, name):
        await self.feed.published(name)

    async def reload(self, config):
        self.rows.begin_switch(config, ChangeRow())
        assert await self.partitions.switch(config) == ""
        self.rows.end_switch(config, ChangeRow())

    async def look(self):
        """Two partitions reply, the third never does: meanwhile the feed holds back what the two publish."""
        self.inboxes.update(self.partitions.inboxes, silent=Mailbox("silent", 10))
        with pytest.raises(SnapshotError):
            await self.feed.snapshot()


async def play(config, delay):
    """The batches of a reload that begins ``delay`` steps of the loop after a snapshot."""
    made = Reloaded()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.journal.run)
        nursery.start_soon(made.feed.run)
        await made.partitions.start(nursery, several_loaded(default=BEFORE, gpu=BEFORE))
        await trio.sleep(1)
        made.store.batches.clear()
        async with trio.open_nursery() as both:
            both.start_soon(made.look)
            for _ in range(delay):
                await trio.lowlevel.checkpoint()
            both.start_soon(partial(made.reload, config))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    return made.store


@pytest.mark.parametrize("delay", seeds(12))
async def test_the_configuration_follows_its_turns(autojump_clock: trio.testing.MockClock, delay: int) -> None:
    """A configuration is in force for the next start when all partitions have it, never before."""
    store = await play(several_loaded(default=AFTER, gpu=AFTER), delay)
    position = {
        key: number for number, batch in enumerate(store.batches) for text in batch.changes for key, _ in changed_records(text)
    }
    for name in (b"default", b"gpu"):
        assert position[b'["%b","configuration"]' % name] <= position[CONFIG]


@pytest.mark.parametrize("delay", seeds(12))
async def test_nothing_of_a_removed_partition_is_left(autojump_clock: trio.testing.MockClock, delay: int) -> None:
    """The rows of a removed partition are deleted after its last turn."""
    store = await play(several_loaded(default=BEFORE), delay)
    assert [key for key in store.records if key.startswith(b'["gpu",')] == []
