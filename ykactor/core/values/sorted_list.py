"""A sorted list from whose front items are removed cheaply: every order of the scheduler is built on it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

#: Compared as a whole; unique in its list because the last part is a number of arrival or a name.
SortKey = tuple[Any, ...]

T = TypeVar("T")

#: In the place of an entry that was taken out: to free thousands at once, when their places go, takes long.
_GONE: Any = ((), None)
#: The number of entries, nearly all in order, that are sorted in the time that inserting one takes.
_SORTED_PER_INSERTED = 20


class SortedList(Generic[T]):
    """Items in the order of their keys.

    Adding and removing cost a bisection and a memory move of pointers (a few us among 100,000). Removing the first item only
    increments ``_start``: what is tried, placed or parked is nearly always the first.
    """

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[tuple[SortKey, T]] = []
        self._start = 0

    def __len__(self) -> int:
        return len(self._entries) - self._start

    def first(self) -> T:
        """The item with the lowest key; there must be one."""
        return self._entries[self._start][1]

    def peek(self) -> T | None:
        """The item with the lowest key; None when the list is empty."""
        return self._entries[self._start][1] if self._start < len(self._entries) else None

    def first_key(self) -> SortKey | None:
        """The lowest key; None when the list is empty."""
        return self._entries[self._start][0] if self._start < len(self._entries) else None

    def add(self, key: SortKey, item: T) -> None:
        """Insert an item; no other item may have its key."""
        entries = self._entries
        if not entries or entries[-1][0] < key:  # what arrives is often last
            entries.append((key, item))
        else:
            insort(entries, (key, item), lo=self._start)

    def add_all(self, entries: Iterable[tuple[SortKey, T]]) -> None:
        """Insert many items at once, or one by one if that costs less."""
        added = list(entries)
        if len(added) * _SORTED_PER_INSERTED < len(self):
            for entry in added:
                insort(self._entries, entry, lo=self._start)
        else:
            self._entries = sorted([*self._entries[self._start :], *added])
            self._start = 0

    def remove(self, key: SortKey) -> T:
        """Take out the item with this key; it must be here."""
        entries, start = self._entries, self._start
        first_key, item = entries[start]
        if first_key != key:
            return entries.pop(bisect_left(entries, (key,), lo=start))[1]
        entries[start] = _GONE
        start += 1
        length = len(entries)
        if start == length or (start > 64 and start * 2 > length):
            del entries[:start]
            start = 0
        self._start = start
        return item

    def pop(self) -> T:
        """Take out the first item; there must be one."""
        return self.remove(self._entries[self._start][0])

    def first_moves_to(self, key: SortKey) -> bool:
        """Give the first item a new key if it stays the first with this key. Returns False, and changes nothing, if not."""
        entries, start = self._entries, self._start
        if start + 1 < len(entries) and not key < entries[start + 1][0]:
            return False
        entries[start] = key, entries[start][1]
        return True

    def __iter__(self) -> Iterator[T]:
        """The items in order; the list must not change meanwhile."""
        for index in range(self._start, len(self._entries)):
            yield self._entries[index][1]

    def entries(self, behind: SortKey | None = None) -> Iterator[tuple[SortKey, T]]:
        """The keys with their items in order, those behind a key only; the list must not change meanwhile."""
        entries, index = self._entries, self._start
        if behind is not None:
            index = bisect_left(entries, (behind,), lo=index)
            if index < len(entries) and entries[index][0] == behind:
                index += 1
        for position in range(index, len(entries)):
            yield entries[position]

    def walk(self) -> Iterator[T]:
        """The items in order; an item that was yielded may be taken out meanwhile, but no other change is allowed."""
        position = self._start
        while position < len(self._entries):
            key, item = self._entries[position]
            yield item
            position = bisect_left(self._entries, (key,), lo=self._start)
            if position < len(self._entries) and self._entries[position][0] == key:
                position += 1

    def items(self, count: int | None = None) -> list[T]:
        """The first ``count`` items, or all, in order."""
        end = None if count is None else self._start + count
        return [item for _, item in self._entries[self._start : end]]
