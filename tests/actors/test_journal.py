"""The journal over a store in memory, on a virtual clock: what is committed together, in which order, and who waits."""

import threading
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing
from memorystore import MemoryStore

from ykactor.actors import journal as journal_module
from ykactor.actors.commands import Publication, TurnRecord
from ykactor.actors.journal import (
    ANSWER_S,
    PAUSE_MAX_S,
    RETRY_MAX_S,
    RETRY_S,
    WINDOW_S,
    Journal,
    Notices,
    Resumed,
    Stalled,
    WriterThread,
)
from ykactor.core.messages.facts import NodeRemoved
from ykactor.journal.errors import NotWrittenError
from ykactor.journal.transaction import Batch, change_text


class Reader:
    """Notes what it is told to be durable."""

    def __init__(self):
        self.told = []

    def raise_durable(self, number):
        self.told.append(number)


def encode(facts):
    return msgspec.json.encode([fact.node_id for fact in facts])


@asynccontextmanager
async def running(store=None, **options):
    journal = Journal(store or MemoryStore(), encode, lambda: round(trio.current_time() * 1e9), **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.run)
        yield journal
        nursery.cancel_scope.cancel()


def add(journal, feed, last_event, *nodes, changes=(), number=1):
    """Add a turn with facts about these nodes."""
    turn = TurnRecord(number, 5, b'{"why":1}', list(changes))
    journal.add(
        feed, Publication("default", [], turn), [encode([NodeRemoved(0, node)]) for node in nodes], set(nodes), last_event
    )


# ---- what is committed


async def test_what_waits_is_counted_and_commits_are_timed(autojump_clock):
    """Also what is being committed waits; a checkpoint leaves its time, and a commit without one does not."""

    class Slow(MemoryStore):
        needs_tidying = False

        async def commit(self, batch):
            await trio.sleep(2)
            await super().commit(batch)

        async def tidy(self):
            return self.needs_tidying

    store, feed = Slow(), Reader()
    async with running(store) as journal:
        add(journal, feed, 3, "a", "b", "c")
        await trio.sleep(1)
        add(journal, feed, 4, "d", number=2)
        journal.post(Reader(), 1, [b"m1"])
        events_count, messages_count, size = journal.waiting()
        assert (events_count, messages_count, size > 0) == (4, 1, True)
        await trio.sleep(9)
        assert journal.waiting() == (0, 0, 0)
        assert (sum(journal.commit_times.counts), journal.commit_times.sum) == (2, pytest.approx(4, abs=0.1))
        assert journal.tidied_ns is None
        store.needs_tidying = True
        add(journal, feed, 5, "e", number=3)
        await trio.sleep(9)
        assert journal.tidied_ns == pytest.approx(12 * 10**9, abs=10**8)


async def test_a_batch_holds_what_was_added(autojump_clock):
    """Turns with facts and causes, messages, records and numbers are in one transaction; then readers are told."""
    store, feed, outbox = MemoryStore(), Reader(), Reader()
    async with running(store, last_event=7, last_message=2) as journal:
        await trio.sleep(1)
        add(journal, feed, 9, "a", "b", changes=[change_text(b"k1", b"1"), change_text(b"k2", None)], number=4)
        journal.post(outbox, 3, [b"m3"])
        journal.note(b"k3", b"3")
        add(journal, feed, 9, number=5)
        await trio.testing.wait_all_tasks_blocked()
        assert (feed.told, outbox.told) == ([], [])
        await trio.sleep(1)
    (batch,) = store.batches
    assert (batch.first_event, batch.events_count, batch.first_message, batch.messages_count) == (8, 2, 3, 1)
    assert (batch.changes, batch.messages) == ([b"k1\n1\n", b"k2\nnull\n", b"k3\n3\n"], [b"m3"])
    assert batch.at_ns == 1_000_000_000
    assert store.turns == [
        {"partition": "default", "number": 4, "now_ns": 5, "cause": {"why": 1}, "facts": ["a", "b"]},
        {"partition": "default", "number": 5, "now_ns": 5, "cause": {"why": 1}, "facts": []},
    ]
    assert (feed.told, outbox.told) == ([9], [3])


async def test_facts_without_a_turn_are_recorded(autojump_clock):
    """The facts that a session publishes itself have no number and no cause."""
    store = MemoryStore()
    async with running(store) as journal:
        journal.add(Reader(), Publication("gpu", []), [encode([NodeRemoved(0, "n")])], set(), 1)
        await trio.sleep(1)
    assert store.turns == [{"partition": "gpu", "facts": ["n"]}]


