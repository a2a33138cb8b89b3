"""The state of jobs, changed by people, messages, processes and time. Plain functions over plain data: the caller carries out.

Each input changes tasks and adds to ``Effects``. The caller commits the changes of an input before it carries out the effects, so
that whatever is seen outside is on the disk.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec import structs

from ykactor.local import requests
from ykactor.local.book import Book, Work
from ykactor.local.effects import Effects
from ykactor.local.hearing import hear, hear_refusal
from ykactor.local.machine import Machine
from ykactor.local.model import After, Ended, Job, State, Task, signal_of
from ykactor.local.waiting import Results
from ykactor.wire.si import messages as si

#: Tasks of all jobs that have not ended, and attempts of a task.
TASKS_MAX = 100_000
ATTEMPTS_MAX = 1000
_NEVER = 2**63 - 1
_SHORT = "; the kernel has killed a process of it, which wanted more memory than the job has asked for"
_STOPPING = "the local resource manager was stopped with --stop-jobs"


class NotDone(Exception):
    """The wish of a person is refused; the message says why."""


class SubmitRefused(NotDone):
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
        self._now_ns = now_ns
        self._book = Book(machine, boot, now_ns)

    def take(self) -> Effects:
        """The effects of the inputs since the last call."""
        self._book.settle()
        effects, self._book.effects = self._book.effects, Effects()
        return effects

    def has(self, job: str, index: int | None = None) -> bool:
        """True if the job, or the task of it, has not ended."""
        work = self._book.works.get(job)
        if work is None or index is None:
            return work is not None
        return index in work.tasks and not work.tasks[index].state.is_final

    @property
    def are_done(self) -> bool:
        return not self._book.works

    def with_processes(self) -> list[tuple[Job, Task]]:
        """The tasks that should have a process."""
        return [(self._book.works[task.job].job, task) for task in self._book.processes.values()]

    # ---- the beginning

    def restore(self, job: Job, tasks: list[Task]) -> None:
        """A job that was kept; each task with a process is to be found by the caller."""
        self._book.add(self._in_types(job), tasks)

    def unknown(self) -> list[str]:
        """The jobs that had ended before, and for whose ends restored ones wait."""
        return self._book.dependencies.unknown()

    def resume(self, ended: Results) -> None:
        """All jobs that were kept are restored, and the ends of the others are known: what no longer waits goes on."""
        self._book.learn(ended)
        for work in list(self._book.works.values()):
            self._book.reconsider(work)

    def report(self) -> None:
        """The daemon has nothing, and is told everything (SC-144): nothing is placed before it knows what runs (SC-145).

        It has forgotten the holds of operators too: what they have held is not asked for.
        """
        for work in [work for work in self._book.works.values() if work.is_told]:
            work.held.clear()
            work.placed.clear()
            work.placeholders = 0
            work.has_hold = False
            if work.job.is_held_there:
                self._book.take_back(work)
        works = [work for work in self._book.works.values() if work.is_told]
        node_id = self._machine.node_id
        told = self._book.effects.requests
        told.append(requests.node(node_id, self._machine.resource))
        if works:
            self._book.introduce(works)
        self._book.effects.tell(requests.running(job, task, node_id) for job, task in self.with_processes())
        self._book.effects.tell(chain.from_iterable(self._book.asks(work, work.tasks.values()) for work in works))
        told.append(requests.opened(node_id))

    # ---- people

    def submit(self, make: Callable[[str], Job], ended: Results) -> Job:
        """A new job, made for its id; ``ended`` has those that it names and that have ended.

        Raises:  SubmitRefused.
        """
        job = self._in_types(make(f"job-{self._next_number}"))
        _check_indexes(job)
        if reason := self._machine.has_no_room(job.resource, job.count if job.is_gang else 1):
            raise SubmitRefused(reason)
        self._check_room(job.count)
        job = structs.replace(job, after=_dependencies(job, self._book, ended))
        self._next_number += 1
        work = self._book.add(job, [Task(job.id, index, State.WAITING) for index in job.indexes])
        self._book.effects.jobs[job.id] = job
        for task in work.tasks.values():
            self._book.effects.change(task)
        self._book.learn(ended)
        self._book.reconsider(work)
        return job

    def planned(self, make: Callable[[str], Job], ended: Results) -> tuple[si.ApplicationRequest, si.AllocationRequest]:
        """The requests for a new job as the next one would be submitted, which it is not, and would wait for nothing else.

        Raises:  SubmitRefused.
        """
        _dependencies(make(""), self._book, ended)
        alone = Jobs(self._machine, self._next_number, "", self._now_ns)
        alone.submit(lambda job_id: structs.replace(make(job_id), is_held=False, begin_ns=0, after=[]), {})
        applications, asks = alone.take().requests
        assert isinstance(applications, si.ApplicationRequest)
        assert isinstance(asks, si.AllocationRequest)
        return applications, asks

    def hold(self, name: str) -> None:
        """Ask the daemon for no further task of a job.

        Raises:  NotDone.
        """
        work = self._unfinished(name)
        if work.job.is_held:
            raise NotDone(f"{name} is held")
        self._book.replace(work, structs.replace(work.job, is_held=True))
        self._book.reconsider(work)

    def release(self, name: str, *, is_operator: bool) -> None:
        """Let a job go on that is held; by an operator at the daemon only if this has forgotten it.

        Raises:  NotDone.
        """
        work = self._unfinished(name)
        job = work.job
        ends_there = job.is_held_there and not work.has_hold and is_operator
        if not (job.is_held or ends_there):
            by = "held by an operator at the daemon, and only operators can release it"
            raise NotDone(f"{name} is {by if job.is_held_there else 'not held'}")
        self._book.replace(work, structs.replace(job, is_held=False, is_held_there=job.is_held_there and not ends_there))
        self._book.reconsider(work)

    def cancel(self, name: str, index: int | None, reason: str) -> None:
        """End a job, or a task of it.

        Raises:  NotDone.
        """
        work = self._unfinished(name)
        if index is None:
            self._book.cancel(work, reason)
            return
        task = work.tasks[index]
        if task.state.is_final:
            raise NotDone(f"{name}.{index} has ended: it is {task.state}")
        if task.state.has_process:
            self._book.kill(task, State.CANCELLED, reason)
        else:
            self._book.end(task, State.CANCELLED, reason)

    def requeue(self, job: Job, tasks: Sequence[Task], indexes: Iterable[int], reason: str) -> None:
        """Run tasks again: end those that run, and make another attempt of those that have ended.

        Args:
            job, tasks: as they are kept; the job may have ended.

        Raises:  NotDone: one of them cannot be run again; then none is.
        """
        work = self._book.works.get(job.id)
        now = {task.index: task for task in tasks} if work is None else work.tasks
        wanted = [now[index] for index in indexes]
        self._check_requeue(job, wanted)
        if work is None:
            echo = requests.concluded(job, tasks).remove[0].message
            job = structs.replace(job, is_held=False, is_held_there=False, is_let_in=False, begin_ns=0, after=[])
            job = self._in_types(job)
            work = self._book.add(job, now.values())
            work.echo = echo
            self._book.effects.jobs[job.id] = job
        for task in wanted:
            if task.state is State.RUNNING:
                self._book.kill(task, State.REQUEUED, reason)
            else:
                self._book.run_again(work, task, reason)

    def stop_all(self) -> None:
        """End all tasks: who stops this program wants no process to be left."""
        for work in list(self._book.works.values()):
            self._book.cancel(work, _STOPPING)

    def _unfinished(self, name: str) -> Work:
        work = self._book.works.get(name)
        if work is None:
            raise NotDone(f"{name} has ended")
        return work

    def _in_types(self, job: Job) -> Job:
        """A job whose GPUs have the name that they have on this machine."""
        return structs.replace(job, resource=self._machine.in_types(job.resource))

    def _check_room(self, count: int) -> None:
        if (found := len(self._book.tasks)) + count > TASKS_MAX:
            raise SubmitRefused(f"found {found} tasks, expected room for {count} more of {TASKS_MAX}")

    def _check_requeue(self, job: Job, wanted: Sequence[Task]) -> None:
        if job.is_gang:
            raise NotDone(f"{job.id} is a gang, of which no task runs without the others: submit it again")
        if job.terminal:
            raise NotDone(f"{job.id} has a terminal, which may be that of another window by now: submit it again")
        for task in wanted:
            if task.state is not State.RUNNING and not task.state.is_final:
                raise NotDone(f"{job.id}.{task.index} is {task.state}, expected a task that runs or has ended")
            if task.attempt + 1 >= ATTEMPTS_MAX:
                raise NotDone(f"{job.id}.{task.index} has had {task.attempt + 1} attempts, expected less than {ATTEMPTS_MAX}")
        self._check_room(sum(task.state.is_final for task in wanted))

    # ---- the daemon

    def on_message(self, message: si.Response) -> None:
        hear(self._book, message)

    def on_refused(self, request: si.WorkRequest, reason: str) -> None:
        """A request had no effect: what it asks for will never be."""
        hear_refusal(self._book, request, reason)

    # ---- processes and time

    def on_ended(self, task: Task, ended: Ended) -> None:
        """The process of a task has ended, with all that it has started."""
        task.exit_code, task.peak_memory, task.cpu_ns = ended.exit_code, ended.peak_memory, ended.cpu_ns
        match task.state, ended.exit_code:
            case State.ENDING, _ if not ended.by_itself:
                assert task.verdict is not None, "who ends a task says why"
                self._book.end(task, task.verdict, task.reason)
            case _, 0:
                self._book.end(task, State.COMPLETED, "")
            case _, None:
                self._book.end(task, State.LOST, ended.reason + _SHORT * ended.is_short)
            case _, code:
                self._book.end(task, State.FAILED, (ended.reason or _exit_text(code)) + _SHORT * ended.is_short)

    def on_not_started(self, task: Task, reason: str) -> None:
        """End a task whose command could not be started."""
        self._book.end(task, State.FAILED, reason)

    def delay_starts(self, reason: str) -> None:
        """Let nothing begin that has its place, for a reason; "" lets it."""
        self._book.delay_starts(reason)

    def on_time(self) -> None:
        """Let tasks begin whose time has come, and end what has run for too long."""
        self._book.on_time()
        now = self._now_ns()
        for job, task in self.with_processes():
            if task.state is State.RUNNING and _deadline_ns(job, task) <= now:
                self._book.kill(task, State.TIMED_OUT, f"ran longer than {job.time_limit_s:.12g} s")


def _check_indexes(job: Job) -> None:
    """SubmitRefused unless the job has tasks."""
    if job.count < 1:
        raise SubmitRefused(f"found the tasks {job.first} to {job.last}, expected at least one")


def _dependencies(job: Job, book: Book, ended: Results) -> list[After]:
    """The dependencies of a new job, which say whether they hold for each element.

    Raises:  SubmitRefused.
    """
    return [_dependency(job, after, _known(after.job, book, ended)) for after in dict.fromkeys(job.after)]


def _known(name: str, book: Book, ended: Results) -> Job:
    """A job that has ended, or not. Raises:  SubmitRefused."""
    if (work := book.works.get(name)) is not None:
        return work.job
    if (result := ended.get(name)) is not None:
        return result.job
    raise SubmitRefused(f"found --after {name}: there is no such job, or it has ended long ago and is forgotten")


def _dependency(job: Job, after: After, other: Job) -> After:
    if after.index is not None and not other.has(after.index):
        raise SubmitRefused(f"found --after {after.job}.{after.index}: {after.job} has no such task")
    is_by_element = after.index is None and not job.is_gang and job.count > 1 and other.spans == job.spans
    return structs.replace(after, is_by_element=is_by_element, is_met=False)


def _deadline_ns(job: Job, task: Task) -> int:
    return task.started_ns + round(job.time_limit_s * 1e9) if job.time_limit_s else _NEVER


def _exit_text(code: int) -> str:
    found = signal_of(code)
    return f"exit code {code}" + (f" ({found})" if found else "")
