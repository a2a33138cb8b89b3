"""The submissions of a resource manager before partitions get them: its rights, groups, tags, creation times.

What is tried and not sent (``/v1/dry-run``) goes the same way: ``read_work``, then ``admitted``.

A resource manager acts for users and groups that it may claim: its applications and its administrators belong to them.

Partitions use the groups of a user's last application for those that bring none (QU-94), which may be of another resource manager
that may claim more. So of an identity a partition gets explicit groups only: those that were sent or looked up, else the one with
the user's name (SE-65).
"""

from __future__ import annotations

from msgspec import structs

from ykactor.access.model import ANYBODY, Identity
from ykactor.access.permissions import check_application
from ykactor.actors.gateway import Gateway
from ykactor.actors.health import AHEAD_NS
from ykactor.actors.pauses import drive
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.acts import Act
from ykactor.core.messages.asks import CREATED_TAG, Ask
from ykactor.core.messages.facts import AllocationRejected, ApplicationRejected
from ykactor.core.messages.kinds import RejectionCode
from ykactor.core.messages.submissions import AddApplication, RefuseEntry, Rejected, Submission, exceeded
from ykactor.core.objects.gang import APPLICATION_CREATED_TAG
from ykactor.core.placement.users import resolve
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.quantities import parse_uint64, shown
from ykactor.core.values.times import S_NS
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.admission.caller import Caller
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests
from ykactor.wire.si.lengths import ITEMS_MAX, shortened
from ykactor.wire.si.protocol_error import ProtocolError

#: Submissions by partition.
Work = dict[PartitionName, list[Submission]]


async def read_work(request: requests.PartitionRequest, ahead_ns: int) -> Work:
    """The submissions of a request, with creation times by the clock of the daemon.

    Args:
        ahead_ns: the time by which this is ahead of that of the machine.

    Raises:
        ProtocolError: the request is wrong.
    """
    work = await drive(requests.submitting(request))
    if ahead_ns >= AHEAD_NS:
        for name, submissions in work.items():
            work[name] = await drive(moved(submissions, ahead_ns // S_NS))
    return work


async def admitted(gateway: Gateway, caller: Caller, audit: AuditLog, request: si.Request, work: Work) -> Work:
    """The submissions of a request by running partitions, with the groups that count; those that the caller may not send are
    refusals, which the audit is told. It takes over the lists.

    Raises:
        ProtocolError: the caller may send nothing any more.
    """
    work = requests.addressed(work, gateway.partitions)
    for name in work:
        if isinstance(request, si.ApplicationRequest) and name in gateway.partitions:
            work[name] = await gateway.with_groups(name, work[name])
            caller.confirm()  # to look up groups may take long
        if not may_all(caller.identity):
            work[name], reason = await drive(permitted(caller.identity, work[name]))
            if reason:
                audit.refused(caller, Act.SEND, name, reason)
    return work


def may_all(identity: Identity) -> bool:
    """True if the identity may submit whatever was read (``permitted``)."""
    return identity is ANYBODY and identity.limits.tags >= ITEMS_MAX  # more tags were refused when the message was read


def permitted(identity: Identity, submissions: list[Submission]) -> Steps[tuple[list[Submission], str]]:
    """The submissions that count, with a pause now and then, and why the first one with too many tags is refused; "" if none is.

    Applications have the groups that count. What the identity may not submit becomes its refusal.

    Args:
        submissions: with the groups that were looked up (``Gateway.with_groups``).
    """
    counts_tags = identity.limits.tags < ITEMS_MAX
    kept: list[Submission] = []
    reason = ""
    for part in in_parts(submissions):
        for new in part:
            if identity is not ANYBODY and type(new) is AddApplication:
                new = _permitted(identity, new)
            refusal = _refusal(identity, new) if counts_tags else None
            kept.append(new if refusal is None else RefuseEntry(refusal))
            if refusal is not None:
                reason = reason or refusal.reason
        yield len(part)
    return kept, reason


def _permitted(identity: Identity, new: AddApplication) -> Submission:
    who = resolve(new)
    reason = who if isinstance(who, str) else check_application(identity, who, new.tags)
    if isinstance(who, str) or reason:
        code = RejectionCode.BAD_USER if isinstance(who, str) else RejectionCode.NOT_PERMITTED
        return RefuseEntry(ApplicationRejected(0, new.application_id, shortened(reason or ""), code))
    return structs.replace(new, user=who.user, groups=who.groups, user_is_unknown=False)


def of_administrator(identity: Identity, who: UserGroups) -> UserGroups:
    """The user that ends or moves an application, with the groups that count.

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


# ---- tags: no more than their sender may use (SE-48)


def _refusal(identity: Identity, submission: Submission) -> Rejected | None:
    most = identity.limits.tags
    match submission:
        case AddApplication(application_id, tags=tags) if len(tags) > most:
            return ApplicationRejected(0, application_id, _reason(identity, len(tags)), RejectionCode.LIMIT)
        case Ask() as ask if len(ask.tags) > most:
            reason = _reason(identity, len(ask.tags))
            return AllocationRejected(0, ask.allocation_key, ask.application_id, reason, RejectionCode.LIMIT)
    return None


def _reason(identity: Identity, count: int) -> str:
    return exceeded("tags", identity.limits.tags, identity.name, f"found {count}")


# ---- creation times, by the clock of the daemon
#
# The resource manager has the corrected clock of the machine. Where the daemon is ahead of it (DU-6), an ask would seem to have
# waited for days, and preempt at once.


def moved(submissions: list[Submission], ahead_s: int) -> Steps[list[Submission]]:
    """The submissions with creation times that are so much later."""
    found: list[Submission] = []
    for part in in_parts(submissions):
        found += [_moved(each, ahead_s) for each in part]
        yield len(part)
    return found


def _moved(submission: Submission, ahead_s: int) -> Submission:
    match submission:
        case Ask() as ask if CREATED_TAG in ask.tags:
            return structs.replace(ask, tags=_later(ask.tags, CREATED_TAG, ahead_s))
        case AddApplication(tags=tags) if APPLICATION_CREATED_TAG in tags:
            return structs.replace(submission, tags=_later(tags, APPLICATION_CREATED_TAG, ahead_s))
        case _:
            return submission


def _later(tags: dict[str, str], name: str, ahead_s: int) -> dict[str, str]:
    created_s = parse_uint64(tags[name])
    return tags if created_s is None else tags | {name: str(created_s + ahead_s)}
