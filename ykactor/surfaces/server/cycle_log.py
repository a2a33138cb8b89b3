"""What the log says of cycles: their results, and each of their preemptions."""

from __future__ import annotations

import logging
from collections import Counter

from ykactor.core.messages.facts import Allocated, Preempted, PreemptionRefused
from ykactor.core.turn.turn import Cycle
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.server.logs import get_logger, log_event

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
    spec = fact.ask.spec
    keys = {"partition": partition, "cycle": cycle, "alloc": spec.allocation_key, "app": spec.application_id, "queue": fact.queue}
    if isinstance(fact, PreemptionRefused):
        log_event(log, logging.WARNING, "preemption_refused", **keys, reason=fact.why)
    else:
        victims = [key for _, _, key in fact.victims]
        lost = fact.work_lost
        log_event(log, logging.INFO, "preempted", **keys, node=fact.node_id, reason=fact.why, victims=victims, work_lost=lost)
