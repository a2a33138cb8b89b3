"""The user and groups of an application (QU-90 to QU-94)."""

import pytest
from world import S_NS, app, make_world, queue, tree

from ykactor.core.config.access import UserGroups
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.placement.users import Users
from ykactor.core.values.ids import ApplicationID

FORCED = {"application.create.force": "true"}


def spec(user: str, groups: tuple[str, ...] = (), *, forced: bool = False, unknown: bool = False) -> AddApplication:
    tags = FORCED if forced else {}
    return AddApplication(ApplicationID("app-1"), "root.a", user, groups, tags, user_is_unknown=unknown)


def test_groups_are_used_as_given() -> None:
    """One user, the groups in their order, nobody is asked (QU-90, QU-92)."""
    assert Users(Changed()).resolve(0, spec("bob", ("ops", "dev"), unknown=True)) == UserGroups("bob", ("ops", "dev"))


def test_nobody() -> None:
    """An application without a user is refused; a forced one runs as nobody, of nogroup (QU-91)."""
    assert Users(Changed()).resolve(0, spec("", ("dev",))) == "empty user cannot resolve: ugi names no user"
    assert Users(Changed()).resolve(0, spec("", forced=True)) == UserGroups("nobody", ("nogroup",))


@pytest.mark.parametrize("groups", [(), ("dev",)])
@pytest.mark.parametrize(
    ("user", "legal"),
    [
        ("bob", True), ("_b", True), ("b:#/_.@-9$", True), ("B", True),
        ("9b", False), ("b$b", False), ("b b", False), ("-b", False), ("$", False), ("bob\n", False), ("bób", False),
    ],
)  # fmt: skip
def test_user_names(user: str, legal: bool, groups: tuple[str, ...]) -> None:
    """A user must have a name by CF-21, with groups and without (QU-92, QU-93); being forced does not help."""
    for forced in (False, True):
        found = Users(Changed()).resolve(0, spec(user, groups, forced=forced))
        expected = UserGroups(user, groups or (user,)) if legal else "invalid username, it contains invalid characters"
        assert found == expected


def test_without_groups() -> None:
    """One group of the user's name; whoever is unknown to the resolver is refused, or of nogroup if forced (QU-93)."""
    users = Users(Changed())
    assert users.resolve(0, spec("bob")) == UserGroups("bob", ("bob",))
    assert users.resolve(0, spec("bob", unknown=True)) == "unknown user bob"
    assert users.resolve(0, spec("bob", unknown=True, forced=True)) == UserGroups("bob", ("nogroup",))


def test_groups_are_remembered() -> None:
    """The groups that came last hold for 300 s for applications without (QU-94), for this user only."""
    users = Users(Changed())
    users.resolve(0, spec("bob", ("ops",)))
    users.resolve(10 * S_NS, spec("bob", ("dev",)))
    assert users.resolve(310 * S_NS - 1, spec("bob", unknown=True)) == UserGroups("bob", ("dev",))
    assert users.resolve(310 * S_NS - 1, spec("eve")) == UserGroups("eve", ("eve",))
    assert users.resolve(310 * S_NS, spec("bob")) == UserGroups("bob", ("bob",))


def test_looking_up_does_not_prolong() -> None:
    """Remembered groups age whether they are used or not (QU-94)."""
    users = Users(Changed())
    users.resolve(0, spec("bob", ("ops",)))
    for at_s in range(0, 300, 50):
        assert users.resolve(at_s * S_NS, spec("bob")) == UserGroups("bob", ("ops",))
    assert users.resolve(300 * S_NS, spec("bob")) == UserGroups("bob", ("bob",))


def test_memory_is_bounded() -> None:
    """Users whose time is up are forgotten, however many come."""
    users = Users(Changed())
    for number in range(10_000):
        users.resolve(number * S_NS, spec(f"u{number}", ("dev",)))
    assert len(users.known) == 300
    assert users.resolve(10_000 * S_NS, spec("u9999")) == UserGroups("u9999", ("dev",))


def test_refusals_are_told() -> None:
    """A user that cannot be resolved is the reason of the refusal, before any queue is looked for (PL-45)."""
    world = make_world(tree(queue("a")))
    world.send(app("app-1", user=""), app("app-2", "nowhere", user="9"))
    world.expect(
        "app-1 Rejected: empty user cannot resolve: ugi names no user",
        "app-2 Rejected: invalid username, it contains invalid characters",
    )
    world.send(app("app-3", user="", application__create__force="true"))
    world.expect("app-3 New")
