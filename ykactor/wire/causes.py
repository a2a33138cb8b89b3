"""The causes of turns as JSON, for the journal.

``{"input": [["SubmitAllocation", {...}], ...], "limits": {...}}``, ``{"timers_due": true}``,
``{"request": ["MoveApplication", {...}]}`` or ``{"cycle_due": {"placements_max": 1024, "work_max": 60000}}``: submissions and
requests as in ``history``.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ykactor.core.messages.acts import Administration
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.held_limits import HeldLimits
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import RefuseEntry, Rejected, Submission
from ykactor.core.turn.causes import Cause, CycleDue, Input, Request, TimersDue
from ykactor.wire.history import Named, NamedDecoder, UnknownClassError


class _Cause(Struct, forbid_unknown_fields=True):
    """Exactly one field is set; an input may have limits."""

    input: list[Named] | UnsetType = UNSET
    limits: HeldLimits | None = None
    timers_due: bool | UnsetType = UNSET
    request: Named | UnsetType = UNSET
    cycle_due: Budget | UnsetType = UNSET


class SubmitAllocation(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The recorded form of an ask in an input, which has no stamps yet."""

    spec: Ask


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Cause)

_SUBMISSIONS: NamedDecoder[Any] = NamedDecoder(
    SubmitAllocation, *(kind for kind in get_args(Submission) if kind not in (Ask, RefuseEntry))
)
_REQUESTS: NamedDecoder[Administration] = NamedDecoder(*get_args(Administration))
_REJECTED: NamedDecoder[Rejected] = NamedDecoder(*get_args(Rejected))


class UnreadableCauseError(Exception):
    """The cause of a turn is damaged, or of a kind that this version does not know."""


def encode_cause(cause: Cause) -> bytes:
    """A cause as JSON."""
    match cause:
        case Input(submissions, limits):
            limited = {} if limits is None else {"limits": limits}
            return _ENCODER.encode({"input": [_named(each) for each in submissions], **limited})
        case TimersDue():
            return b'{"timers_due":true}'
        case Request(wanted):
            return _ENCODER.encode({"request": (type(wanted).__name__, wanted)})
        case CycleDue(budget):
            return _ENCODER.encode({"cycle_due": budget})


def _named(submission: Submission) -> tuple[str, object]:
    if type(submission) is Ask:
        return "SubmitAllocation", SubmitAllocation(submission)
    if type(submission) is RefuseEntry:
        return "RefuseEntry", (type(submission.rejected).__name__, submission.rejected)
    return type(submission).__name__, submission


def decode_cause(data: bytes) -> Cause:
    """The cause that ``encode_cause`` made into ``data``.

    Raises:
        UnreadableCauseError: the data is something else.
    """
    try:
        found = _DECODER.decode(data)
        if found.input is not UNSET:
            return Input([_submission(name, fields) for name, fields in found.input], found.limits)
        if found.timers_due is not UNSET:
            return TimersDue()
        if found.request is not UNSET:
            return Request(_REQUESTS.decode(*found.request))
        if found.cycle_due is not UNSET:
            return CycleDue(found.cycle_due)
    except (UnknownClassError, msgspec.DecodeError) as error:
        raise UnreadableCauseError(str(error)) from None
    raise UnreadableCauseError("found no kind of cause, expected input, timers_due, request or cycle_due")


def _submission(name: str, fields: Raw) -> Submission:
    if name == RefuseEntry.__name__:
        return RefuseEntry(_REJECTED.decode(*msgspec.json.decode(fields, type=Named)))
    submission: Submission | SubmitAllocation = _SUBMISSIONS.decode(name, fields)
    return submission.spec if isinstance(submission, SubmitAllocation) else submission
