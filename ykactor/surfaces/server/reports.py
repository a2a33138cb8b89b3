"""What the daemon tells its operator about itself: the line of ``systemctl status``, and some of the log."""

import logging
from collections.abc import Iterable
from typing import Any

from ykactor.actors.journal import Journal
from ykactor.actors.outbox import Outbox
from ykactor.actors.partition import PartitionActor
from ykactor.actors.partitions import Partitions
from ykactor.actors.ring import Ring
from ykactor.surfaces.server.logs import get_logger, log_event

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
    """Why the daemon does not serve as it should, a sentence each."""
    is_stalled = journal is not None and journal.stalled is not None
    return [*partitions.stopped.values(), *(["the journal cannot be written"] if is_stalled else [])]


def log_stopped(ring: Ring, outbox: Outbox[Any] | None) -> None:
    """What was not durable is lost, and nobody has heard of it."""
    lost = {"events": ring.sequence - ring.durable, "messages": outbox.sequence - outbox.durable if outbox is not None else 0}
    if any(lost.values()):
        log_event(log, logging.ERROR, "not_durable", seq=ring.durable, **lost)
    log_event(log, logging.INFO, "daemon_stopped", events=ring.durable)
