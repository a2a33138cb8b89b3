"""Counts of the resource types that the objects of a partition name; they are limited, because queues multiply them (SE-48)."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.values.resources import Resource

#: Nearly everything names these, so they are neither counted nor limited.
COMMON_TYPES = frozenset(("vcore", "memory"))


_NONE: frozenset[str] = frozenset()


class ResourceTypes:
    """Counts the types of tasks, of placeholders to come, of nodes, and of the quotas of dynamic queues.

    Attributes:
        counts: by type, the number of objects that name it.
        configured: the types that the configuration names, which are allowed in any case.
    """

    __slots__ = ("configured", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.configured: frozenset[str] = frozenset()

    def add(self, resource: Resource) -> None:
        """Count the types of a new object."""
        if resource.keys() <= COMMON_TYPES:
            return
        counts = self.counts
        for name in resource:
            if name not in COMMON_TYPES:
                counts[name] = counts.get(name, 0) + 1

    def remove(self, resource: Resource) -> None:
        """Uncount the types of an object that has gone."""
        if resource.keys() <= COMMON_TYPES:
            return
        counts = self.counts
        for name in resource:
            if name not in COMMON_TYPES:
                left = counts[name] - 1
                if left:
                    counts[name] = left
                else:
                    del counts[name]

    def replace(self, before: Resource, after: Resource) -> None:
        """Count the types of an object whose amounts have changed."""
        self.add(after)
        self.remove(before)

    def found(self) -> int:
        """The number of types that count against limits."""
        return len(self.counts.keys() - self.configured)

    def new(self, names: Iterable[str]) -> frozenset[str]:
        """The types among these names that would count in addition."""
        counts, configured = self.counts, self.configured
        found = [name for name in names if name not in counts and name not in COMMON_TYPES and name not in configured]
        return frozenset(found) if found else _NONE
