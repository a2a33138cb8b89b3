"""Followers that may not see everything, on the feed: the same numbers, batches of their own, and nothing that is hidden."""

from typing import NamedTuple

import msgspec
import pytest
import trio
import trio.testing
from test_feed import Event, World, make_world

from ykactor.actors import selection
from ykactor.actors.feed import FeedSnapshot
from ykactor.actors.ring import TAKE_BYTES_MAX
from ykactor.actors.selection import BATCH_MAX, Batch, EventFilter
from ykactor.actors.subscription import Reached, Subscription
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.values.parts import PART_MAX


def shown(name, **sections):
    return PartitionStatus(name=name, queues={}, applications={}, limits=[], **sections)


class Blind(NamedTuple):
    """Sees the events of one partition; of those about ``secret`` not the name."""

    partition: str = "gpu"

    def of_event(self, event):
        if event.partition != self.partition:
            return None
        return event if event.object_id != "secret" else msgspec.structs.replace(event, object_id="")

    def of_state(self, state):
        for _ in range(3):
            yield 1
        return shown(state.name)

    def shows_partition(self, partition):
        return partition == self.partition


def subscribe(w: World, view, after=0, **wanted):
    return Subscription(w.feed, w.form, EventFilter(**wanted), after, view)


def objects(told):
    assert isinstance(told, Batch)
    return [(event.sequence, event.object_id) for event in (msgspec.json.decode(data, type=Event) for data in told.events)]


async def test_hidden_events_use_up_numbers(autojump_clock):
    """SE-86: the numbers of events and bookmarks go on for everybody, so a follower can resume with or without a view."""
    async with make_world() as w:
        subscription = subscribe(w, Blind())
        await w.publish("a", "b")
        await w.publish("c", "d", partition="gpu")
        await w.publish("e")
        assert objects(await subscription.next()) == [(3, "c"), (4, "d")]
        assert await subscription.next() == Reached(5)
        assert objects(subscribe(w, Blind(), after=3).next_nowait()) == [(4, "d")]


async def test_a_view_is_never_taken_for_no_view():
    """The same filter, also an empty one, with another view or none is another selection: nobody gets the batch of others."""
    async with make_world() as w:
        await w.publish("a", "secret")
        await w.publish("b", "secret", partition="gpu")
        for _ in range(2):  # also when all batches are made
            assert objects(subscribe(w, Blind()).next_nowait()) == [(3, "b"), (4, "")]
            assert objects(subscribe(w, Blind("default")).next_nowait()) == [(1, "a"), (2, "")]
            whole = w.subscribe().next_nowait()
            assert objects(whole) == [(1, "a"), (2, "secret"), (3, "b"), (4, "secret")]
            assert whole.packed == b"".join(msgspec.json.encode(w.feed.ring.event(number)) for number in (1, 2, 3, 4))


async def test_equal_views_share_their_batches():
    """A hundred sessions of an identity cost one encoding; what is shown as it is costs none beside that of the others."""
    async with make_world() as w:
        await w.publish("b", "secret", "c", partition="gpu")
        w.subscribe().next_nowait()
        assert w.encoder.count == 3
        followers = [subscribe(w, Blind("".join(["g", "pu"]))) for _ in range(100)]
        assert {len(objects(follower.next_nowait())) for follower in followers} == {3}
        assert w.encoder.count == 4


class Counting(Blind):
    """Counts the events that it is asked about."""

    count = 0

    def of_event(self, event):
        Counting.count += 1
        return super().of_event(event)


async def test_many_views_do_not_make_each_other_work_again():
    """Each of 1,000 views at the same place scans the events once, however many followers it has."""
    async with make_world(*(f"p{number}" for number in range(1000))) as w:
        for number in range(3):
            await w.publish("a", "b", partition=f"p{number}")
        Counting.count = 0
        followers = [subscribe(w, Counting(f"p{number}")) for _ in range(3) for number in range(1000)]
        found = [follower.next_nowait() for follower in followers]
        batches = [objects(told) for told in found if isinstance(told, Batch)]
        assert batches == [[(1, "a"), (2, "b")], [(3, "a"), (4, "b")], [(5, "a"), (6, "b")]] * 3
        assert Counting.count == 6000


