"""Turns as JSON, for the journal: their causes and their facts.

An object of several classes is ``["Allocated", {"at_ns": 0, ...}]``: the name of its class, and its fields. A cause is
``{"input": [["SubmitAllocation", {...}], ...], "limits": {...}}``, ``{"timers_due": true}``,
``{"request": ["MoveApplication", {...}]}`` or ``{"cycle_due": {"placements_max": 1024, "work_max": 60000}}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, get_args

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ykactor.core.messages.acts import Administration
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import FACTS, Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import HeldLimits, RefuseEntry, Rejected, Submission
from ykactor.core.records.encoding import Decoder
from ykactor.core.turn.turn import Cause, CycleDue, Input, Request, TimersDue
from ykactor.core.values.ids import PartitionName

S = TypeVar("S", bound=Struct)

#: The name of a class, and the fields as JSON.
Named = tuple[str, Raw]


class UnknownClassError(Exception):
    """A name is that of no class that this version knows."""


class NamedDecoder(Generic[S]):
    """Makes objects of these classes again."""

    def __init__(self, *kinds: type[S]) -> None:
        self._decoders = {kind.__name__: Decoder(kind) for kind in kinds}

    def decode(self, name: str, fields: Raw) -> S:
        """The object.

        Raises:
            UnknownClassError: see there.
            msgspec.DecodeError: the fields are not those of the class.
        """
        decoder = self._decoders.get(name)
        if decoder is None:
            raise UnknownClassError(f"found {name!r}, expected what this version knows")
        return decoder.decode(fields)


_ENCODER = msgspec.json.Encoder()
_ENTRIES = msgspec.json.Decoder(list[Named])
_FACTS: NamedDecoder[Fact] = NamedDecoder(*FACTS)


class HistoryError(Exception):
    """A turn in a journal cannot be read: it is damaged, or of another version."""


class RecordedTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """A turn in a journal.

    Attributes:
        number: counts the turns of the partition; None if these facts are of no turn: a session has refused something itself,
            the partition has failed, or they are of the audit.
        now_ns: the Unix time of the turn.
        cause: for ``decode_cause``; null without a number.
        facts: for ``decode_facts``.
    """

    partition: PartitionName
    number: int | None = None
    now_ns: int = 0
    cause: Raw = Raw(b"null")
    facts: Raw = Raw(b"[]")


_TURN = msgspec.json.Decoder(RecordedTurn)


def decode_turn(data: bytes) -> RecordedTurn:
    """A turn, as the journal has it. Raises:  HistoryError if the data is something else."""
    try:
        return _TURN.decode(data)
    except msgspec.DecodeError as error:
        raise HistoryError(f"turn: {error}") from None


def encode_facts(facts: Sequence[Fact]) -> bytes:
    """A JSON array of the facts, in order. Cost: 0.3 us and 300 bytes for each."""
    return _ENCODER.encode([(type(fact).__name__, fact) for fact in facts])


def decode_facts(data: bytes) -> list[Fact]:
    """The facts in an array that ``encode_facts`` made.

    Raises:
        HistoryError: the data is not such an array, or names a fact that does not exist.
    """
    name = ""
    facts: list[Fact] = []
    try:
        for name, fields in _ENTRIES.decode(data):
            facts.append(_FACTS.decode(name, fields))
    except UnknownClassError as unknown:
        raise HistoryError(f"fact {len(facts)}: {unknown}") from None
    except msgspec.DecodeError as error:
        raise HistoryError(f"fact {len(facts)} {name}: {error}") from None
    return facts


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


_CAUSE = msgspec.json.Decoder(_Cause)

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
        found = _CAUSE.decode(data)
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
