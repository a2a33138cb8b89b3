"""The events of one filter and view in one encoding: batches that all subscribers with the same share.

An ``EventFilter`` has the events that a subscriber wants, a ``View`` those that it may see.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Protocol
from weakref import ref

from msgspec import Struct

from ykactor.actors.ring import Encode, EventRecordLike, Ring, first_of
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.values.parts import Steps

#: Events in one batch to a subscriber: making it takes less than 1 ms.
BATCH_MAX = 256
#: Events that are scanned for one batch: it takes about 1 ms (``EventFilter.wants``), and then others get their turn.
SCAN_MAX = 1024
#: The bytes of the parts that are kept for other subscribers, of all selections together: about 250 full batches, or many more
#: parts with few events, as filters and views have them. A part takes some memory without any event too.
_KEPT_BYTES_MAX = 2**24
_PART_BYTES = 1024


class Format(NamedTuple):
    """The way in which events are written. The same functions for all subscribers of one encoding.

    Attributes:
        encode: encodes event records, each on its own.
        pack: makes of encoded events what a ``Writer`` writes.
    """

    encode: Encode
    pack: Callable[[Sequence[bytes]], Any]


class EventFilter(Struct, frozen=True, dict=True):
    """The events that a subscriber wants; an empty field matches all. ``queues`` are paths and include all queues below."""

    partitions: frozenset[str] = frozenset()
    queues: tuple[str, ...] = ()
    applications: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()

    def wants(self, event: EventRecordLike) -> bool:
        """True if the event matches every field. Cost: about 1 us, however many entries the fields have."""
        return (
            (not self.partitions or event.partition in self.partitions)
            and (not self.kinds or event.type in self.kinds or event.event_change_detail in self.kinds)
            and (not self.applications or _application_of(event) in self.applications)
            and (not self.queues or self._in_queues(event))
        )

    def _in_queues(self, event: EventRecordLike) -> bool:
        path = event.queue_name or (event.object_id if event.type == "QUEUE" else "")
        below = f"{path}."
        nearest = bisect_right(self._prefixes, below) - 1  # what is between a prefix and a longer text has this prefix too
        return nearest >= 0 and below.startswith(self._prefixes[nearest])

    @cached_property
    def _prefixes(self) -> list[str]:
        """The paths in ``queues`` with a dot behind them, sorted; none is below another one."""
        prefixes: list[str] = []
        for prefix in sorted(f"{queue}." for queue in self.queues):
            if not prefixes or not prefix.startswith(prefixes[-1]):
                prefixes.append(prefix)
        return prefixes


def _application_of(event: EventRecordLike) -> str:
    """The application ID of an event, or ""; its field depends on the type (EV-1)."""
    if event.type == "APP":
        return event.object_id
    return "" if event.type in ("NODE", "AUDIT") else event.reference_id


class View(Protocol):
    """Equal views show the same, so their subscribers share batches and snapshots."""

    def __hash__(self) -> int: ...

    def of_event(self, event: Any) -> Any | None:
        """The event itself, a new one with less in it, or None: the event is hidden."""

    def of_state(self, state: PartitionStatus) -> Steps[PartitionStatus]:
        """The part of a partition's state that is shown; the state stays as it is."""

    def shows_partition(self, partition: str) -> bool:
        """True if anything of the partition is shown."""


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
    """The newest parts of all selections, and what bounds their bytes. A selection has its own parts, which end with it.

    What they have counted is counted until they would be the oldest.
    """

    def __init__(self) -> None:
        #: The size of each part, the oldest first.
        self._sizes: dict[tuple[ref[Selection], int], int] = {}
        self._bytes = 0

    def put(self, selection: Selection, after: int, part: Part) -> None:
        """Keep the part, and drop the oldest if there are too many; the new one is kept in any case."""
        place = ref(selection), after
        self._bytes -= self._sizes.pop(place, 0)
        self._sizes[place] = _size_of(part)
        self._bytes += self._sizes[place]
        selection.parts[after] = part
        while self._bytes > _KEPT_BYTES_MAX and len(self._sizes) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest, after = place = next(iter(self._sizes))
        self._bytes -= self._sizes.pop(place)
        selection = oldest()
        if selection is not None:
            del selection.parts[after]


def _size_of(part: Part) -> int:
    return _PART_BYTES + (sum(map(len, part.batch.events)) if part.batch is not None else 0)


class Selection:
    """Makes each batch once.

    Args:
        wanted: the events to deliver.
        view: what is shown of them; None: everything.
        kept: shared by all selections of a feed.

    Attributes:
        parts: those that ``kept`` keeps, by the numbers that they follow.
    """

    def __init__(self, ring: Ring, form: Format, wanted: EventFilter, view: View | None, kept: Kept) -> None:
        self._ring = ring
        self._form = form
        #: None: every event is wanted.
        self._wants = None if wanted == EventFilter() else wanted.wants
        self._view = view
        self._kept = kept
        self.parts: dict[int, Part] = {}

    def part(self, after: int, newest: int) -> Part:
        """The part that follows the event ``after``, which is older than ``newest``; the events must be in the ring."""
        part = self.parts.get(after)
        if part is None or part.end > newest:
            part = self._make(range(after + 1, min(newest, after + SCAN_MAX) + 1))
            self._kept.put(self, after, part)
        return part

    def has_part(self, after: int, newest: int) -> bool:
        """True if this part was made before."""
        part = self.parts.get(after)
        return part is not None and part.end <= newest

    def _make(self, numbers: range) -> Part:
        wanted, events = self._all(numbers) if self._view is None else self._seen(numbers, self._view)
        if not wanted:
            return Part(None, 0, numbers[-1])
        last = wanted[len(events) - 1]
        is_cut = len(events) == BATCH_MAX or len(events) < len(wanted)
        return Part(Batch(events, self._form.pack(events)), last, last if is_cut else numbers[-1])

    def _all(self, numbers: range) -> tuple[Sequence[int], list[bytes]]:
        """The numbers of the first events in the range that are wanted, at most one batch; and the first of these, encoded."""
        wants, event = self._wants, self._ring.event
        wanted: Sequence[int] = numbers[:BATCH_MAX]
        if wants is not None:
            wanted = list(islice((number for number in numbers if wants(event(number))), BATCH_MAX))
        return wanted, self._ring.encoded(wanted, self._form.encode) if wanted else []

    def _seen(self, numbers: range, view: View) -> tuple[Sequence[int], list[bytes]]:
        """The same of what the view shows. What it changes is encoded for this part only, and the rest once for all.

        The filter is asked about what is shown: else it would tell what is hidden.
        """
        wants, event, of_event, wanted = self._wants, self._ring.event, view.of_event, {}
        for number in numbers:
            seen = of_event(event(number))
            if seen is not None and (wants is None or wants(seen)):
                wanted[number] = seen
                if len(wanted) == BATCH_MAX:
                    break
        same = [number for number, seen in wanted.items() if seen is event(number)]
        changed = {number: seen for number, seen in wanted.items() if seen is not event(number)}
        encoded = dict(zip(changed, self._form.encode([*changed.values()]), strict=True))
        encoded.update(zip(same, self._ring.encoded(same, self._form.encode), strict=False))  # the last ones may be too many
        return list(wanted), first_of([encoded[number] for number in wanted if number in encoded])
