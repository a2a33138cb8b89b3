"""Many subscribers of one feed: each batch is made once, nobody misses an event or waits for another, planning goes first."""

import random
from contextlib import asynccontextmanager
from math import inf

import msgspec
import pytest
import trio
import trio.testing
from deliveries import FakeDelivery
from seeds import seeds

from ykactor.actors.commands import Publication
from ykactor.actors.fan_out import GIVE_WAY_S, ROUND_EACH_S, ROUND_S, FanOut
from ykactor.actors.feed import FeedActor
from ykactor.actors.selection import BATCH_MAX, EventFilter, Format
from ykactor.actors.subscription import Missed, Subscription, Unread
from ykactor.core.messages.facts import NodeRemoved


class Event(msgspec.Struct, frozen=True):
    sequence: int
    object_id: str
    type: str = "NODE"
    reference_id: str = ""
    event_change_detail: str = ""
    partition: str = "default"
    queue_name: str = ""
    message: str = ""
    preemption: None = None
    waited: None = None


class Counted:
    """A format that counts its calls; what is packed is the list of sequence numbers."""

    def __init__(self):
        self.encoded = self.packed = 0
        self.form = Format(self._encode, self._pack)

    def _encode(self, events):
        self.encoded += len(events)
        return [b"%d" % event.sequence for event in events]

    def _pack(self, events):
        self.packed += 1
        return [int(event) for event in events]


class Reader:
    """A follower: what it was written, when, and whether it reads at present."""

    def __init__(self, reads=lambda: True, patience_s=10.0, room=100):
        self.room = room
        self.seen = []
        self.times = []
        self.told = []
        self._reads = reads
        self._patience_s = patience_s
        self._unread = []
        self._since = None

    def write(self, packed):
        self._unread.append(packed)
        return len(self._unread) < self.room

    def flush(self):
        if self._unread and not self._reads():
            self._since = self._since or trio.current_time()
            return False
        for packed in self._unread:
            self.seen += packed
            self.times.append(trio.current_time())
        self._unread, self._since = [], None
        return True

    @property
    def is_overdue(self):
        return self._since is not None and trio.current_time() - self._since > self._patience_s

    async def follow(self, subscription):
        """Take updates until the follower is dropped, as a session does."""
        while not self.told or self.told[-1] != Unread():
            self.told.append(await subscription.next(self))


class World:
    def __init__(self, nursery, **options):
        self.feed = FeedActor(FakeDelivery(lambda fact, _, n: [Event(n, fact.node_id)]), {}, **options)
        self.format = Counted()
        self._nursery = nursery

    async def publish(self, count, node="n"):
        await self.feed.inbox.put(Publication("default", [NodeRemoved(0, node)] * count))
        await self.feed.published("default")

    def follow(self, reader=None, after=0, **wanted):
        reader = reader or Reader()
        subscription = Subscription(self.feed, self.format.form, EventFilter(**wanted), after)
        self._nursery.start_soon(reader.follow, subscription)
        return reader


@asynccontextmanager
async def running(**options):
    async with trio.open_nursery() as nursery:
        world = World(nursery, **options)
        nursery.start_soon(world.feed.run)
        yield world
        nursery.cancel_scope.cancel()


async def test_each_event_is_encoded_once_and_each_batch_is_packed_once(seed, autojump_clock):
    """Fifty followers of one filter cost as many encodings as one, whatever the order of tasks."""
    async with running() as w:
        readers = [w.follow(partitions=frozenset({"default"})) for _ in range(50)]
        await trio.testing.wait_all_tasks_blocked()
        for count in (1, 10, 2 * BATCH_MAX + 1):
            await w.publish(count)
            await trio.sleep(1)
        total = 2 * BATCH_MAX + 12
        assert [reader.seen for reader in readers] == [list(range(1, total + 1))] * 50
        assert w.format.encoded == total
        assert w.format.packed == 1 + 1 + 3


async def test_followers_that_begin_at_different_numbers_soon_share(autojump_clock):
    """A round brings all to the same number, so from the second round on they get the same batches."""
    async with running() as w:
        await w.publish(100)
        readers = [w.follow(after=after) for after in range(50)]
        await trio.sleep(1)
        packed = w.format.packed
        await w.publish(1)
        await trio.sleep(1)
        assert w.format.packed == packed + 1
        assert [reader.seen for reader in readers] == [list(range(after + 1, 102)) for after in range(50)]


