"""The local resource manager: daemon, processes, store and command line brought together.

Every input is handled without waiting: decided, committed, carried out. So whatever happens in between, what was carried out is
on the disk, and a start after ``kill -9`` finds what was not.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path

import trio
from msgspec import Struct, structs

from ykactor import __version__
from ykactor.client import Disconnected, Refusal, RequestRefused, connect, keep_registered
from ykactor.client.login import LoginOptions
from ykactor.local import answers, control
from ykactor.local.access import Access, Principal, System, may, owns, visible_record, visible_row, visible_task
from ykactor.local.checks import checked, wrong_environ
from ykactor.local.effects import Effects
from ykactor.local.exclusive import InUse, only_for, only_in
from ykactor.local.forgetting import Forgetting
from ykactor.local.hooking import Hooking
from ykactor.local.isolation import Isolation
from ykactor.local.jobs import Jobs, NotDone, SubmitRefused
from ykactor.local.machine import Machine, boot_id
from ykactor.local.model import Ended, Job, State, Task
from ykactor.local.private import private_directory, shared_directory
from ykactor.local.processes import NotStarted, Processes
from ykactor.local.quotas import Quotas, full_disk
from ykactor.local.records import Counts, Records, read, records
from ykactor.local.serving import Caller, listening, serve
from ykactor.local.shared import SharedProcesses
from ykactor.local.shared_groups import SharedCgroups
from ykactor.local.store import Store
from ykactor.local.waiting import Result
from ykactor.wire.si import messages as si

#: Seconds between two searches for tasks that have run too long.
TICK_S = 0.25
#: Seconds between two looks at the room on the disk.
DISK_S = 5.0
#: A partition of the daemon is stopped: its jobs wait until it is back and asks for everything.
_UNAVAILABLE = "UNAVAILABLE"
#: Time limit for saying goodbye to the daemon.
DEREGISTER_S = 2.0
#: The daemon does not let this one in any more.
_NOT_LET_IN = (Disconnected, RequestRefused)


class Settings(Struct, frozen=True):
    """The settings of a local resource manager.

    Attributes:
        directory: where jobs and their output are kept.
        user: who submits its jobs, if they are those of one user.
        system: if root runs it for all users; ``isolation`` has control groups for them then.
        kept_ns: how long jobs that have ended are kept.
        stops_jobs: whether its jobs end with it, and those that it finds at its start.
    """

    url: str
    login: LoginOptions
    rm_id: str
    directory: Path
    machine: Machine
    isolation: Isolation
    user: str
    grace_s: float
    kept_ns: int
    stops_jobs: bool
    now_ns: Callable[[], int]
    say: Callable[[str], object]
    system: System | None = None


@asynccontextmanager
async def managing(settings: Settings) -> AsyncIterator[None]:
    """A local resource manager until the block ends; then it stops its jobs if that is its task, however the block ends.

    Raises:
        NotPrivate: the state directory is of another user, or open to others.
        InUse: another one has the state directory, or serves the daemon from this machine.
        OSError, sqlite3.Error: the state directory.
        Disconnected, RequestRefused: the daemon does not let it in, or another one has taken its place.
    """
    is_shared = settings.system is not None
    settings.directory.mkdir(mode=0o755 if is_shared else 0o700, parents=True, exist_ok=True)
    check = shared_directory if is_shared else private_directory
    with check(settings.directory), only_in(settings.directory):
        # Any user could take the name for a daemon, and keep root from it; only root has an identity for this one.
        async with no_place() if is_shared else only_for(settings.url) as take_place:
            with closing(Manager(settings, take_place)) as manager:
                async with manager.running():
                    yield
                if manager.jobs.are_done:
                    await _deregister(settings, take_place)


async def _deregister(settings: Settings, take_place: Callable[[str], None]) -> None:
    """Nothing is left that would need its place, if it still has it."""
    again = partial(connect, settings.url, rm_id=settings.rm_id, before_registering=take_place, **settings.login)
    with trio.move_on_after(DEREGISTER_S):
        try:
            async with again(resume_from="now") as rm:
                await rm.request(si.DeregisterResourceManagerRequest())
        except (Disconnected, RequestRefused, InUse):
            return


def _processes(settings: Settings) -> Processes | SharedProcesses:
    """The way in which tasks are started: as the user of this program, or, where root has control groups, as their own."""
    if isinstance(settings.isolation, SharedCgroups):
        return SharedProcesses(settings.directory, settings.isolation, settings.grace_s)
    return Processes(settings.directory / "jobs", settings.isolation, settings.grace_s)


class Manager:
    def __init__(self, settings: Settings, take_place: Callable[[str], None]) -> None:
        self._settings = settings
        self._take_place = take_place
        self._store = Store(settings.directory)
        self._processes = _processes(settings)
        self._access = Access(settings.system, settings.user)
        self._quotas = Quotas()
        self._hooking = Hooking(self._store, self._processes, self._on_hook_ended, settings.say)
        self._boot = boot_id()
        self.jobs = Jobs(settings.machine, self._store.next_number(), self._boot, settings.now_ns)
        #: The clients that wait for the end of jobs.
        self._waiting = trio.lowlevel.ParkingLot()

    def close(self) -> None:
        self._store.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run until the block ends, and then until its jobs have ended if it stops them."""
        settings = self._settings
        kept = keep_registered(
            settings.url,
            rm_id=settings.rm_id,
            version=__version__,
            build_info={"buildVersion": __version__},
            on_connection=settings.say,
            before_registering=self._take_place,
            **settings.login,
        )
        async with (
            self._listening() as listener,
            kept as self._session,
            trio.open_nursery() as self._nursery,
        ):
            self._restore()
            self._nursery.start_soon(self._listen)
            self._nursery.start_soon(serve, listener, self, self._access)
            self._nursery.start_soon(self._tick)
            if settings.system is not None:
                self._nursery.start_soon(self._watch_disk)
            self._nursery.start_soon(self._forgetting().run)
            settings.say(f"ready: {settings.isolation.description}")
            try:
                yield
            finally:
                if settings.stops_jobs:
                    await self._end_jobs()
            self._nursery.cancel_scope.cancel()

    def _listening(self) -> AbstractAsyncContextManager[trio.SocketListener]:
        if (system := self._settings.system) is None:
            return listening(self._settings.directory)
        return listening(self._settings.directory, 0o666 if system.group < 0 else 0o660, system.group)

    def _forgetting(self) -> Forgetting:
        settings = self._settings
        return Forgetting(self._store, self._processes, lambda: settings.now_ns() - settings.kept_ns, settings.say)

    async def _end_jobs(self) -> None:
        self._hooking.stop()
        self.jobs.stop_all()
        self._carry_out()
        while not self.jobs.are_done or self._hooking.running:
            await self._waiting.park()

    # ---- inputs

    def _restore(self) -> None:
        """Restore the jobs that were kept. A task that should have a process has one, or ends, or gets one."""
        for job, tasks in self._store.unfinished():
            self.jobs.restore(job, tasks)
            self._quotas.add(job)
        for number, _, _ in self._store.hooks():
            self._quotas.add(self._store.hook(number))
        for job, task in self.jobs.with_processes():
            if task.boot != self._boot:
                ended = self._processes.ended(task)
                self.jobs.on_ended(task, ended if ended.exit_code is not None else Ended(None, "the machine was started again"))
            elif task.state is State.ENDING:
                self._processes.forbid(task)
                self._nursery.start_soon(self._watch, task)
                self._nursery.start_soon(self._processes.terminate, task)
            else:
                self._start(job, task)
        if self._settings.stops_jobs:  # what one before it has left that could not do so
            self.jobs.stop_all()
        with records(self._settings.directory) as kept:
            self.jobs.resume(kept.results(self.jobs.unknown()))
        self._carry_out()
        self._hooking.start(self._nursery)

    async def _listen(self) -> None:
        """The messages of the daemon, until it does not let this one in any more: then nothing goes on that ends with it."""
        try:
            await self._hear()
        except _NOT_LET_IN:
            if self._settings.stops_jobs:
                await self._end_jobs()
            raise

    async def _hear(self) -> None:
        async for message in self._session:
            match message:
                case si.RegisterResourceManagerResponse():
                    self.jobs.report()
                case Refusal(request, answer):
                    self._settings.say(f"refused: {type(request).__name__}: {answer.code}: {answer.message}")
                    if answer.code != _UNAVAILABLE:
                        self.jobs.on_refused(request, answer.message)
                case si.NodeResponse(rejected=rejected):
                    for entry in rejected:
                        self._settings.say(f"the node {entry.node_id} is rejected: {entry.reason}")
                case _:
                    self.jobs.on_message(message)
            self._carry_out()

    async def _watch(self, task: Task) -> None:
        """The end of a process."""
        self.jobs.on_ended(task, await self._processes.wait(task))
        self._carry_out()

    async def _tick(self) -> None:
        while True:
            await trio.sleep(TICK_S)
            self.jobs.on_time()
            self._carry_out()

    async def _watch_disk(self) -> None:
        """Start nothing while the disk of a shared machine has too little room for it."""
        directory, reason = self._settings.directory, ""
        while True:
            found = full_disk((directory, directory / "jobs"))
            if found or reason:
                self.jobs.delay_starts(found)
                self._carry_out()
            if bool(found) is not bool(reason):
                self._settings.say(f"no job begins: {found}" if found else "jobs begin again: the disk has room")
            reason = found
            await trio.sleep(DISK_S)

    # ---- outputs

    def _carry_out(self) -> None:
        """Commit what has changed, then do what follows from it, until nothing does."""
        while True:
            effects = self.jobs.take()
            if effects.has_changes:
                changed = list(effects.jobs.values()), effects.tasks.values(), effects.ended
                self._store.commit(*changed, self._settings.now_ns(), effects.attempts)
            self._count(effects)
            with suppress(*_NOT_LET_IN):  # what has ended the session is handled where it is read
                if effects.records or effects.reports:
                    self._session.send(si.ApplicationRequest(jobs=[*effects.reports.values()], records=effects.records))
                for request in effects.requests:
                    self._session.send(request)
            for job, task in effects.starts:
                self._start(job, task)
            for task in effects.kills:
                self._nursery.start_soon(self._processes.terminate, task)
            if effects.ended or any(task.state.is_final for task in effects.tasks.values()):
                self._waiting.unpark_all()
            if not effects.starts:
                return

    def _count(self, effects: Effects) -> None:
        """Count what users keep: a job with a hook, which begins when it ends, until that has ended too."""
        for job in effects.jobs.values():
            self._quotas.add(job)
        hooked = self._hooking.start(self._nursery) if effects.ended else set()
        for name in set(effects.ended) - hooked:
            self._quotas.remove(name)

    def _start(self, job: Job, task: Task) -> None:
        try:
            if not self._processes.has_begun(task):
                self._processes.start(job, task)
        except NotStarted as failure:
            self.jobs.on_not_started(task, str(failure))
        else:
            self._nursery.start_soon(self._watch, task)

    def _on_hook_ended(self, job: str) -> None:
        self._quotas.remove(job)
        self._waiting.unpark_all()

    # ---- the command line

    async def ready(self, request: control.Request) -> None:
        """Wait for the end of a job, or of a task, if the request says so."""
        if isinstance(request, control.ShowJob):
            while request.waits and self.jobs.has(request.job, request.index):
                await self._waiting.park()

    async def answer(self, caller: Caller, request: control.Request) -> control.Answer:
        """Answer a request of the command line."""
        principal = await self._access.principal(caller)
        try:
            match request:
                case control.Submit(job=job):
                    return await self._submit(await self._access.submitted(principal, checked(job)))
                case control.PlanJob(job=job):
                    planned = await self._access.submitted(principal, checked(job))
                    ended = await self._ended(planned)
                    return control.PlannedJob(*self.jobs.planned(self._maker(planned), ended))
                case control.ListJobs():
                    row = partial(_job_row, principal)
                    page = await read(self._settings.directory, lambda kept: kept.jobs(request, row))
                    return control.JobList(page.rows, page.more)
                case control.ListAttempts():
                    return await self._attempts(principal, request)
                case control.ShowJob(job=name, index=index):
                    return await self._shown(principal, name, index)
                case _:
                    return self._changed(principal, request)
        except NotDone as refused:
            return control.Refused(str(refused))

    def _changed(self, principal: Principal, request: control.Change) -> control.Answer:
        job = self._named(request.job, None if isinstance(request, control.Hold) else request.index)
        if reason := may(principal, type(request).__name__.lower(), job):
            raise NotDone(reason)
        who = job.user if self._settings.system is None or owns(principal, job) else "an operator"
        match request:
            case control.Cancel(index=index):
                self.jobs.cancel(job.id, index, f"cancelled by {who}")
                done = "is ending"
            case control.Hold(is_held=is_held):
                if is_held:
                    self.jobs.hold(job.id)
                else:
                    self.jobs.release(job.id, is_operator=principal.is_operator)
                done = "is held" if is_held else "is released"
            case control.Requeue():
                done = self._requeue(principal, job, request, f"requeued by {who}")
        self._carry_out()
        return control.Done(done)

    def _requeue(self, principal: Principal, job: Job, request: control.Requeue, reason: str) -> str:
        """Returns what was done."""
        tasks = self._store.tasks(job.id)
        wanted = [task for task in tasks if request.index in (None, task.index)]
        if request.only_failed:
            wanted = [task for task in wanted if task.state.is_final and task.state is not State.COMPLETED]
        if not wanted:
            raise NotDone(f"{job.id} has no task that has failed")
        if not self.jobs.has(job.id):
            if self._store.has_hook(job.id):
                raise NotDone(f"the command for the end of {job.id} has not ended, which takes a minute at most: try again then")
            job = self._with_environ(principal, job, request.environ)
        self.jobs.requeue(job, tasks, [task.index for task in wanted], reason)
        return f"runs again: {len(wanted)} of {job.count} tasks"

    def _with_environ(self, principal: Principal, job: Job, environ: list[bytes]) -> Job:
        """A job that has ended with another environment, because its own was forgotten.

        Raises:  NotDone.
        """
        if self._settings.system is not None and not owns(principal, job):
            raise NotDone(f"{job.id} has ended: only {job.user} can run it again, with an environment of this user")
        for wrong in wrong_environ(environ):
            raise NotDone(wrong)
        job = structs.replace(job, environ=environ)
        self._check_room(job)
        return job

    def _named(self, name: str, index: int | None) -> Job:
        """The job with a name, if it has a task with the index.

        Raises:  NotDone.
        """
        found = self._store.find(name)
        if found is None:
            raise NotDone(f"there is no job {name}; ykactor jobs lists them")
        if index is not None and not found.has(index):
            raise NotDone(f"there is no task {name}.{index}: {name} has the tasks {found.first} to {found.last}")
        return found

    async def _attempts(self, principal: Principal, query: control.ListAttempts) -> control.Answer:
        if query.job:
            self._named(query.job, query.index)
        row = partial(_record, principal)
        page = await read(self._settings.directory, lambda kept: kept.attempts(query, row))
        return control.AttemptList(page.rows, page.more)

    async def _shown(self, principal: Principal, name: str, index: int | None) -> control.Answer:
        found = self._named(name, index)
        kept, counts = await read(self._settings.directory, lambda kept: (kept.tasks(name, index), kept.counts(name)))
        tasks = [visible_task(principal, found, task) for task in kept]
        row = _job_row(principal, found, counts)
        directory, is_shared = str(self._processes.job_directory(name)), self._settings.system is not None
        return control.ShownJob(row, tasks, directory, self._settings.url, is_shared)

    def _maker(self, job: Job) -> Callable[[str], Job]:
        """Makes a job that is submitted now, for its id."""
        now_ns = self._settings.now_ns()
        return lambda job_id: structs.replace(job, id=job_id, submitted_ns=now_ns)

    async def _ended(self, job: Job) -> dict[str, Result | None]:
        """The ends of the jobs that a new one names, of those that have ended. They are read beside the event loop."""
        ended: dict[str, Result | None] = {}
        named = [after.job for after in job.after]
        while names := [name for name in named if name not in ended and not self.jobs.has(name)]:
            ended |= await read(self._settings.directory, partial(Records.results, names=names))
        return ended

    async def _submit(self, job: Job) -> control.Answer:
        ended = await self._ended(job)
        known = self._store.submitted_with(job.token)
        if known is None:
            self._check_room(job)
            known = self.jobs.submit(self._maker(job), ended)
            self._carry_out()
        away = f"it waits for the daemon at {self._settings.url}, which is not there: start one with ykactor serve"
        directory = str(self._processes.job_directory(known.id))
        return control.Submitted(known.id, directory, away if self._session.is_lost else "")

    def _check_room(self, job: Job) -> None:
        """SubmitRefused if a shared machine has no room for a new job of its user."""
        if self._settings.system is None:
            return
        directory = self._settings.directory
        if reason := self._quotas.refusal(job) or full_disk((directory, directory / "jobs")):
            raise SubmitRefused(reason)


def _job_row(principal: Principal, job: Job, counts: Counts) -> control.JobRow:
    return visible_row(principal, job, answers.job_row(job, counts))


def _record(principal: Principal, job: Job, task: Task) -> control.Record:
    return visible_record(principal, job, answers.record(job, visible_task(principal, job, task)))


@asynccontextmanager
async def no_place() -> AsyncIterator[Callable[[str], None]]:
    """Hold nothing at a daemon, as ``only_for`` does."""
    yield lambda term: None
