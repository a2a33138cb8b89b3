"""A sorted list of items that need room: finds the next one that fits without looking at those that do not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from ykactor.core.values.resources import Resource, fits
from ykactor.core.values.sorted_list import SortKey

#: A block with more items is split.
BLOCK_MAX = 128

#: What an item needs of each type.
Needs = tuple[tuple[str, int], ...]

T = TypeVar("T")


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
