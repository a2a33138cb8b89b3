"""Reports of the daemon: the facts of a turn as events, lines and messages, ``systemctl status``, and records of failures."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import trio
from msgspec import Raw, Struct

from ykactor.actors.feed import FeedActor
from ykactor.actors.health import Check
from ykactor.actors.journal import Journal
from ykactor.actors.outbox import Outbox, OutboxRegistry
from ykactor.actors.partition import PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.actors.ring import Ring
from ykactor.actors.standbys import Standbys
from ykactor.actors.supervision import Incident, Rows, reason_of
from ykactor.core.messages.facts import Allocated, ConfigurationChanged, Fact, Preempted, PreemptionRefused
from ykactor.core.messages.kinds import Consequence
from ykactor.core.turn.scheduler import Cycle
from ykactor.core.turn.turn import Cause
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.words import plural
from ykactor.journal import schema
from ykactor.surfaces.admission.audit import Audit
from ykactor.surfaces.files.regular import write_private
from ykactor.surfaces.files.watcher import FileWatcher
from ykactor.surfaces.log.logs import get_logger, log_event
from ykactor.surfaces.metrics.instruments import Instruments
from ykactor.wire.history import encode_cause
from ykactor.wire.post_mortem import EarlierTurn, PostMortem
from ykactor.wire.si.codec import Encoding
from ykactor.wire.si.events import events, mentioned
from ykactor.wire.si.responses import responses

log = get_logger(__name__)

#: The number of changes of one configuration that are logged one by one.
CHANGES_LOGGED_MAX = 200


def _log_changes(partition: PartitionName, facts: list[Fact]) -> None:
    """Log what a new configuration changes in a partition, if the facts tell of one: at most ``CHANGES_LOGGED_MAX`` changes."""
    for fact in facts:  # 20 ns each, nothing beside making their events
        if type(fact) is ConfigurationChanged:
            for change in fact.changes[:CHANGES_LOGGED_MAX]:
                log_event(log, logging.INFO, "config_change", partition=partition, change=change)
            if len(fact.changes) > CHANGES_LOGGED_MAX:
                more = len(fact.changes) - CHANGES_LOGGED_MAX
                log_event(log, logging.INFO, "config_change", partition=partition, change=f"and {more} more")


class Delivery:
    """Makes events of facts, and logs, counts and delivers facts (``actors.feed.Delivery``)."""

    render = staticmethod(events)
    mentioned = staticmethod(mentioned)

    def __init__(self, instruments: Instruments, outboxes: OutboxRegistry[Encoding]) -> None:
        self._instruments = instruments
        self._outboxes = outboxes

    def deliver(self, partition: PartitionName, facts: list[Fact]) -> None:
        """Log and count facts, and post what a resource manager is told of them."""
        _log_changes(partition, facts)
        self._instruments.facts.count(partition, facts)
        if self._outboxes.current is not None:
            self._outboxes.deliver(responses(facts, partition))


def status_of(actors: Iterable[PartitionActor], checksum: str) -> str:
    """One line about what the partitions have and what they run by.

    Args:
        checksum: of the configuration in force.
    """
    actors = list(actors)
    registries = [actor.core.registry for actor in actors]
    queues = sum(len(registry.queues) for registry in registries)
    nodes = sum(len(registry.nodes) for registry in registries)
    counts = [actor.scheduler_core.state.preemptions.counts for actor in actors]
    evictions = sum(count.evictions for count in counts)
    preempted = f", {sum(count.preemptions for count in counts)} preemptions of {evictions} allocations" if evictions else ""
    return f"{len(registries)} partitions, {queues} queues, {nodes} nodes, configuration {checksum[:8]}{preempted}"


def problems(partitions: Partitions, journal: Journal | None) -> list[str]:
    """The reasons for which the daemon does not serve as it should, a sentence each."""
    is_stalled = journal is not None and journal.stalled is not None
    return [*partitions.stopped.values(), *(["the journal cannot be written"] if is_stalled else [])]


_IN_FORCE = "what the queue file, the access file and the files of TLS say is in force"


def checks_of_files(watchers: Iterable[FileWatcher]) -> list[Check]:
    """The check that what the watched files say is in force; none without files."""
    problems = {watcher.path: watcher.problem.replace("\n", "; ") for watcher in watchers}
    told = [f"{path} is not in force: {problem}" for path, problem in problems.items() if problem]
    return [Check("Files", _IN_FORCE, "; ".join(told))] if problems else []


def checks_of_standbys(standbys: Standbys | None) -> list[Check]:
    """The check that as many standbys as wanted have what is told, and one line for each that is connected."""
    if standbys is None:
        return []
    status = standbys.status()
    connected = [Check("Standby", str(standby), "") for standby in status.connected]
    if not status.wanted:
        return connected
    return [Check("Standbys", f"what is told is on the disks of {plural(status.wanted, 'standby')}", status.problem), *connected]


async def tell_of_standbys(standbys: Standbys, audit: Audit) -> None:
    """Log and audit that the daemon goes on without the standbys that it wants, and with them again, until cancelled."""
    path = standbys.directory / schema.NAME
    wanted, was_alone = plural(standbys.settings.wanted, "standby"), False
    while True:
        while standbys.is_alone == was_alone:
            await standbys.changed()
        was_alone = standbys.is_alone
        if was_alone:
            log_event(log, logging.ERROR, "without_standbys", reason=standbys.lack())
            await audit.standbys_changed(path, wanted, f"alone: {standbys.lack()}")
        else:
            log_event(log, logging.INFO, "with_standbys", transaction=standbys.number)
            await audit.standbys_changed(path, "alone", wanted)


def log_stopped(ring: Ring, outbox: Outbox[Any] | None) -> None:
    """Log that what was not durable is lost; nobody has heard of it."""
    lost = {"events": ring.sequence - ring.durable, "messages": outbox.sequence - outbox.durable if outbox is not None else 0}
    if any(lost.values()):
        log_event(log, logging.ERROR, "not_durable", seq=ring.durable, **lost)
    log_event(log, logging.INFO, "daemon_stopped", events=ring.durable)


# ---- cycles: their results, and each of their preemptions


def log_cycle(partition: PartitionName, cycle: int, result: Cycle) -> None:
    """Log each cycle that had results, and before it each of its preemptions."""
    if result.facts and log.isEnabledFor(logging.INFO):
        kinds, evicted = Counter(map(type, result.facts)), 0  # the facts can be many
        for fact in result.facts if kinds[Preempted] or kinds[PreemptionRefused] else ():
            if isinstance(fact, Preempted | PreemptionRefused):
                _log_preemption(partition, cycle, fact)
                evicted += len(fact.victims) if isinstance(fact, Preempted) else 0
        counts = {"placed": kinds[Allocated], "evicted": evicted, "work": result.work, "at_rest": result.at_rest}
        log_event(log, logging.INFO, "cycle_finished", partition=partition, cycle=cycle, **counts)


def _log_preemption(partition: PartitionName, cycle: int, fact: Preempted | PreemptionRefused) -> None:
    """A refused preemption is a warning: it would have closed a preemption cycle, which should not come this far."""
    ask = fact.ask
    keys = {"partition": partition, "cycle": cycle, "alloc": ask.allocation_key, "app": ask.application_id, "queue": fact.queue}
    if isinstance(fact, PreemptionRefused):
        log_event(log, logging.WARNING, "preemption_refused", **keys, reason=fact.why)
    else:
        victims = [key for _, _, key in fact.victims]
        lost = fact.work_lost
        log_event(log, logging.INFO, "preempted", **keys, node=fact.node_id, reason=fact.why, victims=victims, work_lost=lost)


# ---- the journal: that it is not written, and again while that lasts, and that it is written again

#: How often the log says again that the journal is not written.
REPEAT_S = 60.0


class JournalLog:
    """Logs each change of ``journal.stalled``; ``ring`` has the number of the newest event, and of the newest durable one."""

    def __init__(self, journal: Journal, ring: Ring) -> None:
        self._journal = journal
        self._ring = ring
        self._logged_at = trio.current_time()
        journal.watch(self._log)

    async def run(self) -> None:
        """Log a journal that is not written every ``REPEAT_S``, until cancelled."""
        while True:
            await trio.sleep_until(self._logged_at + REPEAT_S)
            if trio.current_time() < self._logged_at + REPEAT_S:
                continue  # there was a change meanwhile
            if self._journal.stalled is None:
                self._logged_at = trio.current_time()
            else:
                self._log()

    def _log(self) -> None:
        self._logged_at = trio.current_time()
        stalled = self._journal.stalled
        if stalled is None:
            log_event(log, logging.INFO, "journal_resumed", seq=self._ring.sequence)
        else:
            log_event(log, logging.ERROR, "journal_stalled", seq=self._ring.durable, reason=stalled.reason)


# ---- records of failures of partitions, for inspection: post-mortems, and the messages in quarantine

#: How many files are kept, and their bytes in each of the two directories; the oldest go. A post-mortem has the state of a
#: partition, about 300 bytes for each task.
POST_MORTEMS_MAX = 8
QUARANTINED_MAX = 256
BYTES_MAX = 2**28

_EVENTS = {
    Consequence.RESTARTED: "partition_restarted",
    Consequence.QUARANTINED: "input_quarantined",
    Consequence.STOPPED: "partition_stopped",
}


class Quarantined(Struct, frozen=True):
    """A file in quarantine: the message, as the cause of its turn, and what happened."""

    partition: str
    at_ns: int
    reason: str
    traceback: str
    cause: Raw


class Incidents:
    """The daemon, as supervision uses it (``actors.supervision.Surroundings``).

    Args:
        directory: failures are kept there, as ``post-mortem-PARTITION-TIME.json`` and ``quarantine/PARTITION-TIME.json``;
            None: they are only logged.
    """

    def __init__(self, feed: FeedActor, journal: Journal, directory: Path | None) -> None:
        self._feed = feed
        self._journal = journal
        self._directory = directory

    async def rows(self, partition: PartitionName) -> Rows:
        """The state of a partition after everything that it has published, when that is durable."""
        await self._feed.published(partition)
        return await self._journal.rows(partition)

    def encode(self, cause: Cause) -> bytes:
        """A cause as JSON."""
        return encode_cause(cause)

    async def report(self, incident: Incident) -> None:
        """Log a failure and keep it. That a file cannot be written is logged too."""
        keys = {"partition": incident.partition, "reason": incident.reason, "traceback": incident.traceback}
        log_event(log, logging.ERROR, _EVENTS[incident.consequence], **keys)
        if self._directory is not None:
            await trio.to_thread.run_sync(self._keep, self._directory, incident, abandon_on_cancel=True)

    def _keep(self, directory: Path, incident: Incident) -> None:
        name = f"{quote(incident.partition, safe='')}-{incident.at_ns}.json"
        try:
            _write(directory / f"post-mortem-{name}", _post_mortem(incident))
            _thin_out(directory, "post-mortem-*.json", POST_MORTEMS_MAX)
            if incident.consequence is Consequence.QUARANTINED:
                _write(directory / "quarantine" / name, _quarantined(incident))
                _thin_out(directory / "quarantine", "*.json", QUARANTINED_MAX)
        except OSError as error:
            log_event(log, logging.ERROR, "post_mortem_failed", partition=incident.partition, reason=str(error))


def log_no_base(partition: PartitionName, failure: Exception) -> None:
    """Log that a running partition cannot be made anew from its rows: later turns may not be replayed before the next start."""
    trace = "".join(traceback.format_exception(failure))
    log_event(log, logging.ERROR, "base_failed", partition=partition, reason=reason_of(failure, None), traceback=trace)


def _write(path: Path, content: Struct) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_private(path, msgspec.json.encode(content))
    log_event(log, logging.INFO, "post_mortem_written", path=path)


def _thin_out(directory: Path, pattern: str, count_max: int) -> None:
    """Delete the oldest files if there are too many, or they are too large; the newest one stays."""
    newest = sorted(directory.glob(pattern), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    size = 0
    for count, path in enumerate(newest, 1):
        size += path.stat().st_size
        if count > count_max or (count > 1 and size > BYTES_MAX):
            path.unlink()


def _post_mortem(incident: Incident) -> PostMortem:
    return PostMortem(
        partition=incident.partition,
        at_ns=incident.at_ns,
        consequence=incident.consequence,
        reason=incident.reason,
        traceback=incident.traceback,
        reserves=incident.reserves,
        now_ns=incident.now_ns,
        cause=_raw(incident.cause),
        last=[EarlierTurn(number, now_ns, Raw(cause)) for number, now_ns, cause in incident.last],
        rows=[(_json(key), _json(row)) for key, row in incident.rows],
    )


def _quarantined(incident: Incident) -> Quarantined:
    return Quarantined(incident.partition, incident.at_ns, incident.reason, incident.traceback, _raw(incident.cause))


def _json(text: bytes) -> Raw:
    """The text of a row; as a string if it is damaged, so that the rest can be read."""
    try:
        return msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Raw(msgspec.json.encode(text.decode(errors="replace")))


def _raw(cause: bytes | None) -> Raw:
    return Raw(b"null" if cause is None else cause)
