"""For whom a resource manager acts: its applications and its administrators belong to users and groups that it may claim.

Partitions use the groups of a user's last application for those that bring none (QU-94), which may be of another resource manager
that may claim more. So of an identity a partition gets explicit groups only: those that were sent or looked up, else the one with
the user's name (SE-65).
"""

from __future__ import annotations

from msgspec import structs

from ykactor.access.model import ANYBODY, Identity
from ykactor.access.permissions import check_application
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.facts import ApplicationRejected
from ykactor.core.messages.rejections import RejectionCode
from ykactor.core.messages.submissions import AddApplication, RefuseEntry, Submission
from ykactor.core.placement.users import resolve
from ykactor.core.values.parts import Pausing, in_parts
from ykactor.core.values.quantities import shown
from ykactor.wire.si.codec import ProtocolError
from ykactor.wire.si.lengths import shortened


def permitted(identity: Identity, submissions: list[Submission]) -> Pausing[list[Submission]]:
    """The submissions with the groups that count; an application that the identity may not submit becomes its refusal.

    There is a pause now and then.

    Args:
        submissions: with the groups that were looked up (``Gateway.with_groups``).
    """
    if identity is ANYBODY:
        return submissions
    found: list[Submission] = []
    for part in in_parts(submissions):
        if found:
            yield ()
        found += [_permitted(identity, new) if type(new) is AddApplication else new for new in part]
    return found


def _permitted(identity: Identity, new: AddApplication) -> Submission:
    who = resolve(new)
    reason = who if isinstance(who, str) else check_application(identity, who, new.tags)
    if isinstance(who, str) or reason:
        code = RejectionCode.BAD_USER if isinstance(who, str) else RejectionCode.NOT_PERMITTED
        return RefuseEntry(ApplicationRejected(0, new.application_id, shortened(reason or ""), code))
    return structs.replace(new, user=who.user, groups=who.groups, user_is_unknown=False)


def of_administrator(identity: Identity, who: UserGroups) -> UserGroups:
    """Who ends or moves an application, with the groups that count.

    Raises:
        ProtocolError: the identity may not act for this user with these groups.
    """
    if identity is ANYBODY:
        return who
    who = UserGroups(who.user, who.groups or (who.user,))
    if not identity.may_claim(who.user, who.groups):
        groups = shortened(", ".join(map(shown, who.groups)))
        found = f"{identity.name} may not act for user {shown(who.user)} with groups {groups}"
        raise ProtocolError("NOT_PERMITTED", found, "ugi")
    return who
