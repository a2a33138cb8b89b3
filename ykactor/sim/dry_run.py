"""The asks of a scenario as they would be decided if it was sent now; nothing is sent, and nothing changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, structs

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, Fact, Preempted, Released
from ykactor.core.messages.states import ApplicationState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS
from ykactor.core.waiting.causes import PendingCauses
from ykactor.core.waiting.reasons import PendingCause
from ykactor.sim.simulator import to_ns
from ykactor.sim.what_if import Fork, Run, Status, Statuses, Subject, Watcher, is_for_ever, run_from, waiting
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.endings import ask_key
from ykactor.wire.si import messages as si

#: The queue and the key of another task.
_Other = tuple[QueuePath, AllocationKey]
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
        others: the number of further tasks that it preempts, or that end before it, which a limited reader may not see; then
            ``why`` and ``work_lost`` are not told.
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
    others: int = 0


class Sight(Protocol):
    """The part of the state that a reader may see (``access.view.View``)."""

    def shows_queue(self, queue: str) -> bool:
        """True if the queue, a path in lower case, is shown."""

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        """The reason of a pending ask that wants so much, in base units."""


class _Everything:
    """The sight of readers that are not limited."""

    def shows_queue(self, queue: str) -> bool:
        return True

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        return cause.text


EVERYTHING = _Everything()


def dry_run(
    fork: Fork, scenario: Scenario, begin_ns: int, sight: Sight = EVERYTHING, *, reserves: bool
) -> tuple[list[Tried], list[str]]:
    """Try each ask of a scenario until its end: their outcomes in the order of its messages, and why messages had no effect.

    Args:
        begin_ns: the Unix time of its second 0, in whole microseconds.
        reserves: whether asks reserve nodes in partitions that it adds.
    """
    course = _Course(begin_ns, scenario, sight)
    run = run_from(fork, scenario, begin_ns, course, reserves=reserves)
    names, statuses = _names(run), run.statuses()
    asks = [(subject, message.at) for message in scenario.messages for subject in _asks_of(message, names)]
    own = {subject for subject, _ in asks}
    found = ((name, each) for name, partition in run.partitions.items() for each in waiting(name, partition))
    causes = {each[0]: each[1:] for _, each in found if each[0] in own}
    return [_tried(subject, at_s, course, causes, statuses) for subject, at_s in asks], run.refused


class _Course(Watcher):
    """The tasks of which the facts tell.

    Attributes:
        began: the first node of each task, and the second at which it began to run there.
        victims: the preemptions for each task.
        ends: the tasks whose end has let a task begin, each with its queue.
        waited: the cause for which a task could not begin when it was sent, and its ask.
    """

    def __init__(self, begin_ns: int, scenario: Scenario, sight: Sight) -> None:
        self.began: dict[Subject, tuple[NodeID, float]] = {}
        self.victims: dict[Subject, list[Preempted]] = {}
        self.ends: dict[Subject, list[_Other]] = {}
        self.waited: dict[Subject, tuple[PendingCause, Ask]] = {}
        self.sight = sight
        self._begin_ns = begin_ns
        #: The messages whose asks have not been looked at.
        self._messages = deque(scenario.messages)
        #: The node of each task that has ended at this time.
        self._ended: list[tuple[NodeID, _Other]] = []
        self._ended_ns = -1

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, Released):
            if fact.at_ns != self._ended_ns:
                self._ended, self._ended_ns = [], fact.at_ns
            self._ended.append((fact.node_id, (fact.queue, fact.ask.allocation_key)))
        elif isinstance(fact, Allocated | Preempted):
            subject = Subject(partition, fact.ask.application_id, fact.ask.allocation_key)
            if isinstance(fact, Preempted):
                self.victims.setdefault(subject, []).append(fact)
            elif subject not in self.began:
                self.began[subject] = fact.node_id, (fact.at_ns - self._begin_ns) / S_NS
                if fact.at_ns == self._ended_ns:
                    here = [other for node_id, other in self._ended if node_id == fact.node_id]
                    self.ends[subject] = here or [other for _, other in self._ended]

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
                    self.waited[subject] = causes[subject.partition].of_ask(found, key), found.asks[key][0]


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
    causes: Mapping[Subject, tuple[PendingCause, Ask]],
    statuses: Statuses,
) -> Tried:
    sight, preemptions = course.sight, course.victims.get(subject, [])
    found = Tried(*subject, "refused", sent_seconds=at_s, **_preemption(sight, preemptions))
    if subject in course.began:
        node_id, began_s = course.began[subject]
        ended = course.ends.get(subject, []) if began_s > at_s and not preemptions else []
        ends = [key for queue, key in ended if sight.shows_queue(queue.lower())]
        others = found.others + len(ended) - len(ends)
        told = _cause(sight, *course.waited[subject]) if subject in course.waited else {}
        return structs.replace(found, outcome="runs", node_id=node_id, after_seconds=began_s, ends=ends, others=others, **told)
    if subject in causes:
        cause, ask = causes[subject]
        return structs.replace(found, outcome="never" if is_for_ever(cause, ask) else "waits", **_cause(sight, cause, ask))
    status = statuses.get(subject, Status("refused"))
    application = statuses.get(subject._replace(key=""))
    if application is not None and application.state == ApplicationState.REJECTED:
        status = structs.replace(status, reason=application.reason)
    return structs.replace(found, outcome="ended" if status.state == "ended" else "refused", reason=status.reason)


def _cause(sight: Sight, cause: PendingCause, ask: Ask) -> dict[str, str]:
    return {"code": cause.code.value, "reason": sight.reason(cause, ask.resource)}


def _preemption(sight: Sight, facts: Sequence[Preempted]) -> dict[str, Any]:
    """The fields of ``Tried`` about what an ask preempts."""
    victims = [(queue, key) for fact in facts for queue, _, key in fact.victims]
    preempts = [key for queue, key in victims if sight.shows_queue(queue.lower())]
    if others := len(victims) - len(preempts):
        return {"preempts": preempts, "others": others}
    lost: Resource = {}
    for fact in facts:
        add_to(lost, fact.work_lost)
    return {"preempts": preempts, "why": facts[-1].why, "work_lost": lost} if facts else {}