@pytest.mark.parametrize("number", seeds(40))
async def test_no_gap_and_no_event_twice(number, autojump_clock):
    """Followers that come at any time and read by fits and starts see each event once, in order, or are told what they missed."""
    chance = random.Random(number)
    ring_max = chance.choice((50, 100_000))
    async with running(ring_max=ring_max) as w:
        readers, closing = {}, trio.Event()
        for _ in range(60):
            if chance.random() < 0.3:
                after = chance.randint(max(0, w.feed.ring.lowest - 20), w.feed.ring.sequence)
                often = chance.random()
                reader = Reader(lambda often=often: closing.is_set() or chance.random() < often, patience_s=1e9)
                readers[w.follow(reader, after)] = after
            await w.publish(chance.choice((1, 3, 40, 300)))
            await trio.sleep(chance.choice((0, 0.001, 0.02, 0.3)))
        closing.set()
        await trio.sleep(20)
        for reader, after in readers.items():
            missed = [n for told in reader.told if isinstance(told, Missed) for n in range(told.first, told.last + 1)]
            assert reader.seen == sorted(reader.seen)
            assert sorted(reader.seen + missed) == list(range(after + 1, w.feed.ring.sequence + 1))
            assert ring_max == 50 or not missed


async def test_who_does_not_read_is_dropped_and_delays_nobody(seed, autojump_clock):
    """Readers wait one interval of rounds at most while another follower reads nothing, which is handed ``Unread`` in the end."""
    async with running() as w:
        stalled = w.follow(Reader(lambda: False, patience_s=10))
        readers = [w.follow() for _ in range(5)]
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(12):
            began = trio.current_time()
            await w.publish(1)
            await trio.sleep(1)
            assert all(reader.times[-1] - began < 2 * (ROUND_S + 6 * ROUND_EACH_S) for reader in readers)
        assert stalled.told == [Unread()]
        assert stalled.seen == []


async def test_event_after_a_pause_arrives_at_once(autojump_clock):
    """Rounds have an interval only under load: after a pause no time passes between an event and its followers."""
    async with running() as w:
        reader = w.follow()
        for _ in range(3):
            await trio.sleep(1)
            began = trio.current_time()
            await w.publish(1)
            await trio.testing.wait_all_tasks_blocked()
            assert reader.times[-1] == began


async def test_events_in_quick_succession_are_written_together(autojump_clock):
    """Under load a follower is written to every few ms, with all events since."""
    async with running() as w:
        reader = w.follow()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(1000):
            await w.publish(1)
            await trio.sleep(0.0001)
        await trio.sleep(1)
        assert reader.seen == list(range(1, 1001))
        assert len(reader.times) <= 2 + 0.1 / (ROUND_S + ROUND_EACH_S)


async def test_subscribers_give_way_to_planning_for_a_bounded_time():
    """While there is something to plan they are served later by ``GIVE_WAY_S``, but they are served."""
    served_at = 0.0
    served = trio.Event()

    class Subscriber:
        def serve(self, target, now):
            nonlocal served_at
            served_at = now
            served.set()
            return inf

    fan_out = FanOut(100, lambda: False)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fan_out.run)
            began = trio.current_time()
            fan_out.join(Subscriber())
            await served.wait()
            nursery.cancel_scope.cancel()
    assert served_at - began >= GIVE_WAY_S


async def test_giving_way_ends_whatever_the_clock_does(autojump_clock):
    """While a partition has something to plan without end, time passes, also by a clock that jumps when all tasks wait."""
    asked = 0

    def is_idle():
        nonlocal asked
        asked += 1
        assert asked < 1000
        return False

    async with running(is_idle=is_idle) as w:
        readers = [w.follow() for _ in range(3)]
        await w.publish(10)
        await trio.sleep(1)
        assert [reader.seen for reader in readers] == [list(range(1, 11))] * 3


@pytest.mark.parametrize("room", [1, 3, 100])
async def test_batches_that_were_made_for_others_are_sent_together(room, autojump_clock):
    """One subscriber makes at most one batch in its turn, and is given those that others have made, as far as there is room."""
    async with running(ring_max=100_000) as w:
        flushed = []

        class Noted(Reader):
            def flush(self):
                if self._unread:
                    flushed.append(len(self._unread))
                return super().flush()

        readers = [w.follow(Noted(room=room)) for _ in range(20)]
        await trio.testing.wait_all_tasks_blocked()
        await w.publish(9 * BATCH_MAX)
        await trio.sleep(1)
        assert [reader.seen for reader in readers] == [list(range(1, 9 * BATCH_MAX + 1))] * 20
        assert max(flushed) == min(room, 9)
        assert w.format.packed == 9
        assert len(flushed) == 20 * 9 or room > 1


async def test_a_message_that_was_handed_over_survives_a_cancelled_wait(seed, autojump_clock):
    """A wait that is cancelled in the moment in which there is something to tell returns it the next time."""
    async with running(ring_max=4) as w:
        subscription = Subscription(w.feed, w.format.form, EventFilter(), 0)
        told = []
        for _ in range(20):
            with trio.move_on_after(1) as scope:
                w.feed.fan_out.grow(w.feed.ring.sequence)
                await w.feed.inbox.put(Publication("default", [NodeRemoved(0, "n")] * 3))
                scope.cancel() if len(told) % 2 else None
                told.append(await subscription.next())
        while (message := subscription.next_nowait()) is not None:
            told.append(message)
        seen = []
        for message in told:
            seen += message.packed if not isinstance(message, Missed) else range(message.first, message.last + 1)
        assert seen == list(range(1, w.feed.ring.sequence + 1))
