"""The lives of tasks in a history: how long each ran, and what its resource manager did when the scheduler had ended it.

A run with another configuration places tasks elsewhere and at other times. So the ends of tasks, the confirmations of releases
that the scheduler has started, and the new submissions of tasks that were preempted cannot stay at their times: they are taken
out of the input, and the lives of the tasks say when to make them again. That is done only where it is clear: one entry about the
task in its turn, nothing of nodes before it there, nothing of the same application that could matter, and no other turn of the
partition at the same time. Everything else stays as it was, so with the same configuration the same happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct, field, structs

from ykactor.core.messages.asks import Ask, AskID, ask_id, is_foreign, unstamped
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    ApplicationAdded,
    ApplicationLeft,
    ApplicationRejected,
    AskAdded,
    AskRemoved,
    Fact,
    NodeRejected,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.kinds import RejectionCode, TerminationType
from ykactor.core.messages.submissions import (
    AddApplication,
    RecordTask,
    ReleaseAllocations,
    RemoveApplication,
    ReportJob,
    Reset,
    Submission,
    UpdateNode,
)
from ykactor.core.records.base import Base
from ykactor.core.records.encoding import decode
from ykactor.core.records.rows import TaskRow
from ykactor.core.turn.turn import Cause, Input
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName
from ykactor.core.values.times import US_NS
from ykactor.wire.history import RecordedTurn
from ykactor.wire.scenario.recording import Life, Turn, seconds


class Fate(Struct):
    """A life as it becomes known; times are nanoseconds.

    Attributes:
        run_ns: how long the last run was.
        has_ended: by itself.
        is_open: it waits or runs at the end.
        lost_ns, confirm_ns, resubmit_ns: as in ``Life``.
    """

    run_ns: int = 0
    has_ended: bool = False
    is_open: bool = False
    lost_ns: tuple[int, ...] = ()
    confirm_ns: tuple[int | None, ...] = ()
    resubmit_ns: tuple[int | None, ...] = ()

    def life(self) -> Life:
        """The same as it is recorded."""
        run_ns = self.run_ns if self.has_ended else max([self.run_ns, *(lost_ns + US_NS for lost_ns in self.lost_ns)])
        return Life(
            seconds(run_ns),
            self.is_open or not run_ns,
            tuple(map(seconds, self.lost_ns)),
            tuple(map(_seconds, self.confirm_ns)),
            tuple(map(_seconds, self.resubmit_ns)),
        )


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else seconds(nanoseconds)


class _Task(Struct):
    """A task that waits or runs: since when it runs, since when its release is wanted, and why.

    A release that was wanted before the recording began is wanted since 0.
    """

    fate: int
    began_ns: int | None = None
    stop_ns: int | None = None
    stop: TerminationType | None = None


class _Lost(Struct, frozen=True):
    """A task that was preempted, or has lost its node: the ask that would be submitted again, and when it ended."""

    ask: Ask
    fate: int
    at_ns: int


#: In place of the number of a fate: the ask was refused, so nothing is known of its life.
REFUSED = -1


class Kept(Struct):
    """The part of an input that stays at its time."""

    submissions: list[Submission] = field(default_factory=list)
    #: Of new asks, by index: the numbers of their fates; ``REFUSED`` of those that were refused.
    fates: dict[int, int] = field(default_factory=dict)
    if_known: list[int] = field(default_factory=list)
    after_tasks: list[int] = field(default_factory=list)

    def add(self, submission: Submission) -> int:
        """Keep a submission; returns its index."""
        self.submissions.append(submission)
        return len(self.submissions) - 1


def again(ask: Ask) -> Ask:
    """The ask of a task that has ended, as it is submitted again."""
    return structs.replace(unstamped(ask), node_id=None, failures=(), releasing=False)


def is_lost(fact: Released) -> bool:
    """True if the task has ended against the will of its resource manager: it was preempted, or its node has left."""
    return fact.with_node or fact.termination_type is TerminationType.PREEMPTED_BY_SCHEDULER


def is_handed_back(fact: Released) -> bool:
    """True if the resource manager could not start the task, which waits again (AP-144)."""
    return fact.termination_type is TerminationType.SCHEDULING_FAILED_ON_RM


class Tracker:
    """Follows the tasks of all partitions from turn to turn.

    Attributes:
        fates: of all tasks so far, by their numbers.
        counts: what stays at its time although another configuration may need it at another one, by what it is.
    """

    def __init__(self) -> None:
        self.fates: list[Fate] = []
        self.counts: Counter[str] = Counter()
        self._tasks: dict[tuple[PartitionName, ApplicationID], dict[AllocationKey, _Task]] = {}
        self._lost: dict[tuple[PartitionName, ApplicationID], dict[AllocationKey, _Lost]] = {}
        self._turned_ns: dict[PartitionName, int] = {}

    def begin(self, partition: PartitionName, base: Base) -> list[tuple[AskID, int]]:
        """Begin with a state. Returns its tasks with the numbers of their fates. Raises:  UnreadableRowError."""
        found: list[tuple[AskID, int]] = []
        for key, text in base.rows:
            _, _, row = decode(bytes(key), bytes(text))
            if isinstance(row, TaskRow):
                task = _Task(self.new_fate(), row.began_ns, 0 if row.released else None)
                self._of(partition, row.ask)[row.ask.allocation_key] = task
                found.append((ask_id(row.ask), task.fate))
        return found

    def take(self, turn: RecordedTurn, cause: Cause, facts: list[Fact]) -> Turn | Kept:
        """The part of the next turn that stays at its time."""
        partition = turn.partition
        found: Turn | Kept = Turn(partition, cause)
        sorting = _Sorting(self, turn, facts, is_alone=self._turned_ns.get(partition) != turn.now_ns)
        if isinstance(cause, Input):
            found = sorting.sort(cause.submissions)
        self._turned_ns[partition] = turn.now_ns
        for fact in facts:
            self._apply(partition, fact, sorting.starting)
        return found

    def finish(self, end_ns: int) -> None:
        """Note how long the tasks have run that run at the end."""
        for tasks in self._tasks.values():
            for task in tasks.values():
                fate = self.fates[task.fate]
                fate.is_open = True
                if task.began_ns is not None:
                    fate.run_ns = end_ns - task.began_ns
        endless = sum(fate.is_open and fate.run_ns > 0 for fate in self.fates)
        cut = sum(not fate.is_open and not fate.has_ended and bool(fate.run_ns or fate.lost_ns) for fate in self.fates)
        self.counts["tasks that run at the end, whose end is not known: they run until the end"] += endless
        self.counts["tasks that were cut short and did not come again: they run as long as they did"] += cut

    # ---- for the sorting of an input

    def task(self, partition: PartitionName, task: AskID) -> _Task | None:
        """A task that waits or runs; None if there is none."""
        return self._tasks.get((partition, task[0]), {}).get(task[1])

    def tasks_count(self, partition: PartitionName, application_id: ApplicationID) -> int:
        """The number of tasks of an application that wait or run."""
        return len(self._tasks.get((partition, application_id), ()))

    def lost(self, partition: PartitionName, task: AskID) -> _Lost | None:
        """A task that is gone against the will of its resource manager, and may come again."""
        return self._lost.get((partition, task[0]), {}).get(task[1])

    def new_fate(self) -> int:
        """The number of the fate of a new task."""
        self.fates.append(Fate())
        return len(self.fates) - 1

    # ---- what has happened

    def _of(self, partition: PartitionName, ask: Ask) -> dict[AllocationKey, _Task]:
        """The tasks of the application of an ask."""
        return self._tasks.setdefault((partition, ask.application_id), {})

    def _apply(self, partition: PartitionName, fact: Fact, starting: dict[AskID, list[int]]) -> None:
        match fact:
            case AskAdded():
                self._start(partition, fact.ask, starting)
            case Allocated():
                task = self.task(partition, ask_id(fact.ask)) or self._start(partition, fact.ask, starting)
                task.began_ns, task.stop_ns = fact.at_ns, None
            case ReleaseStarted() if fact.node_id is not None and (known := self.task(partition, ask_id(fact.ask))) is not None:
                known.stop_ns, known.stop = fact.at_ns, fact.termination_type
                self.fates[known.fate].confirm_ns += (None,)
            case Released():
                self._end(partition, fact)
            case AskRemoved():
                self._of(partition, fact.ask).pop(fact.ask.allocation_key, None)
            case ApplicationAdded(placeholder_ask=wanted) if wanted:
                self.counts["gangs, whose real tasks come at the recorded times"] += 1
            case ApplicationLeft():
                self._lost.pop((partition, fact.application_id), None)
                self._tasks.pop((partition, fact.application_id), None)
            case _:
                pass

    def _start(self, partition: PartitionName, ask: Ask, starting: dict[AskID, list[int]]) -> _Task:
        numbers = starting.get(ask_id(ask))
        task = self._of(partition, ask)[ask.allocation_key] = _Task(numbers.pop(0) if numbers else self.new_fate())
        self._lost.get((partition, ask.application_id), {}).pop(ask.allocation_key, None)
        return task

    def _end(self, partition: PartitionName, fact: Released) -> None:
        task = self._of(partition, fact.ask).pop(fact.ask.allocation_key, None)
        if task is None or task.began_ns is None:
            return
        fate = self.fates[task.fate]
        if is_handed_back(fact):
            fate.lost_ns += (fact.at_ns - task.began_ns,)
            self._of(partition, fact.ask)[fact.ask.allocation_key] = _Task(task.fate)
        elif is_lost(fact):
            fate.lost_ns += (fact.at_ns - task.began_ns,)
            fate.resubmit_ns += (None,)
            lost = self._lost.setdefault((partition, fact.ask.application_id), {})
            lost[fact.ask.allocation_key] = _Lost(again(fact.ask), task.fate, fact.at_ns)
        elif not fate.has_ended:  # at its time: it is longer than that
            fate.run_ns = fact.at_ns - task.began_ns + US_NS


class _Sorting:
    """Divides one input into what stays at its time and what the lives of tasks say.

    Attributes:
        starting: the numbers of the fates of tasks that begin, by their order.
    """

    def __init__(self, tracker: Tracker, turn: RecordedTurn, facts: Iterable[Fact], *, is_alone: bool) -> None:
        self.starting: dict[AskID, list[int]] = {}
        self._tracker, self._partition, self._now_ns = tracker, turn.partition, turn.now_ns
        self._is_alone = is_alone
        #: What the facts say: tasks that have ended, of new asks in their order whether they were taken, applications with
        #: cancelled asks, what a limit has refused.
        self._ended: set[AskID] = set()
        self._outcomes: dict[AskID, list[bool]] = {}
        self._cancelled: set[ApplicationID] = set()
        self._over_limit: set[str | AskID] = set()
        for fact in facts:
            self._read(fact)
        #: Of the input: entries by application and by task; applications with entries so far, with others than asks, and whether
        #: anything else was.
        self._entries: Counter[ApplicationID | AskID] = Counter()
        self._before: set[ApplicationID] = set()
        self._changed: set[ApplicationID] = set()
        self._is_blocked = False
        #: Tasks of which a release came before, and tasks that have begun since then.
        self._gone: set[AskID] = set()
        self._begun: set[AskID] = set()
        self._kept = Kept()

    def _read(self, fact: Fact) -> None:
        match fact:
            case Released():
                self._ended.add(ask_id(fact.ask))
            case AskAdded() | Allocated(recovered=True):
                self._outcomes.setdefault(ask_id(fact.ask), []).append(True)
            case AskRemoved(pending=True):
                self._cancelled.add(fact.ask.application_id)
            case AllocationRejected(code=RejectionCode.LIMIT):
                self._over_limit.add((fact.application_id, fact.allocation_key))
            case AllocationRejected():
                self._outcomes.setdefault((fact.application_id, fact.allocation_key), []).append(False)
            case ApplicationRejected(code=RejectionCode.LIMIT):
                self._over_limit.add(fact.application_id)
            case NodeRejected(code=RejectionCode.LIMIT):
                self._over_limit.add(fact.node_id)
            case _:
                pass

    def sort(self, submissions: list[Submission]) -> Kept:
        """The part that stays."""
        for each in submissions:
            self._entries.update(_about(each))
        for each in submissions:
            match each:
                case ReleaseAllocations():
                    self._release(each)
                case RemoveApplication():
                    self._remove(each)
                case Ask():
                    self._ask(each)
                case AddApplication(application_id=name) | UpdateNode(node_id=name) if name in self._over_limit:
                    self._count("entries that a limit of an identity refused")
                case _:
                    self._keep(each)
                    if isinstance(each, Reset):
                        self._count("new registrations, after which tasks come back on the nodes where they were")
        return self._kept

    def _count(self, what: str, number: int = 1) -> None:
        self._tracker.counts[what] += number

    def _keep(self, submission: Submission) -> int:
        about = list(_about(submission))
        names = {name for name in about if isinstance(name, str)}
        self._before |= names
        self._changed |= set() if isinstance(submission, Ask) else names
        self._is_blocked |= not about and not isinstance(submission, RecordTask | ReportJob)
        return self._kept.add(submission)

    def _is_clear(self, application_id: ApplicationID, subject: ApplicationID | AskID) -> bool:
        """True if nothing before could matter, and nothing else is about the same."""
        is_first = not self._is_blocked and application_id not in self._before
        return self._is_alone and is_first and self._entries[subject] == 1

    def _is_clear_end(self, subject: AskID) -> bool:
        """True if the end of a task could be the first entry of the input.

        Asks of its application may come before it if other tasks of it go on, so that its state is the same at any time.
        """
        application_id = subject[0]
        ended = sum(task[0] == application_id for task in self._ended)
        goes_on = self._tracker.tasks_count(self._partition, application_id) > ended
        is_first = not self._is_blocked and application_id not in (self._changed if goes_on else self._before)
        return self._is_alone and is_first and self._entries[subject] == 1

    # ---- ends

    def _release(self, each: ReleaseAllocations) -> None:
        application_id, key = each.application_id, each.allocation_key
        if key is None:
            if not self._are_ends(application_id, each.termination_type):
                self._keep(each)
            return
        subject = application_id, key
        self._gone.add(subject)
        self._begun.discard(subject)
        task = self._tracker.task(self._partition, subject)
        if task is None or subject not in self._ended:
            self._keep(each)
            if task is not None and each.termination_type is TerminationType.SCHEDULING_FAILED_ON_RM:
                self._count("tasks that their resource manager could not start, at the recorded times")
            return
        if task.stop_ns is None and each.termination_type is TerminationType.STOPPED_BY_RM:
            is_taken = self._is_clear_end(subject) and self._has_ended(task)
        else:
            is_wanted = bool(task.stop_ns) and task.stop is each.termination_type
            is_taken = is_wanted and self._is_clear_end(subject) and self._is_confirmed(task)
        if not is_taken:
            self._keep(each)
            self._count("tasks that end at the recorded times")

    def _has_ended(self, task: _Task) -> bool:
        """The task has ended by itself. False if it had no time to run."""
        if task.began_ns is None or task.began_ns >= self._now_ns:
            return False
        fate = self._tracker.fates[task.fate]
        fate.run_ns, fate.has_ended = self._now_ns - task.began_ns, True
        return True

    def _is_confirmed(self, task: _Task) -> bool:
        """The resource manager has confirmed the release of the task."""
        assert task.stop_ns is not None
        fate = self._tracker.fates[task.fate]
        fate.confirm_ns = (*fate.confirm_ns[:-1], self._now_ns - task.stop_ns)
        return True

    def _are_ends(self, application_id: ApplicationID, kind: TerminationType) -> bool:
        """All that an application has runs, and has ended by itself."""
        is_clear = self._is_clear(application_id, application_id) and kind is TerminationType.STOPPED_BY_RM
        if not is_clear or application_id in self._cancelled:
            return False
        ended = [self._tracker.task(self._partition, task) for task in self._ended if task[0] == application_id]
        if any(task is None or task.stop_ns is not None or not _has_run(task, self._now_ns) for task in ended):
            return False
        for task in ended:
            assert task is not None
            self._has_ended(task)
        return True

    def _remove(self, each: RemoveApplication) -> None:
        waits = self._are_ends(each.application_id, TerminationType.STOPPED_BY_RM)
        index = self._keep(each)
        if waits:
            self._kept.after_tasks.append(index)
        elif any(task[0] == each.application_id for task in self._ended) or each.application_id in self._cancelled:
            self._count("applications that are removed with their tasks, at the recorded times")

    # ---- asks

    def _ask(self, ask: Ask) -> None:
        subject = ask_id(ask)
        if is_foreign(ask):
            self._keep(ask)
        elif subject in self._over_limit:
            self._count("entries that a limit of an identity refused")
        elif self._tracker.task(self._partition, subject) is not None and subject not in self._gone:
            self._kept.if_known.append(self._keep(ask))
        elif subject in self._begun:
            self._keep(ask)
        elif (outcomes := self._outcomes.get(subject)) and outcomes.pop(0):
            self._begun.add(subject)
            self._begin(ask, subject)
        else:
            self._kept.fates[self._keep(ask)] = REFUSED

    def _begin(self, ask: Ask, subject: AskID) -> None:
        lost = self._tracker.lost(self._partition, subject)
        if lost is not None and ask == lost.ask and self._is_clear(ask.application_id, subject):
            fate = self._tracker.fates[lost.fate]
            fate.resubmit_ns = (*fate.resubmit_ns[:-1], self._now_ns - lost.at_ns)
            self.starting[subject] = [lost.fate]
            return
        number = self._tracker.new_fate()
        self.starting.setdefault(subject, []).append(number)
        self._kept.fates[self._keep(ask)] = number


def _has_run(task: _Task, now_ns: int) -> bool:
    return task.began_ns is not None and task.began_ns < now_ns


def _about(submission: Submission) -> Iterator[ApplicationID | AskID]:
    """The application and the task that a submission is about; nothing for what is about something else."""
    match submission:
        case Ask() if not is_foreign(submission):
            yield submission.application_id
            yield ask_id(submission)
        case ReleaseAllocations(application_id, key) if application_id:
            yield application_id
            if key is not None:
                yield application_id, key
        case AddApplication(application_id) | RemoveApplication(application_id):
            yield application_id
        case _:
            return
