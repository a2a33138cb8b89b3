"""The present state of one object in words, from the state of a partition (``inspection.snapshot``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import UNSET, UnsetType

from ykactor.core.inspection.application_status import ApplicationStatus, PendingStatus
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.partition_status import PartitionStatus, QueueUse, uses_of
from ykactor.core.inspection.shown import Held
from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import quantity_text
from ykactor.core.waiting.reasons import amounts
from ykactor.surfaces.cli.cells import in_order
from ykactor.surfaces.cli.follow import time_text

Applications = Mapping[str, ApplicationStatus]


def present(key: str, partition: PartitionStatus) -> Iterator[str]:
    """Lines about ``key`` from the state of a partition."""
    yield from map(printable, _lines(key, partition))


def _lines(key: str, partition: PartitionStatus) -> Iterator[str]:
    yield from _application(key, partition.applications)
    nodes = partition.nodes or {}  # not shown to everybody
    if key in nodes:
        node = nodes[key]
        flag = "schedulable" if node.schedulable else "not schedulable"
        yield f"now: node {key}, {flag}, uses {_text(node.allocated)}, capacity {_text(node.capacity)}"
        yield from (f"now: runs {allocation}" for allocation in node.allocations)
    if key in partition.queues:
        queue = partition.queues[key]
        headroom = "unlimited" if queue.headroom is None else _text(queue.headroom)
        yield f"now: queue {key} {queue.state}{_held(queue.held)}, uses {_text(queue.allocated)}, headroom {headroom}"
        yield from _pending_in(key, partition.applications)
    yield from (f"now: {key} runs on {node_id}" for node_id in sorted(_nodes_of(key, nodes, partition.applications)))
    yield from _user_or_group(key, partition)


def _nodes_of(key: str, nodes: Mapping[str, NodeStatus], applications: Applications) -> set[str]:
    """The nodes of a task: its application names them also where nodes are not shown, nodes name foreign tasks too."""
    of_applications = (application.allocations or {} for application in applications.values())
    on_nodes = {node_id for node_id, node in nodes.items() if key in node.allocations}
    return on_nodes | {allocations[key] for allocations in of_applications if key in allocations}


def _application(key: str, applications: Applications) -> Iterator[str]:
    for name, application in applications.items():
        if key == name:
            # A rejected application has the queue that it asked for, which need not exist.
            queue = application.queue_name if application.state != "Rejected" else ""
            held = _held(application.held) + (f", held with queue {application.held_with}" if application.held_with else "")
            state = application.outcome or application.state
            yield f"now: application {name} is {state} in {queue or 'no queue'}{held}{_ended(application)}"
        for entry in application.replacing or ():
            if key in (name, entry.allocation_key, entry.placeholder):
                yield (
                    f"now: {entry.allocation_key} replaces placeholder {entry.placeholder}, on {entry.node_id}, "
                    "when the resource manager has confirmed the release of the placeholder"
                )
        for group in application.pending or ():
            if key == name or key in group.allocation_keys:
                examples = ", ".join(group.allocation_keys)
                yield f"now: {_asks(group)} pending ({examples}), each {amounts(group.resource)}: {_reason(group)}"


def _ended(application: ApplicationStatus) -> str:
    """The time and the reason of its end; "" while it has not ended."""
    if application.finished_time is UNSET:
        return ""
    why = "" if application.reason is UNSET else f": {application.reason}"
    return f" since {time_text(application.finished_time)}{why}"


def _held(hold: Held | UnsetType) -> str:
    return "" if hold is UNSET else f", held by {hold.by} since {time_text(hold.since)}"


def _pending_in(path: str, applications: Applications) -> Iterator[str]:
    for name, application in applications.items():
        if application.queue_name == path or application.queue_name.startswith(f"{path}."):
            for group in application.pending or ():
                yield f"now: {_asks(group)} of {name} pending, each {amounts(group.resource)}: {_reason(group)}"


def _user_or_group(key: str, partition: PartitionStatus) -> Iterator[str]:
    """The use and the limits of a user or group: a line for each limit, and for each leaf where no limit counts the use."""
    found = [use for use in uses_of(partition) if use.whose in (f"user {key}", f"group {key}")]
    yield from map(_usage, sorted(found, key=lambda use: (use.whose, use.queue_name)))


def _usage(use: QueueUse) -> str:
    maximum = "no limit" if use.max is None else f"limit {_text(use.max)}"
    most = f" of {use.max_applications}" if use.max_applications else ""
    runs = f"running applications {use.running_applications}{most}"
    return f"now: {use.whose} in queue {use.queue_name}, uses {_text(use.allocated)}, {maximum}, {runs}"


def _asks(group: PendingStatus) -> str:
    return "1 ask" if group.count == 1 else f"{group.count} asks"


def _reason(group: PendingStatus) -> str:
    """The reasons of pending asks, with the last and the next attempt of the first of them to preempt."""
    if group.next_attempt is UNSET:
        return group.reason
    tried = f"tried to preempt at {time_text(group.last_attempt)}, " if isinstance(group.last_attempt, int) else ""
    return f"{group.reason}; {tried}may preempt from {time_text(group.next_attempt)} on"


def _text(resource: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {quantity_text(name, value)}" for name, value in in_order(resource)) or "nothing"
