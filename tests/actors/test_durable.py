"""Feed, outbox and partition over a journal: whoever reads, reads what is durable, and nobody waits for ever (DU-2)."""

import random
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest
import trio
import trio.testing
from deliveries import FakeDelivery, nothing
from memorystore import MemoryStore
from msgspec import Struct
from recorded import no_failure
from seeds import seeds
from test_feed import Event
from world import app, ask, load, node, queue, tree

from ykactor.actors import journal as journal_module
from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, PartitionSnapshot, Publication, Quiesce, TurnRecord
from ykactor.actors.feed import FACTS_MAX, SNAPSHOT_S, FeedActor, SnapshotError
from ykactor.actors.journal import RETRY_S, Journal, Recording, Resumed, Stalled
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.outbox import Outbox, OutboxRegistry
from ykactor.actors.partition import PartitionActor
from ykactor.actors.selection import Batch, EventFilter, Format
from ykactor.actors.subscription import Missed, Subscription
from ykactor.core.messages.facts import NodeRemoved
from ykactor.wire.history import encode_cause


class Note(Struct, frozen=True):
    text: str
    sequence: int = 0


#: How messages and events are encoded here.
JSON = SimpleNamespace(encode=msgspec.json.encode)
EVENTS = Format(lambda events: [msgspec.json.encode(event) for event in events], b"".join)


def encode_facts(facts):
    return msgspec.json.encode([getattr(fact, "node_id", "") for fact in facts])


class World:
    """Feed and outboxes over a journal, whose store is in memory; the test is the partition."""

    def __init__(self, store, **options):
        self.store = store
        self.journal = Journal(store, encode_facts, lambda: round(trio.current_time() * 1e9))
        self.outboxes = OutboxRegistry(self.journal)
        self.inbox = Mailbox("default", 10)
        render = lambda fact, partition, number: [Event(number, fact.node_id, partition=partition)]  # noqa: E731
        self.feed = FeedActor(
            FakeDelivery(render, self._deliver, nothing), {"default": self.inbox}, journal=self.journal, **options
        )
        self.turns = 0

    def _deliver(self, partition, facts):
        self.outboxes.deliver([Note(facts[0].node_id)])

    async def run(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.journal.run)
            nursery.start_soon(self.feed.run)

    async def publish(self, count):
        """One turn with so many facts."""
        self.turns += 1
        facts = [NodeRemoved(0, f"n{self.turns}") for _ in range(count)]
        await self.feed.inbox.put(Publication("default", facts, TurnRecord(self.turns, 0, b"1", [])))

    def subscribe(self, after=0):
        return Subscription(self.feed, EVENTS, EventFilter(), after)

    async def answer(self):
        """Answer each request for a snapshot."""
        while True:
            command = await self.inbox.get()
            await self.feed.inbox.put(PartitionSnapshot("default", command.snapshot_id, {"turns": self.turns}))


