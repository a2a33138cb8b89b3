"""The newest events, numbered without gaps, and which of them are durable."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import accumulate
from typing import Any, Protocol

from msgspec import Struct, msgpack

#: The bytes of the events in one batch, but for the last of them: compressing 64 KiB takes 0.2 ms, or 2 ms if little repeats.
TAKE_BYTES_MAX = 2**16
#: Encodes event records, each on its own.
Encode = Callable[[list[Any]], list[bytes]]


class EventRecordLike(Protocol):
    """The fields of an event that filters read, and those whose texts may be long."""

    @property
    def type(self) -> str: ...
    @property
    def object_id(self) -> str: ...
    @property
    def reference_id(self) -> str: ...
    @property
    def event_change_detail(self) -> str: ...
    @property
    def partition(self) -> str: ...
    @property
    def queue_name(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def preemption(self) -> Struct | None: ...
    @property
    def waited(self) -> Sized | None: ...


#: A code with its time.
_CODE_BYTES = 24


def sizes_of(events: Iterable[EventRecordLike]) -> list[int]:
    """About the bytes of the texts of each event, without the name of its queue, which is shared; cost: 0.2 us for each."""
    return [
        len(event.message)
        + len(event.object_id)
        + len(event.reference_id)
        + (0 if event.preemption is None else len(msgpack.encode(event.preemption)))
        + (0 if event.waited is None else _CODE_BYTES * len(event.waited))
        for event in events
    ]


class Ring:
    """Keeps events up to a number and up to their bytes, but in any case those that are not durable: nobody has read them yet.

    Args:
        events_max, bytes_max: number of events kept, and their bytes with their encoded forms.

    Attributes:
        sequence: the number of the newest event; the first event is 1.
        durable: the number of the newest event that may be read.
        lowest: the number of the oldest event that is kept; without events, of the next event.
    """

    def __init__(self, events_max: int, bytes_max: int) -> None:
        self.sequence = 0
        self.durable = 0
        self.lowest = 1
        self._places = events_max
        self._bytes_max = bytes_max
        #: Places of events that were dropped for their size hold None until they are used again.
        self._events: list[Any] = []
        #: For each place: the size of the event and of its encoded forms.
        self._sizes: list[int] = []
        self._bytes = 0
        #: For each encoding in use: the encoded form of each event, None until it is needed.
        self._encoded: dict[Encode, list[Any]] = {}

    def keep(self, events: list[EventRecordLike], *, durable: bool) -> None:
        """Append events; the ring grows until it is full and then overwrites or drops the oldest.

        Args:
            durable: whether they, and so all before them, may be read at once.
        """
        if not durable and self.sequence + len(events) - self.durable > self._places:
            self._enlarge(max(2 * self._places, self.sequence + len(events) - self.durable))
        while events:
            start = self.sequence % self._places
            fitting = events[: self._places - start]
            end = start + len(fitting)
            sizes = sizes_of(fitting)
            self._bytes += sum(sizes) - sum(self._sizes[start:end])
            self._sizes[start:end] = sizes
            self._events[start:end] = fitting
            for column in self._encoded.values():
                column[start:end] = [None] * len(fitting)
            self.sequence += len(fitting)
            events = events[len(fitting) :]
        self.lowest = max(self.lowest, self.sequence - self._places + 1)
        if durable:
            self.durable = self.sequence
        self._drop_oldest()

    def restore(self, events: list[EventRecordLike], last: int) -> None:
        """Take over events that are durable; the last one has the number ``last``. The ring must be empty."""
        self.skip_to(last - len(events))
        self.keep(events, durable=True)
        self.durable = last

    def skip_to(self, number: int) -> None:
        """Go on after this number, which is higher than the newest: nothing is kept of what is before. All must be durable."""
        self._events, self._sizes, self._bytes = [None] * self._places, [0] * self._places, 0
        self._encoded.clear()
        self.sequence = self.durable = number
        self.lowest = number + 1

    def raise_durable(self, number: int) -> None:
        """The events up to this number may be read."""
        self.durable = number
        self._drop_oldest()

    def event(self, sequence: int) -> EventRecordLike:
        """The event of this number, which must still be kept."""
        found: EventRecordLike = self._events[(sequence - 1) % self._places]
        return found

    def encoded(self, numbers: Sequence[int], encode: Encode) -> list[bytes]:
        """The first events of these numbers as bytes, up to ``TAKE_BYTES_MAX``; at least one.

        An event is encoded once for all subscribers that use ``encode``.
        """
        column = self._encoded.get(encode)
        if column is None:
            column = self._encoded[encode] = [None] * len(self._events)
        positions = [(number - 1) % self._places for number in numbers]
        missing = [position for position in positions if column[position] is None]
        if missing:
            for position, data in zip(missing, encode([self._events[position] for position in missing]), strict=True):
                column[position] = data
                self._sizes[position] += len(data)
                self._bytes += len(data)
        found: list[bytes] = [column[position] for position in positions]
        self._drop_oldest()
        return first_of(found)

    def _drop_oldest(self) -> None:
        """Drop durable events until the others are within the bound of bytes."""
        while self._bytes > self._bytes_max and self.lowest <= self.durable:
            position = (self.lowest - 1) % self._places
            self._bytes -= self._sizes[position]
            self._sizes[position] = 0
            self._events[position] = None
            for column in self._encoded.values():
                column[position] = None
            self.lowest += 1

    def _enlarge(self, places: int) -> None:
        """Have more places, for a turn with more events than the ring has places. It stays so large."""
        numbers = range(self.lowest, self.sequence + 1)
        for column in (self._events, self._sizes, *self._encoded.values()):
            kept = [column[(number - 1) % self._places] for number in numbers]
            column[:] = [0 if column is self._sizes else None] * places
            for number, value in zip(numbers, kept, strict=True):
                column[(number - 1) % places] = value
        self._places = places


def first_of(encoded: list[bytes]) -> list[bytes]:
    """The first of some encoded events, up to ``TAKE_BYTES_MAX`` and one event."""
    return encoded[: 1 + bisect_left(list(accumulate(map(len, encoded))), TAKE_BYTES_MAX)]
