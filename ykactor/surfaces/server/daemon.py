"""The daemon: partitions, feed, sockets, watcher and signals in one nursery.

Starting goes from the inside out, so that nobody is let in before there is somebody to talk to; stopping goes from
the outside in: partitions take no more input and finish their turn, the feed numbers what they published, sessions
send what they hold, then all ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct, structs

from ykactor.actors.clock import Clock
from ykactor.actors.commands import Intake, RunSteps
from ykactor.actors.feed import FeedActor
from ykactor.actors.memory import settle_memory
from ykactor.actors.outbox import OutboxRegistry
from ykactor.actors.partition import PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.messages.facts import Allocated, ConfigurationChanged, Fact, Preempted, PreemptionRefused
from ykactor.core.messages.submissions import AddApplication, RefuseConfig, Submission
from ykactor.core.objects.registry import Registry
from ykactor.core.placement.users import NOBODY
from ykactor.core.turn.turn import Cycle
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.server.groups import GroupResolver
from ykactor.surfaces.server.logs import get_logger, log_event
from ykactor.surfaces.server.reloading import Reloading, log_changes
from ykactor.surfaces.server.systemd import Notifier, feed_watchdog
from ykactor.surfaces.server.watcher import ConfigWatcher, watch_config
from ykactor.surfaces.server.websocket import serve_websockets
from ykactor.wire.si.codec import ProtocolError
from ykactor.wire.si.events import events
from ykactor.wire.si.responses import responses

log = get_logger(__name__)

#: How long partitions may take to finish; sessions have 2 s more to send what they hold.
PARTITIONS_STOP_S = 2.0


class Settings(Struct, frozen=True):
    """How the daemon runs; queues are not settings.

    Attributes:
        config_path: the queue file that is watched; None runs on the built-in default.
        manual: cycles run only when a ``ScheduleRequest`` asks for them.
        reserves: asks reserve nodes.
    """

    config_path: Path | None = None
    manual: bool = False
    reserves: bool = True


class Daemon:
    """What the sockets talk to (``actors.gateway.Gateway``).

    Args:
        config: the first configuration.
        settings: see there.
        clock: Unix time.
    """

    def __init__(self, config: SchedulerConfig, settings: Settings, clock: Clock) -> None:
        self.manual = settings.manual
        self.outboxes: OutboxRegistry[Any] = OutboxRegistry()
        self._partitions = Partitions(self._make_partition)
        self.partitions = self._partitions.inboxes
        self.feed = FeedActor(events, self.partitions, self._deliver)
        self._settings = settings
        self._clock = clock
        self._reloading = Reloading(config, self._partitions, self._tell_refused)
        self._groups = GroupResolver()
        self._stop = trio.Event()
        #: ``run`` has come to its end in good order.
        self.stopped = trio.Event()
        self._watcher: ConfigWatcher | None = None

    # ---- Gateway

    def now_ns(self) -> int:
        """Unix time."""
        return self._clock.now_ns()

    def _deliver(self, partition: PartitionName, facts: list[Fact]) -> None:
        if facts and type(facts[-1]) is ConfigurationChanged:
            log_changes(partition, facts[-1])
        if self.outboxes.current is not None:
            self.outboxes.deliver(responses(facts, partition))

    @property
    def config(self) -> SchedulerConfig:
        """What runs."""
        return self._reloading.config

    async def apply_config(self, text: str, if_checksum: str, source: str = "config", *, afresh: bool = False) -> str:
        """Put a configuration into force in all partitions, or change nothing (``Gateway.apply_config``)."""
        return await self._reloading.apply(text, if_checksum, source, afresh=afresh)

    async def _tell_refused(self, reason: str) -> None:
        with suppress(trio.ClosedResourceError):  # we are stopping, or just that partition goes
            await self._submit({next(iter(self.partitions)): [RefuseConfig(reason)]})

    def registry(self, partition: PartitionName) -> Registry:
        """Who is there in a partition; to be read only."""
        return self._partitions.actors[partition].core.registry

    async def with_groups(self, partition: PartitionName, submissions: list[Submission]) -> list[Submission]:
        """Look up the groups of users who come without (``Gateway.with_groups``)."""
        if self.registry(partition).config.user_group_resolver != "os":
            return submissions
        return [await self._with_groups(it) if type(it) is AddApplication else it for it in submissions]

    async def _with_groups(self, application: AddApplication) -> AddApplication:
        if application.groups or not application.user:
            return application
        groups = await self._groups.groups_of(application.user)
        if groups is None:
            return structs.replace(application, user_is_unknown=True)
        return structs.replace(application, groups=groups)

    async def with_own_groups(self, partition: PartitionName, who: UserGroups) -> UserGroups:
        """Look up the groups of an administrator who comes without (``Gateway.with_own_groups``)."""
        if who.groups or self.registry(partition).config.user_group_resolver != "os":
            return who
        return UserGroups(who.user, await self._groups.groups_of(who.user) or NOBODY.groups)

    async def run_steps(self, steps: int) -> None:
        """Manual mode: passes of at most one decision each (``Gateway.run_steps``)."""
        for actor in list(self._partitions.actors.values()):  # a reload may change them meanwhile
            done = trio.Event()
            await actor.inbox.put(RunSteps(steps, _setter(done)))
            await done.wait()

    async def _submit(self, work: dict[PartitionName, list[Submission]]) -> None:
        """Give work to partitions and wait until what it causes directly is published."""
        for name, submissions in work.items():
            done = trio.Event()
            await self.partitions[name].put(Intake(submissions, _setter(done)))
            await done.wait()

    # ---- life

    async def run(
        self,
        listeners: list[trio.SocketListener],
        notifier: Notifier,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until ``stop``; started when the first configuration is in force and the sockets listen.

        Error handling: what a partition raises is our mistake and comes out here; a client's mistakes never do.
        """
        addresses = ", ".join(map(url_of, listeners))
        stopping = trio.Event()
        async with trio.open_nursery() as inner:
            self._reloading.begin(inner)
            inner.start_soon(self.feed.run, name="feed")
            await self._partitions.start(inner, self.config)
            inner.start_soon(feed_watchdog, notifier, self._progress, self._is_idle, name="watchdog")
            async with trio.open_nursery() as edge:
                await edge.start(partial(serve_websockets, listeners, self, stopping=stopping), name="websockets")
                await self._start_watching(inner, notifier, stopping)
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
        log_event(log, logging.INFO, "daemon_stopped", events=self.feed.sequence)
        self.stopped.set()

    def stop(self) -> None:
        """End ``run`` in good order."""
        self._stop.set()

    def _make_partition(self, config: PartitionConfig) -> PartitionActor:
        publish, reserves = self.feed.inbox.put, self._settings.reserves
        return PartitionActor(config, self._clock, publish, manual=self.manual, reserves=reserves, on_cycle=_log_cycle)

    async def _stop_partitions(self) -> None:
        """No more input; wait until the turn under way is finished and published."""
        self._partitions.close()
        await self._partitions.finished()
        for name in list(self.partitions):
            await self.feed.published(name)

    def _progress(self) -> int:
        return sum(actor.cycles for actor in self._partitions.actors.values())

    def _is_idle(self) -> bool:
        return not any(actor.busy or actor.inbox.statistics().current_buffer_used for actor in self._partitions.actors.values())

    def _status(self) -> str:
        rosters = [self.registry(name) for name in self.partitions]
        queues = sum(len(registry.queues) for registry in rosters)
        nodes = sum(len(registry.nodes) for registry in rosters)
        counts = [actor.scheduler_core.state.preemptions.counts for actor in self._partitions.actors.values()]
        evictions = sum(it.evictions for it in counts)
        preempted = f", {sum(it.preemptions for it in counts)} preemptions of {evictions} allocations" if evictions else ""
        here = f"{len(rosters)} partitions, {queues} queues, {nodes} nodes"
        return f"{here}, configuration {self.config.checksum[:8]}{preempted}"

    # ---- the queue file

    async def _start_watching(self, nursery: trio.Nursery, notifier: Notifier, stopping: trio.Event) -> None:
        path = self._settings.config_path
        if path is not None:
            changed = partial(self._on_file_changed, notifier)
            watch = partial(watch_config, path, self.config.text, changed, stop=stopping)
            self._watcher = await nursery.start(watch, name="config watcher")

    async def _on_file_changed(self, notifier: Notifier, text: str) -> None:
        """A good file is applied between two cycles; a bad one changes nothing, is logged and is an event (CF-52)."""
        notifier.reloading()
        with suppress(ProtocolError, trio.ClosedResourceError):  # refused and logged; or we are stopping
            await self.apply_config(text, "", str(self._settings.config_path))
        notifier.ready(self._status())

    def reload(self) -> None:
        """Read the queue file again now (SIGHUP)."""
        if self._watcher is None:
            log_event(log, logging.WARNING, "reload_ignored", reason="there is no --config file: the built-in default runs")
        else:
            self._watcher.reload()


