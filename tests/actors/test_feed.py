"""The feed over memory channels on a virtual clock: one numbering, own pace for each subscriber, exact snapshots."""

from contextlib import asynccontextmanager
from itertools import pairwise

import msgspec
import pytest
import trio
import trio.testing
from costs import Calls
from deliveries import FakeDelivery
from hypothesis import given
from hypothesis import strategies as st

from ykactor.actors import feed as feed_module
from ykactor.actors.commands import PartitionSnapshot, Publication, TakeSnapshot
from ykactor.actors.feed import FACTS_MAX, RING_BYTES_MAX, FeedActor, SnapshotError
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.selection import BATCH_MAX, SCAN_MAX, Batch, EventFilter, Format
from ykactor.actors.subscription import Missed, Reached, Subscription
from ykactor.core.messages.facts import NodeRemoved


class Event(msgspec.Struct, frozen=True):
    sequence: int
    object_id: str = ""
    type: str = "NODE"
    reference_id: str = ""
    event_change_detail: str = "NODE_DECOMISSION"
    partition: str = "default"
    queue_name: str = ""
    message: str = ""
    preemption: None = None
    waited: None = None


def render(fact, partition, first_sequence):
    """One event a fact; a fact about ``silent`` has none and one about ``twice`` has two."""
    count = {"silent": 0, "twice": 2}.get(fact.node_id, 1)
    return [Event(first_sequence + n, fact.node_id, partition=partition) for n in range(count)]


class Encoder:
    """Counts what it encodes."""

    def __init__(self):
        self.count = 0

    def encode(self, events):
        self.count += len(events)
        return [msgspec.json.encode(event) for event in events]


class World:
    """A running feed whose partitions are mailboxes that the test answers by hand."""

    def __init__(self, *partitions, **options):
        self.inboxes = {name: Mailbox(name, 10) for name in partitions}
        self.delivered = []
        self.feed = FeedActor(FakeDelivery(render, lambda _, facts: self.delivered.extend(facts)), self.inboxes, **options)
        self.encoder = Encoder()
        self.form = Format(self.encoder.encode, b"".join)

    async def publish(self, *nodes, partition="default"):
        """Put facts about these nodes into the feed and wait until they are numbered or held back."""
        await self.feed.inbox.put(Publication(partition, [NodeRemoved(0, node) for node in nodes]))
        await trio.testing.wait_all_tasks_blocked()

    def subscribe(self, after=0, **wanted):
        return Subscription(self.feed, self.form, EventFilter(**wanted), after)

    async def answer(self, partition, state):
        """Take the partition's ``TakeSnapshot`` and answer it."""
        command = await self.inboxes[partition].get()
        assert isinstance(command, TakeSnapshot)
        await self.feed.inbox.put(PartitionSnapshot(partition, command.snapshot_id, state))
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def make_world(*partitions, **options):
    made = World(*partitions, **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.feed.run)
        yield made
        nursery.cancel_scope.cancel()


def numbers(told):
    assert isinstance(told, Batch)
    return [msgspec.json.decode(event)["sequence"] for event in told.events]


# ---- numbering


async def test_one_number_for_all_partitions_without_gaps(seed, autojump_clock):
    """Events of all partitions share one sequence; facts without events use up no number (EV-46)."""
    async with make_world("default", "gpu") as w:

        async def partition(name):
            for _ in range(10):
                await w.feed.inbox.put(Publication(name, [NodeRemoved(0, node) for node in ("n", "silent", "twice")]))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partition, "default")
            nursery.start_soon(partition, "gpu")
        await trio.testing.wait_all_tasks_blocked()
        assert w.feed.ring.sequence == 60
        assert [w.feed.ring.event(n).sequence for n in range(1, 61)] == list(range(1, 61))
        assert len(w.delivered) == 60


