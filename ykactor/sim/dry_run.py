"""The asks of a scenario as they would be decided if it was sent now; nothing is sent, and nothing changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from ykactor.core.messages.facts import Allocated, Fact, Preempted, Released
from ykactor.core.messages.states import ApplicationState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS
from ykactor.core.waiting.causes import PendingCauses
from ykactor.core.waiting.reasons import PendingCause
from ykactor.sim.simulator import to_ns
from ykactor.sim.what_if import Fork, Run, Status, Statuses, Subject, Watcher, run_from, waiting
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.endings import ask_key
from ykactor.wire.si import messages as si

#: It runs, waits at the end, can never run, is refused, or ends without running.
Outcome = Literal["runs", "waits", "never", "refused", "ended"]


class Tried(Struct, frozen=True, rename="camel"):
    """The outcome of an ask.

    Attributes:
        node_id: where it begins to run; "" if it does not.
        sent_seconds: the second of the scenario at which it is sent; after_seconds: at which it begins to run.
        code, reason: of one that waits, has waited before it runs, or never runs, as of AP-150; of another one the reason alone.
        ends: the tasks whose end lets it begin; on its node, if one of them has run there.
        preempts: the tasks that would be preempted for it.
        why: what allows it to preempt, in a sentence.
        work_lost: what these have used, in base units times seconds.
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
    ends: list[str] = []
    preempts: list[str] = []
    why: str = ""
    work_lost: Resource = {}


def dry_run(fork: Fork, scenario: Scenario, begin_ns: int, *, reserves: bool) -> tuple[list[Tried], list[str]]:
    """Try each ask of a scenario until its end: their outcomes in the order of its messages, and why messages had no effect.

    Args:
        begin_ns: the Unix time of its second 0, in whole microseconds.
        reserves: whether asks reserve nodes in partitions that it adds.
    """
    course = _Course(begin_ns, scenario)
    run = run_from(fork, scenario, begin_ns, course, reserves=reserves)
    names, statuses = _names(run), run.statuses()
    causes = {
        subject: (cause, is_never)
        for name, partition in run.partitions.items()
        for subject, cause, is_never in waiting(name, partition)
    }
    asks = ((subject, message.at) for message in scenario.messages for subject in _asks_of(message, names))
    return [_tried(subject, at_s, course, causes, statuses) for subject, at_s in asks], run.refused


class _Course(Watcher):
    """The tasks of which the facts tell.

    Attributes:
        began: the first node of each task, and the second at which it began to run there.
        victims: the preemptions for each task.
        ends: the tasks whose end has let a task begin.
        waited: the cause for which a task could not begin when it was sent.
    """

    def __init__(self, begin_ns: int, scenario: Scenario) -> None:
        self.began: dict[Subject, tuple[NodeID, float]] = {}
        self.victims: dict[Subject, list[Preempted]] = {}
        self.ends: dict[Subject, list[str]] = {}
        self.waited: dict[Subject, PendingCause] = {}
        self._begin_ns = begin_ns
        #: The messages whose asks have not been looked at.
        self._messages = deque(scenario.messages)
        #: The node and the key of each task that has ended at this time.
        self._ended: list[tuple[NodeID, str]] = []
        self._ended_ns = -1

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, Released):
            if fact.at_ns != self._ended_ns:
                self._ended, self._ended_ns = [], fact.at_ns
            self._ended.append((fact.node_id, fact.ask.allocation_key))
        elif isinstance(fact, Allocated | Preempted):
            subject = Subject(partition, fact.ask.application_id, fact.ask.allocation_key)
            if isinstance(fact, Preempted):
                self.victims.setdefault(subject, []).append(fact)
            elif subject not in self.began:
                self.began[subject] = fact.node_id, (fact.at_ns - self._begin_ns) / S_NS
                if fact.at_ns == self._ended_ns:
                    here = [key for node_id, key in self._ended if node_id == fact.node_id]
                    self.ends[subject] = here or [key for _, key in self._ended]

    def look(self, run: Run, at_ns: int) -> None:
        """Look for the causes of the tasks that were sent since the last instant, and have not begun."""
        causes = {name: PendingCauses(partition.scheduler.state) for name, partition in run.partitions.items()}
        names = _names(run)
        while self._messages and self._begin_ns + to_ns(self._messages[0].at) <= at_ns:
            for subject in _asks_of(self._messages.popleft(), names):
                partition, key = run.partitions.get(subject.partition), AllocationKey(subject.key)
                applications = {} if partition is None else partition.scheduler.state.applications
                found = applications.get(ApplicationID(subject.application_id))
                if found is not None and key in found.asks:
                    self.waited[subject] = causes[subject.partition].of_ask(found, key)


def _names(run: Run) -> dict[str, PartitionName]:
    """The partitions by lower case: names are compared without case (CF-64)."""
    return {name.lower(): name for name in run.partitions}


def _asks_of(message: TimedRequest, names: Mapping[str, PartitionName]) -> Iterator[Subject]:
    """The asks of a message that need a node."""
    if isinstance(message.request, si.AllocationRequest):
        for ask in message.request.allocations:
            if not ask.node_id:
                partition, application_id, key = ask_key(ask.partition_name, ask.application_id, ask.allocation_key)
                yield Subject(names.get(partition, PartitionName(partition)), application_id, key)


def _tried(
    subject: Subject,
    at_s: float,
    course: _Course,
    causes: Mapping[Subject, tuple[PendingCause, bool]],
    statuses: Statuses,
) -> Tried:
    found = Tried(*subject, "refused", sent_seconds=at_s, **_preemption(course.victims.get(subject, [])))
    if subject in course.began:
        node_id, began_s = course.began[subject]
        return structs.replace(
            found,
            outcome="runs",
            node_id=node_id,
            after_seconds=began_s,
            ends=course.ends.get(subject, []) if began_s > at_s and not found.preempts else [],
            **_cause(course.waited.get(subject)),
        )
    if subject in causes:
        cause, is_never = causes[subject]
        return structs.replace(found, outcome="never" if is_never else "waits", **_cause(cause))
    status = statuses.get(subject, Status("refused"))
    application = statuses.get(subject._replace(key=""))
    if application is not None and application.state == ApplicationState.REJECTED:
        status = structs.replace(status, reason=application.reason)
    return structs.replace(found, outcome="ended" if status.state == "ended" else "refused", reason=status.reason)


def _cause(cause: PendingCause | None) -> dict[str, str]:
    return {} if cause is None else {"code": cause.code.value, "reason": cause.text}


def _preemption(facts: Sequence[Preempted]) -> dict[str, Any]:
    """The fields of ``Tried`` about what an ask preempts."""
    lost: Resource = {}
    for fact in facts:
        add_to(lost, fact.work_lost)
    preempts = [key for fact in facts for _, _, key in fact.victims]
    return {"preempts": preempts, "why": facts[-1].why, "work_lost": lost} if facts else {}