def url_of(listener: trio.SocketListener) -> str:
    """Where clients of this listener connect."""
    name = listener.socket.getsockname()
    if not isinstance(name, tuple):
        return f"unix:{name}"
    host, port = name[:2]
    return f"ws://[{host}]:{port}" if ":" in host else f"ws://{host}:{port}"


def _setter(done: trio.Event) -> Callable[[PartitionName], None]:
    return lambda _: done.set()


def _log_cycle(partition: PartitionName, cycle: int, result: Cycle) -> None:
    """One canonical line for each cycle that did something, and one for each preemption before it."""
    if result.facts and log.isEnabledFor(logging.INFO):
        for fact in result.facts:
            if isinstance(fact, Preempted | PreemptionRefused):
                _log_preemption(partition, cycle, fact)
        placed = sum(isinstance(fact, Allocated) for fact in result.facts)
        evicted = sum(len(fact.victims) for fact in result.facts if isinstance(fact, Preempted))
        counts = {"placed": placed, "evicted": evicted, "work": result.work, "at_rest": result.at_rest}
        log_event(log, logging.INFO, "cycle_finished", partition=partition, cycle=cycle, **counts)


def _log_preemption(partition: PartitionName, cycle: int, fact: Preempted | PreemptionRefused) -> None:
    """A refusal is a warning: something let it come so far that preemption would go round in circles."""
    spec = fact.ask.spec
    keys = {"partition": partition, "cycle": cycle, "alloc": spec.allocation_key, "app": spec.application_id, "queue": fact.queue}
    if isinstance(fact, PreemptionRefused):
        log_event(log, logging.WARNING, "preemption_refused", **keys, reason=fact.why)
    else:
        victims = [key for _, _, key in fact.victims]
        lost = fact.work_lost
        log_event(log, logging.INFO, "preempted", **keys, node=fact.node_id, reason=fact.why, victims=victims, work_lost=lost)
