"""The asks of a scenario as they would be decided if it was sent now; nothing is sent, and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from ykactor.core.messages.facts import Allocated, Fact, Preempted
from ykactor.core.values.ids import NodeID, PartitionName
from ykactor.core.values.times import S_NS
from ykactor.core.waiting.reasons import PendingCause
from ykactor.sim.what_if import Fork, Status, Statuses, Subject, Watcher, run_from, waiting
from ykactor.wire.scenario import Scenario
from ykactor.wire.scenario.endings import ask_key
from ykactor.wire.si import messages as si

#: It runs, waits at the end, can never run, is refused, or ends without running.
Outcome = Literal["runs", "waits", "never", "refused", "ended"]


class Tried(Struct, frozen=True, rename="camel"):
    """The outcome of an ask.

    Attributes:
        node_id: where it begins to run; "" if it does not.
        sent_seconds: the second of the scenario at which it is sent; after_seconds: at which it begins to run.
        code, reason: of one that waits or never runs, as of AP-150; of another one the reason alone.
        preempts: the tasks that would be preempted for it.
    """

    partition_name: str
    application_id: str
    allocation_key: str
    outcome: Outcome
    node_id: str = ""
    sent_seconds: float = 0
    after_seconds: float | None = None
    code: str = ""
    reason: str = ""
    preempts: list[str] = []


def dry_run(fork: Fork, scenario: Scenario, begin_ns: int, *, reserves: bool) -> tuple[list[Tried], list[str]]:
    """Try each ask of a scenario until its end: their outcomes in the order of its messages, and why messages had no effect.

    Args:
        begin_ns: the Unix time of its second 0, in whole microseconds.
        reserves: whether asks reserve nodes in partitions that it adds.
    """
    course = _Course(begin_ns)
    run = run_from(fork, scenario, begin_ns, course, reserves=reserves)
    causes = {
        subject: (cause, is_never)
        for name, partition in run.partitions.items()
        for subject, cause, is_never in waiting(name, partition)
    }
    statuses = run.statuses()
    names = {name.lower(): name for name in run.partitions}  # compared without case (CF-64)
    return [_tried(subject, at_s, course, causes, statuses) for subject, at_s in _asks(scenario, names)], run.refused


class _Course(Watcher):
    """The tasks of which the facts tell.

    Attributes:
        began: the first node of each task, and the second at which it began to run there.
        victims: the tasks that were preempted for a task.
    """

    def __init__(self, begin_ns: int) -> None:
        self.began: dict[Subject, tuple[NodeID, float]] = {}
        self.victims: dict[Subject, list[str]] = {}
        self._begin_ns = begin_ns

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, Allocated | Preempted):
            subject = Subject(partition, fact.ask.application_id, fact.ask.allocation_key)
            if isinstance(fact, Preempted):
                self.victims.setdefault(subject, []).extend(key for _, _, key in fact.victims)
            else:
                self.began.setdefault(subject, (fact.node_id, (fact.at_ns - self._begin_ns) / S_NS))


def _asks(scenario: Scenario, names: Mapping[str, PartitionName]) -> Iterator[tuple[Subject, float]]:
    """The asks of a scenario that need a node, each with its second; ``names`` has the partitions by lower case."""
    for message in scenario.messages:
        if isinstance(message.request, si.AllocationRequest):
            for ask in message.request.allocations:
                if not ask.node_id:
                    partition, application_id, key = ask_key(ask.partition_name, ask.application_id, ask.allocation_key)
                    yield Subject(names.get(partition, PartitionName(partition)), application_id, key), message.at


def _tried(
    subject: Subject,
    at_s: float,
    course: _Course,
    causes: Mapping[Subject, tuple[PendingCause, bool]],
    statuses: Statuses,
) -> Tried:
    victims = course.victims.get(subject, [])
    if subject in course.began:
        node_id, began_s = course.began[subject]
        return Tried(*subject, "runs", node_id, at_s, began_s, preempts=victims)
    if subject in causes:
        cause, is_never = causes[subject]
        return Tried(*subject, "never" if is_never else "waits", "", at_s, None, cause.code.value, cause.text, victims)
    status = statuses.get(subject) or statuses.get(subject._replace(key=""), Status("refused"))
    return Tried(*subject, "ended" if status.state == "ended" else "refused", "", at_s, reason=status.reason)