async def test_batches_follow_each_other_without_gaps(seed, autojump_clock):
    """Whatever a batch has, the next one goes on with the numbers."""
    store, feed, outbox = MemoryStore(), Reader(), Reader()
    async with running(store) as journal:
        events = messages = 0
        for step in range(60):
            if step % 3:
                events += step % 5
                add(journal, feed, events, "n")
            if step % 4:
                messages += 1
                journal.post(outbox, messages, [b"m%d" % messages])
            await trio.sleep(0.0005)
        await trio.sleep(1)
    assert len(store.batches) > 10
    for before, after in zip(store.batches, store.batches[1:], strict=False):
        assert after.first_event == before.first_event + before.events_count
        assert after.first_message == before.first_message + before.messages_count
    assert store.messages == [b"m%d" % number for number in range(1, messages + 1)]
    assert feed.told[-1] == events == store.last_event


async def test_the_last_change_of_a_record_counts(autojump_clock):
    """Puts and deletes of one key, in one batch or in several, end as in a dictionary."""
    store, expected = MemoryStore(), {}
    async with running(store) as journal:
        for step in range(300):
            key, data = b"k%d" % (step * 7 % 11), None if step % 3 == 0 else b"%d" % step
            expected.pop(key, None) if data is None else expected.__setitem__(key, data)
            journal.note(key, data)
            if step % 13 == 0:
                await trio.sleep(0.0007)
        await trio.sleep(1)
    assert len(store.batches) > 5
    assert store.records == expected


@pytest.mark.parametrize("steps", [1, 30])
async def test_what_is_under_way_is_committed_together(steps, autojump_clock):
    """A commit waits for what the daemon does at once, such as the acknowledgement of a turn, and for nothing else."""
    store, feed, outbox = MemoryStore(lambda: 0.01), Reader(), Reader()
    async with running(store) as journal:
        add(journal, feed, 1, "n")
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        journal.post(outbox, 1, [b"ack"])
        await trio.sleep(0.005)
        for number in range(2, 50):
            journal.post(outbox, number, [b"m"])
            await trio.lowlevel.checkpoint()
        await trio.sleep(1)
    assert [(batch.events_count, batch.messages_count) for batch in store.batches] == [(1, 1), (0, 48)]


@pytest.mark.parametrize("messages", [5, 100])
async def test_a_busy_daemon_commits_in_time(messages, autojump_clock):
    """A busy daemon commits each ``WINDOW_S``, whether few or many messages come in it."""
    store, clock = MemoryStore(lambda: 0.0), trio.lowlevel.current_clock()
    async with running(store) as journal:
        for number in range(1, 20 * messages):
            journal.post(Reader(), number, [b"m"])
            clock.jump(WINDOW_S / messages)
            await trio.lowlevel.checkpoint()
    assert len(store.batches) > 10
    assert max(batch.messages_count for batch in store.batches) <= 2 * messages  # with the steps of the event loop at its end


@pytest.mark.parametrize("commit_s", [PAUSE_MAX_S / 2, 1.0])
async def test_commits_are_rarer_while_there_is_more(commit_s, autojump_clock):
    """The next commit waits as long as the last one took, or ``PAUSE_MAX_S``, if more came during it; otherwise not at all."""
    store, outbox, began = MemoryStore(lambda: commit_s), Reader(), []
    async with running(store) as journal:
        for number in range(1, 4):
            journal.post(outbox, number, [b"m"])
            began.append(trio.current_time())
            for _ in range(2):  # the journal waits for the same, and may go on after this task
                await trio.testing.wait_all_tasks_blocked()
        await journal.flushed()
        assert trio.current_time() - began[0] == pytest.approx(2 * commit_s + min(commit_s, PAUSE_MAX_S))
        journal.post(outbox, 4, [b"m"])
        began.append(trio.current_time())
        await journal.flushed()
        assert trio.current_time() - began[-1] == pytest.approx(commit_s)
    assert [batch.messages_count for batch in store.batches] == [1, 2, 1]


async def test_a_turn_is_not_divided(autojump_clock):
    """A message posted while a turn is numbered waits for the rest of the turn."""
    store, feed, outbox = MemoryStore(), Reader(), Reader()
    async with running(store) as journal:
        journal.begin_turn()
        journal.post(outbox, 1, [b"m"])
        await trio.sleep(1)
        assert store.attempts == 0
        add(journal, feed, 1, "n")
        journal.end_turn()
        await trio.sleep(1)
    (batch,) = store.batches
    assert (batch.events_count, batch.messages_count) == (1, 1)


# ---- room


