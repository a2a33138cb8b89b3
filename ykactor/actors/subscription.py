"""One subscriber's cursor into the feed, and the messages that it gets: batches, gaps and bookmarks."""

from collections.abc import Sequence
from itertools import islice

import trio
from msgspec import Struct

from ykactor.actors.event_filter import Encode, EventFilter
from ykactor.actors.feed import FeedActor

#: Events in one batch to a subscriber.
BATCH_MAX = 256
#: Events that one subscriber scans before other tasks run.
SCAN_MAX = 4096
#: A subscriber without events gets a bookmark (``Reached``) after this long ...
BOOKMARK_S = 10.0
#: ... and after this long if events that it does not want have moved its cursor.
FILTERED_BOOKMARK_S = 1.0


class Batch(Struct, frozen=True):
    """Encoded events that the subscriber wants, in order; up to 1 MiB and one event (``feed.TAKE_BYTES_MAX``)."""

    events: list[bytes]


class Missed(Struct, frozen=True):
    """The subscriber was too slow: the events ``first`` to ``last`` (inclusive) were overwritten."""

    first: int
    last: int


class Reached(Struct, frozen=True):
    """A bookmark: the subscriber has all events that it wants up to ``sequence``."""

    sequence: int


class Subscription:
    """One subscriber's cursor.

    Args:
        encode: encodes an event record; the same function object for all subscribers of one encoding.
        wanted: the events to deliver.
        after: the number of the last event that the subscriber knows.
    """

    def __init__(self, feed: FeedActor, encode: Encode, wanted: EventFilter, after: int) -> None:
        self._feed = feed
        self._encode = encode
        #: None: every event is wanted.
        self._wants = None if wanted == EventFilter() else wanted.wants
        self._cursor = after
        #: The last number that the subscriber was notified of.
        self._announced = after
        self._spoke_at = trio.current_time()

    async def next(self) -> Batch | Missed | Reached:
        """Wait for the next message to the subscriber; always a checkpoint. May be cancelled without losing a message."""
        while True:
            if self._cursor < self._feed.sequence:  # let other tasks run, also while many events are filtered out
                await trio.lowlevel.checkpoint()
            else:
                with trio.move_on_at(self._bookmark_at()):
                    await self._feed.grown.park()
            message = self._take()
            if message is not None:
                return message

    def next_nowait(self) -> Batch | Missed | Reached | None:
        """The next message to the subscriber; None if there is none at present."""
        while (message := self._take()) is None and self._cursor < self._feed.sequence:
            pass
        return message

    def _take(self) -> Batch | Missed | Reached | None:
        message = self._look()
        if message is not None:
            self._spoke_at = trio.current_time()
        return message

    def _look(self) -> Batch | Missed | Reached | None:
        if self._cursor + 1 < self._feed.lowest:
            missed = Missed(self._cursor + 1, self._feed.lowest - 1)
            self._cursor = self._announced = missed.last
            return missed
        numbers = range(self._cursor + 1, min(self._feed.sequence, self._cursor + SCAN_MAX) + 1)
        wanted = self._wanted(numbers)
        events = self._feed.encoded(wanted, self._encode) if wanted else []
        if len(events) == BATCH_MAX or len(events) < len(wanted):
            self._cursor = wanted[len(events) - 1]
        elif numbers:
            self._cursor = numbers[-1]
        if events:
            self._announced = wanted[len(events) - 1]
            return Batch(events)
        if trio.current_time() >= self._bookmark_at():
            self._announced = self._cursor
            return Reached(self._cursor)
        return None

    def _wanted(self, numbers: range) -> Sequence[int]:
        """The numbers of the first events in the range that the subscriber wants, at most one batch."""
        wants, event = self._wants, self._feed.event
        if wants is None:
            return numbers[:BATCH_MAX]
        return list(islice((number for number in numbers if wants(event(number))), BATCH_MAX))

    def _bookmark_at(self) -> float:
        moved = self._cursor > self._announced
        return self._spoke_at + (FILTERED_BOOKMARK_S if moved else BOOKMARK_S)
