"""Resources: maps from type to a signed 64-bit quantity in base units (``vcore`` in thousandths, ``memory`` in bytes).

Three states are kept apart (QU-103): None is "no resource at all", ``{}`` is a resource without types, and a
type may be present with 0. What an absent type means depends on the operation; each function says so.

Every quantity in the input has 64 bits. Sums of usage are exact at any size, and are cut to 64 bits only in the output: a sum
that was cut before would not return to zero when its parts are subtracted again.
"""

from collections.abc import Iterable

Resource = dict[str, int]

QUANTITY_MIN = -(2**63)
QUANTITY_MAX = 2**63 - 1


def saturated(resource: Resource) -> Resource:
    """A fresh resource whose values are cut to signed 64 bits, for the output (QU-1)."""
    return {
        name: quantity if QUANTITY_MIN <= quantity <= QUANTITY_MAX else (QUANTITY_MAX if quantity > 0 else QUANTITY_MIN)
        for name, quantity in resource.items()
    }


def saturated_and_pruned(resource: Resource) -> Resource:
    """Like ``saturated``, without the types whose value is 0."""
    return {
        name: quantity if QUANTITY_MIN <= quantity <= QUANTITY_MAX else (QUANTITY_MAX if quantity > 0 else QUANTITY_MIN)
        for name, quantity in resource.items()
        if quantity
    }


def add_to(target: Resource, delta: Resource) -> None:
    """Add ``delta`` to ``target`` in place; an absent type is 0."""
    for name, quantity in delta.items():
        target[name] = target.get(name, 0) + quantity


def subtract_from(target: Resource, delta: Resource) -> None:
    """Subtract ``delta`` from ``target`` in place and remove types that become 0 (QU-4)."""
    for name, quantity in delta.items():
        value = target.get(name, 0) - quantity
        if value:
            target[name] = value
        else:
            target.pop(name, None)


def subtracted(left: Resource, right: Resource) -> Resource:
    """The difference over the union of types as a fresh resource, zeros kept."""
    result = dict(left)
    for name, quantity in right.items():
        result[name] = result.get(name, 0) - quantity
    return result


def fits(larger: Resource, smaller: Resource) -> bool:
    """True if every type of ``smaller`` is at most ``max(0, larger)``; a type absent from ``larger`` is 0."""
    for name, quantity in smaller.items():
        if quantity > 0 and quantity > larger.get(name, 0):
            return False
    return True


def first_exceeded(limit: Resource | None, used: Resource, more: Iterable[tuple[str, int]]) -> str | None:
    """The first type whose limit ``more`` would exceed; a type absent from the limit is unlimited. None when all fit."""
    if limit is not None:
        for name, quantity in more:
            if quantity and name in limit and used.get(name, 0) + quantity > limit[name]:
                return name
    return None


def min_union(left: Resource | None, right: Resource | None) -> Resource | None:
    """The smaller value of each type over the union of types; a type that only one side has is taken from that side."""
    if left is None or right is None:
        present = right if left is None else left
        return None if present is None else dict(present)
    result = dict(left)
    for name, quantity in right.items():
        result[name] = min(quantity, result[name]) if name in result else quantity
    return result


def most(left: Resource, right: Resource) -> Resource:
    """The larger value of each type over the union of types; an absent type is 0."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left.keys() | right.keys()}


def strictly_positive(resource: Resource | None) -> bool:
    """True if no value is negative and at least one is positive."""
    if not resource:
        return False
    some = False
    for quantity in resource.values():
        if quantity < 0:
            return False
        if quantity > 0:
            some = True
    return some


def pruned(resource: Resource) -> Resource:
    """A fresh resource without the types whose value is 0."""
    return {name: quantity for name, quantity in resource.items() if quantity}


def positive(resource: Resource) -> Resource:
    """A fresh resource with the types whose value is above 0."""
    return {name: quantity for name, quantity in resource.items() if quantity > 0}


def ahead(left: Resource, right: Resource) -> bool:
    """True if ``left`` is greater in at least one type and smaller in none; an absent type is 0."""
    different = False
    for name in left.keys() | right.keys():
        difference = left.get(name, 0) - right.get(name, 0)
        if difference < 0:
            return False
        if difference:
            different = True
    return different


def text(resource: Resource | None) -> str:
    """``map[memory:100 vcore:10]``, types sorted (EV-15)."""
    if resource is None:
        return "nil resource"
    return "map[" + " ".join(f"{name}:{resource[name]}" for name in sorted(resource)) + "]"
