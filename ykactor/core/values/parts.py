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

#: Work that returns an ``R`` at its end, and yields where other tasks may run.
Pausing = Generator[tuple[()], Any, R]

#: Items in one part: a few ms, and as many as the submissions that are handled together.
PART_MAX = 500


def in_parts(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in order, ``PART_MAX`` at a time."""
    left = iter(items)
    while part := list(islice(left, PART_MAX)):
        yield part


def emptied(items: list[T]) -> Iterator[list[T]]:
    """The items in order, ``PART_MAX`` at a time, taken out of the list: to free many at once takes long too."""
    items.reverse()
    while items:
        part = items[-PART_MAX:][::-1]
        del items[-PART_MAX:]
        yield part


def sorted_in_parts(items: Iterable[S]) -> Pausing[Iterator[S]]:
    """The items in ascending order, stable; taking each item costs some more comparisons."""
    left = iter(items)
    runs = [sorted(islice(left, PART_MAX))]
    while len(runs[-1]) == PART_MAX:
        yield ()
        runs.append(sorted(islice(left, PART_MAX)))
    return merge(*runs) if len(runs) > 1 else iter(runs[0])


def joined(lists: list[list[T]]) -> list[T]:
    """The items of all lists, in order. A single list is not copied: the collector looks at each item of a new list at once."""
    return lists[0] if len(lists) == 1 else [item for some in lists for item in some]


class Pace:
    """Counts items over several loops."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def is_due(self, items: int = 1) -> bool:
        """Count these items. Returns True if other tasks should run before the next ones, because a part is complete."""
        self._count += items
        if self._count < PART_MAX:
            return False
        self._count = 0
        return True


def finished(work: Pausing[R]) -> R:
    """The result of work, done without a pause."""
    try:
        while True:
            next(work)
    except StopIteration as stop:
        result: R = stop.value
        return result
