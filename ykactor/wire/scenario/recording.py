"""Recordings: scenarios that ``ykactor record`` makes of a journal.

The header of a recording has ``recorded``. The state at its second 0 follows as rows (``core.records``), then what was sent to
each partition, with the times at which the daemon scheduled. Times are Unix nanoseconds. ``sim/README.md`` has every key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from ykactor.core.records.base import Base
from ykactor.core.turn.turn import Cause
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import S_NS, US_NS
from ykactor.wire.history import UnreadableCauseError, decode_cause, encode_cause

#: The version of the format; a program refuses a later one.
VERSION = 1
#: Rows and lives of one line.
CHUNK = 500

#: What becomes of a task that was preempted or has lost its node: it is submitted again, with its whole run time, or it is gone.
AfterPreemption = Literal["resubmit", "drop"]


class Outage(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A time in which no daemon ran, between two Unix times: from the last turn before it to the first one after it.

    It may have been shorter, because a daemon that has nothing to do records nothing.
    """

    from_ns: int
    to_ns: int


class Recorded(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """The part of the header of a recording that other scenarios do not have.

    Attributes:
        version: Of the format.
        program: The version of ykactor that has recorded it.
        begin_ns: The Unix time of second 0.
        exact: Whether it has every turn with its facts, for ykactor replay; else it is for ykactor simulate.
        after_preemption: Whether a task that was preempted or has lost its node is submitted again, where the recording does not
            say what happened.
        confirm_seconds: How long after it was asked to the resource manager confirms a release, where that was not recorded.
        resubmit_seconds: How long after its end such a task is submitted again, where that was not recorded.
        outages: When no daemon ran, in their order.
    """

    version: int
    program: str
    begin_ns: int
    exact: bool = False
    after_preemption: AfterPreemption = "resubmit"
    confirm_seconds: float = 0
    resubmit_seconds: float = 0
    outages: tuple[Outage, ...] = ()


class Life(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """The recorded life of a task.

    Attributes:
        run_seconds: how long it ran, the last time if it ran several times.
        censored: it ran at the end of the recording, or not at all: it runs at least for ``run_seconds``, and has no end.
        lost_seconds: of each run that was cut short, the first one first, how long it was.
        confirm_seconds: of each release that the scheduler has started, after how long the resource manager has confirmed it;
            None: not by itself.
        resubmit_seconds: of each loss, after how long the task was submitted again; None: never.
    """

    run_seconds: float = 0
    censored: bool = False
    lost_seconds: tuple[float, ...] = ()
    confirm_seconds: tuple[float | None, ...] = ()
    resubmit_seconds: tuple[float | None, ...] = ()


class Rows(Struct, frozen=True, tag=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """Rows of the state of a partition; consecutive ones of the same partition are one state."""

    at_ns: int
    partition_name: PartitionName
    reserves: bool
    rows: list[tuple[Raw, Raw]]


class Lives(Struct, frozen=True, tag=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """The lives of tasks in the state at second 0: application, key, life."""

    at_ns: int
    partition_name: PartitionName
    lives: Sequence[tuple[str, str, Life]]


class TurnLine(Struct, frozen=True, tag="Turn", tag_field="type", rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """A turn, as a line has it (``Turn``). ``number`` and ``facts`` are those of an exact recording."""

    at_ns: int
    partition_name: PartitionName
    cause: Raw
    lives: dict[int, Life] = {}
    if_known: tuple[int, ...] = ()
    after_tasks: tuple[int, ...] = ()
    anew: bool = False
    number: int | None = None
    facts: Raw = Raw(b"")


class End(Struct, frozen=True, tag=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """The last line of a recording, with the number of its turns."""

    turns: int


Line = Rows | Lives | TurnLine | End


class Turn(Struct, frozen=True):
    """The cause of a turn: what was sent to a partition, or that the daemon has scheduled.

    Attributes:
        lives: of new asks, by their index in the input.
        if_known: the indexes of what has an effect only on a task that is there.
        after_tasks: the indexes of removals that wait until their applications have no task any more.
        anew: the daemon had made the partition from its rows, and knew nothing of earlier searches.
    """

    partition: PartitionName
    cause: Cause
    lives: dict[int, Life] = {}
    if_known: tuple[int, ...] = ()
    after_tasks: tuple[int, ...] = ()
    anew: bool = False


#: The messages that only a recording has.
Recording = Rows | Lives | Turn

_LINE = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()
_BEGINNINGS = tuple(f'{{"type":"{name}"'.encode() for name in ("Rows", "Lives", "Turn", "End"))


class UnreadableLineError(Exception):
    """A line of a recording is damaged, or of another version."""


def decode_line(data: bytes) -> Line | None:
    """A line that only recordings have; None for any other. Raises:  UnreadableLineError."""
    if not data.startswith(_BEGINNINGS):
        return None
    try:
        line: Line = _LINE.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableLineError(str(error)) from None
    return line


def encode_line(line: Line) -> bytes:
    """A line with its end."""
    return _ENCODER.encode(line) + b"\n"


def turn_of(line: TurnLine) -> Turn:
    """The turn of a line. Raises:  UnreadableLineError."""
    try:
        return Turn(line.partition_name, decode_cause(line.cause), line.lives, line.if_known, line.after_tasks, line.anew)
    except UnreadableCauseError as error:
        raise UnreadableLineError(f"cause: {error}") from None


def line_of(at_ns: int, turn: Turn) -> TurnLine:
    """The line of a turn."""
    cause = Raw(encode_cause(turn.cause))
    return TurnLine(at_ns, turn.partition, cause, turn.lives, turn.if_known, turn.after_tasks, turn.anew)


def base_lines(at_ns: int, partition: PartitionName, base: Base) -> Iterator[Rows]:
    """The lines of a state, at least one."""
    for first in range(0, max(1, len(base.rows)), CHUNK):
        yield Rows(at_ns, partition, base.reserves, base.rows[first : first + CHUNK])


def seconds(nanoseconds: int) -> float:
    """Seconds from which ``nanoseconds`` makes the same whole microseconds again."""
    return nanoseconds / S_NS


def nanoseconds(in_seconds: float) -> int:
    """Nanoseconds, in whole microseconds."""
    return round(in_seconds * 1e6) * US_NS
