"""The reports of the daemon about itself: the line of ``systemctl status``, and some of the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

import trio

from ykactor.actors.journal import Journal
from ykactor.actors.outbox import Outbox
from ykactor.actors.partition import PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.actors.ring import Ring
from ykactor.core.messages.facts import Allocated, Preempted, PreemptionRefused
from ykactor.core.turn.scheduler import Cycle
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.log.logs import get_logger, log_event

log = get_logger(__name__)


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


def log_stopped(ring: Ring, outbox: Outbox[Any] | None) -> None:
    """Log that what was not durable is lost; nobody has heard of it."""
    lost = {"events": ring.sequence - ring.durable, "messages": outbox.sequence - outbox.durable if outbox is not None else 0}
    if any(lost.values()):
        log_event(log, logging.ERROR, "not_durable", seq=ring.durable, **lost)
    log_event(log, logging.INFO, "daemon_stopped", events=ring.durable)


# ---- cycles: their results, and each of their preemptions

log = get_logger(__name__)


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

log = get_logger(__name__)

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
