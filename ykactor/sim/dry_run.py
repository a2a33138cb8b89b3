"""The asks of a scenario as they would be decided if it was sent now; nothing is sent, and nothing changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field, structs

from ykactor.core.inspection.explaining import Everything, Sight
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated, AllocationRejected, AskAdded, Fact, Preempted, Released
from ykactor.core.messages.states import ApplicationState
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS
from ykactor.core.waiting.causes import PendingCauses
from ykactor.core.waiting.reasons import PendingCause
from ykactor.sim.simulator import to_ns
from ykactor.sim.what_if import Fork, Run, Status, Statuses, Subject, Watcher, is_for_ever, run_from, waiting
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.endings import asks_of
from ykactor.wire.si import messages as si
from ykactor.wire.si.lengths import shortened
from ykactor.wire.si.protocol_error import ProtocolError
from ykactor.wire.si.requests import submissions, unknown_partition

#: The queue and the key of another task.
_Other = tuple[QueuePath, AllocationKey]
#: It runs, waits at the end, can never run, is refused, or ends without running.
Outcome = Literal["runs", "waits", "never", "refused", "ended"]
#: The reason of an ask of which the task ran before.
RUNS_ALREADY = "it runs there already"


class Tried(Struct, frozen=True, rename="camel"):
    """The outcome of an ask.

    Attributes:
        node_id: where it begins to run, or ran before it was sent; "" if it does not.
        sent_seconds: the second of the scenario at which it is sent; after_seconds: at which it begins to run, not before that.
        code, reason: of one that waits, has waited before it runs, or never runs, as of AP-150; of another one the reason alone.
            Both are empty only of one that runs as soon as it is sent.
        ends: the tasks whose end lets it begin; on its node, if one of them has run there.
        preempts: the tasks that would be preempted for it.
        why: what allows it to preempt, in a sentence.
        work_lost: what these have used, in base units times seconds.
        others: the number of further tasks that it preempts, or that end before it, which a limited reader may not see; then
            ``why`` and ``work_lost`` are not told.
    """

    partition_name: str
    application_id: str = field(name="applicationID")
    allocation_key: str
    outcome: Outcome
    node_id: str = field(name="nodeID", default="")
    sent_seconds: float = 0
    after_seconds: float | None = None
    code: str = ""
    reason: str = ""
    ends: list[str] = []
    preempts: list[str] = []
    why: str = ""
    work_lost: Resource = {}
    others: int = 0


class DryRun(Struct, frozen=True, rename="camel"):
    """The outcomes of asks, in the order of their messages.

    Attributes:
        begin_ns: the Unix time of second 0.
        seconds: how long they were tried: nothing else arrives, and tasks of which nobody told when they end do not end. It is
            longer than the scenario if asks wait then, and ends are known.
        refused: why messages, or parts of them, had no effect.
    """

    begin_ns: int
    seconds: float
    asks: list[Tried]
    refused: list[str]


def dry_run(fork: Fork, scenario: Scenario, begin_ns: int, sight: Sight | None = None, *, reserves: bool) -> DryRun:
    """Try each ask of a scenario until its end.

    Args:
        begin_ns: the Unix time of its second 0, in whole microseconds.
        sight: of a reader that is limited to queues.
        reserves: whether asks reserve nodes in partitions that it adds.
    """
    course = _Course(begin_ns, scenario, sight or Everything())
    run = run_from(fork, scenario, begin_ns, course, reserves=reserves)
    names, statuses = _names(run), run.statuses()
    messages = [(message.at, _mistake(message), [*_asks_of(message, names)]) for message in scenario.messages]
    own = {subject for _, _, asks in messages for subject in asks}
    found = (each for name, partition in run.partitions.items() for each in waiting(name, partition))
    causes = {subject: (cause, ask) for subject, cause, ask in found if subject in own}
    tried = [
        _refused(subject, at_s, mistake) if mistake else _tried(subject, at_s, course, causes, statuses)
        for at_s, mistake, asks in messages
        for subject in asks
    ]
    return DryRun(begin_ns, run.seconds, tried, run.refused)


def _mistake(message: TimedRequest) -> str:
    """The reason for which a message as a whole is refused; "" if it is not."""
    if isinstance(message.request, si.AllocationRequest):
        try:
            submissions(message.request)
        except ProtocolError as mistake:
            return str(mistake)
    return ""


class _Course(Watcher):
    """The tasks of which the facts tell.

    Attributes:
        began: the first node of each task, and the second at which it began to run there.
        victims: the preemptions for each task.
        ends: the tasks whose end has let a task begin, each with its queue.
        waited: the cause for which a task could not begin when it was sent, and its ask.
        added: the asks that are new; refusals: why entries were refused, also about tasks that there are.
    """

    def __init__(self, begin_ns: int, scenario: Scenario, sight: Sight) -> None:
        self.began: dict[Subject, tuple[NodeID, float]] = {}
        self.victims: dict[Subject, list[Preempted]] = {}
        self.ends: dict[Subject, list[_Other]] = {}
        self.waited: dict[Subject, tuple[PendingCause, Ask]] = {}
        self.added: set[Subject] = set()
        self.refusals: dict[Subject, str] = {}
        self.sight = sight
        self._begin_ns = begin_ns
        #: The messages whose asks have not been looked at.
        self._messages = deque(scenario.messages)
        #: Those of ``waited`` that may not have begun.
        self._hopeful: list[Subject] = []
        #: The node of each task that has ended at this time.
        self._ended: list[tuple[NodeID, _Other]] = []
        self._ended_ns = -1

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        if isinstance(fact, Released):
            if fact.at_ns != self._ended_ns:
                self._ended, self._ended_ns = [], fact.at_ns
            self._ended.append((fact.node_id, (fact.queue, fact.ask.allocation_key)))
        elif isinstance(fact, AllocationRejected):
            self.refusals[Subject(partition, fact.application_id, fact.allocation_key)] = fact.reason
        elif isinstance(fact, AskAdded):
            self.added.add(Subject(partition, fact.ask.application_id, fact.ask.allocation_key))
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
        if not self._messages:
            return
        causes = {name: PendingCauses(partition.scheduler.state) for name, partition in run.partitions.items()}
        names = _names(run)
        while self._messages and self._begin_ns + to_ns(self._messages[0].at) <= at_ns:
            for subject in _asks_of(self._messages.popleft(), names):
                if (found := _asked(run, subject)) is not None:
                    application, ask = found
                    self.waited[subject] = causes[subject.partition].of_ask(application, ask.allocation_key), ask
                    self._hopeful.append(subject)

    def waits(self, run: Run) -> bool:
        """True if one of the tasks waits, and may begin."""
        while self._hopeful:
            subject = self._hopeful[-1]
            if subject not in self.began and _asked(run, subject) is not None and not is_for_ever(*self.waited[subject]):
                return True
            self._hopeful.pop()
        return False


def _asked(run: Run, subject: Subject) -> tuple[PendingApplication, Ask] | None:
    """The pending ask of that name, and its application; None if there is none."""
    partition, key = run.partitions.get(subject.partition), AllocationKey(subject.key)
    applications = {} if partition is None else partition.scheduler.state.applications
    found = applications.get(ApplicationID(subject.application_id))
    return (found, found.asks[key][0]) if found is not None and key in found.asks else None


def _names(run: Run) -> dict[str, PartitionName]:
    """The partitions by lower case: names are compared without case (CF-64)."""
    return {name.lower(): name for name in run.partitions}


def _asks_of(message: TimedRequest, names: Mapping[str, PartitionName]) -> Iterator[Subject]:
    """The asks of a message that need a node. A name that is too long is refused by its beginning (AP-138)."""
    for _, (partition, *rest), has_node in asks_of(message):
        if not has_node:
            yield Subject(names.get(partition, PartitionName(partition)), *map(shortened, rest))


def _tried(
    subject: Subject,
    at_s: float,
    course: _Course,
    causes: Mapping[Subject, tuple[PendingCause, Ask]],
    statuses: Statuses,
) -> Tried:
    sight, preemptions = course.sight, course.victims.get(subject, [])
    found = Tried(*subject, "refused", sent_seconds=at_s, **_preemption(sight, preemptions))
    if subject in course.refusals and subject not in course.added:
        return _refused(subject, at_s, _refusal(subject, course, statuses))
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
    match status.state:
        case "runs":  # its entry changes no more than its size and its policy (AP-111, AP-116)
            return structs.replace(found, outcome="runs", node_id=status.node_id, after_seconds=at_s, reason=RUNS_ALREADY)
        case "waits" | "ended":
            return structs.replace(found, outcome=status.state, reason=status.reason)
    return _refused(subject, at_s, _refusal(subject, course, statuses))


def _refusal(subject: Subject, course: _Course, statuses: Statuses) -> str:
    """The reason for which an ask is refused: its application, itself, or its partition."""
    application = statuses.get(subject._replace(key=""))
    if application is not None and application.state == ApplicationState.REJECTED:
        return application.reason
    return course.refusals.get(subject) or _no_partition(subject)


def _refused(subject: Subject, at_s: float, reason: str) -> Tried:
    return Tried(*subject, "refused", sent_seconds=at_s, reason=reason)


def _no_partition(subject: Subject) -> str:
    """The refusal of an ask for a partition that there is not."""
    ask = Ask(AllocationKey(subject.key), ApplicationID(subject.application_id), {})
    refusal = unknown_partition(ask, subject.partition, 0)
    assert isinstance(refusal, AllocationRejected)
    return refusal.reason


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
