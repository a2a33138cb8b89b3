"""The journal's task: it commits turns and messages in groups, and tells their readers what is durable.

The feed adds each turn when its events are numbered, and outboxes add each message. Neither lets anybody read what is not
durable: after a commit the journal raises the number up to which each of them may be read. While one group is committed the next
one gathers. What waits is bounded: whoever causes turns or messages waits for ``room`` before. A ``WriterThread`` does the
work that blocks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

import msgspec
import trio
from msgspec import Raw, Struct, field
from outcome import Outcome
from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    current_task,
    current_trio_token,
    reschedule,
    start_thread_soon,
    wait_task_rescheduled,
)
from trio.testing import wait_all_tasks_blocked

from ykactor.actors.commands import Publication
from ykactor.actors.durations import Histogram
from ykactor.core.messages.facts import Fact
from ykactor.core.turn.turn import Cause
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import NEVER, S_NS
from ykactor.journal.errors import NotWrittenError
from ykactor.journal.transaction import Batch, change_text


class AsyncStore(Protocol):
    """Writes batches, one after the other."""

    async def commit(self, batch: Batch) -> None:
        """Return when the batch is durable.

        Raises:
            NotWrittenError: see there. After any other exception nothing may be written any more.
        """

    async def tidy(self) -> bool:
        """Do what takes longer and can wait; called after each commit, when all know of it. Whether there was anything to do."""

    async def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """The durable records whose keys begin with ``prefix``: key and record. May be called during a commit."""


class BlockingStore(Protocol):
    """An ``AsyncStore`` whose methods block; they are called in any thread, but one at a time unless they say otherwise."""

    def commit(self, batch: Batch) -> object:
        """Commit a batch, like ``AsyncStore.commit``."""

    @property
    def needs_tidying(self) -> bool:
        """True if there is something to tidy; does not block."""

    def tidy(self) -> None:
        """Tidy, like ``AsyncStore.tidy``."""

    def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """The rows of ``AsyncStore.rows``; unlike the others, it may be called while another call goes on."""


class WriterThread:
    """A store whose blocking work is done in a thread.

    If a call is cancelled, the thread is left alone: a disk that does not answer must not keep the daemon from ending.
    """

    def __init__(self, store: BlockingStore) -> None:
        self._store = store

    async def commit(self, batch: Batch) -> None:
        await self._in_thread(partial(self._store.commit, batch))

    async def tidy(self) -> bool:
        """Tidy in the thread, or do nothing at once if there is nothing to tidy."""
        if not self._store.needs_tidying:
            return False
        await self._in_thread(self._store.tidy)
        return True

    async def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Read in a thread of its own, so that commits do not wait for it."""
        return await trio.to_thread.run_sync(self._store.rows, prefix, abandon_on_cancel=True)

    async def _in_thread(self, work: Callable[[], object]) -> None:
        """Wait for the work: in fewer steps than ``trio.to_thread``, and no limit of threads delays a commit."""
        await trio.lowlevel.checkpoint_if_cancelled()
        task, token, is_awaited = current_task(), current_trio_token(), True

        def wake(result: Outcome[object]) -> None:
            if is_awaited:
                reschedule(task, result)

        def deliver(result: Outcome[object]) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(wake, result)

        def give_up(_: RaiseCancelT) -> Abort:
            nonlocal is_awaited
            is_awaited = False
            return Abort.SUCCEEDED

        start_thread_soon(work, deliver)
        await wait_task_rescheduled(give_up)


class History(Struct):
    """The history of all partitions.

    Attributes:
        keep_bytes, keep_ns: how much of it is kept, compressed, and for how long.
        written: the bytes of turns that were recorded so far, not compressed.
        bases_wanted: how often a base of every partition was asked for.
    """

    keep_bytes: int = NEVER
    keep_ns: int = NEVER
    written: int = 0
    bases_wanted: int = 0

    def ask_for_bases(self) -> None:
        """Have every partition made anew soon, so that its next turn has a base."""
        self.bases_wanted += 1


class Since(NamedTuple):
    """The newest base of a partition that goes on from its history.

    Attributes:
        at_ns: its Unix time; 0 if there is none.
        bytes: its size.
        written: the bytes of turns of all partitions that were recorded after it, not compressed.
    """

    at_ns: int = 0
    bytes: int = 0
    written: int = 0


