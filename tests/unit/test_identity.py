"""The rights of an identity: each question has an exact rule."""

import pytest

from ykactor.access.model import ANY, ANYBODY, Identity, Names, Role


def identity(*roles: Role, **fields: object) -> Identity:
    return Identity(name="ci", roles=frozenset(roles), **fields)


def rm(**fields: object) -> Identity:
    return identity(Role.RM, **fields)


def test_registering() -> None:
    """SE-21: under the names that are listed, compared exactly; under any with ``*``; never without the role."""
    some = rm(rm_ids=Names.of(["a", "b"]))
    assert [some.may_register_as(name) for name in ("a", "b", "A", "", "*")] == [True, True, False, False, False]
    assert rm(rm_ids=Names.of(["*"])).may_register_as("anything")
    assert not identity(Role.OPERATOR, rm_ids=ANY).may_register_as("a")


def test_partitions() -> None:
    """SE-22: compared without case, and the empty name is default."""
    some = rm(partitions=Names.of(["default", "gpu"]))
    assert [some.may_act_in(name) for name in ("", "default", "DEFAULT", "GPU", "cpu")] == [True, True, True, True, False]
    assert not rm(partitions=Names.of(["gpu"])).may_act_in("")
    assert rm().may_act_in("any")


@pytest.mark.parametrize(
    ("users", "groups", "user", "resolved", "may"),
    [
        (["alice"], [], "alice", ["alice"], True),  # the group that a user without groups gets
        (["alice"], [], "alice", ["dev"], False),
        (["alice"], ["dev"], "alice", ["dev"], True),
        (["alice"], ["dev"], "alice", ["dev", "alice"], True),
        (["alice"], ["dev"], "alice", ["dev", "ops"], False),
        (["alice"], ["dev"], "bob", ["dev"], False),
        (["alice"], ["*"], "bob", ["dev"], False),
        (["alice"], ["*"], "alice", ["anything"], True),
        (["alice"], ["dev"], "Alice", ["dev"], False),
        (["alice"], ["dev"], "alice", [], True),
        (["*"], ["dev"], "bob", ["dev"], True),
        (["*"], ["dev"], "bob", ["bob"], False),  # else "ops" as a user without groups would have the group ops
        (["*"], ["dev"], "ops", ["ops"], False),
        (["*"], ["*"], "bob", ["bob"], True),
    ],
)
def test_users_and_groups(users: list[str], groups: list[str], user: str, resolved: list[str], may: bool) -> None:
    """SE-23: the user and every resolved group; the group of a user's own name only where this user is named."""
    assert rm(users=Names.of(users), groups=Names.of(groups)).may_claim(user, resolved) is may


def test_only_resource_managers_claim() -> None:
    """SE-23: an operator and a reader act for themselves."""
    assert not identity(Role.OPERATOR, Role.READER, users=ANY, groups=ANY).may_claim("alice", ["alice"])


def test_nobody() -> None:
    """SE-24: who may force applications may also leave out their user, which makes it nobody."""
    assert not rm().may_claim("nobody", ["nogroup"])
    forcing = rm(may_force=True, users=Names.of(["alice"]))
    assert forcing.may_claim("nobody", ["nogroup"])
    assert forcing.may_claim("alice", ["nogroup"])
    assert not forcing.may_claim("nobody", ["nobody"])
    assert not forcing.may_claim("bob", ["nogroup"])


def test_queues() -> None:
    """SE-26: the queues of the list and those below, neither those above nor those whose names only begin alike."""
    limited = identity(Role.READER, Role.OPERATOR, queues=frozenset({"root.a.b"}))
    paths = {
        "root.a.b": True,
        "root.a.b.c.d": True,
        "root.a": False,
        "root": False,
        "root.a.bb": False,
        "root.a.b2": False,
        "": False,
    }
    assert {path: limited.sees(path) for path in paths} == paths
    assert {path: limited.may_act_on(path) for path in paths} == paths


def test_queues_need_a_role() -> None:
    """SE-26: to see is for readers, to operate for operators."""
    reader, operator = identity(Role.READER), identity(Role.OPERATOR)
    assert (reader.sees("root"), reader.may_act_on("root")) == (True, False)
    assert (operator.sees("root"), operator.may_act_on("root")) == (False, True)


def test_anybody() -> None:
    """SE-1: where no proof is needed, everything is allowed."""
    assert ANYBODY.may_register_as("x")
    assert ANYBODY.may_act_in("x")
    assert ANYBODY.may_claim("x", ["y"])
    assert ANYBODY.may_act_on("root.x")
    assert ANYBODY.sees("root.x")
