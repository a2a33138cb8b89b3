"""The questions to the process that answers from copies, which the daemon asks without loading what answers them."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.inspection.finding import Match
from ykactor.core.messages.submissions import HeldLimits
from ykactor.core.values.ids import PartitionName

#: The bytes that the process may have.
MEMORY_MAX = 2**30


class Sent(Struct, frozen=True):
    """The input of a partition.

    Attributes:
        submissions: as ``encode_cause`` encodes those of an input, in parts.
        limits: of the sender.
    """

    partition: PartitionName
    submissions: list[bytes]
    limits: HeldLimits


class NewWork(Struct, frozen=True, tag=True):
    """New work, of which the outcomes are asked; the answer is ``Tried``.

    Attributes:
        begin_ns: the Unix time at which all of it is sent.
        seconds: how long it is tried.
        sent: the inputs of partitions, in order.
        asks: the partition, application and key of each ask, in the order of the answer.
        run_seconds: how long asks run, by their places in ``asks``.
        queues: those that a limited reader sees, as of ``View``; None: all.
    """

    begin_ns: int
    seconds: float
    sent: list[Sent]
    asks: list[tuple[PartitionName, str, str]]
    run_seconds: dict[int, float]
    queues: tuple[str, ...] | None = None


class Tried(Struct, frozen=True):
    """The answer to new work.

    Attributes:
        refused: the limits of the sender that it exceeds.
        body: the ``DryRun`` for the caller, as JSON.
    """

    refused: list[str]
    body: bytes


class Changes(Struct, frozen=True, tag=True):
    """An ask, or an application for its first one, to be explained with changes; the answer is ``si.Explanation`` or None.

    Attributes:
        now_ns: the Unix time.
        may_preempt: True if the ask may preempt, within a minute.
        queues: as of ``NewWork``.
    """

    now_ns: int
    match: Match
    may_preempt: bool
    queues: tuple[str, ...] | None = None


Question = NewWork | Changes