@pytest.mark.parametrize("what", ["EVENTS_MAX", "MESSAGES_MAX", "BYTES_MAX"])
async def test_who_causes_records_waits_for_room(what, autojump_clock, monkeypatch):
    """Each of the bounds holds for what waits and what is being committed together."""
    monkeypatch.setattr(journal_module, what, 10)
    store = MemoryStore(lambda: 1.0)
    async with running(store) as journal:
        await journal.room()
        add(journal, Reader(), 6, "node-" * (what == "BYTES_MAX"))
        for number in range(1, 7):
            journal.post(Reader(), number, [b""])
        await trio.sleep(0.5)
        if what != "BYTES_MAX":
            assert journal.has_room
            add(journal, Reader(), 12)
            for number in range(7, 13):
                journal.post(Reader(), number, [b""])
        assert not journal.has_room
        began = trio.current_time()
        await journal.room()
        assert 0.4 < trio.current_time() - began < 0.6


async def test_flushed_waits_for_all_that_was_added(seed, autojump_clock):
    """``flushed`` waits for entries that gather and for those being committed; with nothing to wait for it causes no commit."""
    store = MemoryStore(lambda: 1.0)
    async with running(store) as journal:
        await journal.flushed()
        journal.note(b"a", b"")
        await trio.sleep(0.5)
        await journal.flushed()
        assert trio.current_time() == pytest.approx(1.0)
        journal.note(b"b", b"")
        await trio.sleep(0.5)
        journal.note(b"c", b"")
        await journal.flushed()
        assert trio.current_time() == pytest.approx(3.0, abs=0.01)  # the last one waits for more a while
        await trio.sleep(5)
        await journal.flushed()
    assert len(store.batches) == 3


# ---- the disk


async def test_a_full_disk_is_waited_for(autojump_clock):
    """The same batch is tried again, ever more rarely; nothing is durable meanwhile, all are told once, and nothing is lost."""
    store, feed = MemoryStore(lambda: 0.0), Reader()
    async with running(store) as journal:
        changes = []
        journal.watch(lambda: changes.append((trio.current_time(), journal.stalled)))
        notices = Notices(journal)
        store.is_full = True
        add(journal, feed, 1, "a")
        await trio.sleep(3.5 * RETRY_S)
        add(journal, feed, 2, "b")
        assert store.attempts == 3
        assert (store.batches, feed.told) == ([], [])
        assert notices.next() == Stalled(0, "no room on the disk")
        assert notices.next() is None
        store.is_full = False
        await trio.sleep(RETRY_MAX_S)
        assert notices.next() == Resumed()
        assert [told is None for _, told in changes] == [False, True]
        assert changes[1][0] - changes[0][0] == pytest.approx(7 * RETRY_S)
        await trio.sleep(1)
    assert [turn["facts"] for turn in store.turns] == [["a"], ["b"]]
    assert feed.told == [1, 2]


async def test_a_disk_that_does_not_answer_is_waited_for(autojump_clock):
    """Whoever watches is told once after some seconds, with the time of the question; and when the answer has come (DU-16)."""
    store, feed = MemoryStore(), Reader()
    async with running(store) as journal:
        changes = []
        journal.watch(lambda: changes.append((trio.current_time(), journal.stalled)))
        await trio.sleep(1)
        store.answers = trio.Event()
        add(journal, feed, 1, "a")
        await trio.sleep(10 * ANSWER_S)
        assert (store.attempts, feed.told) == (1, [])
        store.answers.set()
        await trio.sleep(1)
        assert feed.told == [1]
    (stalled_at, stalled), (resumed_at, resumed) = changes
    assert stalled == Stalled(10**9, "the disk has not answered for 5 s")
    assert stalled_at == pytest.approx(1 + ANSWER_S)
    assert (resumed, resumed_at) == (None, pytest.approx(1 + 10 * ANSWER_S))


async def test_a_slow_disk_is_no_news(autojump_clock):
    """Each answer has its own time, however many there are and whatever comes between them."""
    store, changes = MemoryStore(lambda: 0.9 * ANSWER_S), []
    async with running(store) as journal:
        journal.watch(lambda: changes.append(journal.stalled))
        for _ in range(5):
            journal.note(b"k", b"")
            await journal.flushed()
            await trio.sleep(0.2 * ANSWER_S)
    assert len(store.batches) == 5
    assert changes == []


async def test_what_takes_long_after_a_commit_is_told_too(autojump_clock):
    """Nothing else is written meanwhile; its end is told although it has failed for want of room."""

    class SlowStore(MemoryStore):
        async def tidy(self):
            await trio.sleep(2 * ANSWER_S)
            raise NotWrittenError("no room on the disk")

    changes = []
    async with running(SlowStore()) as journal:
        journal.watch(lambda: changes.append(journal.stalled))
        journal.note(b"k", b"")
        await trio.sleep(3 * ANSWER_S)
    assert [told and told.reason for told in changes] == ["the disk has not answered for 5 s", None]