async def test_what_is_kept_for_others_is_bounded_by_bytes(monkeypatch):
    """The oldest parts are dropped, and made again when they are needed; the newest one stays, however large it is."""
    monkeypatch.setattr(selection, "_KEPT_BYTES_MAX", 10_000)
    async with make_world() as w:
        await w.publish(*["x" * 900] * 40, partition="gpu")
        shared = w.feed.selection(w.form, EventFilter(), Blind())
        for after in range(39, -1, -1):
            subscribe(w, Blind(), after).next_nowait()
            sizes = [selection._size_of(part) for part in shared.parts.values()]
            assert w.feed._kept_parts._bytes == sum(sizes)
            assert sum(sizes) <= 10_000 or len(sizes) == 1
        assert (await subscribe(w, Blind(), 38).next()).events == [
            w.feed.ring.encoded([number], w.form.encode)[0] for number in (39, 40)
        ]


async def test_the_filter_of_a_subscriber_that_has_left_is_not_kept(monkeypatch):
    """A filter may have 4 MiB, and the part of one that matches nothing counts 1 KiB: kept parts keep no filter."""
    monkeypatch.setattr(selection, "_KEPT_BYTES_MAX", 10_000)
    async with make_world() as w:
        await w.publish("a", "b")
        for number in range(20):
            follower = subscribe(w, None, applications=frozenset({f"none-{number}"}))
            assert follower.next_nowait() == Reached(2)
            filters = [wanted.applications for _, wanted, _ in w.feed._selections]
            assert filters == [frozenset({f"none-{number}"})]
        kept = w.feed._kept_parts
        assert kept._bytes == sum(kept._sizes.values()) <= 10_000


async def test_a_filter_asks_about_what_is_shown():
    """SE-80: a filter for a name that is hidden finds nothing, so it does not tell that the name is there."""
    async with make_world() as w:
        await w.publish("secret", "a", partition="gpu")
        wanted = {"applications": frozenset({"secret"}), "kinds": frozenset({"NODE_DECOMISSION"})}
        w.feed.ring._events[:] = [msgspec.structs.replace(event, type="APP") for event in w.feed.ring._events]
        assert objects(w.subscribe(**wanted).next_nowait()) == [(1, "secret")]
        assert subscribe(w, Blind(), **wanted).next_nowait() == Reached(2)


@pytest.mark.parametrize("every", [1, 2, 3, 7, 1000])
async def test_batches_are_bounded_and_in_order(every):
    """Changed events and others together: up to a batch, up to the bytes and one event, in order, and none is forgotten."""
    async with make_world(ring_max=3000) as w:
        names = ["secret" if number % every == 0 else "x" * (number % 5 * 300) for number in range(2000)]
        await w.publish(*names, partition="gpu")
        subscription, seen = subscribe(w, Blind()), []
        while isinstance(told := subscription.next_nowait(), Batch):
            assert len(told.events) <= BATCH_MAX
            assert sum(map(len, told.events[:-1])) < TAKE_BYTES_MAX
            seen += objects(told)
        assert seen == [(number, name.replace("secret", "")) for number, name in enumerate(names, 1)]


async def test_a_snapshot_is_cut_once_for_each_view():
    """SE-84: callers with equal views get the same states, of the partitions that they see; the snapshot stays whole."""
    snapshot = FeedSnapshot(7, [shown(name, nodes={name: {}}) for name in ("default", "gpu")], 1, is_shared=True)
    found = []

    async def take(view):
        found.append(await snapshot.seen_by(view))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(take, Blind())
    assert found == [[shown("gpu")]] * 3
    assert found[0] is found[1] is found[2]
    assert await snapshot.seen_by(Blind("default")) == [shown("default")]
    assert snapshot.partitions[1] == shown("gpu", nodes={"gpu": {}})


class OfPartition(Blind):
    """Shows all of a state."""

    def of_state(self, state):
        yield from ()
        return state


async def test_a_snapshot_that_nobody_else_has_is_taken_apart():
    """Freeing a large state at once takes long; what is shown as a whole stays."""
    whole = shown("p", nodes={f"n{number}": {} for number in range(2 * PART_MAX)})
    hidden = shown("default", nodes={"n1": {}})
    snapshot = FeedSnapshot(7, [whole, hidden], 1)
    assert await snapshot.seen_by(OfPartition("p")) == [whole]
    assert (len(whole.nodes), hidden.nodes) == (2 * PART_MAX, {})
    assert await FeedSnapshot(8, [whole], 1).seen_by(Blind("p")) == [shown("p")]
    assert whole.nodes == {}


async def test_other_tasks_run_while_a_snapshot_is_cut():
    """SE-84: a large state takes long, and nobody waits for that."""
    snapshot = FeedSnapshot(7, [shown("gpu")], 1)
    with trio.testing.assert_checkpoints():
        await snapshot.seen_by(Blind())
