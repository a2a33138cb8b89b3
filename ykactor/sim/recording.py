"""Recordings of the history of a daemon: the lines of both forms.

An exact recording has the turns with their facts, from the states before its begin on. The other form is for runs with another
configuration: it begins with the state at its begin, which is made by replay, and has what was sent (``lives``).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median_low
from typing import NamedTuple

from msgspec import structs

from ykactor import __version__
from ykactor.core.messages.asks import AskID
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.core.records.base import Base, decode_base, encode_base
from ykactor.core.records.encoding import decode
from ykactor.core.records.rows import PartitionRow
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.core.values.times import S_NS
from ykactor.sim.anonymous import pinned
from ykactor.sim.lives import REFUSED, Fate, Kept, Tracker
from ykactor.sim.replay import Replay, ends_partition
from ykactor.wire.history import RecordedTurn, decode_cause, decode_facts
from ykactor.wire.scenario.recording import (
    CHUNK,
    VERSION,
    AfterPreemption,
    End,
    Life,
    Line,
    Lives,
    Recorded,
    Turn,
    TurnLine,
    base_lines,
    line_of,
    seconds,
)

#: The turns of a history in its order, from the newest states before the begin on, each with the state before it if that is kept.
Turns = Callable[[], Iterable[tuple[RecordedTurn, bytes | None]]]
#: A turn is in the history when it has ended. So many turns, and all of so long, wait for those of other partitions that began
#: earlier: a long turn ends after many short ones, and after a long time if the machine sleeps in it.
ORDERED_TURNS, ORDERED_NS = 256, 10 * S_NS


class UnusableHistoryError(Exception):
    """The history cannot be recorded from this time on; the text says why."""


class Span(NamedTuple):
    """The Unix times at which a recording begins and ends, in whole microseconds."""

    from_ns: int
    to_ns: int


def exact(turns: Turns) -> Iterator[Line]:
    """The lines of an exact recording after its header."""
    count = 0
    for turn, base in turns():
        if turn.number is None:
            continue
        if base is not None:
            yield from base_lines(turn.now_ns, turn.partition, decode_base(base))
        count += 1
        name, cause, facts = turn.partition, turn.cause, turn.facts
        yield TurnLine(turn.now_ns, name, cause, number=turn.number, facts=facts)
    yield End(count)


def exact_header(span: Span) -> Recorded:
    """The part of the header of an exact recording."""
    return Recorded(VERSION, __version__, span.from_ns, exact=True)


class Recording:
    """A recording for runs with another configuration.

    Memory: the states of the partitions at its begin, which replay makes again, the fate of each of its tasks, those that wait or
    run at a time, and the turns of ``ORDERED_NS``.

    Args:
        turns: may be called several times.
        after_preemption: what becomes of tasks where that was not recorded.
        is_pinned: whether applications name the queues in which they were placed.

    Attributes:
        counts: what could not be carried over, by what it is.
        tasks: how many tasks it has.

    Raises:
        UnusableHistoryError, and what replay raises.
    """

    def __init__(
        self, turns: Turns, span: Span, after_preemption: AfterPreemption = "resubmit", *, is_pinned: bool = False
    ) -> None:
        self._turns, self._span, self._is_pinned = turns, span, is_pinned
        self._bases = self._states()
        tracker = Tracker()
        self._begin(tracker)
        deque(self._sorted(tracker), maxlen=0)
        tracker.finish(span.to_ns)
        self._fates: list[Fate] = tracker.fates
        self.tasks = len(self._fates)
        self.counts: Counter[str] = tracker.counts
        self.recorded = Recorded(
            VERSION,
            __version__,
            span.from_ns,
            after_preemption=after_preemption,
            confirm_seconds=_usual(delay for fate in self._fates for delay in fate.confirm_ns),
            resubmit_seconds=_usual(delay for fate in self._fates for delay in fate.resubmit_ns),
        )

    def lines(self) -> Iterator[Line]:
        """The lines after the header."""
        tracker, count = Tracker(), 0
        for name, base in self._bases.items():
            yield from base_lines(self._span.from_ns, name, base)
        for name, tasks in self._begin(tracker).items():
            for first in range(0, len(tasks), CHUNK):
                part = tasks[first : first + CHUNK]
                lives = [(*task, self._fates[number].life()) for task, number in part]
                yield Lives(self._span.from_ns, name, lives)
        for turn, found, is_anew in self._sorted(tracker):
            if isinstance(found, Base):
                yield from base_lines(turn.now_ns, turn.partition, found)
                continue
            kept = found if isinstance(found, Turn) else self._kept(turn.partition, found)
            if is_anew or not isinstance(found, Kept) or found.submissions:
                count += 1
                yield line_of(turn.now_ns, structs.replace(kept, anew=is_anew))
        yield End(count)

    def _kept(self, partition: PartitionName, found: Kept) -> Turn:
        lives = {index: self._life(number) for index, number in found.fates.items()}
        return Turn(partition, Input(found.submissions), lives, tuple(found.if_known), tuple(found.after_tasks))

    def _life(self, number: int) -> Life:
        return Life(censored=True) if number == REFUSED else self._fates[number].life()

    def _states(self) -> dict[PartitionName, Base]:
        """The states of all partitions at the begin."""
        replay = Replay()
        for turn, base in in_order(self._turns()):
            if turn.now_ns >= self._span.from_ns:
                break
            difference = None if base is None else replay.begin(turn, base)
            difference = difference or replay.repeat(turn)
            if difference is not None:
                raise UnusableHistoryError(
                    f"turn {turn.number} of partition {turn.partition} is not as it was recorded, so the state at the begin"
                    " cannot be made again: another version of ykactor may have recorded it (ykactor rule DU-15)"
                )
        cores = replay.partitions
        return {name: decode_base(finished(encode_base(core, scheduler.state))) for name, (core, scheduler) in cores.items()}

    def _begin(self, tracker: Tracker) -> Mapping[PartitionName, list[tuple[AskID, int]]]:
        return {name: tracker.begin(name, base) for name, base in self._bases.items()}

    def _sorted(self, tracker: Tracker) -> Iterator[tuple[RecordedTurn, Base | Turn | Kept, bool]]:
        """The turns of the recording in the order of their times, each as it is recorded; a new partition has its state before.

        True if the partition was made anew before the turn.
        """
        known, seen = set(self._bases), set(self._bases)
        for turn, base in in_order(self._turns()):
            if turn.number is None or not self._span.from_ns <= turn.now_ns <= self._span.to_ns:
                continue
            is_known = turn.partition in known
            if not is_known:
                yield turn, _new_state(turn, base, was_there=turn.partition in seen), False
                known.add(turn.partition)
                seen.add(turn.partition)
            cause, facts = decode_cause(turn.cause), decode_facts(turn.facts)
            found = tracker.take(turn, cause, facts)
            if self._is_pinned and isinstance(found, Kept):
                placed = {fact.application_id: fact.queue for fact in facts if isinstance(fact, ApplicationAdded)}
                found.submissions = pinned(found.submissions, placed)
            yield turn, found, is_known and base is not None
            if ends_partition(cause):
                known.discard(turn.partition)


def in_order(turns: Iterable[tuple[RecordedTurn, bytes | None]]) -> Iterator[tuple[RecordedTurn, bytes | None]]:
    """The turns by time: those of different partitions are kept in the order in which they ended."""
    heap: list[tuple[int, int, tuple[RecordedTurn, bytes | None]]] = []
    newest_ns = 0
    for number, each in enumerate(turns):
        newest_ns = max(newest_ns, each[0].now_ns)
        heapq.heappush(heap, (each[0].now_ns, number, each))
        while len(heap) > ORDERED_TURNS and heap[0][0] < newest_ns - ORDERED_NS:
            yield heapq.heappop(heap)[2]
    while heap:
        yield heapq.heappop(heap)[2]


def _new_state(turn: RecordedTurn, base: bytes | None, *, was_there: bool) -> Base:
    """The state of a partition that was added while it was recorded, or is there again: its removal was not durable.

    Raises:  UnusableHistoryError if it was there before, and what it had then is not known.
    """
    found = None if base is None else decode_base(base)
    rows = [] if found is None else [decode(bytes(key), bytes(row))[2] for key, row in found.rows]
    if found is None or (not was_there and any(isinstance(row, PartitionRow) and row.turns for row in rows)):
        raise UnusableHistoryError(f"the history of partition {turn.partition} does not go back to the begin")
    return found


def _usual(delays: Iterable[int | None]) -> float:
    """The median of what is known, in seconds; 0 if nothing is."""
    known = [delay for delay in delays if delay is not None]
    return seconds(median_low(known)) if known else 0
