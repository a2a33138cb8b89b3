"""The state of jobs, changed by messages, ended processes and time. Plain functions over plain data: the caller carries out.

Each input changes tasks and adds to ``Effects``. The caller commits the changes of an input before it carries out the effects, so
that whatever is seen outside is on the disk.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from msgspec import Struct, field, structs

from ykactor.core.config.properties import WITH_GANGS
from ykactor.local import requests
from ykactor.local.machine import Machine
from ykactor.local.model import RETRIED, Ended, Job, State, Task, signal_of
from ykactor.wire.si import messages as si


class Effects(Struct):
    """The effects of an input: first what is to be kept, then what is to be done."""

    jobs: list[Job] = field(default_factory=list)
    tasks: dict[tuple[str, int], Task] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    #: The ends of tasks. The daemon is told them before the requests: it knows where they ran until they are released.
    records: list[si.TaskRecord] = field(default_factory=list)
    requests: list[si.WorkRequest] = field(default_factory=list)
    starts: list[tuple[Job, Task]] = field(default_factory=list)
    #: Tasks whose processes are to be ended.
    kills: list[Task] = field(default_factory=list)

    @property
    def has_changes(self) -> bool:
        return bool(self.jobs or self.tasks or self.ended)


class Work(Struct):
    """A job that has not ended.

    Attributes:
        placeholders: how many placeholders the gang has asked for, and ``held`` those that it has.
        placed: the keys of tasks that have their place and wait for the rest of the gang.
        unfinished: how many tasks have not ended.
        is_ending: whether the gang has lost a task, and the others end.
        why: why all of them end; "" while they do not.
    """

    job: Job
    tasks: dict[int, Task]
    unfinished: int
    placeholders: int = 0
    held: set[str] = field(default_factory=set)
    placed: set[str] = field(default_factory=set)
    is_ending: bool = False
    why: str = ""

    @property
    def is_held(self) -> bool:
        """True if it is a gang that has not started."""
        return self.job.is_gang and all(task.state is State.PENDING for task in self.tasks.values())


#: Tasks of all jobs that have not ended.
TASKS_MAX = 100_000
#: Releases of one request, which is made anew for each of them.
_TOGETHER_MAX = 1000
_PREEMPTED, _CONFIRMED, _REPLACED, _STOPPED = "PREEMPTED_BY_SCHEDULER", "TIMEOUT", "PLACEHOLDER_REPLACED", "STOPPED_BY_RM"
#: The termination type that the daemon is told: the confirmation of what it wanted, else news.
_RELEASED_AS = {State.PREEMPTED: _PREEMPTED, State.CANCELLED: _CONFIRMED}
#: The advice about a rejection, by its code (AP-139).
_ADVICE: dict[str, str] = {
    si.RejectionCode.SORT_POLICY: f"; a gang needs a queue with the application.sort.policy {WITH_GANGS} (AP-18)"
}
_FAILED_STATES = ("Failing", "Failed")
_GANG_TIMEOUT = "ResourceReservationTimeout"
#: Why an application of this machine fails, in words (AP-95).
_WHY_FAILED = {"Terminated": "cancelled by an operator", "PartitionRemoved": "its partition was removed from the queue file"}


class SubmitRefused(Exception):
    """A job that this machine does not take; the message says why."""


class Jobs:
    """All jobs that have not ended.

    Args:
        next_number: of the next job.
        boot: identifies this run of the machine.
        now_ns: the Unix time.
    """

    def __init__(self, machine: Machine, next_number: int, boot: str, now_ns: Callable[[], int]) -> None:
        self._machine = machine
        self._next_number = next_number
        self._boot = boot
        self._now_ns = now_ns
        self._works: dict[str, Work] = {}
        #: Tasks that have not ended, by their present allocation key.
        self._tasks: dict[str, Task] = {}
        #: The tasks that have a process.
        self._processes: dict[str, Task] = {}
        self._effects = Effects()

    def take(self) -> Effects:
        """The effects of the inputs since the last call."""
        effects, self._effects = self._effects, Effects()
        return effects

    # ---- inputs

    def restore(self, job: Job, tasks: list[Task]) -> None:
        """A job that was kept; each task with a process is to be found by the caller."""
        job = self._in_types(job)
        unfinished = {task.key: task for task in tasks if not task.state.is_final}
        self._works[job.id] = Work(job, {task.index: task for task in tasks}, len(unfinished))
        self._tasks |= unfinished
        self._processes |= {key: task for key, task in unfinished.items() if task.state.has_process}

    def _in_types(self, job: Job) -> Job:
        """A job whose GPUs have the name that they have on this machine."""
        return structs.replace(job, resource=self._machine.in_types(job.resource))

    def with_processes(self) -> list[tuple[Job, Task]]:
        """The tasks that should have a process."""
        return [(self._works[task.job].job, task) for task in self._processes.values()]

    def submit(self, make: Callable[[str], Job]) -> Job:
        """A new job, made for its id.

        Raises:  SubmitRefused.
        """
        job = self._in_types(make(f"job-{self._next_number}"))
        if job.count < 1:
            raise SubmitRefused(f"found the tasks {job.first} to {job.last}, expected at least one")
        if reason := self._machine.has_no_room(job.resource, job.count if job.is_gang else 1):
            raise SubmitRefused(reason)
        if len(self._tasks) + job.count > TASKS_MAX:
            raise SubmitRefused(f"found {len(self._tasks)} tasks, expected room for {job.count} more of {TASKS_MAX}")
        self._next_number += 1
        work = self._works[job.id] = Work(job, {index: Task(job.id, index) for index in job.indexes}, job.count)
        self._effects.jobs.append(job)
        for task in work.tasks.values():
            self._tasks[task.key] = task
            self._change(task)
        self._effects.requests.append(si.ApplicationRequest(new=[requests.application(job, is_held=job.is_gang)]))
        self._tell(self._asks(work))
        return job

    def planned(self, make: Callable[[str], Job]) -> tuple[si.ApplicationRequest, si.AllocationRequest]:
        """The requests for a new job as the next one would be submitted, which it is not.

        Raises:  SubmitRefused.
        """
        alone = Jobs(self._machine, self._next_number, self._boot, self._now_ns)
        alone.submit(make)
        applications, asks = alone.take().requests
        assert isinstance(applications, si.ApplicationRequest)
        assert isinstance(asks, si.AllocationRequest)
        return applications, asks

    def report(self) -> None:
        """The daemon has nothing, and is told everything (SC-144): nothing is placed before it knows what runs (SC-145)."""
        works = list(self._works.values())
        for work in works:
            work.held.clear()
            work.placed.clear()
            work.placeholders = 0
        node_id = self._machine.node_id
        told = self._effects.requests
        told.append(requests.node(node_id, self._machine.resource))
        if works:
            told.append(si.ApplicationRequest(new=[requests.application(work.job, is_held=work.is_held) for work in works]))
        ended = [task for work in works for task in work.tasks.values() if task.state.is_final]
        if ended:
            told.append(si.ApplicationRequest(records=[requests.record(task, task.state, task.ended_ns) for task in ended]))
        self._tell(requests.running(job, task, node_id) for job, task in self.with_processes())
        self._tell(chain.from_iterable(map(self._asks, works)))
        told.append(requests.opened(node_id))

    def on_message(self, message: si.Response) -> None:
        match message:
            case si.ApplicationResponse(accepted=accepted, rejected=rejected, moved=moved, updated=updated):
                for placed in accepted:
                    self._on_accepted(placed.application_id, placed.queue_name)
                for move in moved:
                    self._on_placed(move.application_id, move.queue_name)
                for entry in rejected:
                    self._end_pending(entry.application_id, State.REJECTED, entry.reason + _ADVICE.get(entry.code, ""))
                for state in updated:
                    if state.state in _FAILED_STATES:
                        self._on_failed(state.application_id, state.message)
            case si.AllocationResponse(new=new, released=released, rejected_allocations=refused):
                for allocation in new:
                    self._on_allocated(allocation)
                for release in released:
                    self._on_released(release)
                for unwanted in refused:
                    self._reject(unwanted.allocation_key, unwanted.reason)

    def on_refused(self, request: si.WorkRequest, reason: str) -> None:
        """A request had no effect: what it asks for will never be."""
        match request:
            case si.ApplicationRequest(new=new):
                for entry in new:
                    self._end_pending(entry.application_id, State.REJECTED, reason)
            case si.AllocationRequest(allocations=allocations):
                for allocation in allocations:
                    self._reject(allocation.allocation_key, reason)

    def on_ended(self, task: Task, ended: Ended) -> None:
        """The process of a task has ended, with all that it has started."""
        task.exit_code, task.peak_memory = ended.exit_code, ended.peak_memory
        match task.state, ended.exit_code:
            case State.ENDING, _ if not ended.by_itself:
                assert task.verdict is not None, "who ends a task says why"
                self._end(task, task.verdict, task.reason)
            case _, 0:
                self._end(task, State.COMPLETED, "")
            case _, None:
                self._end(task, State.LOST, ended.reason + _SHORT * ended.is_short)
            case _, code:
                self._end(task, State.FAILED, _exit_text(code) + _SHORT * ended.is_short)

    def on_not_started(self, task: Task, reason: str) -> None:
        """End a task whose command could not be started."""
        self._end(task, State.FAILED, reason)

    def on_time(self) -> None:
        """Ends what has run for too long."""
        now = self._now_ns()
        for _, task in self.with_processes():
            if task.state is State.RUNNING and self._deadline_ns(task) <= now:
                self._kill(task, State.TIMED_OUT, f"ran longer than {self._works[task.job].job.time_limit_s:.12g} s")

    def stop_all(self) -> None:
        """End all tasks: who stops this program wants no process to be left."""
        for task in list(self._tasks.values()):
            if task.state is State.PENDING:
                self._end(task, State.CANCELLED, _STOPPING)
            elif task.state is State.RUNNING:
                self._kill(task, State.CANCELLED, _STOPPING)

    def has(self, job: str, index: int | None = None) -> bool:
        """True if the job, or the task of it, has not ended."""
        work = self._works.get(job)
        if work is None or index is None:
            return work is not None
        return index in work.tasks and not work.tasks[index].state.is_final

    @property
    def are_done(self) -> bool:
        return not self._works

    # ---- what the daemon decides

    def _on_allocated(self, allocation: si.Allocation) -> None:
        work = self._works.get(allocation.application_id)
        task = self._tasks.get(allocation.allocation_key)
        if work is not None and allocation.placeholder and work.is_held:
            work.held.add(allocation.allocation_key)
            if len(work.held) == work.job.count:
                self._tell(requests.ask(work.job, task) for task in work.tasks.values())
        elif work is None or task is None:
            self._release(allocation.application_id, allocation.allocation_key, _STOPPED)
        elif task.state is State.PENDING:
            task.priority = allocation.priority  # an operator may have given it another one
            work.placed.add(task.key)
            if not work.is_held:
                self._start(work, task)
            elif len(work.placed) == work.job.count:
                for each in list(work.tasks.values()):
                    self._start(work, each)

    def _on_released(self, release: si.AllocationRelease) -> None:
        work = self._works.get(release.application_id)
        if work is not None and release.allocation_key in work.held:
            self._on_placeholder_released(work, release)
            return
        task = self._tasks.get(release.allocation_key)
        if task is None:
            if release.termination_type != _STOPPED:  # not the echo of ours
                self._release(release.application_id, release.allocation_key, release.termination_type)
            return
        is_preempted = release.termination_type == _PREEMPTED
        reason = (work.why if work is not None else "") or release.message
        if task.state is State.RUNNING:
            self._kill(task, State.PREEMPTED if is_preempted else State.CANCELLED, reason)
        elif task.state is State.PENDING:
            self._release(task.job, task.key, release.termination_type)
            if is_preempted and work is not None:  # it has waited for the rest of its gang, and goes on waiting
                work.placed.discard(task.key)
                self._tell([requests.ask(work.job, task)])
            else:
                self._end(task, State.CANCELLED, reason)

    def _on_placeholder_released(self, work: Work, release: si.AllocationRelease) -> None:
        was_complete = len(work.held) == work.job.count
        self._release(release.application_id, release.allocation_key, release.termination_type)
        if release.termination_type != _PREEMPTED:
            return
        work.held.discard(release.allocation_key)
        if not was_complete:  # otherwise its task waits like any other one
            self._tell([self._placeholder(work)])

    def _on_accepted(self, job: str, leaf: str) -> None:
        """Placement rules may choose a queue only for a job that has named none: else it would run elsewhere without a word."""
        work = self._works.get(job)
        if work is None or _is_in(leaf, work.job.queue):
            self._on_placed(job, leaf)
            return
        expected = f"expected {work.job.queue}: there is no such queue, or it takes no job of the user {work.job.user}"
        self._end_pending(job, State.REJECTED, f"found that placement rules lead to {leaf}, {expected}")

    def _on_placed(self, job: str, leaf: str) -> None:
        """The daemon has placed it in a leaf, or moved it there. Kept only if it is news: each is a commit."""
        work = self._works.get(job)
        if work is not None and leaf not in ("", work.job.leaf):
            work.job = structs.replace(work.job, placed_in=leaf)
            self._effects.jobs.append(work.job)

    def _on_failed(self, job: str, message: str) -> None:
        if message == _GANG_TIMEOUT:
            self._end_pending(job, State.FAILED, "there was no room for the whole gang in time")
            return
        why = _WHY_FAILED.get(message, f"its application has failed: {message}")
        if job in self._works:
            self._works[job].why = why
        self._end_pending(job, State.CANCELLED, why)

    # ---- tasks

    def _asks(self, work: Work) -> Iterator[si.Allocation]:
        """The asks of the pending tasks; of a gang that has not started, its placeholders."""
        if work.is_held:
            for _ in work.tasks:
                yield self._placeholder(work)
            return
        for task in work.tasks.values():
            if task.state is State.PENDING:
                yield requests.ask(work.job, task)

    def _placeholder(self, work: Work) -> si.Allocation:
        work.placeholders += 1
        return requests.placeholder(work.job, work.placeholders)

    def _start(self, work: Work, task: Task) -> None:
        wanted = work.job.resource.get(self._machine.gpu_type, 0)
        used = {gpu for other in self._processes.values() for gpu in other.gpus} if wanted else set()
        free = [gpu for gpu in self._machine.gpus if gpu not in used]
        if len(free) < wanted:
            self._end(task, State.FAILED, f"found {len(free)} free GPUs, expected {wanted}")
            return
        task.state, task.started_ns, task.boot = State.RUNNING, self._now_ns(), self._boot
        task.gpus = free[:wanted]
        self._processes[task.key] = task
        self._change(task)
        self._effects.starts.append((work.job, task))

    def _kill(self, task: Task, verdict: State, reason: str) -> None:
        task.state, task.verdict, task.reason = State.ENDING, verdict, reason
        self._change(task)
        self._effects.kills.append(task)

    def _reject(self, key: str, reason: str) -> None:
        """An ask; what runs goes on, although the daemon does not count it."""
        task = self._tasks.get(key)
        if task is not None and task.state is State.PENDING:
            self._end(task, State.REJECTED, reason)

    def _end_pending(self, job: str, state: State, reason: str) -> None:
        work = self._works.get(job)
        if work is None:
            return
        work.is_ending = True
        for task in list(work.tasks.values()):
            if task.state is State.PENDING:
                self._end(task, state, reason)

    def _end(self, task: Task, state: State, reason: str) -> None:
        """The task has ended, or is started again."""
        work = self._works[task.job]
        old_key = task.key
        del self._tasks[old_key]
        self._processes.pop(old_key, None)
        work.placed.discard(old_key)
        now_ns = self._now_ns()
        self._effects.records.append(requests.record(task, state, now_ns))
        is_retried = state in RETRIED and task.attempt < work.job.retries
        if is_retried:
            why = f"attempt {task.attempt + 1}: {reason}"
            again = Task(task.job, task.index, attempt=task.attempt + 1, reason=why, priority=task.priority)
            task = work.tasks[task.index] = self._tasks[again.key] = again
            # Before the release: an application of which nothing is left completes.
            self._tell([requests.ask(work.job, task)])
        else:
            task.state, task.reason, task.ended_ns = state, reason, now_ns
            work.unfinished -= 1
        self._change(task)
        termination_type = _RELEASED_AS.get(state, _STOPPED)
        if work.unfinished or termination_type == _PREEMPTED:  # else the end of the application is that of its last task
            self._release(task.job, old_key, termination_type)
        if not is_retried:
            self._on_final(work, task)

    def _on_final(self, work: Work, task: Task) -> None:
        if not work.unfinished:
            del self._works[work.job.id]
            self._effects.ended.append(work.job.id)
            self._effects.requests.append(requests.concluded(work.job, list(work.tasks.values())))
        elif work.job.is_gang and task.state is not State.COMPLETED and not work.is_ending:
            work.is_ending = True
            self._end_gang(work, f"task {task.index} of the gang is {task.state}" + (f": {task.reason}" if task.reason else ""))

    def _end_gang(self, work: Work, reason: str) -> None:
        """A gang that has lost one of its tasks does not go on with the others."""
        for other in list(work.tasks.values()):
            if other.state is State.RUNNING:
                self._kill(other, State.CANCELLED, reason)
            elif other.state is State.PENDING:
                self._end(other, State.CANCELLED, reason)

    def _deadline_ns(self, task: Task) -> int:
        limit_s = self._works[task.job].job.time_limit_s
        return task.started_ns + round(limit_s * 1e9) if limit_s else _NEVER

    def _tell(self, allocations: Iterable[si.Allocation]) -> None:
        """Asks, or tasks that have their place; the client sends in parts what is too large."""
        entries = list(allocations)
        if entries:
            self._effects.requests.append(si.AllocationRequest(allocations=entries))

    def _release(self, job: str, key: str, termination_type: str) -> None:
        """Together with the releases before it."""
        entry = requests.release(job, key, termination_type)
        told = self._effects.requests
        if told and isinstance(told[-1], si.AllocationRequest) and not told[-1].allocations:
            together = told[-1].releases.allocations_to_release
            if len(together) < _TOGETHER_MAX:
                told[-1] = requests.released(*together, entry)
                return
        told.append(requests.released(entry))

    def _change(self, task: Task) -> None:
        self._effects.tasks[task.job, task.index] = task


def _is_in(leaf: str, queue: str) -> bool:
    """True if a leaf is the queue that a job has named, or below it; it may have named none."""
    named = queue.lower()
    if named != "root" and not named.startswith("root."):
        named = f"root.{named}"
    return not queue or not leaf or f"{leaf.lower()}.".startswith(f"{named}.")


def _exit_text(code: int) -> str:
    found = signal_of(code)
    return f"exit code {code}" + (f" ({found})" if found else "")


_NEVER = 2**63 - 1
_SHORT = "; the kernel has killed a process of it, which wanted more memory than the job has asked for"
_STOPPING = "the local resource manager was stopped with --stop-jobs"
