"""Access to queues: the right to submit and to administer (QU-80 to QU-83).

An ACL can only grant access: a descendant cannot revoke what an ancestor has granted (QU-82).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from ykactor.core.config.model import AccessList, QueueConfig


class PrincipalKind(StrEnum):
    """The kinds of principals that a limit is for."""

    USER = "user"
    GROUP = "group"


class Principal(NamedTuple):
    """One user or one group; as text ``user alice`` or ``group dev``."""

    kind: PrincipalKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class UserGroups(Struct, frozen=True, forbid_unknown_fields=True):
    """The user of an application, with the groups that were submitted with it or resolved for it (QU-90)."""

    user: str
    groups: tuple[str, ...]


def allows(acl: AccessList, user: str, groups: frozenset[str]) -> bool:
    """True if the list names everybody, the user, or one of the groups (QU-80). Names are case-sensitive."""
    return acl.everybody or user in acl.users or not acl.groups.isdisjoint(groups)


def may_submit(path_up: Iterable[QueueConfig], who: UserGroups) -> bool:
    """True if a submit or admin ACL of a queue or of one of its ancestors names ``who`` (QU-81)."""
    user, groups = who.user, frozenset(who.groups)
    return any(allows(queue.submit_acl, user, groups) or allows(queue.admin_acl, user, groups) for queue in path_up)


def may_administer(path_up: Iterable[QueueConfig], who: UserGroups) -> bool:
    """True if the admin ACL of a queue or of one of its ancestors names ``who`` (QU-81)."""
    user, groups = who.user, frozenset(who.groups)
    return any(allows(queue.admin_acl, user, groups) for queue in path_up)
