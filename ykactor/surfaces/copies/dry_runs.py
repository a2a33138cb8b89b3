"""The outcome of new work: what partitions would get of it, and what becomes of its asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from ykactor.access.view import View
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.submissions import Submission
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.names import ANY
from ykactor.sim.dry_run import dry_run
from ykactor.sim.what_if import Fork
from ykactor.surfaces.copies.questions import NewWork, Sent, Tried
from ykactor.wire.history import decode_cause
from ykactor.wire.rest.codec import encode
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.endings import AskKey, ask_key
from ykactor.wire.scenario.recording import Turn


def answer(question: NewWork, fork: Fork) -> Tried:
    """The outcomes of new work."""
    run_seconds = {ask_key(*question.asks[place]): seconds for place, seconds in question.run_seconds.items()}
    messages = [_message(each, run_seconds) for each in question.sent]
    sight = None if question.queues is None else View(ANY, frozenset(question.queues))
    # Whether asks reserve nodes is for partitions that a configuration adds, and there is none: bases say it themselves.
    found = dry_run(fork, Scenario("", "", question.seconds, messages=messages), question.begin_ns, sight, reserves=True)
    outcomes = {(each.partition_name, each.application_id, each.allocation_key): each for each in found.asks}
    told = structs.replace(found, asks=[outcomes[ask] for ask in question.asks])
    return Tried(found.refused, encode(told))


def _message(sent: Sent, run_seconds: dict[AskKey, float]) -> TimedRequest:
    cause = Input([each for part in sent.submissions for each in _submissions(part)], sent.limits)
    return TimedRequest(0, Turn(sent.partition, cause), run_seconds=dict(_run_seconds(sent.partition, cause, run_seconds)))


def _submissions(part: bytes) -> Sequence[Submission]:
    found = decode_cause(part)
    assert isinstance(found, Input)
    return found.submissions


def _run_seconds(partition: PartitionName, cause: Input, known: dict[AskKey, float]) -> Iterator[tuple[int, float]]:
    for index, submission in enumerate(cause.submissions):
        if isinstance(submission, Ask):
            key = ask_key(partition, submission.application_id, submission.allocation_key)
            if key in known:
                yield index, known[key]
