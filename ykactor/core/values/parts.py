"""Long work in parts, so that other tasks can run in between.

The size of a part is a number of items, never a time: the same input is always divided in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

#: Items in one part: a few ms, and as many as the submissions that are handled together.
PART_MAX = 500


def in_parts(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in order, ``PART_MAX`` at a time."""
    left = iter(items)
    while part := list(islice(left, PART_MAX)):
        yield part


class Pace:
    """Counts items over several loops."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def is_due(self, items: int = 1) -> bool:
        """Count these items; whether other tasks should run before the next ones, because a part is complete."""
        self._count += items
        if self._count < PART_MAX:
            return False
        self._count = 0
        return True
