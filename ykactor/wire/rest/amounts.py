"""Amounts of resources as the REST API shows them."""

from __future__ import annotations

from ykactor.core.values.resources import Resource, saturated, saturated_and_pruned

#: Whole percent by type; at most 2147483647.
Percent = dict[str, int]

_PERCENT_MAX = 2**31 - 1


def used(resource: Resource) -> Resource:
    """An amount that is used: types that are not used are left out."""
    return saturated_and_pruned(resource)


def limit(resource: Resource | None) -> Resource:
    """A limit: a type with 0 may not be used, and is shown."""
    return saturated(resource or {})


def percent(amount: Resource, capacity: Resource) -> Percent:
    """Whole percent, of the types that both have."""
    return {name: _percent(amount[name], whole) for name, whole in capacity.items() if name in amount}


def _percent(amount: int, whole: int) -> int:
    if amount <= 0:
        return 0
    return min(100 * amount // whole, _PERCENT_MAX) if whole > 0 else 100