async def test_facts_are_delivered_after_they_are_numbered():
    """The outbox gets facts when their events have numbers: both tell one story."""
    seen = []
    feed = FeedActor(FakeDelivery(render, lambda name, _: seen.append((name, feed.ring.sequence))), {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(feed.run)
        await feed.inbox.put(Publication("default", [NodeRemoved(0, "twice")]))
        await feed.published("default")
        nursery.cancel_scope.cancel()
    assert seen[0] == ("default", 2)


async def test_published_waits_for_what_was_put_before(seed):
    """``published`` returns when everything before it is numbered: then an ``Ack`` comes behind its consequences."""
    async with make_world("default") as w:
        for _ in range(50):
            await w.feed.inbox.put(Publication("default", [NodeRemoved(0, "n")]))
        await w.feed.published("default")
        assert w.feed.ring.sequence == 50


# ---- turns


class Steps(trio.abc.Instrument):
    """Notes how far the feed is after each step of any task."""

    def __init__(self, feed):
        self.feed = feed
        self.sequences = [feed.ring.sequence]

    def after_task_step(self, task):
        self.sequences.append(self.feed.ring.sequence)


@pytest.mark.parametrize(
    "sizes", [[5 * FACTS_MAX + 3], [FACTS_MAX // 2 + 1] * 9, [1] * 4 * FACTS_MAX], ids=["large", "middle", "small"]
)
async def test_one_turn_is_bounded_by_facts(sizes, seed):
    """However facts are packed into publications, others run after ``FACTS_MAX`` of them at the latest; none is lost or moved."""
    async with make_world(inbox_max=len(sizes)) as w:
        nodes = iter(range(sum(sizes)))
        for size in sizes:
            w.feed.inbox.put_nowait(Publication("default", [NodeRemoved(0, str(next(nodes))) for _ in range(size)]))
        steps = Steps(w.feed)
        trio.lowlevel.add_instrument(steps)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(steps)
        assert max(after - before for before, after in pairwise(steps.sequences)) <= FACTS_MAX
        assert [fact.node_id for fact in w.delivered] == [str(n) for n in range(sum(sizes))]
        assert [w.feed.ring.event(n + 1).object_id for n in range(sum(sizes))] == [str(n) for n in range(sum(sizes))]


async def test_large_publication_is_held_back_as_a_whole(seed):
    """A snapshot does not split a partition's history, though the feed takes a large publication in parts."""
    async with make_world("default", "gpu") as w, trio.open_nursery() as nursery:
        nursery.start_soon(w.feed.snapshot)
        await trio.testing.wait_all_tasks_blocked()
        await w.answer("default", {})
        await w.publish(*["n"] * (3 * FACTS_MAX))
        await w.publish("last")
        assert w.feed.ring.sequence == 0
        await w.answer("gpu", {})
        assert w.feed.ring.sequence == 3 * FACTS_MAX + 1
        assert w.feed.ring.event(w.feed.ring.sequence).object_id == "last"


async def test_what_was_held_back_does_not_come_in_the_middle_of_another_publication(seed):
    """A snapshot is given up while a large publication is numbered: the events of each publication stay together."""
    async with make_world("default", "gpu") as w:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(w.feed.snapshot)
            await trio.testing.wait_all_tasks_blocked()
            await w.answer("default", {})
            await w.publish("held")
            w.feed.inbox.put_nowait(Publication("gpu", [NodeRemoved(0, "n") for _ in range(5 * FACTS_MAX)]))
            while not w.feed.ring.sequence:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert w.feed.ring.sequence < 5 * FACTS_MAX
        await trio.testing.wait_all_tasks_blocked()
        assert [fact.node_id for fact in w.delivered] == [*["n"] * (5 * FACTS_MAX), "held"]


# ---- subscribers


async def test_subscriber_gets_what_follows_its_number():
    """``from: n`` begins with event n + 1 (EV-46)."""
    async with make_world() as w:
        await w.publish("a", "b", "c")
        assert numbers(await w.subscribe(after=1).next()) == [2, 3]


async def test_batches_are_bounded_and_continue():
    """A subscriber that is far behind gets batches of at most ``BATCH_MAX`` events, in order."""
    async with make_world() as w:
        await w.publish(*["n"] * (BATCH_MAX + 44))
        subscription = w.subscribe()
        assert numbers(await subscription.next()) == list(range(1, BATCH_MAX + 1))
        assert numbers(await subscription.next()) == list(range(BATCH_MAX + 1, BATCH_MAX + 45))


async def test_events_are_encoded_once_for_all_subscribers():
    """Ten subscribers of one encoding cost one encoding of each event."""
    async with make_world() as w:
        await w.publish("a", "b")
        for _ in range(10):
            assert numbers(await w.subscribe().next()) == [1, 2]
        assert w.encoder.count == 2


async def test_overwritten_event_is_encoded_anew():
    """A place in the ring that is used again does not serve the bytes of the event that was there."""
    async with make_world(ring_max=2) as w:
        subscription = w.subscribe()
        for number in range(1, 6):
            await w.publish("n")
            assert numbers(await subscription.next()) == [number]


async def test_lagging_subscriber_is_told_what_it_missed():
    """A subscriber whose cursor the ring has passed learns which events are gone, and continues behind them (EV-64)."""
    async with make_world(ring_max=4) as w:
        subscription = w.subscribe()
        await w.publish(*["n"] * 10)
        assert await subscription.next() == Missed(1, 6)
        assert numbers(await subscription.next()) == [7, 8, 9, 10]


async def test_the_ring_is_bounded_by_bytes():
    """300 events of 1 MB: no more than the bound is kept, encoded or not, and who has not read the others is told so (EV-64)."""
    async with make_world() as w:
        subscription = w.subscribe()
        for number in range(300):
            await w.publish(f"{number:03}" + "x" * 10**6)
            assert kept_bytes(w.feed) <= RING_BYTES_MAX
        assert (w.feed.ring.sequence, w.feed.ring.lowest) == (300, 234)
        assert await subscription.next() == Missed(1, 233)
        read = []
        while read[-1:] != [300]:
            told = await subscription.next()
            read += [told] if isinstance(told, Missed) else numbers(told)
            assert kept_bytes(w.feed) <= RING_BYTES_MAX
            if isinstance(told, Batch):
                assert len(told.events) <= 2
        # The encoded forms take room too, so the oldest of the others are dropped while these are read.
        missed = [told for told in read if isinstance(told, Missed)]
        assert sorted([n for n in read if isinstance(n, int)] + [n for m in missed for n in range(m.first, m.last + 1)]) == list(
            range(234, 301)
        )


def kept_bytes(feed):
    """The bytes of the events in the ring and of their encoded forms, counted anew."""
    columns = [size for column in feed.ring._encoded.values() for size in map(len, filter(None, column))]
    return sum(len(event.object_id) for event in feed.ring._events if event is not None) + sum(columns)


async def test_an_event_above_the_bound_is_not_kept():
    """The bound holds in any case; what follows is kept."""
    async with make_world(bytes_max=1000) as w:
        subscription = w.subscribe()
        await w.publish("a", "x" * 1001)
        assert await subscription.next() == Missed(1, 2)
        await w.publish("b")
        assert numbers(await subscription.next()) == [3]


async def test_bytes_of_overwritten_events_are_free_again():
    """Both bounds together: events of any size come and go, and the count of bytes is exact all the time."""
    async with make_world(ring_max=7, bytes_max=3000) as w:
        subscription = w.subscribe()
        for number in range(200):
            await w.publish(*["x" * (number * 37 % 400)] * (number % 5))
            if number % 3:
                subscription.next_nowait()
            assert w.feed.ring._bytes == kept_bytes(w.feed) <= 3000
            assert w.feed.ring.sequence - w.feed.ring.lowest + 1 <= 7


async def test_batches_are_bounded_by_bytes():
    """A subscriber gets large events a few at a time, and forgets none."""
    async with make_world() as w:
        await w.publish(*["x" * 20_000] * 10)
        subscription = w.subscribe()
        assert [numbers(await subscription.next()) for _ in range(3)] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


async def test_a_snapshot_that_holds_back_too_much_fails(monkeypatch):
    """The publications held back while a partition is awaited are bounded, and none is lost."""
    monkeypatch.setattr(feed_module, "HELD_FACTS_MAX", 10)
    async with make_world("default", "gpu") as w:

        async def take():
            with pytest.raises(SnapshotError, match="no answer from partition gpu"):
                await w.feed.snapshot()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            await w.answer("default", {})
            await w.publish(*["n"] * 10)
            assert w.feed.ring.sequence == 0
            await w.publish("last")
        assert w.feed.ring.sequence == 11


async def test_subscriber_that_never_reads_slows_nobody(seed):
    """A subscriber is a cursor: others see every event while it sleeps, and the feed never waits (EV-40)."""
    async with make_world(ring_max=50) as w:
        sleeper, reader = w.subscribe(), w.subscribe()
        seen = []
        for _ in range(20):
            await w.publish(*["n"] * 10)
            seen += numbers(await reader.next())
        assert seen == list(range(1, 201))
        assert await sleeper.next() == Missed(1, 150)


@pytest.mark.parametrize("ring_max", [1, 3, 7, 100])
async def test_ring_goes_round(ring_max):
    """Publications smaller and larger than what is left of the ring: number, event and bytes belong together all the time."""
    async with make_world(ring_max=ring_max) as w:
        published = []
        for size in (2, 3, 1, 20, 5, 7, 14):
            names = [f"n{len(published) + n}" for n in range(size)]
            published += names
            await w.publish(*names)
            assert (w.feed.ring.sequence, w.feed.ring.lowest) == (len(published), max(1, len(published) - ring_max + 1))
            kept = w.feed.ring.encoded(range(w.feed.ring.lowest, len(published) + 1), Encoder().encode)
            assert [msgspec.json.decode(event)["object_id"] for event in kept] == published[-ring_max:]


async def test_filtered_batches_are_bounded_and_continue():
    """A filter that lets every third event pass gives full batches of those, in order, and forgets none."""
    async with make_world() as w:
        await w.publish(*["n"] * 600)
        for _ in range(BATCH_MAX + 44):
            await w.publish("n", "n", partition="gpu")
            await w.publish("n")
        subscription = w.subscribe(partitions=frozenset({"gpu"}))
        first, second, third = [numbers(await subscription.next()) for _ in range(3)]
        assert (len(first), len(second), len(third)) == (BATCH_MAX, BATCH_MAX, 88)
        assert first + second + third == [601 + 3 * n + k for n in range(BATCH_MAX + 44) for k in (0, 1)]


async def test_next_is_always_a_checkpoint(autojump_clock):
    """Others run also while there is always something to tell: events, events that are missed, bookmarks."""
    async with make_world(ring_max=BATCH_MAX + 44) as w:
        subscription = w.subscribe()
        await w.publish(*["n"] * (BATCH_MAX + 144))
        for told in (Missed, Batch, Batch, Reached):
            with trio.testing.assert_checkpoints():
                assert isinstance(await subscription.next(), told)


async def test_cancelled_before_it_looks_loses_nothing():
    """A cancelled call has not moved the cursor, though there was something to tell."""
    async with make_world() as w:
        subscription = w.subscribe()
        await w.publish("a", "b")
        with trio.CancelScope() as scope:
            scope.cancel()
            await subscription.next()
        assert scope.cancelled_caught
        assert numbers(await subscription.next()) == [1, 2]


async def test_cancelled_wait_loses_nothing(autojump_clock):
    """A subscriber that is interrupted while it waits gets the next event all the same."""
    async with make_world() as w:
        subscription = w.subscribe()
        with trio.move_on_after(3):
            await subscription.next()
        await w.publish("a")
        assert numbers(await subscription.next()) == [1]


async def test_silent_subscriber_gets_a_bookmark_every_ten_seconds(autojump_clock):
    """A silent feed sends ``Bookmark`` every 10 s."""
    async with make_world() as w:
        subscription = w.subscribe()
        for _ in range(3):
            began = trio.current_time()
            assert await subscription.next() == Reached(0)
            assert trio.current_time() - began == pytest.approx(10)


async def test_who_reads_the_past_is_not_kept_waiting():
    """A bookmark tells at once that all up to the beginning was sent, when the last events are not wanted."""
    async with make_world() as w:
        await w.publish("a", partition="gpu")
        await w.publish(*["n"] * 1000)
        subscription = w.subscribe(partitions=frozenset({"gpu"}))
        assert numbers(await subscription.next()) == [1]
        assert await subscription.next() == Reached(1001)
        assert subscription.next_nowait() is None


async def test_filtered_events_move_the_bookmark(autojump_clock):
    """Events that a subscriber does not want move its cursor, of which it hears within a second, not once an event."""
    async with make_world() as w:
        subscription = w.subscribe(kinds=frozenset({"APP"}))
        await w.publish(*["n"] * 10_000)
        began = trio.current_time()
        assert await subscription.next() == Reached(10_000)
        assert trio.current_time() - began <= 1


async def test_rest_is_told_without_waiting():
    """``next_nowait`` gives everything that is wanted up to here, then nothing: what a session sends before it ends."""
    async with make_world(ring_max=20_000) as w:
        subscription = w.subscribe(partitions=frozenset({"gpu"}))
        await w.publish(*["n"] * (BATCH_MAX + 44), partition="gpu")
        await w.publish(*["n"] * 10_000)
        await w.publish("n", partition="gpu")
        assert numbers(subscription.next_nowait()) == list(range(1, BATCH_MAX + 1))
        assert numbers(subscription.next_nowait()) == list(range(BATCH_MAX + 1, BATCH_MAX + 45))
        assert numbers(subscription.next_nowait()) == [BATCH_MAX + 10_045]
        assert subscription.next_nowait() is None


FILTERS = [
    ({}, Event(1), True),
    ({"partitions": frozenset({"gpu"})}, Event(1, partition="gpu"), True),
    ({"partitions": frozenset({"gpu"})}, Event(1), False),
    ({"kinds": frozenset({"NODE"})}, Event(1), True),
    ({"kinds": frozenset({"NODE_DECOMISSION"})}, Event(1), True),
    ({"kinds": frozenset({"NODE_ALLOC"})}, Event(1), False),
    ({"queues": ("root.a",)}, Event(1, queue_name="root.a"), True),
    ({"queues": ("root.a",)}, Event(1, queue_name="root.a.b"), True),
    ({"queues": ("root.a",)}, Event(1, queue_name="root.ab"), False),
    ({"queues": ("root.a",)}, Event(1, queue_name="root"), False),
    ({"queues": ("root.a",)}, Event(1), False),
    ({"queues": ("root.x", "root.a")}, Event(1, "root.a", type="QUEUE"), True),
    ({"queues": ("root.a.b", "root.a", "root.a-b")}, Event(1, queue_name="root.a.c"), True),
    ({"queues": ("root.a.b", "root.c", "root.a-b")}, Event(1, queue_name="root.b"), False),
    ({"applications": frozenset({"app-1"})}, Event(1, "app-1", type="APP"), True),
    ({"applications": frozenset({"app-1"})}, Event(1, "key", type="REQUEST", reference_id="app-1"), True),
    ({"applications": frozenset({"app-1"})}, Event(1, "root", type="QUEUE", reference_id="app-1"), True),
    ({"applications": frozenset({"app-1"})}, Event(1, "n1", reference_id="app-1"), False),
    ({"applications": frozenset({"app-1"}), "kinds": frozenset({"QUEUE"})}, Event(1, "app-1", type="APP"), False),
]


@pytest.mark.parametrize(("wanted", "event", "passes"), FILTERS)
def test_filters(wanted, event, passes):
    """Every field of a filter must agree; queues are prefixes on dot boundaries; the application is where its type keeps it."""
    assert EventFilter(**wanted).wants(event) is passes


PATHS = st.lists(st.sampled_from(["a", "b", "a-b", "a+"]), min_size=1, max_size=4).map(".".join)


@given(st.lists(PATHS, min_size=1), PATHS)
def test_a_queue_includes_all_below_it(queues, path):
    """An event passes if its queue, or a queue above it, is wanted, whatever other queues are."""
    ancestors = {path, *(path[:position] for position, character in enumerate(path) if character == ".")}
    assert EventFilter(queues=tuple(queues)).wants(Event(1, queue_name=path)) is not ancestors.isdisjoint(queues)


def test_a_scan_is_short():
    """A step looks at few events that a subscriber does not want, with some calls each, however many queues it names."""
    w = World(ring_max=10_000)
    w.feed.ring.keep([Event(number, queue_name="root.a.b.c") for number in range(10_000)], durable=True)
    for count in (1, 64):
        selection = w.feed.selection(w.form, EventFilter(queues=tuple(f"root.a.b.d{number}" for number in range(count))))
        with Calls() as calls:
            assert selection.part(0, 10_000).batch is None
        assert calls.count < 10 * SCAN_MAX


# ---- snapshots


async def test_snapshot_is_exact_at_its_number(seed):
    """The publications of a partition after its answer wait for the other answers, then come behind the snapshot."""
    async with make_world("default", "gpu") as w:
        await w.publish("a")
        taken = []

        async def take():
            taken.append(await w.feed.snapshot())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            await w.answer("default", {"nodes": 1})
            await w.publish("b", partition="default")  # not in the state above: held back
            await w.publish("c", partition="gpu")  # in the state below: comes before the snapshot
            assert w.feed.ring.sequence == 2
            await w.answer("gpu", {"nodes": 2})
        assert (taken[0].sequence, taken[0].partitions) == (2, [{"nodes": 1}, {"nodes": 2}])
        assert w.feed.ring.sequence == 3
        events = [w.feed.ring.event(n) for n in (1, 2, 3)]
        assert [e.object_id for e in events] == ["a", "c", "b"]


async def test_replaying_events_on_a_snapshot_gives_the_present(seed):
    """Under load: snapshot plus the events behind it equals the state, whatever order tasks run in (EV-62)."""
    async with make_world("default", "gpu") as w:
        counts = dict.fromkeys(w.inboxes, 0)

        async def partition(name):
            while True:
                counts[name] += 1
                await w.feed.inbox.put(Publication(name, [NodeRemoved(0, "n")]))
                for command in w.inboxes[name].take_nowait(10):
                    await w.feed.inbox.put(PartitionSnapshot(name, command.snapshot_id, {"count": counts[name]}))
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partition, "default")
            nursery.start_soon(partition, "gpu")
            for _ in range(20):
                snapshot = await w.feed.snapshot()
                before = [w.feed.ring.event(n).partition for n in range(1, snapshot.sequence + 1)]
                stated = {name: state["count"] for name, state in zip(w.inboxes, snapshot.partitions, strict=True)}
                assert stated == {name: before.count(name) for name in w.inboxes}
            nursery.cancel_scope.cancel()


async def test_waiting_callers_share_a_snapshot(seed, autojump_clock):
    """A hundred followers that come back together cost two rounds, not a hundred."""
    async with make_world("default") as w:
        rounds = []

        async def partition():
            while True:
                command = await w.inboxes["default"].get()
                rounds.append(command.snapshot_id)
                await trio.sleep(0.1)
                await w.feed.inbox.put(PartitionSnapshot("default", command.snapshot_id, {}))

        taken = []

        async def take():
            taken.append(await w.feed.snapshot())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(partition)
            async with trio.open_nursery() as callers:
                callers.start_soon(take)
                await trio.testing.wait_all_tasks_blocked()
                for _ in range(99):  # too late for the round that runs: its answers may be older than these calls
                    callers.start_soon(take)
            assert rounds == [1, 2]
            assert all(snapshot.is_shared for snapshot in taken[1:])
            assert not (await w.feed.snapshot()).is_shared  # nobody else has it: it may be taken apart
            nursery.cancel_scope.cancel()


async def test_snapshot_that_is_not_answered_is_given_up(autojump_clock):
    """A silent partition costs the caller its snapshot, names itself, and holds nobody's events for ever."""
    async with make_world("default", "gpu") as w:
        async with trio.open_nursery() as nursery:

            async def take():
                with pytest.raises(SnapshotError, match="gpu"):
                    await w.feed.snapshot()

            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            await w.answer("default", {})
            await w.publish("a")
            assert w.feed.ring.sequence == 0
        assert w.feed.ring.sequence == 1
        assert trio.current_time() == pytest.approx(feed_module.SNAPSHOT_S)


async def test_cancelled_snapshot_releases_what_it_held():
    """A follower that leaves while its snapshot is taken leaves nothing behind; a late answer is ignored."""
    async with make_world("default", "gpu") as w:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(w.feed.snapshot)
            await trio.testing.wait_all_tasks_blocked()
            await w.answer("default", {})
            await w.publish("a")
            nursery.cancel_scope.cancel()
        assert w.feed.ring.sequence == 1
        await w.answer("gpu", {})
        await w.publish("b")
        assert w.feed.ring.sequence == 2


async def test_snapshot_of_a_partition_that_does_not_run_fails_at_once():
    """A closed inbox is a refusal, not something to wait for."""
    async with make_world("default") as w:
        w.inboxes["default"].close()
        with pytest.raises(SnapshotError, match="default"):
            await w.feed.snapshot()


async def test_snapshot_without_partitions_is_empty():
    """A daemon that has no partition yet still answers."""
    async with make_world() as w:
        assert (await w.feed.snapshot()).partitions == []
