"""The rights to submit to a queue and to administer it."""

import pytest

from ykactor.core.config.access import UserGroups, allows, may_administer, may_submit
from ykactor.core.config.model import AccessList, QueueConfig
from ykactor.core.values.ids import QueuePath

NOBODY = AccessList()
EVERYBODY = AccessList(everybody=True)
BOB = UserGroups("bob", ("ops", "dev"))


def named(*users: str, groups: tuple[str, ...] = ()) -> AccessList:
    return AccessList(users=frozenset(users), groups=frozenset(groups))


def queue(path: str, submit: AccessList = NOBODY, admin: AccessList = NOBODY) -> QueueConfig:
    return QueueConfig(QueuePath(path), is_parent=False, submit_acl=submit, admin_acl=admin)


@pytest.mark.parametrize(
    ("acl", "who", "allowed"),
    [
        (NOBODY, BOB, False),
        (NOBODY, UserGroups("", ()), False),
        (EVERYBODY, BOB, True),
        (EVERYBODY, UserGroups("", ()), True),
        (named("bob", "eve"), BOB, True),
        (named("bob", "eve"), UserGroups("eve", ()), True),
        (named("bob", "eve"), UserGroups("mary", ("bob",)), False),  # a group is not a user
        (named("eve", groups=("ops", "qa")), BOB, True),
        (named(groups=("dev",)), BOB, True),  # any one of the groups
        (named(groups=("bob",)), BOB, False),  # a user is not a group
        (named("Bob"), BOB, False),
        (named(groups=("OPS",)), BOB, False),
        (named("#bob"), BOB, False),
    ],
)
def test_one_list(acl: AccessList, who: UserGroups, allowed: bool) -> None:
    """A list allows everybody, the user, or one of the groups; names have a case (QU-80)."""
    assert allows(acl, who.user, frozenset(who.groups)) is allowed


@pytest.mark.parametrize(
    ("path_up", "submits"),
    [
        ([queue("root.a"), queue("root")], False),
        ([queue("root.a", submit=named("bob")), queue("root")], True),
        ([queue("root.a", admin=named("bob")), queue("root")], True),
        ([queue("root.a"), queue("root", submit=named(groups=("ops",)))], True),
        ([queue("root.a"), queue("root", admin=named(groups=("ops",)))], True),
        ([queue("root.a", submit=named("eve")), queue("root", submit=EVERYBODY)], True),
        ([queue("root.a", submit=named("eve"), admin=named("eve")), queue("root")], False),
        ([queue("root.a.b"), queue("root.a"), queue("root", admin=EVERYBODY)], True),
    ],
    ids=["closed", "submit", "admin", "root submit", "root admin", "a child does not close", "others", "far up"],
)
def test_submit_access(path_up: list[QueueConfig], submits: bool) -> None:
    """Submit or admin ACL of the queue or of any ancestor (QU-81 to QU-83)."""
    assert may_submit(path_up, BOB) is submits


@pytest.mark.parametrize(
    ("path_up", "administers"),
    [
        ([queue("root.a", submit=EVERYBODY), queue("root", submit=EVERYBODY)], False),
        ([queue("root.a", admin=named("bob")), queue("root")], True),
        ([queue("root.a.b"), queue("root.a", admin=named(groups=("ops",))), queue("root")], True),
        ([queue("root.a", admin=named("eve")), queue("root", admin=EVERYBODY)], True),
    ],
    ids=["submit is not admin", "own", "an ancestor's", "a child does not close"],
)
def test_admin_access(path_up: list[QueueConfig], administers: bool) -> None:
    """Admin ACLs only, of the queue or of any ancestor (QU-81)."""
    assert may_administer(path_up, BOB) is administers
