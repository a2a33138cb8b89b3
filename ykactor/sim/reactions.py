"""The resource manager of a recording: what it does because of what the scheduler decides, as the lives of the tasks say.

Tasks end after their run time. Releases that the scheduler starts are confirmed. Tasks that were preempted or have lost their
node are submitted again. Applications are removed when they have no task any more. What comes while no daemon runs is sent when
the next one does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from msgspec import Struct

from ykactor.core.messages.asks import ask_id
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    ApplicationChanged,
    AskAdded,
    AskRemoved,
    Fact,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.states import ApplicationState
from ykactor.core.messages.submissions import ReleaseAllocations, RemoveApplication, Submission
from ykactor.core.objects.registry import Registry
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import ApplicationID, PartitionName
from ykactor.core.values.times import US_NS
from ykactor.sim.direct import DirectPartition
from ykactor.sim.lives import again, is_handed_back, is_lost
from ykactor.sim.recorded import outage_before
from ykactor.wire.scenario.endings import AskKey, Endings, ask_key
from ykactor.wire.scenario.model import TimedRequest
from ykactor.wire.scenario.recording import Life, Lives, Recorded, Turn, nanoseconds

_UNKNOWN = Life(censored=True)


@final
class Conditional(Struct, frozen=True):
    """A submission with an effect only on a task that is there; the removal of an application after its last task."""

    submission: Submission


class _Course(Struct):
    """The life of a task, and how often it has begun to run, was to be released, and was lost."""

    life: Life
    runs: int = 0
    releases: int = 0
    losses: int = 0


class Reactions(Endings):
    """The reactions; ``Endings`` has the ends.

    Args:
        partitions: the present ones.
    """

    def __init__(self, recorded: Recorded, partitions: Mapping[PartitionName, DirectPartition]) -> None:
        super().__init__()
        self._recorded = recorded
        self._partitions = partitions
        self._courses: dict[AskKey, _Course] = {}
        #: The lives of asks that are sent and not added yet, by their order.
        self._expected: dict[AskKey, list[Life]] = {}
        #: Time, number, partition, what is sent then.
        self._due: list[tuple[int, int, PartitionName, Submission]] = []
        self._count = 0
        #: The removals that wait for the last task of their application.
        self._removals: dict[tuple[PartitionName, ApplicationID], RemoveApplication] = {}

    def expect(self, message: TimedRequest) -> None:
        """Remember the lives of new asks; to be called before they are sent."""
        request = message.request
        if isinstance(request, Turn) and isinstance(request.cause, Input):
            for index, life in request.lives.items():
                ask: Any = request.cause.submissions[index]
                key = ask_key(request.partition, ask.application_id, ask.allocation_key)
                self._expected.setdefault(key, []).append(life)
        elif not isinstance(request, Turn):
            super().expect(message)

    def begin(self, lives: Lives) -> None:
        """Remember the lives of tasks of the first state."""
        for application_id, key, life in lives.lives:
            self._courses[ask_key(lives.partition_name, application_id, key)] = _Course(life)

    def resume(self) -> None:
        """Let the tasks of the first state run since they began."""
        for name, partition in self._partitions.items():
            for application in _applications(partition.core.registry):
                for key, began_ns in application.tasks.began_ns.items():
                    self.on_started(ask_key(name, application.application_id, key), began_ns)

    # ---- what the scheduler decides

    def observe(self, partition: PartitionName, fact: Fact) -> None:
        """Take the next fact."""
        match fact:
            case AskAdded():
                self._added(_key(partition, fact))
            case Allocated():
                if fact.recovered:
                    self._added(_key(partition, fact))
                self.on_started(_key(partition, fact), fact.at_ns)
            case AllocationRejected():
                self._take_expected(ask_key(partition, fact.application_id, fact.allocation_key))
            case AskRemoved(pending=True):
                self._courses.pop(_key(partition, fact), None)
            case Released():
                self.on_ended(_key(partition, fact), fact.at_ns)
                self._ended(partition, fact)
            case ReleaseStarted() if fact.node_id is not None:
                self._confirm(partition, fact)
            case ApplicationChanged(state=ApplicationState.COMPLETING):
                removal = self._removals.pop((partition, fact.application_id), None)
                if removal is not None:
                    self._send(fact.at_ns, partition, removal)
            case _:
                pass

    def _added(self, key: AskKey) -> None:
        life = self._take_expected(key)
        if life is not None:
            self._courses[key] = _Course(life)

    def _take_expected(self, key: AskKey) -> Life | None:
        expected = self._expected.get(key)
        if expected is None:
            return None
        life = expected.pop(0)
        if not expected:
            del self._expected[key]
        return life

    def on_started(self, key: AskKey, at_ns: int) -> None:
        course = self._courses.get(key)
        if course is not None:
            run_ns = nanoseconds(course.life.run_seconds)
            if course.runs < len(course.life.lost_seconds):
                run_ns = max(run_ns, nanoseconds(course.life.lost_seconds[course.runs]) + US_NS)
            course.runs += 1
            if course.life.censored:
                self._run_ns.pop(key, None)
            else:
                self._run_ns[key] = self._heard_ns(at_ns + max(US_NS, run_ns)) - at_ns
        super().on_started(key, at_ns)

    def _confirm(self, partition: PartitionName, fact: ReleaseStarted) -> None:
        course = self._course(partition, fact)
        recorded = course.life.confirm_seconds
        after = recorded[course.releases] if course.releases < len(recorded) else self._recorded.confirm_seconds
        course.releases += 1
        if after is not None:
            release = ReleaseAllocations(*ask_id(fact.ask), fact.termination_type)
            self._send(fact.at_ns + nanoseconds(after), partition, release)

    def _ended(self, partition: PartitionName, fact: Released) -> None:
        key, course = _key(partition, fact), self._course(partition, fact)
        if is_handed_back(fact):
            return
        if not is_lost(fact):
            self._courses.pop(key, None)
            return
        recorded = course.life.resubmit_seconds
        is_again = self._recorded.after_preemption == "resubmit"
        usual = self._recorded.resubmit_seconds if is_again else None
        after = recorded[course.losses] if course.losses < len(recorded) else usual
        course.losses += 1
        if after is None:
            self._courses.pop(key, None)
        else:
            self._send(fact.at_ns + nanoseconds(after), partition, again(fact.ask))

    def _course(self, partition: PartitionName, fact: ReleaseStarted | Released) -> _Course:
        return self._courses.setdefault(_key(partition, fact), _Course(_UNKNOWN))

    def _send(self, at_ns: int, partition: PartitionName, submission: Submission) -> None:
        self._count += 1
        heapq.heappush(self._due, (self._heard_ns(at_ns), self._count, partition, submission))

    def _heard_ns(self, at_ns: int) -> int:
        """The time at which a daemon hears what is sent at a time."""
        outage = outage_before(self._recorded.outages, at_ns)
        return at_ns if outage is None else max(at_ns, outage.to_ns)

    # ---- what is sent

    def next_ns(self, limit_ns: int) -> int:
        limit_ns = super().next_ns(limit_ns)
        return min(self._due[0][0], limit_ns) if self._due else limit_ns

    def work(self, at_ns: int) -> dict[PartitionName, list[Submission]]:
        work = super().work(at_ns)
        while self._due and self._due[0][0] <= at_ns:
            _, _, partition, submission = heapq.heappop(self._due)
            work.setdefault(partition, []).append(submission)
        return work

    def present(self, partition: PartitionName, submissions: Sequence[Submission | Conditional]) -> Iterator[Submission]:
        """The submissions without those whose condition does not hold; removals that have to wait are sent later."""
        registry = self._partitions[partition].core.registry
        for each in submissions:
            if not isinstance(each, Conditional):
                yield each
            elif self._holds(partition, registry, each.submission):
                yield each.submission

    def _holds(self, partition: PartitionName, registry: Registry, submission: Any) -> bool:
        name = submission.application_id
        if name not in registry.applications:
            return isinstance(submission, RemoveApplication)
        application = registry.leaf_of(name).applications[name]
        tasks = application.tasks
        if not isinstance(submission, RemoveApplication):
            return tasks.has(submission.allocation_key)
        is_idle = not (tasks.asks or tasks.allocations or tasks.replacing)
        if is_idle or application.lifecycle.state is ApplicationState.COMPLETING:
            return True
        self._removals[partition, name] = submission
        return False


def _key(partition: PartitionName, fact: AskAdded | Allocated | AskRemoved | Released | ReleaseStarted) -> AskKey:
    return ask_key(partition, fact.ask.application_id, fact.ask.allocation_key)


def _applications(registry: Registry) -> Iterator[Any]:
    for name in registry.applications:
        yield registry.leaf_of(name).applications[name]
