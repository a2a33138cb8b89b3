"""The causes of turns in words: what may follow "because of"."""

from __future__ import annotations

from ykactor.core.messages import submissions as of
from ykactor.core.messages.acts import Administration, MoveApplication, SetQueueQuotas, TerminateApplication
from ykactor.core.messages.submissions import Submission
from ykactor.core.turn.turn import Cause, CycleDue, Input, Request, TimersDue
from ykactor.wire.si.messages import EventRecord


def in_words(cause: Cause) -> str:
    """The cause of a turn on one line."""
    match cause:
        case Input(submissions):
            more = f" and {len(submissions) - 1} more" if len(submissions) > 1 else ""
            return submissions[0].words + more if submissions else "nothing"
        case Request(wanted):
            return _request(wanted)
        case CycleDue():
            return "a scheduling cycle"
        case TimersDue():
            return "a timer"


def cause_of(event: EventRecord, cause: Cause) -> str:
    """The cause of one of the events of a turn: the entry of its input that names the most of what the event is about."""
    if not isinstance(cause, Input) or not cause.submissions:
        return in_words(cause)
    about = {event.object_id, event.reference_id, event.queue_name} - {""}
    scores = [len(about & _names(submission)) for submission in cause.submissions]
    if not max(scores):
        wide = [submission for submission in cause.submissions if isinstance(submission, _WIDE)]
        return wide[0].words if wide else in_words(cause)
    # A key may be asked for and released in the same input.
    places = [place for place, score in enumerate(scores) if score == max(scores)]
    return cause.submissions[places[-1 if event.event_change_type == "REMOVE" else 0]].words


#: Submissions with effects on objects that they do not name.
_WIDE = (of.ApplyConfig, of.Reset, of.RemovePartition)


def _names(submission: Submission) -> set[str]:
    fields = ("application_id", "allocation_key", "node_id", "user")
    return {name for name in (getattr(submission, field, None) for field in fields) if name}


def _request(wanted: Administration) -> str:
    return f"{_who(wanted)}, to {wanted.words}"


def _who(wanted: Administration) -> str:
    if not isinstance(wanted, SetQueueQuotas) and wanted.operator is not None:
        return f"the operator {wanted.operator.name}"
    if isinstance(wanted, TerminateApplication | MoveApplication) and wanted.who is not None:
        return f"the administrator {wanted.who.user}"
    return "the resource manager"
