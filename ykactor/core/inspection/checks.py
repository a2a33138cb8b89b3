"""Helpers of all invariant checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.values.resources import Resource, add_to, pruned


def differs(where: str, what: str, found: object, expected: object) -> Iterator[str]:
    """A violation, as a sentence, if ``found`` is not ``expected``; else "", so that the whole check can pause here."""
    yield f"{where}: {what} is {found}, expected {expected}" if found != expected else ""


def differs_in(where: str, what: str, found: Iterable[str], expected: Iterable[str]) -> Iterator[str]:
    """A violation if two collections of names differ, in any order; faster than sorting many names."""
    known, wanted = set(found), set(expected)
    yield f"{where}: {what} is {sorted(known)}, expected {sorted(wanted)}" if known != wanted else ""


def total_of(resources: Iterable[Resource]) -> Resource:
    """The sum without types whose value is 0."""
    total: Resource = {}
    for resource in resources:
        add_to(total, resource)
    return pruned(total)


def leaves_of(registry: Registry) -> list[LeafCore]:
    """All leaf queues of the partition."""
    return [queue for queue in registry.queues.values() if isinstance(queue, LeafCore)]
