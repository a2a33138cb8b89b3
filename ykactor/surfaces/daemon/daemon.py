"""The daemon: partitions, feed, sockets, watcher and signals in one nursery.

It starts from the inside out: clients are let in last, when everything that they need is running, and before only standbys, for
which a daemon may have to wait. It stops in this order: partitions take no more input and finish their turn, the feed numbers
what they published, the journal makes it durable, sessions send what is queued for them, and then the rest is cancelled.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from msgspec import Struct

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, RunCycles
from ykactor.actors.feed import FeedActor
from ykactor.actors.gateway import Point, Reached
from ykactor.actors.health import Check, HealthChecks
from ykactor.actors.journal import Journal, Recording, Since
from ykactor.actors.outbox import Outbox, OutboxRegistry
from ykactor.actors.partition import Cycling, PartitionActor, Standing
from ykactor.actors.partitions import Partitions
from ykactor.actors.pauses import collect_old, settle_memory
from ykactor.actors.standbys import Standbys
from ykactor.actors.supervision import Supervisor
from ykactor.actors.turn_stream import TurnStream
from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.inspection.process_status import Registration, StandbysStatus, UnconfirmedStatus
from ykactor.core.messages.submissions import RefuseConfig, Reset, Submission
from ykactor.core.objects.registry import Registry
from ykactor.core.values.ids import PartitionName
from ykactor.journal.files import write_superseded
from ykactor.journal.terms import Terms
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.daemon.confirmation import Confirmation
from ykactor.surfaces.daemon.groups import GroupResolver
from ykactor.surfaces.daemon.reloading import QueueFile, ReadConfig, Reloading, Source
from ykactor.surfaces.daemon.reports import (
    Delivery,
    Incidents,
    JournalLog,
    checks_of_files,
    checks_of_standbys,
    log_cycle,
    log_no_base,
    log_stopped,
    problems,
    status_of,
    tell_of_standbys,
)
from ykactor.surfaces.daemon.windows import is_due
from ykactor.surfaces.files.daemon_rows import ChangeRow, DaemonRows
from ykactor.surfaces.files.recovery import Recovered, restored_outbox
from ykactor.surfaces.files.watcher import FileWatcher
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.metrics.instruments import Instruments
from ykactor.surfaces.metrics.scrape import Measured, Sources
from ykactor.surfaces.net.doors import HTTP, WS, Door
from ykactor.surfaces.net.systemd import EXTENSION_S, Notifier, feed_watchdog
from ykactor.surfaces.sessions.pending import late_answer
from ykactor.surfaces.sessions.websocket import Acting, serve_websockets
from ykactor.wire import queuefile
from ykactor.wire.history import encode_cause
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding
from ykactor.wire.turns import EncodedTurns

if TYPE_CHECKING:  # needs libraries that take 0.1 s to load, which few daemons need
    from ykactor.surfaces.admission.access_control import AccessWatcher
    from ykactor.surfaces.daemon.tls_watcher import TlsWatcher

log = get_logger(__name__)

#: The time for partitions to finish; sessions have 2 s more to send what is queued for them.
PARTITIONS_STOP_S = 2.0


class Settings(Struct, frozen=True):
    """The settings of the daemon; queues are not among them.

    Attributes:
        config_path: the queue file that is watched; None if there is none, or it is read only once.
        manual: cycles run only on a ``ScheduleRequest``.
        reserves: whether asks reserve nodes.
        state_dir: where failures of partitions are kept for inspection; None: only in the log.
        host_names: names of this machine for web pages (``Admission``).
        access_path: the access file; None lets in who may be let in by its door without a proof.
        web_root: a directory with files of a web UI, which are served beside the REST API.
        has_old_metrics: whether there are metrics with the names that Apache YuniKorn had up to version 1.7 too.
    """

    config_path: Path | None = None
    manual: bool = False
    reserves: bool = True
    state_dir: Path | None = None
    host_names: tuple[str, ...] = ()
    access_path: Path | None = None
    web_root: Path | None = None
    has_old_metrics: bool = False


class Daemon:
    """The daemon, as the sessions use it (``actors.gateway.Gateway``).

    Args:
        config: of the queue file; None without one: that in ``recovered`` stays, and without that there is the built-in one.
        settings: how the daemon runs.
        clock: Unix time.
        journal: where everything is recorded before it leaves the daemon; None: nothing is recorded.
        recovered: what the journal holds of the daemon before this one.
        terms: those of the journal; None: everything begins with this daemon.
        access: follows the access file of the settings.
        tls: follows the files of TLS.
        standbys: those of the journal, if it has files.
    """

    def __init__(
        self,
        config: SchedulerConfig | None,
        settings: Settings,
        clock: Clock,
        journal: Journal | None = None,
        recovered: Recovered | None = None,
        terms: Terms | None = None,
        access: AccessWatcher | None = None,
        tls: TlsWatcher | None = None,
        standbys: Standbys | None = None,
    ) -> None:
        self.terms = terms or Terms.first()
        self.standbys = standbys
        self.manual = settings.manual
        self._rows = DaemonRows(journal)
        self.outboxes: OutboxRegistry[Encoding] = OutboxRegistry(journal, self._note_registration, self._rows.note_epochs)
        self._partitions = Partitions(
            self._make_partition, self._rows.forget_partition, lambda name: self.feed.published(name), self.outboxes.welcome
        )
        self.partitions = self._partitions.inboxes
        self.health = HealthChecks(
            self.partitions, partial(problems, self._partitions, journal), clock.ahead_ns, self._other_checks
        )
        self._instruments = Instruments(self.partitions)
        self.feed = FeedActor(Delivery(self._instruments, self.outboxes), self.partitions, is_idle=self._is_idle, journal=journal)
        self._journal = journal
        self.turns = self.feed.turns = TurnStream(journal, self.partitions, EncodedTurns())
        self._supervisor: Supervisor | None = None
        if journal is not None:
            incidents = Incidents(self.feed, journal, settings.state_dir)
            self._supervisor = Supervisor(clock, self.feed.inbox.give, incidents, reserves=settings.reserves)
        self._settings = settings
        self._clock = clock
        self.started_ns = clock.now_ns()
        recovered_partitions = {} if recovered is None else recovered.partitions
        self.turns_before: dict[str, int] = {name: restored.core.turns for name, restored in recovered_partitions.items()}
        self._file_config = config
        self._recovered = recovered
        in_force = recovered.config if recovered is not None else config or queuefile.load("")
        change = recovered.change if recovered is not None else ChangeRow()
        unconfirmed = recovered.unconfirmed if recovered is not None else None
        self._reloading = Reloading(
            in_force, change, self._partitions, self._report_refused, self._tell_replaced, self._rows, unconfirmed
        )
        self._goes_back = recovered is not None and is_due(recovered, clock)
        self.changed = self._reloading.changed
        if journal is not None:
            journal.watch(self._tell_changed)
        self._groups = GroupResolver()
        self.begun = trio.Event()
        #: Around everything that runs.
        self._ending = trio.CancelScope()
        #: Why it has ended although nobody has stopped it: another daemon has taken over, or was to and has not; "" otherwise.
        self.unplanned_end = ""
        self._stop = trio.Event()
        #: Set when ``run`` has ended without an error.
        self.stopped = trio.Event()
        self.audit = Audit(self.feed, self.partitions, self.now_ns, self._rows)
        self.confirmation = Confirmation(self._reloading, self._partitions, clock, self.feed.ring, self.audit)
        self._queue_file = QueueFile(settings.config_path, self._reloading, self.audit)
        self._access = access
        self._tls = tls
        expires_s = None if tls is None else tls.expires_s
        actors = self._partitions.actors
        self._sources = Sources(self, actors, self._instruments, settings.has_old_metrics, expires_s)
        self._measured = Measured(self._sources)

    # ---- Gateway

    def now_ns(self) -> int:
        """Unix time."""
        return self._clock.now_ns()

    def ahead_ns(self) -> int:
        """The time by which its clock is ahead of that of the machine (``Gateway.ahead_ns``)."""
        return self._clock.ahead_ns()

    @property
    def config(self) -> SchedulerConfig:
        """The configuration in force."""
        return self._reloading.config

    @property
    def registration(self) -> Registration | None:
        """The resource manager that is registered (``ReadGateway.registration``)."""
        return self.outboxes.registration

    def _note_registration(self, outbox: Outbox[Encoding] | None, is_changing: bool) -> None:
        self._rows.note_registration(outbox, is_changing)
        self._tell_changed()

    def _tell_changed(self) -> None:
        self.changed.unpark_all()

    def cycles(self) -> dict[PartitionName, dict[str, float]]:
        """The durations of cycles (``Gateway.cycles``)."""
        return {name: actor.times.of_cycles() for name, actor in self._partitions.actors.items()}

    def measured(self) -> bytes:
        """The metrics of the process (``Gateway.measured``)."""
        return self._measured.text()

    def reading_config(self, text: str, if_checksum: str = "", rm_id: str = "") -> AbstractAsyncContextManager[ReadConfig]:
        """Read a configuration, for the use within the block (``Gateway.reading_config``)."""
        return self._reloading.reading(text, if_checksum, Source("config", rm_id))

    @property
    def unconfirmed(self) -> UnconfirmedStatus | None:
        """The configuration that awaits confirmation (``ReadGateway.unconfirmed``)."""
        return self.confirmation.status()

    def _tell_replaced(self, rm_id: str, reason: str) -> None:
        if self.outboxes.current is not None and self.outboxes.current.rm_id == rm_id:
            self.outboxes.deliver([si.ErrorResponse(code="CONFIG_REPLACED", message=reason, path="config")])

    async def _report_refused(self, reason: str) -> None:
        running = [name for name in self.partitions if name not in self._partitions.stopped]
        with suppress(trio.ClosedResourceError):  # the daemon stops, or this partition is being removed
            await self._submit({name: [RefuseConfig(reason)] for name in running[:1]})

    def standing(self, partition: PartitionName) -> Standing:
        """The state of a partition (``Gateway.standing``)."""
        return self._partitions.actors[partition].standing

    def registry(self, partition: PartitionName) -> Registry:
        """The owners in a partition, to be read only."""
        return self._partitions.actors[partition].core.registry

    async def reload_file(self) -> str:
        """Read the queue file again and put it into force (``Gateway.reload_file``)."""
        return await self._queue_file.read_again()

    def reload(self) -> None:
        """Read the queue file, the access file and the files of TLS again now (SIGHUP)."""
        for watcher in self._watchers():
            watcher.reload()
        if not self._watchers():
            log_event(log, logging.WARNING, "reload_ignored", reason="the daemon has no file to read again")

    def _other_checks(self) -> list[Check]:
        found = self.unconfirmed
        unconfirmed = [] if found is None else [Check("Configuration", str(found), found.problem)]
        return [*unconfirmed, *checks_of_files(self._watchers()), *checks_of_standbys(self.standbys)]

    def _watchers(self) -> list[FileWatcher]:
        return [watcher for watcher in (self._access, self._tls, self._queue_file.watcher) if watcher is not None]

    def queue_paths(self, partition: PartitionName) -> list[str]:
        """The paths of all queues of a partition (``Gateway.queue_paths``)."""
        return [*self.registry(partition).queues]

    @property
    def standbys_status(self) -> StandbysStatus | None:
        """The standbys of the journal (``ReadGateway.standbys_status``)."""
        return None if self.standbys is None else self.standbys.status()

    @property
    def waits(self) -> str:
        """The transaction that its standbys do not have yet (``ReadGateway.waits``)."""
        if self.begun.is_set() or self.standbys is None or not self.standbys.settings.wanted:
            return ""
        return f"this daemon lets nobody in before its standbys have everything: {self.standbys.lack()}"

    def unavailable(self, _: PartitionName) -> str:
        """Nothing: a partition that is stopped shows its state (``ReadGateway.unavailable``)."""
        return ""

    def turn_of(self, partition: PartitionName) -> int:
        """The number of the newest turn, also if that is under way (``ReadGateway.turn_of``)."""
        actor = self._partitions.actors.get(partition)
        return 0 if actor is None else actor.core.turns

    async def reach(self, point: Point) -> Reached:
        """Wait for nothing: nobody knows anything before the daemon (``ReadGateway.reach``)."""
        return "there" if not point.term or point.term in self.terms else "elsewhere"

    @property
    def is_switching(self) -> bool:
        """True while a configuration is put into force (``Gateway.is_switching``)."""
        return self._reloading.is_switching

    async def with_groups(self, partition: PartitionName, submissions: list[Submission]) -> list[Submission]:
        """Look up the groups of users that are submitted without groups (``Gateway.with_groups``)."""
        return await self._groups.all_completed(submissions) if self._resolves(partition) else submissions

    async def with_own_groups(self, partition: PartitionName, who: UserGroups) -> UserGroups:
        """Look up the groups of an administrator without groups (``Gateway.with_own_groups``)."""
        return await self._groups.of_administrator(who) if self._resolves(partition) else who

    def _resolves(self, partition: PartitionName) -> bool:
        return self.registry(partition).config.user_group_resolver == "os"

    async def run_steps(self, steps: int) -> None:
        """Manual mode: run cycles of at most one decision each (``Gateway.run_steps``)."""
        for actor in list(self._partitions.actors.values()):  # a copy, because a reload may change them meanwhile
            done = Awaited()
            await actor.inbox.put(RunCycles(steps, done))
            await done.wait()

    async def _submit(self, work: dict[PartitionName, list[Submission]]) -> None:
        """Submit work to partitions and wait until its direct results are published."""
        for name, submissions in work.items():
            done = Awaited()
            await self.partitions[name].put(Intake(submissions, done))
            await done.wait()
            await self.feed.published(name)

    # ---- life

    async def run(
        self, doors: Sequence[Door], notifier: Notifier, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve until ``stop``. ``task_status`` is started when the first configuration is in force and clients are let in.

        Error handling: an exception in a partition is a bug, for which there is supervision if there is a journal; without one,
        or if no partition runs any more, it is raised here. Mistakes of clients are not.
        """
        with self._ending:
            await self._run(doors, notifier, task_status)
        if self._ending.cancelled_caught and not self.begun.is_set():
            task_status.started()
        log_stopped(self.feed.ring, self.outboxes.current)
        self.stopped.set()

    async def _run(self, doors: Sequence[Door], notifier: Notifier, task_status: trio.TaskStatus[None]) -> None:
        addresses = ", ".join(door.url for door in doors)
        stopping = trio.Event()
        async with trio.open_nursery() as inner:
            self._reloading.run_in(inner)
            if self._journal is not None:
                inner.start_soon(self._journal.run, name="journal")
                inner.start_soon(JournalLog(self._journal, self.feed.ring).run, name="journal log")
            inner.start_soon(self.feed.run, name="feed")
            inner.start_soon(self.audit.run, name="audit")
            async with trio.open_nursery() as edge:
                admission = self._admission(inner)
                acting = Acting(self, self.audit)
                serve = partial(serve_websockets, _for(WS, doors), self, admission, acting=acting, stopping=stopping)
                await edge.start(partial(serve, counts=self._instruments.sessions), name="websockets")
                await self._start_partitions(inner)
                inner.start_soon(self.confirmation.run, name="confirmation")
                inner.start_soon(feed_watchdog, notifier, self._progress, self._has_no_work, name="watchdog")
                inner.start_soon(collect_old, self._is_idle, name="collector")
                if _for(HTTP, doors):
                    await self._serve_http(edge, doors, admission, stopping)
                if await self._begin(inner, notifier):
                    await self._watch(inner, notifier, stopping)
                    settle_memory()
                    notifier.ready(self._status())
                    log_event(log, logging.INFO, "daemon_started", addresses=addresses, manual=self.manual)
                task_status.started()
                await self._stop.wait()
                notifier.stopping()
                with trio.move_on_after(PARTITIONS_STOP_S):
                    await self._stop_partitions()
                stopping.set()
            inner.cancel_scope.cancel()

    async def _begin(self, nursery: trio.Nursery, notifier: Notifier) -> bool:
        """Let clients in when as many standbys as wanted have what was recovered; False if the daemon is stopped before.

        It may have been committed and not told: by the time of a failure no standby had it.
        """
        standbys, journal = self.standbys, self._journal
        if standbys is None or journal is None or not standbys.settings.wanted:
            self.begun.set()
            return True
        nursery.start_soon(tell_of_standbys, standbys, self.audit, name="standbys")
        log_event(log, logging.INFO, "waits_for_standbys", reason=standbys.lack())
        async with trio.open_nursery() as waiting:
            waiting.start_soon(_cancel_when, self._stop, waiting.cancel_scope)
            waiting.start_soon(_extend, notifier)
            await journal.flushed()
            self.begun.set()
            waiting.cancel_scope.cancel()
        return self.begun.is_set()

    def _admission(self, nursery: trio.Nursery) -> Admission:
        """The admission, by the access file if there is one."""
        if self._access is None:
            return Admission(self.audit, host_names=self._settings.host_names)
        control = self._access.control
        nursery.start_soon(control.run, name="access control")
        return Admission(self.audit, control.admit, self._settings.host_names, control.limits)

    async def _watch(self, nursery: trio.Nursery, notifier: Notifier, stopping: trio.Event) -> None:
        """Follow the files."""
        for watcher in (self._access, self._tls):
            if watcher is not None:
                watcher.audit = self.audit
                await nursery.start(watcher.run, stopping, name=f"{watcher.name} watcher")
        if self._file_config is not None:
            known = self._file_config.text if self._reloading.has_read(self._file_config) else ""
            await self._queue_file.follow(nursery, notifier, self._status, known, stopping)

    async def _serve_http(self, nursery: trio.Nursery, doors: Sequence[Door], admission: Admission, stopping: trio.Event) -> None:
        from ykactor.surfaces.http.server import serve_rest  # needs libraries that take 0.2 s to load

        serve = partial(serve_rest, doors, self, admission, self._sources, acting=self, stopping=stopping)
        await nursery.start(partial(serve, web_root=self._settings.web_root), name="http")

    async def _start_partitions(self, nursery: trio.Nursery) -> None:
        """Start the partitions, with their last state if there is one, and finish what was under way when it was kept."""
        recovered = self._recovered
        self._rows.note_clock(self._clock.ahead_ns())
        if recovered is None:
            self._reloading.begin()
            await self._partitions.start(nursery, self.config, self._supervisor)
            return
        self.feed.restore(recovered.events, recovered.last_event)
        outbox = restored_outbox(recovered, self._journal, self.now_ns())
        self.outboxes.restore(recovered.last_message, recovered.epochs, outbox)
        for request in recovered.unanswered:
            self.outboxes.deliver([late_answer(request)])
            self.outboxes.requests.forget(request.keys)
        is_changing = recovered.registration is not None and not recovered.registration.rm_id
        if is_changing:  # first: after a loss the journal still has the registration
            self.outboxes.begin_change()
        await self._partitions.start(nursery, self.config, self._supervisor)
        if is_changing:
            await self._submit({name: [Reset()] for name in self.partitions})
            self.outboxes.end_change()
        await self._resume_configurations(recovered)
        await self.audit.tell_interrupted(recovered.acts)

    async def _resume_configurations(self, recovered: Recovered) -> None:
        """Put into force what was under way, then a queue file that was changed, then what is in force and a partition lacks.

        The window of a configuration that nobody has confirmed may be over: then the one of before, and no decision comes first.
        """
        if self._goes_back:
            await self.confirmation.end()
            await self._submit({name: [] for name in self.partitions if name not in self._partitions.stopped})  # decide again
        elif recovered.unfinished is not None:
            await self._reloading.resume(*recovered.unfinished)
        self._recovered = None
        for name in recovered.partitions:
            if name not in self.partitions:  # the daemon ended after it, and before its rows were deleted
                await self._rows.forget_partition(name)
        if self._file_config is not None and self._reloading.unconfirmed is None:  # a changed file waits for the end of a window
            await self._reloading.resume_file(self._file_config, str(self._settings.config_path or "standard input"))
        await self._reloading.catch_up()

    def supersede(self, term: str) -> None:
        """End at once (``Gateway.supersede``)."""
        self._ending.cancel()
        self.unplanned_end = f"another daemon has taken over in term {term}"
        log_event(log, logging.ERROR, "superseded", reason=self.unplanned_end)
        self._note_superseded(f"term {term}")

    def hand_over(self) -> None:
        """End in good order (``Gateway.hand_over``)."""
        assert self.standbys is not None, "a standby takes over"
        log_event(log, logging.INFO, "hands_over", transaction=self.standbys.number)
        self.unplanned_end = "the standby that was to take over has gone: start the daemon again"
        self.standbys.hand_over()
        self.stop()

    def handed_over(self) -> None:
        """Note that the history goes on elsewhere (``Gateway.handed_over``)."""
        assert self.standbys is not None, "a standby takes over"
        self._note_superseded(f"a term after {self.terms.present}")
        self.unplanned_end = ""
        log_event(log, logging.INFO, "handed_over", transaction=self.standbys.number)

    def _note_superseded(self, since: str) -> None:
        """Note that the history goes on elsewhere. Without it, as on a full disk, the daemon ends all the same.

        Clients that know the newer daemon refuse the next start here.
        """
        assert self.standbys is not None, "the history that goes on elsewhere is in files"
        try:
            write_superseded(self.standbys.directory, since)
        except OSError as error:
            log_event(log, logging.ERROR, "superseded_not_noted", reason=str(error))

    def stop(self) -> None:
        """End ``run``, after what is under way is finished."""
        self._stop.set()

    def _make_partition(self, config: PartitionConfig) -> PartitionActor:
        recovered = self._recovered
        restored = None if recovered is None else recovered.partitions.get(config.name)
        since = Since() if recovered is None else recovered.since.get(config.name, Since())
        return PartitionActor(
            config,
            self._clock,
            self.feed.inbox.give,
            Cycling(manual=self.manual, reserves=self._settings.reserves, on_cycle=log_cycle),
            recording=self._recording(since),
            restored=restored,
            is_on_hold=self._goes_back and recovered is not None,
        )

    def _recording(self, since: Since) -> Recording:
        """Records of turns are for the journal; without one, for replicas, as long as there are any."""
        journal, turns = self._journal, self.turns
        if journal is not None:
            return Recording(journal.room, encode_cause, journal.history, log_no_base, since=since)
        return Recording(_room, encode_cause, turns.history, log_no_base, lambda: turns.is_read, has_rows=False)

    async def _stop_partitions(self) -> None:
        """Take no more input, and wait until the current turn of each partition is finished, published and durable."""
        self._partitions.close()
        await self._partitions.finished()
        for name in list(self.partitions):
            await self.feed.published(name)
        if self._journal is not None:
            await self._journal.flushed()

    def _progress(self) -> int:
        return sum(actor.cycles for actor in self._partitions.actors.values())

    def _is_idle(self) -> bool:
        return not any(self._has_work(actor) for actor in self._partitions.actors.values())

    def _has_work(self, actor: PartitionActor) -> bool:
        return actor.busy or bool(actor.inbox.messages_waiting())

    def _has_no_work(self) -> bool:
        """True if the partitions do nothing for a good reason: they wait for input, or for the disk, or are made anew."""
        if self._journal is not None and not self._journal.has_room:
            return True
        restarting = set() if self._supervisor is None else self._supervisor.restarting
        working = (name for name, actor in self._partitions.actors.items() if self._has_work(actor) and not actor.is_renewing)
        return restarting.issuperset(working)

    def _status(self) -> str:
        return status_of(self._partitions.actors.values(), self.config.checksum)


async def _room() -> None:
    """Wait for nothing: what is not written needs no room."""


@asynccontextmanager
async def running_at(daemon: Daemon, doors: Sequence[Door], notifier: Notifier) -> AsyncIterator[None]:
    """Run a daemon at these doors; in the block clients are let in. At its end the daemon is stopped."""
    async with trio.open_nursery() as nursery:
        await nursery.start(daemon.run, doors, notifier)
        yield
        daemon.stop()
        await daemon.stopped.wait()
        nursery.cancel_scope.cancel()


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _extend(notifier: Notifier) -> None:
    """Ask systemd for more time, again and again: a start that waits for a standby makes no progress, and no other would."""
    while True:
        notifier.extend_timeout(EXTENSION_S)
        await trio.sleep(EXTENSION_S / 4)


def _for(service: str, doors: Sequence[Door]) -> list[Door]:
    return [door for door in doors if door.service == service]
