"""The creation times that a resource manager sends, by the clock of the daemon.

The resource manager has the corrected clock of the machine. Where the daemon is ahead of it (DU-6), an ask would seem to have
waited for days, and preempt at once.
"""

from __future__ import annotations

from msgspec import structs

from ykactor.core.messages.asks import CREATED_TAG
from ykactor.core.messages.submissions import AddApplication, Submission, SubmitAllocation
from ykactor.core.objects.gang import APPLICATION_CREATED_TAG
from ykactor.core.values.parts import Pausing, in_parts
from ykactor.core.values.quantities import parse_uint64


def moved(submissions: list[Submission], ahead_s: int) -> Pausing[list[Submission]]:
    """The submissions with creation times that are so much later."""
    found: list[Submission] = []
    for part in in_parts(submissions):
        found += [_moved(each, ahead_s) for each in part]
        yield ()
    return found


def _moved(submission: Submission, ahead_s: int) -> Submission:
    match submission:
        case SubmitAllocation(spec) if CREATED_TAG in spec.tags:
            return SubmitAllocation(structs.replace(spec, tags=_later(spec.tags, CREATED_TAG, ahead_s)))
        case AddApplication(tags=tags) if APPLICATION_CREATED_TAG in tags:
            return structs.replace(submission, tags=_later(tags, APPLICATION_CREATED_TAG, ahead_s))
        case _:
            return submission


def _later(tags: dict[str, str], name: str, ahead_s: int) -> dict[str, str]:
    created_s = parse_uint64(tags[name])
    return tags if created_s is None else tags | {name: str(created_s + ahead_s)}
