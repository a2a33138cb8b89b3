"""The outcome of new work: what partitions would get of it, and what becomes of its asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, msgpack, structs

from ykactor.access.view import View
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.submissions import HeldLimits, Submission
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.names import ANY
from ykactor.sim.dry_run import dry_run
from ykactor.sim.what_if import Fork
from ykactor.wire.history import decode_cause
from ykactor.wire.rest.codec import encode
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.endings import AskKey, ask_key
from ykactor.wire.scenario.recording import Turn


class Sent(Struct, frozen=True):
    """The input of a partition.

    Attributes:
        submissions: as ``encode_cause`` encodes those of an input, in parts.
        limits: of the sender.
    """

    partition: PartitionName
    submissions: list[bytes]
    limits: HeldLimits

    def decoded(self) -> Input:
        """The whole input."""
        return Input([each for part in self.submissions for each in _submissions(part)], self.limits)


def _submissions(part: bytes) -> Sequence[Submission]:
    found = decode_cause(part)
    assert isinstance(found, Input)
    return found.submissions


class NewWork(Struct, frozen=True, tag=True):
    """New work, of which the outcomes are asked.

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

    def answer(self, fork: Fork) -> bytes:
        """``Answer``, encoded."""
        run_seconds = {ask_key(*self.asks[place]): seconds for place, seconds in self.run_seconds.items()}
        messages = [_message(each, run_seconds) for each in self.sent]
        sight = None if self.queues is None else View(ANY, frozenset(self.queues))
        # Whether asks reserve nodes is for partitions that a configuration adds, and there is none: bases say it themselves.
        found = dry_run(fork, Scenario("", "", self.seconds, messages=messages), self.begin_ns, sight, reserves=True)
        outcomes = {(each.partition_name, each.application_id, each.allocation_key): each for each in found.asks}
        told = structs.replace(found, asks=[outcomes[ask] for ask in self.asks])
        return msgpack.encode(Answer(found.refused, encode(told)))


class Answer(Struct, frozen=True):
    """The answer to new work.

    Attributes:
        refused: the limits of the sender that it exceeds.
        body: the ``DryRun`` for the caller, as JSON.
    """

    refused: list[str]
    body: bytes


def _message(sent: Sent, run_seconds: dict[AskKey, float]) -> TimedRequest:
    cause = sent.decoded()
    return TimedRequest(0, Turn(sent.partition, cause), run_seconds=dict(_run_seconds(sent.partition, cause, run_seconds)))


def _run_seconds(partition: PartitionName, cause: Input, known: dict[AskKey, float]) -> Iterator[tuple[int, float]]:
    for index, submission in enumerate(cause.submissions):
        if isinstance(submission, Ask):
            key = ask_key(partition, submission.application_id, submission.allocation_key)
            if key in known:
                yield index, known[key]
