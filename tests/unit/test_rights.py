"""The comparison of two identities' rights, which decides if a session goes on after a change."""

from itertools import combinations
from typing import Any

import pytest
from msgspec import structs

from ykactor.access.model import ANY, ANYBODY, Identity, Names, Role

LITTLE = Identity(name="ci", roles=frozenset([Role.RM]), queues=frozenset(["root.a.b"]), partitions=Names())
#: By field, values of which each gives more than the one before.
GROWING: dict[str, list[Any]] = {
    "roles": [frozenset([Role.RM]), frozenset([Role.RM, Role.READER]), frozenset(Role)],
    "rm_ids": [Names(), Names.of(["a"]), Names.of(["a", "b"]), ANY],
    "partitions": [Names(), Names.of(["default"]), Names.of(["default", "gpu"]), ANY],
    "users": [Names(), Names.of(["alice"]), Names.of(["alice", "bob"])],
    "groups": [Names(), Names.of(["dev"]), Names.of(["dev", "ops"]), ANY],
    "may_force": [False, True],
    "configure": [False, True],
    "queues": [frozenset(), frozenset(["root.a.b"]), frozenset(["root.a"]), frozenset(["root.a", "root.b"]), None],
}


def test_every_right_is_compared() -> None:
    """SE-68: a new field of an identity is compared, or is none of its rights."""
    assert set(GROWING) | {"name", "proofs", "limits"} == {field.name for field in structs.fields(Identity)}


@pytest.mark.parametrize("field", GROWING)
def test_more_and_less(field: str) -> None:
    """SE-68: more of anything includes less of it, and never the other way round."""
    grown = [structs.replace(LITTLE, **{field: value}) for value in GROWING[field]]
    for less, more in combinations(grown, 2):
        assert more.includes(less)
        assert not less.includes(more)
    assert all(identity.includes(identity) for identity in grown)


def test_gaining_one_right_for_another() -> None:
    """SE-68: what is lost is not made good by what is new."""
    forcing, configuring = (structs.replace(LITTLE, **{name: True}) for name in ("may_force", "configure"))
    assert not forcing.includes(configuring)
    assert not configuring.includes(forcing)


def test_any_user_is_less_than_a_name() -> None:
    """SE-23, SE-68: a user that is named brings the group with its name, which ``*`` does not."""
    named, anyone = (structs.replace(LITTLE, users=users) for users in (Names.of(["alice"]), ANY))
    assert not anyone.includes(named)
    assert structs.replace(anyone, groups=Names.of(["alice"])).includes(named)
    assert structs.replace(LITTLE, users=ANY, groups=ANY).includes(named)


def test_anybody() -> None:
    """SE-1: may do everything."""
    assert ANYBODY.includes(structs.replace(LITTLE, users=Names.of(["alice"]), groups=ANY, partitions=ANY))
