"""The tallies of a run by queue, user, group and priority, and the mean waits of its applications.

They take the facts of all partitions in order. Percentiles need all waits: 16 bytes for each ask that has waited, 9 for each code
that it waited for, and 8 in each of its tallies, and there 8 more for each task that has ended. All else is bounded by the
numbers of applications, queues, users, groups and priorities, and of the tasks that are there at one time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ykactor.core.messages.asks import Ask, AskID, ask_id
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationAdded,
    ApplicationLeft,
    ApplicationMoved,
    ApplicationRejected,
    AskAdded,
    AskPriorityChanged,
    AskRemoved,
    AskResized,
    AskReturned,
    Fact,
    NodeRejected,
    Preempted,
    QueueLimitChanged,
    QueueRemoved,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.kinds import PendingCode, TerminationType
from ykactor.core.queueing.waits import Waited
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName, QueuePath
from ykactor.core.values.resources import Resource, add_to
from ykactor.core.values.times import S_NS
from ykactor.sim.fairness import FairnessAccount

#: Shorter tasks count as so long in the bounded slowdown.
SHORT_NS = 10 * S_NS
#: A slowdown is kept in parts of this size.
SLOWDOWN_PARTS = 1000


class Tally:
    """The counts of a queue, user, group or priority.

    Attributes:
        waits: of placed asks, and of those that wait at the end, as places in ``Waits``.
        waiting: how many asks wait at the end.
        slowdowns: bounded slowdowns of tasks that have ended by themselves, in thousandths.
        preempted: the number of tasks that were preempted.
        use, lost: by type, base units times nanoseconds: what tasks have used, and those that were preempted.
    """

    __slots__ = ("lost", "preempted", "slowdowns", "use", "waiting", "waits")

    def __init__(self) -> None:
        self.waits = array("L")
        self.waiting = 0
        self.slowdowns = array("q")
        self.preempted = 0
        self.use: Resource = {}
        self.lost: Resource = {}

    def add(self, other: Tally) -> None:
        """Add the counts of another one."""
        self.waits.extend(other.waits)
        self.waiting += other.waiting
        self.slowdowns.extend(other.slowdowns)
        self.preempted += other.preempted
        add_to(self.use, other.use)
        add_to(self.lost, other.lost)


class _Running:
    """A task that runs: since when, from when on its use is still to be counted, and how long it has waited, if that is known."""

    __slots__ = ("ask", "counted_ns", "is_preempted", "started_ns", "waited_ns")

    def __init__(self, at_ns: int, ask: Ask, waited_ns: int | None) -> None:
        self.started_ns = self.counted_ns = at_ns
        self.ask = ask
        self.waited_ns = waited_ns
        self.is_preempted = False


class _Application:
    """An application that is there: where its tasks count, its pending asks with their begin, and its tasks."""

    __slots__ = ("number", "owners", "queue", "running", "waiting")

    def __init__(self, number: int, queue: QueuePath, owners: tuple[Tally, ...]) -> None:
        self.number = number
        self.queue = queue
        self.owners = owners
        self.waiting: dict[AllocationKey, tuple[int, Ask]] = {}
        self.running: dict[AllocationKey, _Running] = {}


class Waits:
    """The waits of asks: for how long, and for what (AP-154)."""

    def __init__(self) -> None:
        self.all_ns = array("q")
        #: By place, the end of its parts; the code and the nanoseconds of each part.
        self._ends = array("Q")
        self._codes = array("B")
        self._parts_ns = array("q")

    def add(self, waited: Waited) -> int:
        """Add what an ask has waited for; returns its place."""
        for code, part_ns in waited.items():
            if part_ns:
                self._codes.append(_NUMBERS[code])
                self._parts_ns.append(part_ns)
        self._ends.append(len(self._codes))
        self.all_ns.append(sum(waited.values()))
        return len(self._ends) - 1

    def parts(self, place: int) -> Iterator[tuple[PendingCode, int]]:
        """The codes for which the ask has waited, and for how many nanoseconds."""
        for part in range(self._ends[place - 1] if place else 0, self._ends[place]):
            yield _CODES[self._codes[part]], self._parts_ns[part]


_CODES = tuple(PendingCode)
_NUMBERS = {code: number for number, code in enumerate(_CODES)}


class Tallies:
    """The tallies of a run over all partitions; queues and applications are named by ``label``.

    Attributes:
        rejected: the number of asks, applications and nodes that were refused.
        hoping: the asks that have preempted and not run since, by partition.
    """

    def __init__(self) -> None:
        self.rejected = 0
        self.hoping: set[tuple[PartitionName, AskID]] = set()
        self.waits = Waits()
        self.total = Tally()
        self.queues: dict[str, Tally] = {}
        self.users: dict[str, Tally] = {}
        self.groups: dict[str, Tally] = {}
        self.priorities: dict[int, Tally] = {}
        self._numbers: dict[str, int] = {}
        #: By the number of the application: seconds that its asks have waited, and how many asks.
        self._waited_s = array("d")
        self._asks = array("L")

    def number_of(self, application: str) -> int:
        """The number of an application, also of one that comes again."""
        number = self._numbers.setdefault(application, len(self._numbers))
        if number == len(self._asks):
            self._waited_s.append(0.0)
            self._asks.append(0)
        return number

    def mean_waits_s(self) -> Iterator[tuple[str, float]]:
        """The applications that have had asks, and for how long one of these waited on average."""
        for name, number in self._numbers.items():
            if self._asks[number]:
                yield name, self._waited_s[number] / self._asks[number]

    def add_wait(self, number: int, tallies: tuple[Tally, ...], waited: Waited) -> int:
        """Count what an ask of an application has waited for; returns for how long in all."""
        place = self.waits.add(waited)
        for tally in tallies:
            tally.waits.append(place)
        waited_ns = self.waits.all_ns[place]
        self._waited_s[number] += waited_ns / S_NS
        self._asks[number] += 1
        return waited_ns


def label(partition: PartitionName, name: str) -> str:
    """The name of a queue or an application in reports: with its partition, unless that is the default one."""
    return name if partition == "default" else f"[{partition}]{name}"


class PartitionTallies:
    """Takes the facts of one partition.

    Args:
        account: of its queues.
    """

    def __init__(self, name: PartitionName, tallies: Tallies, account: FairnessAccount) -> None:
        self._name = name
        self._tallies = tallies
        self.account = account
        self._applications: dict[ApplicationID, _Application] = {}

    def observe(self, fact: Fact) -> None:
        """Take the next fact; most kinds count nothing."""
        handler = _HANDLERS.get(type(fact))
        if handler is not None:
            handler(self, fact)

    def finish(self, end_ns: int, waited: Mapping[AskID, Waited]) -> None:
        """Count what waits and runs at the end; ``waited`` is what pending asks have waited for until then."""
        for application in self._applications.values():
            for since_ns, ask in application.waiting.values():
                tallies = self._tallies_of(application, ask)
                parts = waited.get(ask_id(ask), {PendingCode.PLACEHOLDER: end_ns - since_ns})
                self._tallies.add_wait(application.number, tallies, parts)
                for tally in tallies:
                    tally.waiting += 1
            for running in application.running.values():
                self._count_use(application, running, end_ns)
        self.account.finish(end_ns)

    # ---- applications and queues

    def _application_added(self, fact: ApplicationAdded) -> None:
        tallies = self._tallies
        group = fact.groups[0] if fact.groups else ""
        owners = (
            tallies.total,
            tallies.queues.setdefault(label(self._name, fact.queue), Tally()),
            tallies.users.setdefault(fact.user, Tally()),
            tallies.groups.setdefault(group, Tally()),
        )
        number = tallies.number_of(label(self._name, fact.application_id))
        self._applications[fact.application_id] = _Application(number, fact.queue, owners)

    def _application_moved(self, fact: ApplicationMoved) -> None:
        """Count in the other queue from now on."""
        application, at_ns = self._applications[fact.application_id], fact.at_ns
        for running in application.running.values():
            self._count_use(application, running, at_ns)
            self._use(at_ns, application.queue, running.ask.resource, -1)
            self._use(at_ns, fact.to_queue, running.ask.resource)
        for _, ask in application.waiting.values():
            self.account.want(at_ns, application.queue, ask.resource, -1)
            self.account.want(at_ns, fact.to_queue, ask.resource)
        total, _, *others = application.owners
        queue = self._tallies.queues.setdefault(label(self._name, fact.to_queue), Tally())
        application.queue, application.owners = fact.to_queue, (total, queue, *others)

    def _application_left(self, fact: ApplicationLeft) -> None:
        self._applications.pop(fact.application_id, None)

    def _limit_changed(self, fact: QueueLimitChanged) -> None:
        self.account.set_limit(fact.at_ns, fact.queue, fact.limit, fact.resource)

    def _queue_removed(self, fact: QueueRemoved) -> None:
        self.account.remove(fact.at_ns, fact.queue)

    # ---- asks

    def _waits(self, fact: AskAdded | AskReturned) -> None:
        """Begin to wait, unless the ask still does: it was to replace a placeholder."""
        application, ask = self._applications[fact.ask.application_id], fact.ask
        if ask.allocation_key not in application.waiting:
            since_ns = ask.since_ns if isinstance(fact, AskAdded) else fact.at_ns
            application.waiting[ask.allocation_key] = since_ns, ask
            self.account.want(fact.at_ns, application.queue, ask.resource)

    def _rejected(self, _: Fact) -> None:
        self._tallies.rejected += 1

    def _preempted(self, fact: Preempted) -> None:
        self._tallies.hoping.add((self._name, ask_id(fact.ask)))

    def _ask_resized(self, fact: AskResized) -> None:
        application, key = self._applications[fact.after.application_id], fact.after.allocation_key
        self.account.want(fact.at_ns, application.queue, fact.before.resource, -1)
        self.account.want(fact.at_ns, application.queue, fact.after.resource)
        application.waiting[key] = application.waiting[key][0], fact.after

    def _priority_changed(self, fact: AskPriorityChanged) -> None:
        application, key = self._applications[fact.after.application_id], fact.after.allocation_key
        application.waiting[key] = application.waiting[key][0], fact.after

    def _ask_removed(self, fact: AskRemoved) -> None:
        """Forget an ask that is withdrawn; that of a task that has ended does not wait any more."""
        application = self._applications.get(fact.ask.application_id)
        if application is not None and application.waiting.pop(fact.ask.allocation_key, None) is not None:
            self.account.want(fact.at_ns, application.queue, fact.ask.resource, -1)

    # ---- tasks

    def _allocated(self, fact: Allocated) -> None:
        application, ask = self._applications[fact.ask.application_id], fact.ask
        self._tallies.hoping.discard((self._name, ask_id(ask)))
        since_ns, _ = application.waiting.pop(ask.allocation_key, (None, ask))
        waited_ns = None
        if since_ns is None:  # it came with its node, or ran before the begin
            self.account.want(fact.at_ns, application.queue, ask.resource)
        else:
            waited = {PendingCode.NEXT: fact.at_ns - since_ns} if fact.waited is None else fact.waited
            waited_ns = self._tallies.add_wait(application.number, self._tallies_of(application, ask), waited)
        application.running[ask.allocation_key] = _Running(fact.at_ns, ask, waited_ns)
        self.account.use(fact.at_ns, application.queue, ask.resource)

    def _allocation_resized(self, fact: AllocationResized) -> None:
        application = self._applications[fact.after.application_id]
        running = application.running[fact.after.allocation_key]
        self._count_use(application, running, fact.at_ns)
        self._use(fact.at_ns, application.queue, fact.before.resource, -1)
        self._use(fact.at_ns, application.queue, fact.after.resource)
        running.ask = fact.after

    def _release_started(self, fact: ReleaseStarted) -> None:
        """Count a task that is preempted; what it has used is lost when it ends."""
        application = self._applications[fact.ask.application_id]
        running = application.running.get(fact.ask.allocation_key)
        if running is not None and fact.termination_type is TerminationType.PREEMPTED_BY_SCHEDULER:
            running.is_preempted = True
            for tally in self._tallies_of(application, running.ask):
                tally.preempted += 1

    def _released(self, fact: Released) -> None:
        application, at_ns = self._applications[fact.ask.application_id], fact.at_ns
        running = application.running.pop(fact.ask.allocation_key)
        self._count_use(application, running, at_ns)
        self._use(at_ns, application.queue, running.ask.resource, -1)
        ran_ns = at_ns - running.started_ns
        if running.is_preempted:
            for tally in self._tallies_of(application, running.ask):
                _add_area(tally.lost, running.ask.resource, ran_ns)
        elif running.waited_ns is not None and fact.termination_type is not TerminationType.SCHEDULING_FAILED_ON_RM:
            slowdown = (running.waited_ns + ran_ns) * SLOWDOWN_PARTS // max(ran_ns, SHORT_NS)
            for tally in self._tallies_of(application, running.ask):
                tally.slowdowns.append(max(SLOWDOWN_PARTS, slowdown))

    def _use(self, at_ns: int, queue: QueuePath, resource: Resource, sign: int = 1) -> None:
        """A task begins in a queue, or with -1 ends: it is part of the demand too."""
        self.account.want(at_ns, queue, resource, sign)
        self.account.use(at_ns, queue, resource, sign)

    def _count_use(self, application: _Application, running: _Running, at_ns: int) -> None:
        """Count what a task has used since this was done the last time."""
        span_ns, running.counted_ns = at_ns - running.counted_ns, at_ns
        for tally in self._tallies_of(application, running.ask):
            _add_area(tally.use, running.ask.resource, span_ns)

    def _tallies_of(self, application: _Application, ask: Ask) -> tuple[Tally, ...]:
        priorities = self._tallies.priorities
        tally = priorities.get(ask.priority)
        if tally is None:
            tally = priorities[ask.priority] = Tally()
        return (*application.owners, tally)


def _add_area(areas: Resource, resource: Resource, span_ns: int) -> None:
    for name, amount in resource.items():
        areas[name] = areas.get(name, 0) + amount * span_ns


_HANDLERS: dict[type[Fact], Callable[[PartitionTallies, Any], None]] = {
    ApplicationAdded: PartitionTallies._application_added,
    ApplicationMoved: PartitionTallies._application_moved,
    ApplicationLeft: PartitionTallies._application_left,
    QueueLimitChanged: PartitionTallies._limit_changed,
    QueueRemoved: PartitionTallies._queue_removed,
    AskAdded: PartitionTallies._waits,
    AskReturned: PartitionTallies._waits,
    AskResized: PartitionTallies._ask_resized,
    AskPriorityChanged: PartitionTallies._priority_changed,
    AskRemoved: PartitionTallies._ask_removed,
    AllocationRejected: PartitionTallies._rejected,
    ApplicationRejected: PartitionTallies._rejected,
    NodeRejected: PartitionTallies._rejected,
    Preempted: PartitionTallies._preempted,
    Allocated: PartitionTallies._allocated,
    AllocationResized: PartitionTallies._allocation_resized,
    ReleaseStarted: PartitionTallies._release_started,
    Released: PartitionTallies._released,
}