class Recording(NamedTuple):
    """The things that a partition needs to record its turns.

    Attributes:
        room: waits until there is room for what a turn publishes.
        encode: makes the text of a cause.
        history: of all partitions.
        on_failure: called if a partition cannot be made anew, which is a bug; it goes on as it is, and does not try it again.
        is_wanted: whether anybody needs a record at present; without a journal only a replica does.
        has_rows: whether the records have what has changed in the state of the partition, which only a journal needs.
        since: the newest base of a partition that begins without one.
    """

    room: Callable[[], Awaitable[None]]
    encode: Callable[[Cause], bytes]
    history: History
    on_failure: Callable[[PartitionName, Exception], object]
    is_wanted: Callable[[], bool] = lambda: True
    has_rows: bool = True
    since: Since = Since()


#: The longest that the journal waits for more before a commit, while the daemon is busy.
WINDOW_S = 0.005
#: The longest that it waits for more even so, because there was more after the last commit.
PAUSE_MAX_S = 0.002
#: When a batch is tried again while the disk is full: at first, and at most. A large one takes 0.4 s each time.
RETRY_S = 1.0
RETRY_MAX_S = 5.0
#: A disk that has not answered for so long is reported; it is waited for as long as it takes.
ANSWER_S = 5.0
#: With more that is not durable there is no room. Half of what the ring and the outbox keep: turns that have begun come on top.
EVENTS_MAX = 50_000
MESSAGES_MAX = 5_000
#: Less would stop the partitions during each checkpoint of the database when they have much to do.
BYTES_MAX = 2**26


class Confirming(Protocol):
    """Others that have to have what is committed before it is durable (``standbys.Standbys``)."""

    def committed(self) -> bool:
        """Tell of a commit, and whether ``confirmed`` has to be waited for."""

    def not_committed(self) -> None:
        """Tell that a commit has failed."""

    async def confirmed(self, stall: Callable[[str], None], now_ns: Callable[[], int]) -> None:
        """Return when what was committed is durable; ``stall`` is called with a sentence if that takes longer than it should."""


class Reader(Protocol):
    """Shows to others what is durable, and nothing else."""

    def raise_durable(self, number: int) -> None:
        """Show what it has up to this number: that is durable."""


class Stalled(Struct, frozen=True):
    """The journal is not written since the Unix time ``since_ns``, because of ``reason``: nothing becomes durable."""

    since_ns: int
    reason: str


class Resumed(Struct, frozen=True):
    """The journal is written again."""


class Stalling(Protocol):
    """A journal that may not be written at times: the own one, or that of the daemon of a replica."""

    @property
    def stalled(self) -> Stalled | None: ...


class Notices:
    """The notices of the journal for one session: each change, but of several since the last call only the last one."""

    def __init__(self, journal: Stalling | None) -> None:
        self._journal = journal
        self._told: Stalled | None = None

    def next(self) -> Stalled | Resumed | None:
        """The change; None if there is none."""
        if self._journal is None or self._journal.stalled is self._told:
            return None
        self._told = self._journal.stalled
        return Resumed() if self._told is None else self._told


class _Flush:
    """A reader that waits for one commit."""

    def __init__(self) -> None:
        self.reached = trio.Event()

    def raise_durable(self, _: int) -> None:
        self.reached.set()


class _Entry(Struct, omit_defaults=True):
    """A turn in the history, but for its facts; without a number they belong to no turn."""

    partition: str
    number: int | None = None
    now_ns: int | None = None
    cause: Raw | None = None


class _Group(Struct):
    """The content of one commit, and the numbers that are durable then."""

    batch: Batch
    bytes: int = 0
    durable: dict[Reader, int] = field(default_factory=dict)

    def following(self) -> _Group:
        """The next group."""
        batch = self.batch
        return _Group(Batch(batch.first_event + batch.events_count, batch.first_message + batch.messages_count))


class ResponseTimer:
    """Watches one call after the other, which may never return: it tells when one takes too long, without touching it.

    Args:
        limit_s: how long a call may take.
        on_late: called once for each call that takes longer, while it still goes on; must not block or raise.
    """

    def __init__(self, limit_s: float, on_late: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._on_late = on_late
        #: When the present call is late.
        self._due_s = inf
        self._waiting = trio.CancelScope()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The block is a call."""
        self._due_s = trio.current_time() + self._limit_s
        # To change a deadline takes longer than all the rest. An earlier one is let be: when it comes, ``run`` looks again.
        if self._waiting.deadline == inf:
            self._waiting.deadline = self._due_s
        try:
            yield
        finally:
            self._due_s = inf

    async def run(self) -> None:
        """Tell of late calls until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._due_s) as self._waiting:
                await trio.sleep_forever()
            if self._due_s <= trio.current_time():
                self._due_s = inf
                self._on_late()


