"""Sorted lists.

Every order of the scheduler is a ``SortedList``, from whose front items are removed cheaply. A ``NeedList`` has items that need
room, and finds the next one that fits without looking at those that do not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from ykactor.core.values.resources import Resource, fits

#: Compared as a whole; unique in its list because the last part is a number of arrival or a name.
SortKey = tuple[Any, ...]

#: What an item of a ``NeedList`` needs of each type.
Needs = tuple[tuple[str, int], ...]

T = TypeVar("T")

#: In the place of an entry that was taken out: to free thousands at once, when their places go, takes long.
_GONE: Any = ((), None)
#: The number of entries, nearly all in order, that are sorted in the time that inserting one takes.
_SORTED_PER_INSERTED = 20
#: A block of a ``NeedList`` with more items is split.
BLOCK_MAX = 128


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


class _Block(Generic[T]):
    """Neighbours in the order, and the least that any of them needs: without room for that, none of them fits."""

    __slots__ = ("items", "keys", "least")

    def __init__(self, keys: list[SortKey], items: list[tuple[Needs, T]]) -> None:
        self.keys = keys
        self.items = items
        self.least: Resource = {}
        self.measure()

    def measure(self) -> None:
        """Compute ``least``. It may be too small after items were removed, never too large."""
        self.least = {name: wanted for name, wanted in self.items[0][0] if wanted > 0}
        for needs, _ in self.items[1:]:
            self.lower(needs)

    def lower(self, needs: Needs) -> None:
        """Lower ``least`` to the needs of a new item."""
        wanted, least = dict(needs), self.least
        for name in list(least):
            if wanted.get(name, 0) < least[name]:
                if wanted.get(name, 0) > 0:
                    least[name] = wanted[name]
                else:
                    del least[name]


class NeedList(Generic[T]):
    """Items in the order of their keys, each with what it needs, in blocks."""

    __slots__ = ("_blocks", "_firsts")

    def __init__(self) -> None:
        self._blocks: list[_Block[T]] = []
        #: The first key of each block when the block was made, or a lower one.
        self._firsts: list[SortKey] = []

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def items(self) -> list[T]:
        """All items, in order."""
        return [item for block in self._blocks for _, item in block.items]

    def add(self, key: SortKey, needs: Needs, item: T) -> None:
        """Insert an item; no other item may have its key."""
        if not self._blocks:
            self._blocks.append(_Block([key], [(needs, item)]))
            self._firsts.append(key)
            return
        number = max(0, bisect_right(self._firsts, key) - 1)
        block = self._blocks[number]
        at = bisect_left(block.keys, key)
        block.keys.insert(at, key)
        block.items.insert(at, (needs, item))
        block.lower(needs)
        self._firsts[number] = min(self._firsts[number], key)
        if len(block.keys) > BLOCK_MAX:
            self._split(number, block)

    def _split(self, number: int, block: _Block[T]) -> None:
        half = len(block.keys) // 2
        upper = _Block(block.keys[half:], block.items[half:])
        del block.keys[half:], block.items[half:]
        block.measure()
        self._blocks.insert(number + 1, upper)
        self._firsts.insert(number + 1, upper.keys[0])

    def remove(self, key: SortKey) -> None:
        """Take out the item with this key; it must be here."""
        number = bisect_right(self._firsts, key) - 1
        block = self._blocks[number]
        at = bisect_left(block.keys, key)
        del block.keys[at], block.items[at]
        if not block.keys:
            del self._blocks[number], self._firsts[number]

    def first(self, room: Resource, after: SortKey | None = None) -> tuple[SortKey, T] | None:
        """The first item behind ``after`` that needs no more than ``room``, with its key; None if there is none."""
        start = 0 if after is None else max(0, bisect_right(self._firsts, after) - 1)
        for number in range(start, len(self._blocks)):
            block = self._blocks[number]
            if not fits(room, block.least):
                continue
            at = bisect_right(block.keys, after) if number == start and after is not None else 0
            for index in range(at, len(block.keys)):
                needs, item = block.items[index]
                if all(wanted <= room.get(name, 0) or wanted <= 0 for name, wanted in needs):
                    return block.keys[index], item
            block.measure()
        return None
