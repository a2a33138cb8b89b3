"""The amounts to which sibling queues are entitled: their dominant shares rise together, in proportion to their guarantees.

All amounts are integers, and so is the arithmetic: what siblings are entitled to adds up to what there is, or to all that they
demand if that is less. A share is a part of the cluster in units of 2^-64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ykactor.core.values.resources import Resource, subtract_from

#: The share of the whole cluster.
WHOLE = 2**64


class Claim(Protocol):
    """One of the siblings.

    Attributes:
        demand: what it could use, without types that are 0.
        weight: the dominant share of its guarantee; 0 without one.
        pace: how fast its part of ``demand`` rises (``pace_of``).
    """

    demand: Resource
    weight: int
    pace: int


def dominant_share(amounts: Resource, capacity: Resource) -> int:
    """The largest part of the cluster that these amounts are, in any type that the cluster has; the amounts are not negative."""
    share = 0
    for name, amount in amounts.items():
        whole = capacity.get(name, 0)
        if whole > 0:
            share = max(share, amount * WHOLE // whole)
    return share


def pace_of(demand: Resource, weight: int, capacity: Resource) -> int:
    """The part of its demand that a queue gets while the common level rises by one, in units of 2^-64; at least one of them.

    Its dominant share rises as fast as its weight says, or as fast as that of its siblings if none has a guarantee.
    """
    return max(1, (weight or WHOLE) * WHOLE // max(1, dominant_share(demand, capacity)))


def entitlements(pool: Resource, claims: Sequence[Claim]) -> list[Resource]:
    """The part of the pool to which each claim is entitled, in the order of the claims; no type is 0.

    Claims with a guarantee come first; those without get what these leave, in equal shares. In each type the level rises until
    the pool has nothing left: the other types go on.
    """
    left = dict(pool)
    found: dict[int, Resource] = {}
    for has_guarantee in (True, False):
        together = [index for index, claim in enumerate(claims) if bool(claim.weight) is has_guarantee]
        if not together:
            continue
        together.sort(key=lambda index: -claims[index].pace)  # in the order in which they have all that they demand
        ordered = [claims[index] for index in together]
        given: list[Resource] = [{} for _ in ordered]
        for name in _types(ordered):
            _fill(name, left.get(name, 0), ordered, given)
        for index, amounts in zip(together, given, strict=True):
            found[index] = amounts
            subtract_from(left, amounts)
    return [found[index] for index in range(len(claims))]


def _types(claims: Iterable[Claim]) -> Iterable[str]:
    return dict.fromkeys(name for claim in claims for name in claim.demand)


def _fill(name: str, left: int, claims: Sequence[Claim], given: list[Resource]) -> None:
    """Give the claims what there is of one type; ``claims`` in the order in which they have all that they demand.

    A claim has all when the level is 1 / pace; with those behind it that takes ``rising`` / pace.
    """
    wanting = [(index, wanted) for index, claim in enumerate(claims) if (wanted := claim.demand.get(name, 0))]
    rising = sum([wanted * claims[index].pace for index, wanted in wanting])
    for place, (index, wanted) in enumerate(wanting):
        pace = claims[index].pace
        if rising > left * pace:
            _divide(name, left, rising, [(given[index], wanted * claims[index].pace) for index, wanted in wanting[place:]])
            return
        given[index][name] = wanted
        left -= wanted
        rising -= wanted * pace


def _divide(name: str, left: int, rising: int, parts: list[tuple[Resource, int]]) -> None:
    """Give each its part of what is left, which is less than all want; what division leaves goes to the first, one unit each."""
    amounts = [left * part // rising for _, part in parts]
    rest = left - sum(amounts)
    for place, (given, _) in enumerate(parts):
        amount = amounts[place] + (place < rest)
        if amount:
            given[name] = amount
