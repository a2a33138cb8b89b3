"""The events of one filter in one encoding: batches that all subscribers with this filter and encoding share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct

from ykactor.actors.event_filter import Encode, EventFilter
from ykactor.actors.ring import Ring

#: Events in one batch to a subscriber: making it takes less than 1 ms.
BATCH_MAX = 256
#: Events that are scanned for one batch: it takes about 1 ms (``EventFilter.wants``), and then others get their turn.
SCAN_MAX = 1024
#: Parts kept for other subscribers, of all selections together.
_KEPT_MAX = 256


class Format(NamedTuple):
    """How events are written. The same functions for all subscribers of one encoding.

    Attributes:
        encode: encodes event records, each on its own.
        pack: makes of encoded events what a ``Writer`` writes.
    """

    encode: Encode
    pack: Callable[[Sequence[bytes]], Any]


class Batch(Struct, frozen=True):
    """Encoded events that the subscriber wants, in order, up to 64 KiB and one event; ``packed`` is what is written."""

    events: list[bytes]
    packed: Any


class Part(NamedTuple):
    """The events after a number: a batch of those that are wanted, if any, and the number up to which it goes."""

    batch: Batch | None
    last_wanted: int
    end: int


class Kept:
    """The newest parts of all selections."""

    def __init__(self) -> None:
        self._parts: dict[tuple[Selection, int], Part] = {}

    def get(self, selection: Selection, after: int) -> Part | None:
        """The part of the selection that begins after this number."""
        return self._parts.get((selection, after))

    def put(self, selection: Selection, after: int, part: Part) -> None:
        """Keep the part, and drop the oldest if there are too many."""
        self._parts.pop((selection, after), None)
        self._parts[selection, after] = part
        if len(self._parts) > _KEPT_MAX:
            del self._parts[next(iter(self._parts))]


class Selection:
    """Makes each batch once.

    Args:
        wanted: the events to deliver.
        kept: shared by all selections of a feed.
    """

    def __init__(self, ring: Ring, form: Format, wanted: EventFilter, kept: Kept) -> None:
        self._ring = ring
        self._form = form
        #: None: every event is wanted.
        self._wants = None if wanted == EventFilter() else wanted.wants
        self._kept = kept

    def part(self, after: int, newest: int) -> Part:
        """What follows the event ``after``, which is older than ``newest``; the events must be in the ring."""
        part = self._kept.get(self, after)
        if part is None or part.end > newest:
            part = self._make(range(after + 1, min(newest, after + SCAN_MAX) + 1))
            self._kept.put(self, after, part)
        return part

    def has_part(self, after: int, newest: int) -> bool:
        """Whether this part was made before."""
        part = self._kept.get(self, after)
        return part is not None and part.end <= newest

    def _make(self, numbers: range) -> Part:
        wanted = self._wanted(numbers)
        if not wanted:
            return Part(None, 0, numbers[-1])
        events = self._ring.encoded(wanted, self._form.encode)
        last = wanted[len(events) - 1]
        is_cut = len(events) == BATCH_MAX or len(events) < len(wanted)
        return Part(Batch(events, self._form.pack(events)), last, last if is_cut else numbers[-1])

    def _wanted(self, numbers: range) -> Sequence[int]:
        """The numbers of the first events in the range that are wanted, at most one batch."""
        wants, event = self._wants, self._ring.event
        if wants is None:
            return numbers[:BATCH_MAX]
        return list(islice((number for number in numbers if wants(event(number))), BATCH_MAX))
