"""The jobs that have not ended, and what becomes of their tasks: every task is changed here."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field, structs

from ykactor.core.accounting.past import RECORDS_MAX
from ykactor.local import requests
from ykactor.local.effects import Effects
from ykactor.local.machine import Machine
from ykactor.local.model import RETRIED, Job, State, Task
from ykactor.local.waiting import Dependencies, Results, result
from ykactor.wire.si import messages as si

#: Termination types of the daemon, and the one of a resource manager.
PREEMPTED, STOPPED = "PREEMPTED_BY_SCHEDULER", "STOPPED_BY_RM"
_CONFIRMED = "TIMEOUT"
#: The termination type that the daemon is told: the confirmation of what it wanted, else news.
_RELEASED_AS = {State.PREEMPTED: PREEMPTED, State.CANCELLED: _CONFIRMED}


class Work(Struct):
    """A job that has not ended.

    Attributes:
        tasks: the present attempts, by their indexes.
        ended: how many tasks have ended in each state.
        records: of the last attempts that have ended, as many as the daemon keeps (AP-152).
        unfinished: how many tasks have not ended; ``at_daemon``: how many of them the daemon knows.
        is_told: whether the daemon has the application of the job: it has while it knows a task.
        has_hold: whether the daemon has the hold of an operator, which it forgets with the application.
        blocked: the tasks that wait for something; ``ready``: those that wait only for a place among ``Job.at_most``.
        placeholders: how many placeholders the gang has asked for, and ``held`` those that it has.
        placed: the keys of tasks that have their place and wait for the rest of the gang.
        is_ending: whether the gang has lost a task, and the others end.
        why: why all of them end; "" while they do not.
        echo: why the job had ended before it was requeued, as the daemon was told; this may still be on its way back.
    """

    job: Job
    tasks: dict[int, Task]
    unfinished: int
    ended: Counter[State] = field(default_factory=Counter)
    records: deque[si.TaskRecord] = field(default_factory=lambda: deque(maxlen=RECORDS_MAX))
    at_daemon: int = 0
    is_told: bool = False
    has_hold: bool = False
    blocked: dict[int, None] = field(default_factory=dict)
    ready: deque[int] = field(default_factory=deque)
    placeholders: int = 0
    held: set[str] = field(default_factory=set)
    placed: set[str] = field(default_factory=set)
    is_ending: bool = False
    why: str = ""
    echo: str = ""

    @property
    def gathers(self) -> bool:
        """True if it is a gang that asks for its room, and has not started."""
        return self.job.is_gang and all(task.state is State.PENDING for task in self.tasks.values())


#: Times of tasks that are kept before they are looked through.
_TIMES_MIN = 1000


class Book:
    """All jobs that have not ended.

    Args:
        boot: identifies this run of the machine.
        now_ns: the Unix time.
    """

    def __init__(self, machine: Machine, boot: str, now_ns: Callable[[], int]) -> None:
        self.machine = machine
        self._boot = boot
        self.now_ns = now_ns
        self.works: dict[str, Work] = {}
        #: The tasks that have not ended, by their present allocation key, and those that have a process.
        self.tasks: dict[str, Task] = {}
        self.processes: dict[str, Task] = {}
        self.effects = Effects()
        self.dependencies = Dependencies(self._live)
        #: The reason why nothing is started now, and the tasks that have their places, by their keys; "": nothing keeps them.
        self._no_start = ""
        self._delayed: dict[str, Task] = {}
        #: The times at which tasks may begin, the next one first.
        self._times: list[tuple[int, str, int]] = []
        #: The number of times from which those of jobs that have ended, and repeated ones, are left out.
        self._times_max = _TIMES_MIN
        #: Tasks that have ended, and jobs, for which others may have waited.
        self._news: deque[tuple[str, int | None]] = deque()

    def _live(self, job: str) -> dict[int, Task] | None:
        work = self.works.get(job)
        return None if work is None else work.tasks

    # ---- jobs

    def add(self, job: Job, tasks: Iterable[Task]) -> Work:
        """A job that is new, or was kept."""
        work = Work(job, {task.index: task for task in tasks}, 0)
        unfinished = {task.key: task for task in work.tasks.values() if not task.state.is_final}
        ended = [task for task in work.tasks.values() if task.state.is_final]
        work.unfinished = len(unfinished)
        work.ended.update(task.state for task in ended)
        work.records.extend(map(requests.record, sorted(ended, key=lambda task: task.ended_ns)))
        work.at_daemon = sum(task.state.is_at_daemon for task in unfinished.values())
        work.is_told = work.at_daemon > 0
        self.works[job.id] = work
        self.tasks |= unfinished
        self.processes |= {key: task for key, task in unfinished.items() if task.state.has_process}
        self.dependencies.add(job)
        return work

    def replace(self, work: Work, job: Job) -> None:
        """Change the settings of a job."""
        work.job = job
        self.effects.jobs[job.id] = job

    def settle(self) -> None:
        """Let what has waited for the ends of others go on, or end too."""
        while self._news:
            job, index = self._news.popleft()
            if index is None:
                self._resolve(job)
                continue
            for name, of in self.dependencies.waiting_for(job, index):
                self._readmit(name, of)

    def learn(self, results: Results) -> None:
        """The ends of jobs for which new or kept ones may wait."""
        for job, found in results.items():
            if job not in self.works and self.dependencies.is_named(job):
                self.dependencies.on_ended(job, found)
                self._news.append((job, None))

    def _resolve(self, job: str) -> None:
        """A job has ended: what has waited for it goes on or ends, and waits for it no more, also if it is requeued."""
        for name in self.dependencies.dependents(job):
            self._readmit(name, None)
        for name in self.dependencies.dependents(job):  # those that have not ended just now
            work = self.works[name]
            met = [structs.replace(after, is_met=after.is_met or after.job == job) for after in work.job.after]
            self.replace(work, structs.replace(work.job, after=met))
        self.dependencies.close(job)

    def _readmit(self, job: str, index: int | None) -> None:
        """Look again at what a task of a job waits for; without an index, all of them."""
        if (work := self.works.get(job)) is not None:
            indexes = [*work.blocked] if index is None else [index]
            self._admit(work, [work.tasks[each] for each in indexes if each in work.blocked])

    def on_time(self) -> None:
        """Let tasks go on that were to wait until now."""
        now_ns = self.now_ns()
        while self._times and self._times[0][0] <= now_ns:
            _, job, index = heapq.heappop(self._times)
            work = self.works.get(job)
            if work is not None and index in work.blocked:
                self._admit(work, [work.tasks[index]])

    # ---- a task, from its beginning to its end

    def reconsider(self, work: Work) -> None:
        """Look anew at what all tasks wait for."""
        work.ready.clear()
        self._admit(work, [task for task in work.tasks.values() if task.state is State.WAITING])

    def take_back(self, work: Work) -> None:
        """Let tasks wait here that the daemon was asked for, and has forgotten."""
        for task in work.tasks.values():
            if task.state is State.PENDING:
                task.state = State.WAITING
                work.at_daemon -= 1
                self.effects.change(task)
        work.is_told = work.at_daemon > 0
        self.reconsider(work)

    def _admit(self, work: Work, tasks: Iterable[Task]) -> None:
        """Ask the daemon for tasks that wait for nothing, as far as they have places."""
        now_ns = self.now_ns()
        for task in tasks:
            if task.state is not State.WAITING:  # a gang ends with the first of it
                continue
            found = self.dependencies.obstacles(work.job, task, now_ns)
            if work.job.is_held_there and not work.has_hold:
                found.reasons.insert(0, "is held by an operator")
            if found.never:
                self.end(task, State.CANCELLED, found.never)
            elif found.reasons:
                work.blocked[task.index] = None
                self._wait(task, *found.reasons)
                if found.until_ns:
                    self._remember((found.until_ns, task.job, task.index))
            else:
                work.blocked.pop(task.index, None)
                work.ready.append(task.index)
                if work.job.at_most:
                    self._wait(task, f"waits for one of the {work.job.at_most} places of its array")
        self._advance(work)

    def _remember(self, time: tuple[int, str, int]) -> None:
        """Look at a task again at a time. Before that it may be held and released, and its job be cancelled, many times."""
        heapq.heappush(self._times, time)
        if len(self._times) > self._times_max:
            self._times = sorted({each for each in self._times if each[1] in self.works})
            self._times_max = max(_TIMES_MIN, 2 * len(self._times))

    def _wait(self, task: Task, *reasons: str) -> None:
        reason = "; ".join(filter(None, (task.again, *reasons)))
        if reason != task.reason:
            task.reason = reason
            self.effects.change(task)

    def _advance(self, work: Work) -> None:
        """Ask for those that are ready, as far as they have places."""
        asked: list[Task] = []
        while work.ready and not 0 < work.job.at_most <= work.at_daemon + len(asked):
            task = work.tasks[work.ready.popleft()]
            if task.state is State.WAITING:  # it may have ended meanwhile
                asked.append(task)
        if asked:
            self._ask(work, asked)

    def _ask(self, work: Work, tasks: list[Task]) -> None:
        now_ns = self.now_ns()
        for task in tasks:
            task.state, task.reason, task.eligible_ns = State.PENDING, task.again, now_ns
            self.effects.change(task)
        work.at_daemon += len(tasks)
        if not work.is_told:
            work.is_told = True
            self.introduce([work])
        self.effects.tell(self.asks(work, tasks))

    def introduce(self, works: list[Work]) -> None:
        """Tell the daemon the applications of jobs, and how tasks of them have ended."""
        told = self.effects.requests
        new = [requests.application(work.job, is_held=work.gathers) for work in works]
        told.append(si.ApplicationRequest(new=new, jobs=[requests.report(work.job, work.ended) for work in works]))
        records = [record for work in works for record in work.records]
        if records:
            told.append(si.ApplicationRequest(records=records))

    def asks(self, work: Work, tasks: Iterable[Task]) -> Iterator[si.Allocation]:
        """The asks of the pending ones among tasks; of a gang that has not started, its placeholders."""
        if work.gathers:
            for _ in work.tasks:
                yield self.placeholder(work)
            return
        for task in tasks:
            if task.state is State.PENDING:
                yield requests.ask(work.job, task)

    def placeholder(self, work: Work) -> si.Allocation:
        """One more placeholder of a gang."""
        work.placeholders += 1
        return requests.placeholder(work.job, work.placeholders)

    def delay_starts(self, reason: str) -> None:
        """Start nothing for a reason; "" lets those begin that have their places meanwhile."""
        self._no_start = reason
        if reason:
            return
        delayed, self._delayed = self._delayed, {}
        for key, task in delayed.items():
            work = self.works.get(task.job)
            if work is None or key not in work.placed or self.tasks.get(key) is not task:  # it has lost its place
                continue
            if task.state is State.PENDING and not (work.gathers and len(work.placed) < work.job.count):
                task.reason = task.again
                self.start(work, task)

    def start(self, work: Work, task: Task) -> None:
        """Start a task, which has its place, as soon as nothing keeps it from that."""
        if self._no_start:
            self._delayed[task.key] = task
            self._wait(task, f"has its place, and does not begin: {self._no_start}")
            return
        wanted = work.job.resource.get(self.machine.gpu_type, 0)
        used = {gpu for other in self.processes.values() for gpu in other.gpus} if wanted else set()
        free = [gpu for gpu in self.machine.gpus if gpu not in used]
        if len(free) < wanted:
            self.end(task, State.FAILED, f"found {len(free)} free GPUs, expected {wanted}")
            return
        task.state, task.started_ns, task.boot = State.RUNNING, self.now_ns(), self._boot
        task.node, task.queue = self.machine.node_id, work.job.leaf
        task.gpus = free[:wanted]
        self.processes[task.key] = task
        self.effects.change(task)
        self.effects.starts.append((work.job, task))

    def kill(self, task: Task, verdict: State, reason: str) -> None:
        """End the processes of a task, which then has the state ``verdict``; the last word counts."""
        is_new = task.state is State.RUNNING
        task.state, task.verdict, task.reason = State.ENDING, verdict, reason
        self.effects.change(task)
        if is_new:
            self.effects.kills.append(task)

    def end_pending(self, work: Work, state: State, reason: str) -> None:
        """End all tasks of a job that have not begun; those first that the daemon does not know, so that it is asked for none."""
        work.is_ending = True
        for kind in (State.WAITING, State.PENDING):
            for task in list(work.tasks.values()):
                if task.state is kind:
                    self.end(task, state, reason)

    def cancel(self, work: Work, reason: str) -> None:
        """End all tasks of a job."""
        self.end_pending(work, State.CANCELLED, reason)
        for task in list(work.tasks.values()):
            if task.state.has_process:
                self.kill(task, State.CANCELLED, reason)

    def end(self, task: Task, state: State, reason: str) -> None:
        """A task has ended, or is started again."""
        work = self.works[task.job]
        was_waiting = task.state is State.WAITING
        del self.tasks[task.key]
        self.processes.pop(task.key, None)
        work.placed.discard(task.key)
        work.blocked.pop(task.index, None)
        task.state, task.reason, task.ended_ns = state, reason, self.now_ns()
        work.records.append(requests.record(task))
        if work.is_told:
            self.effects.records.append(work.records[-1])
        again = _next_attempt(work.job, task)
        work.unfinished -= again is None
        work.at_daemon -= not was_waiting
        self.effects.change(task)
        # Before the release: an application of which nothing is left completes.
        if again is None:
            self._count(work, state, 1)
            self._advance(work)
        else:
            self._follow(work, task, again)
        if not was_waiting:
            self._leave(work, task)
        if again is None:
            self._on_final(work, task)

    def run_again(self, work: Work, task: Task, why: str) -> None:
        """Run a task again that has ended."""
        work.unfinished += 1
        self._count(work, task.state, -1)
        self._follow(work, task, _requeued(task, why))

    def _count(self, work: Work, state: State, change: int) -> None:
        """A task has ended for good, or runs again."""
        work.ended[state] += change
        if work.is_told:
            self.effects.reports[work.job.id] = requests.report(work.job, work.ended)

    def _follow(self, work: Work, task: Task, again: Task) -> None:
        """Another attempt follows one that has ended."""
        self.effects.attempts.append(task)
        work.tasks[task.index] = self.tasks[again.key] = again
        self.effects.change(again)
        self._admit(work, [again])

    def _leave(self, work: Work, task: Task) -> None:
        """Tell the daemon that a task has left its place; if it was the last one, the application leaves."""
        termination_type = _RELEASED_AS.get(task.state, STOPPED)
        if work.at_daemon or termination_type == PREEMPTED:
            self.effects.release(task.job, task.key, termination_type)
        if not work.at_daemon and work.unfinished:
            work.is_told = work.has_hold = False
            self.effects.requests.append(requests.withdrawn(work.job))

    def _on_final(self, work: Work, task: Task) -> None:
        self._news.append((task.job, task.index))
        if not work.unfinished:
            del self.works[work.job.id]
            self.effects.ended.append(work.job.id)
            if work.is_told:
                self.effects.requests.append(requests.concluded(work.job, list(work.tasks.values())))
            self.dependencies.drop(work.job)
            if self.dependencies.is_named(work.job.id):
                states = {index: task.state for index, task in work.tasks.items()}
                self.learn({work.job.id: result(work.job, states)})
        elif work.job.is_gang and task.state is not State.COMPLETED and not work.is_ending:
            why = f"task {task.index} of the gang is {task.state}" + (f": {task.reason}" if task.reason else "")
            self.end_pending(work, State.CANCELLED, why)
            for other in work.tasks.values():  # a gang that has lost one of its tasks does not go on with the others
                if other.state is State.RUNNING:
                    self.kill(other, State.CANCELLED, why)


def _next_attempt(job: Job, task: Task) -> Task | None:
    """The attempt that follows one that has ended; None if none does."""
    if task.verdict is State.REQUEUED:
        return _requeued(task, task.reason)
    if task.state not in RETRIED or task.verdict is State.CANCELLED or task.attempt - task.requeues >= job.retries:
        return None
    attempt = task.attempt + 1
    return Task(
        task.job,
        task.index,
        State.WAITING,
        attempt,
        priority=task.priority,
        requeues=task.requeues,
        again=f"attempt {attempt}: {task.reason}",
        not_before_ns=task.ended_ns + round(job.retry_delay_s * 1e9) if job.retry_delay_s else 0,
    )


def _requeued(task: Task, why: str) -> Task:
    """The attempt after one, because somebody wants it."""
    attempt, requeues = task.attempt + 1, task.requeues + 1
    again = f"attempt {attempt}: {why}"
    return Task(task.job, task.index, State.WAITING, attempt, priority=task.priority, requeues=requeues, again=again)
