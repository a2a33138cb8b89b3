"""Names by a key: the pods of a claim, the nodes with a label, the classes that a term is about."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
N = TypeVar("N", bound=Hashable)


class Index(Generic[K, N]):
    """The names of each key, in the order in which they came. A key without a name is not kept."""

    def __init__(self) -> None:
        self._of: dict[K, dict[N, None]] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._of)

    def of(self, key: K) -> Collection[N]:
        """The names of a key."""
        return self._of.get(key, {})

    def add(self, key: K, name: N) -> None:
        """Add a name, which may be there already."""
        self._of.setdefault(key, {})[name] = None

    def discard(self, key: K, name: N) -> None:
        """Take a name out, if it is there."""
        there = self._of.get(key, {})
        there.pop(name, None)
        if not there:
            self._of.pop(key, None)
