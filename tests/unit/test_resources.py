"""Resource arithmetic: every operation of QU-104, above all what an absent type and "none" mean to it."""

import pytest

from ykactor.core.values.resources import (
    QUANTITY_MAX,
    QUANTITY_MIN,
    Resource,
    add_to,
    ahead,
    fits,
    min_union,
    pruned,
    saturated,
    saturated_and_pruned,
    strictly_positive,
    subtract_from,
    subtracted,
    text,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (2**63 - 1, QUANTITY_MAX), (2**63, QUANTITY_MAX), (-(2**63), QUANTITY_MIN), (-(2**70), QUANTITY_MIN)],
)
def test_quantities_saturate(value: int, expected: int) -> None:
    """A quantity that leaves the core saturates at -2**63 and 2**63 - 1 instead of wrapping (QU-1)."""
    assert saturated({"a": value}) == {"a": expected}
    assert saturated_and_pruned({"a": value, "b": 0}) == pruned({"a": expected})


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({}, {}, {}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 3, "b": 3}),
        ({"a": 1}, {"a": -1}, {"a": 0}),
        ({"a": QUANTITY_MAX}, {"a": 1}, {"a": QUANTITY_MAX + 1}),  # exact inside
    ],
)
def test_add(left: Resource, right: Resource, expected: Resource) -> None:
    """Add: per type over the union, absent is 0."""
    add_to(left, right)
    assert left == expected


@pytest.mark.parametrize(
    ("left", "right", "kept", "pruned_away"),
    [
        ({}, {}, {}, {}),
        ({"a": 3}, {"a": 1, "b": 2}, {"a": 2, "b": -2}, {"a": 2, "b": -2}),
        ({"a": 3}, {"a": 3}, {"a": 0}, {}),
        ({"a": 3}, {"b": 0}, {"a": 3, "b": 0}, {"a": 3}),
        ({"a": QUANTITY_MIN}, {"a": 1}, {"a": QUANTITY_MIN - 1}, {"a": QUANTITY_MIN - 1}),  # exact inside
    ],
)
def test_subtract(left: Resource, right: Resource, kept: Resource, pruned_away: Resource) -> None:
    """Subtract: per type over the union, absent is 0. Usage is pruned: a type that drops to 0 disappears (QU-4)."""
    before = dict(left)
    assert subtracted(left, right) == kept
    assert left == before
    subtract_from(left, right)
    assert left == pruned_away


@pytest.mark.parametrize(
    ("larger", "smaller", "fit"),
    [
        ({}, {}, True),
        ({"a": 1}, {}, True),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),  # absent: 0
        ({"a": 1}, {"b": 0}, True),
        ({"a": 0}, {"a": 1}, False),  # present with 0 is not absent
        ({"a": -5}, {"a": 1}, False),
        ({"a": -5}, {"a": 0}, True),  # a negative one counts as 0
        ({"a": 1}, {"a": -3}, True),
        ({"a": 2, "b": 0}, {"a": 1, "b": 1}, False),
    ],
)
def test_fits(larger: Resource, smaller: Resource, fit: bool) -> None:
    """Fits: every type of the smaller one at most max(0, larger); an absent type is 0."""
    assert fits(larger, smaller) is fit


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (None, None, None),
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
        ({}, None, {}),
        ({"a": 1, "b": 5}, {"b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3}),
        ({"a": -1}, {"a": 0}, {"a": -1}),
    ],
)
def test_min_union(left: Resource | None, right: Resource | None, expected: Resource | None) -> None:
    """Min-union: the side that has a type decides alone; none and x is a copy of x; none and none is none (QU-103)."""
    found = min_union(left, right)
    assert found == expected
    assert found is None or (found is not left and found is not right)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [(None, False), ({}, False), ({"a": 0}, False), ({"a": 1}, True), ({"a": 1, "b": 0}, True), ({"a": 1, "b": -1}, False)],
)
def test_strictly_positive(resource: Resource | None, expected: bool) -> None:
    """Strictly > 0: no negative value and at least one positive; none is not."""
    assert strictly_positive(resource) is expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({}, {}, False),
        ({"a": 1}, {"a": 1}, False),
        ({"a": 2}, {"a": 1}, True),
        ({"a": 1}, {}, True),
        ({}, {"a": 1}, False),
        ({}, {"a": -1}, True),
        ({"a": 0}, {}, False),
        ({"a": 2, "b": 1}, {"a": 1, "b": 2}, False),
        ({"a": 2, "b": 2}, {"a": 1, "b": 2}, True),
        ({"a": 2}, {"a": 1, "b": 1}, False),
    ],
)
def test_strictly_greater(left: Resource, right: Resource, expected: bool) -> None:
    """Strictly greater: all types at least as large and one different; an absent type is 0."""
    assert ahead(left, right) is expected


def test_prune() -> None:
    """Prune removes types with value 0 and nothing else."""
    assert pruned({"a": 0, "b": -1, "c": 2}) == {"b": -1, "c": 2}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [(None, "nil resource"), ({}, "map[]"), ({"vcore": 10, "memory": 100}, "map[memory:100 vcore:10]")],
)
def test_text(resource: Resource | None, expected: str) -> None:
    """Types are sorted (EV-15, QU-3), and "none" is told from "empty" (QU-103)."""
    assert text(resource) == expected
