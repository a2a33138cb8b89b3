"""Long work in parts, so that other tasks can run in between.

The size of a part is a number of items, never a time: the same input is always divided in the same way.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Protocol, TypeVar


class Sortable(Protocol):
    """A value that can be sorted."""

    def __lt__(self, other: Any, /) -> bool: ...


T = TypeVar("T")
S = TypeVar("S", bound=Sortable)
R = TypeVar("R")

#: Long work that returns an ``R`` at its end: after each step it yields how many items the step has taken.
Steps = Generator[int, Any, R]

#: Work that returns an ``R`` at its end, and yields where other tasks may run.
Pausing = Generator[tuple[()], Any, R]

#: Items in one part: a few ms, and as many as the submissions that are handled together.
PART_MAX = 500


def in_parts(items: Iterable[T], most: int | None = None) -> Iterator[list[T]]:
    """The items in order, ``most`` at a time, by default ``PART_MAX``."""
    left = iter(items)
    while part := list(islice(left, most or PART_MAX)):
        yield part


def emptied(items: list[T]) -> Iterator[list[T]]:
    """The items in order, ``PART_MAX`` at a time, taken out of the list: to free many at once takes long too."""
    items.reverse()
    while items:
        part = items[-PART_MAX:][::-1]
        del items[-PART_MAX:]
        yield part


def sorted_in_parts(items: Iterable[S]) -> Steps[Iterator[S]]:
    """The items in ascending order, stable; taking each item costs some more comparisons."""
    left = iter(items)
    runs = [sorted(islice(left, PART_MAX))]
    while len(runs[-1]) == PART_MAX:
        yield PART_MAX
        runs.append(sorted(islice(left, PART_MAX)))
    return merge(*runs) if len(runs) > 1 else iter(runs[0])


def joined(lists: list[list[T]]) -> list[T]:
    """The items of all lists, in order. A single list is not copied: the collector looks at each item of a new list at once."""
    return lists[0] if len(lists) == 1 else [item for some in lists for item in some]


def paced(steps: Steps[R]) -> Pausing[R]:
    """Do long work, with a pause after each ``PART_MAX`` items. Nothing else decides where it pauses."""
    items = 0
    try:
        while True:
            items += next(steps)
            if items >= PART_MAX:
                items = 0
                yield ()
    except StopIteration as stop:
        result: R = stop.value
        return result


def finished(work: Steps[R] | Pausing[R]) -> R:
    """The result of work, done without a pause."""
    try:
        while True:
            next(work)
    except StopIteration as stop:
        result: R = stop.value
        return result