class Journal:
    """Commits what is added, in the order in which it is added.

    Args:
        store: where it is committed.
        encode: makes a JSON array of facts.
        now_ns: the present Unix time.
        last_event, last_message: the numbers of the newest event and message in the store.
        history: how much of the history is kept; by default all of it.
        standbys: those that have to have it too; None: it is enough that it is in the store.

    Attributes:
        history: the same, with what was written.
        stalled: since when and why the journal is not written; None if it is.
        commit_times: in seconds, until what was committed together was durable.
        tidied_ns: the Unix time of the last checkpoint of the database; None before the first one.
    """

    def __init__(
        self,
        store: AsyncStore,
        encode: Callable[[Sequence[Fact]], bytes],
        now_ns: Callable[[], int],
        *,
        last_event: int = 0,
        last_message: int = 0,
        history: History | None = None,
        standbys: Confirming | None = None,
    ) -> None:
        self.encode = encode
        self.history = History() if history is None else history
        self.stalled: Stalled | None = None
        self.commit_times = Histogram()
        self.tidied_ns: int | None = None
        self._store = store
        self._standbys = standbys
        self._now_ns = now_ns
        self._gathered = _Group(Batch(last_event + 1, last_message + 1))
        self._committing: _Group | None = None
        #: How long it waits before the next commit even if nothing is under way.
        self._pause_s = 0.0
        self._is_in_turn = False
        self._turn_ended = trio.lowlevel.ParkingLot()
        self._added = trio.Event()
        self._freed = trio.lowlevel.ParkingLot()
        self._watchers: list[Callable[[], None]] = []
        self._timer = ResponseTimer(ANSWER_S, self._on_no_answer)

    def watch(self, on_change: Callable[[], None]) -> None:
        """``on_change`` is called each time ``stalled`` has changed; must not block or raise."""
        self._watchers.append(on_change)

    # ---- adding; never waits

    def begin_turn(self) -> None:
        """Begin a turn: what is added up to ``end_turn`` is committed together."""
        self._is_in_turn = True

    def end_turn(self) -> None:
        """End the turn: all that belongs to it was added."""
        self._is_in_turn = False
        self._turn_ended.unpark_all()

    def add(self, feed: Reader, publication: Publication, facts: list[bytes], names: set[str], last_event: int) -> None:
        """Add a turn.

        Args:
            facts: those of the publication, in any number of arrays.
            names: what they are about.
            last_event: the number of its last event, or if it has none, of the one before.
        """
        group, turn = self._gathered, publication.turn
        entry = _Entry(publication.partition)
        if publication.ended:
            self.delete(publication.ended)
        if turn is not None:
            entry.number, entry.now_ns, entry.cause = turn.number, turn.now_ns, Raw(turn.cause)
            self._change(turn.changes)
            if turn.base is not None:
                group.batch.bases[len(group.batch.turns)] = turn.base
                group.bytes += len(turn.base)
        # The facts of a large turn have some MB: they are copied as rarely as possible.
        joined = b",".join([memoryview(part)[1:-1] for part in facts])
        data = b'%b,"facts":[%b]}' % (msgspec.json.encode(entry).removesuffix(b"}"), joined)
        group.batch.turns.append(data)
        self.history.written += len(data)
        group.batch.names |= names
        group.batch.events_count = last_event + 1 - group.batch.first_event
        group.bytes += len(data)
        self.follow(feed, last_event)

    def post(self, outbox: Reader, first: int, messages: Sequence[bytes]) -> None:
        """Add messages to the resource manager; the first one has this number."""
        group, batch = self._gathered, self._gathered.batch
        assert first == batch.first_message + batch.messages_count, "a registration goes on with the numbers of the one before"
        batch.messages_count += len(messages)
        batch.messages += messages
        group.bytes += sum(map(len, messages))
        self.follow(outbox, first + len(messages) - 1)

    def note(self, key: bytes, data: bytes | None) -> None:
        """Add a record; None deletes it."""
        self._change([change_text(key, data)])
        self._added.set()

    def delete(self, keys: Iterable[bytes]) -> None:
        """Delete records."""
        self._change([change_text(key, None) for key in keys])
        self._added.set()

    def _change(self, texts: list[bytes]) -> None:
        group = self._gathered
        group.batch.changes += texts
        group.bytes += sum(map(len, texts))

    def follow(self, reader: Reader, number: int) -> None:
        """Raise the durable number of the reader when everything that was added so far is durable."""
        self._gathered.durable[reader] = number
        self._added.set()

    # ---- waiting

    @property
    def has_room(self) -> bool:
        """True if more input may be taken."""
        events_count, messages_count, size = self.waiting()
        return size < BYTES_MAX and events_count < EVENTS_MAX and messages_count < MESSAGES_MAX

    def waiting(self) -> tuple[int, int, int]:
        """The number of events that are not durable yet, that of messages, and the bytes of all."""
        gathered, committing = self._gathered, self._committing
        if committing is None:
            return gathered.batch.events_count, gathered.batch.messages_count, gathered.bytes
        return (
            gathered.batch.events_count + committing.batch.events_count,
            gathered.batch.messages_count + committing.batch.messages_count,
            gathered.bytes + committing.bytes,
        )

    async def room(self) -> None:
        """Wait until there is room; a checkpoint only if there is none."""
        while not self.has_room:
            await self._freed.park()

    async def flushed(self) -> None:
        """Wait until all that was added so far is durable."""
        group = self._gathered if self._added.is_set() else self._committing
        if group is not None:
            flush = _Flush()
            group.durable[flush] = 0
            await flush.reached.wait()

    async def rows(self, partition: PartitionName) -> list[tuple[bytes, bytes]]:
        """The keys and records of a partition after all that was added so far, when that is durable."""
        await self.flushed()
        return await self._store.rows(msgspec.json.encode([partition]).removesuffix(b"]") + b",")

    # ---- committing

    async def run(self) -> None:
        """Commit until cancelled. An error of the store, but for a full disk, is raised in a group."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._timer.run, name="journal timer")
            await self._commit_all()

    async def _commit_all(self) -> None:
        while True:
            await self._added.wait()
            await self._gather()
            group = self._committing = self._gathered
            self._gathered, self._added = group.following(), trio.Event()
            group.batch.at_ns = self._now_ns()
            since_s = trio.current_time()
            await self._commit(group.batch)
            self._pause_s = min(trio.current_time() - since_s, PAUSE_MAX_S) if self._added.is_set() else 0.0
            self.commit_times.observe(trio.current_time() - since_s)
            self._committing = None
            for reader, number in group.durable.items():
                reader.raise_durable(number)
            self._freed.unpark_all()
            await self._tidy()

    async def _gather(self) -> None:
        """Wait until nothing is left that the daemon could add: each commit costs as much as some decisions.

        So the acknowledgement of a request, and what was decided at once, share the commit of its turn. When more is added during
        each commit, half of the time is for gathering, and commits are larger.
        """
        with trio.move_on_after(WINDOW_S):
            if self._pause_s:
                await trio.sleep(self._pause_s)
            # Of trio's testing tools, because only the event loop knows that no task can run and no socket has anything, and
            # nothing else tells: its statistics leave out the tasks of the present step, an instrument takes 70 us instead of 10,
            # and the shortest sleep 1 ms.
            await wait_all_tasks_blocked()
        while self._is_in_turn:
            await self._turn_ended.park()

    async def _commit(self, batch: Batch) -> None:
        """Return when the batch is durable; while the disk is full, try again and again."""
        pause_s = RETRY_S
        while True:
            try:
                with self._timer.watched():
                    await self._store.commit(batch)
            except NotWrittenError as reason:
                if self._standbys is not None:
                    self._standbys.not_committed()
                self._stall(str(reason), self._now_ns())
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            else:
                break
        if self._standbys is not None and self._standbys.committed():
            await self._standbys.confirmed(lambda reason: self._stall(reason, self._now_ns()), self._now_ns)
        self._resume()

    async def _tidy(self) -> None:
        with self._timer.watched(), suppress(NotWrittenError):  # the next commit finds it out too
            if await self._store.tidy():
                self.tidied_ns = self._now_ns()
        self._resume()

    def _on_no_answer(self) -> None:
        self._stall(f"the disk has not answered for {ANSWER_S:g} s", self._now_ns() - round(ANSWER_S * S_NS))

    def _stall(self, reason: str, since_ns: int) -> None:
        """Tell what keeps the journal from being written; it may be something else than before."""
        if self.stalled is None:
            self._set_stalled(Stalled(since_ns, reason))
        elif self.stalled.reason != reason:
            self._set_stalled(Stalled(self.stalled.since_ns, reason))

    def _resume(self) -> None:
        if self.stalled is not None:
            self._set_stalled(None)

    def _set_stalled(self, stalled: Stalled | None) -> None:
        self.stalled = stalled
        for on_change in self._watchers:
            on_change()
