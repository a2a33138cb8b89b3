"""The user and the groups of an application (QU-90 to QU-94)."""

from __future__ import annotations

from ykactor.core.config.access import UserGroups
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.placement.rules import is_forced
from ykactor.core.values.names import is_user_name
from ykactor.core.values.times import S_NS

#: The user of a forced application that names none (QU-91).
NOBODY = UserGroups("nobody", ("nogroup",))
#: The time that the groups submitted with a user are used for applications that name none (QU-94).
_KNOWN_NS = 300 * S_NS


def resolve(spec: AddApplication, known: tuple[str, ...] = ()) -> UserGroups | str:
    """The user and groups of a new application (QU-91 to QU-94), or the reason why it is refused.

    Args:
        known: the groups of an earlier submission of the user.
    """
    if not spec.user:
        return NOBODY if is_forced(spec.tags) else "empty user cannot resolve: ugi names no user"
    if not is_user_name(spec.user):
        return "invalid username, it contains invalid characters"
    groups = spec.groups or known
    if groups:
        return UserGroups(spec.user, groups)
    if not spec.user_is_unknown:
        return UserGroups(spec.user, (spec.user,))
    return UserGroups(spec.user, NOBODY.groups) if is_forced(spec.tags) else f"unknown user {spec.user}"


class Users:
    """The users of a partition, with the groups of their last submission."""

    def __init__(self, changed: Changed) -> None:
        #: By user, the groups and until when they are valid, the oldest first.
        self.known: KeptRows[str, tuple[tuple[str, ...], int]] = KeptRows(changed.user)

    def resolve(self, now_ns: int, spec: AddApplication) -> UserGroups | str:
        """Resolve a user with its present groups, and remember the groups that the submission brings."""
        who = resolve(spec, self._groups_of(now_ns, spec.user))
        if spec.groups and not isinstance(who, str):
            self._remember(now_ns, spec.user, spec.groups)
        return who

    def administrator(self, now_ns: int, who: UserGroups) -> UserGroups:
        """An administrator with groups, which are added if the request had none (QU-93, QU-94)."""
        return who if who.groups else UserGroups(who.user, self._groups_of(now_ns, who.user) or (who.user,))

    def _groups_of(self, now_ns: int, user: str) -> tuple[str, ...]:
        """The groups of the user's last submission while they are valid, else none."""
        groups, until_ns = self.known.get(user, ((), 0))
        return groups if now_ns < until_ns else ()

    def _remember(self, now_ns: int, user: str, groups: tuple[str, ...]) -> None:
        self.known.discard(user)
        self.known[user] = groups, now_ns + _KNOWN_NS
        while (oldest := next(iter(self.known))) != user and self.known[oldest][1] <= now_ns:
            del self.known[oldest]
