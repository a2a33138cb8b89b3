"""One subscriber's cursor into the feed, and the messages that it gets: batches, gaps, bookmarks and notices."""

from math import inf
from typing import Any, Protocol

import trio
from msgspec import Struct

from ykactor.actors.feed import FeedActor
from ykactor.actors.journal import Notices, Resumed, Stalled
from ykactor.actors.selection import Batch, EventFilter, Format, View

#: When a subscriber has not read everything, more is written to it after this time, which doubles each time up to the maximum.
RETRY_S = 0.02
RETRY_MAX_S = 0.5
#: A subscriber without events gets a bookmark (``Reached``) after this long ...
BOOKMARK_S = 10.0
#: ... and after this long if events that it does not want have moved its cursor.
FILTERED_BOOKMARK_S = 1.0


class Missed(Struct, frozen=True):
    """The subscriber was too slow: the events ``first`` to ``last`` (inclusive) were overwritten."""

    first: int
    last: int


class Reached(Struct, frozen=True):
    """A bookmark: the subscriber has all events that it wants up to ``sequence``."""

    sequence: int


class Unread(Struct, frozen=True):
    """The subscriber has not read what was written for longer than the writer allows."""


class Writer(Protocol):
    """Writes batches to a subscriber without waiting, and without raising: its task learns elsewhere that a connection ended."""

    def write(self, packed: Any) -> bool:
        """Keep this for ``flush``, behind everything before; whether there is room for more."""

    def flush(self) -> bool:
        """Send what was kept; whether nothing is left."""

    @property
    def is_overdue(self) -> bool:
        """True if something is left for too long."""


Message = Batch | Missed | Reached | Unread | Stalled | Resumed


class Subscription:
    """One subscriber's cursor.

    Args:
        form: the same object for all subscribers of one encoding.
        wanted: the events to deliver.
        after: the number of the last event that the subscriber knows.
        view: what it may see; None: everything.
    """

    def __init__(self, feed: FeedActor, form: Format, wanted: EventFilter, after: int, view: View | None = None) -> None:
        self._feed = feed
        self._ring = feed.ring
        self._selection = feed.selection(form, wanted, view)
        self._cursor = after
        #: The last event that was there at the beginning: a bookmark tells at once when the subscriber has all up to it.
        self._past = feed.ring.durable
        #: The last number that the subscriber was notified of.
        self._announced = after
        self._notices = Notices(feed.stalling)
        #: The term of the last event that the subscriber knows.
        self._term = feed.term
        self._spoke_at = trio.current_time()
        self._writer: Writer | None = None
        #: Whether the subscriber has not read what was written. Nothing more is written before ``_retry_at``, and no bookmark.
        self._is_blocked = False
        self._retry_at = -inf
        self._retry_s = RETRY_S
        #: Around the wait of ``next``; its deadline is that of the next bookmark.
        self._waiting = trio.CancelScope()
        #: What ``next`` has to return, and set when there is something.
        self._message: Message | None = None
        self._has_message = trio.Event()

    @property
    def behind(self) -> int:
        """The number of events that it has not been sent yet, whether it wants them or not."""
        return max(0, self._ring.durable - self._cursor)

    async def next(self, writer: Writer | None = None) -> Message:
        """Wait for the next message to the subscriber; always a checkpoint. May be cancelled without losing a message.

        Args:
            writer: gets all batches as they come, so other messages only are returned; nothing but batches and their order is
                left to it.
        """
        while True:
            self._writer = writer
            with trio.CancelScope(deadline=self._bookmark_at()) as self._waiting:
                self._feed.fan_out.join(self)
                try:
                    await self._has_message.wait()
                finally:
                    self._feed.fan_out.leave(self)
            message = self._handed() or self._take_bookmark()
            if message is not None:
                return message

    def next_nowait(self) -> Message | None:
        """The next message to the subscriber; None if there is none at present."""
        message = self._handed() or self._term_bookmark()
        while message is None and self._cursor < self._ring.durable:
            message = self._take(self._ring.durable, trio.current_time())
        return message or self._take_bookmark()

    # ---- in a round of the feed

    def serve(self, target: int, now: float) -> float:
        """Write batches, or hand another message to ``next`` (``fan_out.Subscriber``)."""
        if self._message is not None:  # its task has not run yet
            return inf
        if now < self._retry_at:
            return self._retry_at
        if self._writer is not None and not self._writer.flush():
            return self._retry(self._writer, now)
        if self._is_blocked:
            self._is_blocked, self._retry_s = False, RETRY_S
            self._waiting.deadline = min(self._waiting.deadline, self._bookmark_at())
        notice = self._notices.next() or self._term_bookmark()
        if notice is not None:
            self._hand(notice)
            return inf
        if self._cursor >= target:
            return inf
        message = self._write(target, now)
        if message is not None:
            self._hand(message)
            return inf
        if self._cursor > self._announced:
            self._waiting.deadline = min(self._waiting.deadline, self._bookmark_at())
        if self._writer is not None and not self._writer.flush():
            return self._retry(self._writer, now)
        return inf if self._cursor >= target else now

    def _write(self, target: int, now: float) -> Message | None:
        """Write the batches that were made for others, and at most one more, which takes longer. Returns any other message."""
        has_room, is_new = True, False
        while has_room and not is_new and self._cursor < target:
            is_new = not self._selection.has_part(self._cursor, target)
            message = self._take(target, now)
            if isinstance(message, Batch) and self._writer is not None:
                has_room = self._writer.write(message.packed)
            elif message is not None:
                return message
        return None

    def _retry(self, writer: Writer, now: float) -> float:
        if writer.is_overdue:
            self._hand(Unread())
            return inf
        self._is_blocked = True
        self._retry_at = now + self._retry_s
        self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
        return self._retry_at

    def _hand(self, message: Message) -> None:
        self._message = message
        self._has_message.set()

    def _handed(self) -> Message | None:
        message, self._message, self._has_message = self._message, None, trio.Event()
        return message

    # ---- messages

    def _take(self, newest: int, now: float) -> Batch | Missed | None:
        if self._cursor + 1 < self._ring.lowest:
            missed = Missed(self._cursor + 1, self._ring.lowest - 1)
            self._cursor = self._announced = missed.last
            self._spoke_at = now
            return missed
        if self._cursor >= newest:
            return None
        part = self._selection.part(self._cursor, newest)
        self._cursor = part.end
        if part.batch is not None:
            self._announced = part.last_wanted
            self._spoke_at = now
        return part.batch

    def _term_bookmark(self) -> Reached | None:
        """A bookmark before the first event of another term: the subscriber resumes by number and term."""
        if self._feed.term == self._term:
            return None
        self._term = self._feed.term
        return Reached(self._cursor)

    def _take_bookmark(self) -> Reached | None:
        if trio.current_time() < self._bookmark_at():
            return None
        self._announced = self._cursor
        self._spoke_at = trio.current_time()
        return Reached(self._cursor)

    def _bookmark_at(self) -> float:
        if self._is_blocked:
            return inf
        if self._announced < self._past <= self._cursor:
            return -inf
        moved = self._cursor > self._announced
        return self._spoke_at + (FILTERED_BOOKMARK_S if moved else BOOKMARK_S)