async def test_what_is_wrong_with_the_disk_may_change(autojump_clock):
    """A full disk that then does not answer, and answers that it is full, is three messages with one beginning."""
    store, changes = MemoryStore(lambda: 0.0), []
    async with running(store) as journal:
        journal.watch(lambda: changes.append(journal.stalled))
        store.is_full = True
        journal.note(b"k", b"")
        await trio.sleep(RETRY_S / 2)
        store.answers = trio.Event()
        await trio.sleep(RETRY_S + ANSWER_S)
        store.answers.set()
        await trio.sleep(3 * RETRY_S)
    full, silent = Stalled(0, "no room on the disk"), Stalled(0, "the disk has not answered for 5 s")
    assert changes == [full, silent, full]


async def test_a_session_hears_of_the_last_change_only(autojump_clock):
    """A stall that has ended before a session asks is no news; one that began again is."""
    store = MemoryStore(lambda: 0.0)
    async with running(store) as journal:
        notices = Notices(journal)
        for is_full in (True, False, True):
            store.is_full = is_full
            journal.note(b"k", b"")
            await trio.sleep(2 * RETRY_S)
        assert isinstance(notices.next(), Stalled)
        store.is_full = False
        await trio.sleep(2 * RETRY_S)
        assert isinstance(notices.next(), Resumed)
    assert Notices(None).next() is None


async def test_any_other_error_ends_the_journal(autojump_clock):
    """After a failed sync nobody knows what the disk has: nothing is tried again, and nobody is told that anything is durable."""
    store, feed = MemoryStore(), Reader()
    store.failure = OSError("input/output error")
    journal = Journal(store, encode, lambda: 0)
    add(journal, feed, 1, "a")
    with pytest.raises(ExceptionGroup) as ended:
        await journal.run()
    assert ended.group_contains(OSError, match="input/output error")
    assert (store.attempts, feed.told) == (1, [])


async def test_a_store_is_tidied_when_readers_know(autojump_clock):
    """After each commit, which nobody waits longer for; that there is no room is left to the next commit."""
    reader, known = Reader(), []

    class FullStore(MemoryStore):
        async def tidy(self):
            known.append(reader.told[:])
            raise NotWrittenError("no room on the disk")

    async with running(FullStore()) as journal:
        for number in (1, 2):
            journal.follow(reader, number)
            await trio.sleep(1)
    assert known == [[1], [1, 2]]


# ---- the thread


class Blocking:
    """A store whose commits block until ``release`` is set; then it is gone with the second one."""

    def __init__(self):
        self.release = threading.Event()
        self.committed = []
        self.tidied = 0

    def commit(self, batch):
        self.release.wait(10)
        self.committed.append(batch)
        if len(self.committed) == 2:
            raise OSError("gone")

    @property
    def needs_tidying(self):
        return bool(self.committed)

    def tidy(self):
        self.tidied += 1


async def test_the_writer_thread_commits_beside_the_loop():
    """Tasks go on while the disk works, also if all other threads are taken; a result comes back, and so does an error."""
    store = Blocking()
    trio.to_thread.current_default_thread_limiter().total_tokens = 1
    writer = WriterThread(store)
    await writer.tidy()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, store.release.wait, 10)
        nursery.start_soon(writer.commit, Batch(1, 1))
        for _ in range(10):
            await trio.sleep(0.001)
        assert not store.committed
        store.release.set()
    assert store.committed == [Batch(1, 1)]
    assert store.tidied == 0
    await writer.tidy()
    assert store.tidied == 1
    with pytest.raises(OSError, match="gone"):
        await writer.commit(Batch(2, 1))


async def test_a_disk_that_does_not_answer_does_not_keep_the_daemon():
    """The commit that hangs is left to its thread."""
    store = Blocking()
    with trio.move_on_after(0.05) as scope:
        await WriterThread(store).commit(Batch(1, 1))
    store.release.set()
    assert scope.cancelled_caught


async def test_a_thread_that_hangs_is_told(monkeypatch):
    """The event loop goes on and says so; what the thread does then is durable."""
    monkeypatch.setattr(journal_module, "ANSWER_S", 0.05)
    store, reader = Blocking(), Reader()
    async with running(WriterThread(store)) as journal:
        changed = trio.Event()
        journal.watch(lambda: changed.set())
        journal.follow(reader, 1)
        with trio.fail_after(180):
            await changed.wait()
            assert journal.stalled is not None
            assert reader.told == []
            store.release.set()
            await journal.flushed()
    assert (journal.stalled, reader.told) == (None, [1])