@asynccontextmanager
async def make_world(store=None, **options):
    made = World(store or MemoryStore(), **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        yield made
        nursery.cancel_scope.cancel()


def numbers(batch):
    return [msgspec.json.decode(event)["sequence"] for event in batch.events]


# ---- nothing leaves early


class Life:
    """A random life of the daemon: turns, acknowledgements, readers that come and go, and a disk that is slow or full."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.store = MemoryStore(lambda: self.chance.choice((0.0001, 0.002, 0.05)))
        self.world = World(self.store, ring_max=self.chance.choice((10, 100, 10_000)))
        self.outbox = self.world.outboxes.renew("rm-1", JSON)
        self.got = []
        self.seen = 0

    async def run(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.world.run)
            nursery.start_soon(self.world.answer)
            for task in (self.turns, self.acknowledge, self.read_messages, self.follow, self.follow, self.snapshots, self.disk):
                nursery.start_soon(task)

    async def pause(self):
        await trio.sleep(self.chance.choice((0, 0.0002, 0.003, 0.1)))

    async def turns(self):
        while True:
            await self.world.journal.room()
            await self.world.publish(self.chance.choice((0, 1, 1, 3, 40, FACTS_MAX + 1)))
            await self.pause()

    async def acknowledge(self):
        while True:
            await self.world.feed.published("default")
            self.outbox.post(Note("ack"))
            await self.pause()

    async def disk(self):
        while True:
            await trio.sleep(self.chance.random())
            self.store.is_full = not self.store.is_full

    async def read_messages(self):
        reader = self.outbox.attach(0)
        while True:
            taken = await reader.take()
            if isinstance(taken, list):
                self.got += taken
                assert self.got == self.store.messages[: len(self.got)]
            if self.chance.random() < 0.2:
                reader = self.outbox.attach(len(self.got))
            await self.pause()

    async def follow(self):
        while True:
            after = self.world.feed.ring.durable
            subscription = self.world.subscribe(after)
            for _ in range(self.chance.randrange(20)):
                with trio.move_on_after(0.5):
                    message = await subscription.next()
                    if isinstance(message, Missed):
                        after = message.last
                    if isinstance(message, Batch):
                        assert numbers(message) == list(range(after + 1, after + 1 + len(message.events)))
                        after += len(message.events)
                assert after <= self.store.last_event
                self.seen = max(self.seen, after)

    async def snapshots(self):
        while True:
            try:
                snapshot = await self.world.feed.snapshot()
            except SnapshotError:
                continue
            assert snapshot.sequence <= self.store.last_event
            assert snapshot.partitions[0]["turns"] <= sum(len(batch.turns) for batch in self.store.batches)
            await self.pause()


@pytest.mark.parametrize("number", seeds(25))
def test_nobody_sees_what_is_not_durable(number):
    """However tasks run and the disk behaves; when the process ends, what was seen is the beginning of what the store has."""
    life = Life(number)

    async def main():
        with trio.move_on_after(life.chance.uniform(2, 6)):
            await life.run()

    trio._core._run._r.seed(number)
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    store, world = life.store, life.world
    assert life.got == store.messages[: len(life.got)]
    assert life.got  # a life of 2 s has few, if the disk is full whenever it is tried
    assert [msgspec.json.decode(message)["sequence"] for message in store.messages] == list(range(1, len(store.messages) + 1))
    assert 0 < life.seen <= store.last_event
    turns = store.turns
    assert [turn["number"] for turn in turns] == list(range(1, len(turns) + 1))
    assert sum(len(turn["facts"]) for turn in turns) == store.last_event
    assert world.feed.ring.lowest <= world.feed.ring.durable + 1


async def test_an_acknowledgement_shares_the_transaction_of_its_turn(seed, autojump_clock):
    """One commit, and not two, between a request and its acknowledgement, if the disk has nothing else to do."""
    async with make_world() as w:
        outbox = w.outboxes.renew("rm-1", JSON)
        for _ in range(10):
            await w.publish(3)
            await w.feed.published("default")
            outbox.post(Note("ack"))
            await trio.sleep(1)
        assert [(batch.events_count, batch.messages_count) for batch in w.store.batches] == [(3, 2)] * 10


async def test_a_large_turn_is_one_transaction(seed, autojump_clock):
    """A turn of many parts is committed as a whole, though the journal is busy all the time."""
    async with make_world(MemoryStore(lambda: 0.0), ring_max=50) as w:
        w.outboxes.renew("rm-1", JSON)
        async with trio.open_nursery() as nursery:

            async def busy():
                while True:
                    w.journal.note(b"k", b"")
                    await trio.lowlevel.checkpoint()

            nursery.start_soon(busy)
            await w.publish(1)
            await w.publish(5 * FACTS_MAX)
            await w.feed.published("default")
            nursery.cancel_scope.cancel()
        await trio.sleep(1)
        assert [len(turn["facts"]) for turn in w.store.turns] == [1, 5 * FACTS_MAX]
        (batch,) = (batch for batch in w.store.batches if batch.events_count >= 5 * FACTS_MAX)
        assert len(batch.turns) <= batch.messages_count - 5 == len(w.store.messages) - 6 + len(batch.turns) - 1


# ---- the disk does not answer


async def test_while_the_disk_is_full_readers_are_told_and_wait(seed, autojump_clock):
    """Followers and the resource manager hear of it once, those that come later too; then all they lack comes."""
    async with make_world() as w:
        outbox = w.outboxes.renew("rm-1", JSON)
        reader, follower = outbox.attach(0), w.subscribe()
        w.store.is_full = True
        await w.publish(2)
        assert isinstance(await reader.take(), Stalled)
        assert isinstance(await follower.next(), Stalled)
        assert isinstance(await w.subscribe().next(), Stalled)
        assert isinstance(await outbox.attach(0).take(), Stalled)
        reader = outbox.attach(0)
        assert isinstance(await reader.take(), Stalled)
        with trio.move_on_after(5) as scope:
            await reader.take()
        assert scope.cancelled_caught
        assert w.feed.ring.durable == 0
        w.store.is_full = False
        await trio.sleep(2 * RETRY_S)
        assert isinstance(await reader.take(), Resumed)
        assert len(await reader.take()) == 1
        assert isinstance(await follower.next(), Resumed)
        assert numbers(await follower.next()) == [1, 2]


async def test_a_snapshot_waits_for_turns_without_events_too(seed, autojump_clock):
    """A snapshot may show the effects of a turn that has no events for followers."""
    async with make_world(MemoryStore(lambda: 2.0)) as w, trio.open_nursery() as nursery:
        nursery.start_soon(w.answer)
        await w.publish(0)
        await w.feed.published("default")
        assert (await w.feed.snapshot()).partitions == [{"turns": 1}]
        assert [turn["number"] for turn in w.store.turns] == [1]
        nursery.cancel_scope.cancel()


async def test_a_snapshot_waits_until_it_is_durable(seed, autojump_clock):
    """A snapshot is as late as the disk; when it takes too long the follower is told why."""
    async with make_world(MemoryStore(lambda: 2.0)) as w, trio.open_nursery() as nursery:
        nursery.start_soon(w.answer)
        await w.publish(3)
        await w.feed.published("default")
        snapshot = await w.feed.snapshot()
        assert (snapshot.sequence, w.store.last_event) == (3, 3)
        assert trio.current_time() == pytest.approx(2.0, abs=0.01)
        w.store.answers = trio.Event()
        await w.publish(4)
        await w.feed.published("default")
        began = trio.current_time()
        with pytest.raises(SnapshotError, match="the state after event 7 was not durable within 5 s"):
            await w.feed.snapshot()
        assert trio.current_time() - began == pytest.approx(SNAPSHOT_S)
        nursery.cancel_scope.cancel()


def test_an_outbox_keeps_what_is_not_durable():
    """Messages that are not durable are kept, as no reader could have read them; once they are durable the bounds hold again."""
    journal = Journal(MemoryStore(), encode_facts, lambda: 0)
    box = Outbox("rm-1", JSON, kept_max=3, journal=journal)
    for number in range(10):
        box.post(Note(str(number)))
    assert (len(box._kept), box.durable, box.after(0)) == (10, 0, [])
    box.raise_durable(8)
    assert len(box._kept) == 3
    assert [msgspec.json.decode(message)["sequence"] for message in box.after(7)] == [8]


async def test_the_last_messages_wait_for_the_disk(seed, autojump_clock):
    """A session that ends sends what was posted before, which may not be durable yet."""
    async with make_world(MemoryStore(lambda: 1.0)) as w:
        outbox = w.outboxes.renew("rm-1", JSON)
        reader = outbox.attach(0)
        outbox.post(Note("last"))
        reader.finish()
        assert len(await reader.take()) == 1
        assert await reader.take() == []
        assert trio.current_time() == pytest.approx(1.0)


async def test_a_turn_that_has_waited_for_room_is_at_its_own_time(autojump_clock):
    """A disk that was full for an hour: what was sent meanwhile happens after it, and no deadline has passed before it began."""
    times, has_room = [], trio.Event()

    async def publish(publication):
        times.append(publication.turn.now_ns)

    async def room():
        if times:
            await has_room.wait()

    async with make_world() as w, trio.open_nursery() as nursery:
        recording = Recording(room, encode_cause, w.journal.history, no_failure)
        actor = PartitionActor(load(tree(queue("a"))), Clock(0), publish, recording=recording)
        nursery.start_soon(actor.run)
        await trio.sleep(1)
        await actor.inbox.put(Intake([node("n1", vcore=1)]))
        await trio.sleep(3600)
        before = len(times)
        has_room.set()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert min(times[before:]) >= 3601 * 10**9


async def test_partitions_wait_for_room_between_turns(seed, autojump_clock, monkeypatch):
    """While the disk stands still a partition takes a bounded number of turns; when it goes on, all is handled in order."""
    monkeypatch.setattr(journal_module, "EVENTS_MAX", 30)
    async with make_world() as w, trio.open_nursery() as nursery:
        actor = PartitionActor(
            load(tree(queue("a"))),
            Clock(0),
            w.feed.inbox.put,
            recording=Recording(w.journal.room, encode_cause, w.journal.history, no_failure),
        )
        w.feed._delivery = FakeDelivery(lambda fact, partition, number: [Event(number)], mentioned=nothing)
        w.outboxes.current = None
        await nursery.start(actor.run)
        await trio.sleep(1)
        w.store.answers = trio.Event()
        actor.inbox.put_nowait(Intake([node("n1", vcore=1000), app("app-1", "root.a")]))
        for number in range(200):
            actor.inbox.put_nowait(Intake([ask(f"t{number}", "app-1", vcore=1)]))
            await trio.sleep(0.01)
        waiting = w.feed.ring.sequence - w.feed.ring.durable
        assert 30 <= waiting < 60
        assert not w.journal.has_room
        w.store.answers.set()
        done = Awaited()
        await actor.inbox.put(Quiesce(done))
        await done.wait()
        assert len(actor.core.registry.nodes["n1"].allocations) == 200
        nursery.cancel_scope.cancel()
