"""Refuses applications and asks with more tags than their sender may use (SE-48)."""

from __future__ import annotations

from ykactor.access.model import Identity
from ykactor.core.messages.facts import AllocationRejected, ApplicationRejected
from ykactor.core.messages.held_limits import exceeded
from ykactor.core.messages.rejections import RejectionCode
from ykactor.core.messages.submissions import AddApplication, RefuseEntry, Rejected, Submission, SubmitAllocation
from ykactor.core.values.parts import Pausing, in_parts
from ykactor.wire.si.lengths import ITEMS_MAX


def limited(identity: Identity, submissions: list[Submission]) -> Pausing[tuple[list[Submission], str]]:
    """The submissions, each with too many tags as its refusal, and why the first of these is refused; "" if none is.

    There is a pause now and then.
    """
    if identity.limits.tags >= ITEMS_MAX:  # more were refused when the message was read
        return submissions, ""
    kept: list[Submission] = []
    reason = ""
    for part in in_parts(submissions):
        if kept:
            yield ()
        for submission in part:
            refusal = _refusal(identity, submission)
            kept.append(submission if refusal is None else RefuseEntry(refusal))
            if refusal is not None:
                reason = reason or refusal.reason
    return kept, reason


def _refusal(identity: Identity, submission: Submission) -> Rejected | None:
    most = identity.limits.tags
    match submission:
        case AddApplication(application_id, tags=tags) if len(tags) > most:
            return ApplicationRejected(0, application_id, _reason(identity, len(tags)), RejectionCode.LIMIT)
        case SubmitAllocation(spec) if len(spec.tags) > most:
            reason = _reason(identity, len(spec.tags))
            return AllocationRejected(0, spec.allocation_key, spec.application_id, reason, RejectionCode.LIMIT)
    return None


def _reason(identity: Identity, count: int) -> str:
    return exceeded("tags", identity.limits.tags, identity.name, f"found {count}")
