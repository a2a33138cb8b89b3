"""What operators act on, as the audit tells of it: its name, and what it is like before and after (SE-72)."""

from __future__ import annotations

from ykactor.core.messages.submissions import Administration, CancelTask, HoldApplication, HoldQueue, SetPriority
from ykactor.core.objects.application import Application
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.operations import full_path
from ykactor.core.values.ids import AllocationKey


def name_of(wanted: Administration) -> str:
    """``root.a``, ``app-1``, or ``app-1/t1`` for a task."""
    match wanted:
        case HoldQueue(queue_name):
            return full_path(queue_name)
        case CancelTask(name, key):
            return f"{name}/{key}"
        case SetPriority(name, key) if key is not None:
            return f"{name}/{key}"
    return wanted.application_id


def look(registry: Registry, wanted: Administration) -> str:
    """What it is like at present; empty if it is not there."""
    if isinstance(wanted, HoldQueue):
        queue = registry.queues.get(full_path(wanted.queue_name))
        return "" if queue is None else "not held" if queue.hold is None else f"held by {queue.hold.by}"
    if wanted.application_id not in registry.applications:
        return ""
    leaf = registry.leaf_of(wanted.application_id)
    application = leaf.applications[wanted.application_id]
    match wanted:
        case HoldApplication():
            return "not held" if application.hold is None else f"held by {application.hold.by}"
        case CancelTask(_, key):
            return _task(application, key)
        case SetPriority(_, key):
            asks = [ask for name, ask in application.asks.items() if key is None or name == key]
            return f"priority {max(ask.spec.priority for ask in asks)}" if asks else ""
    return f"{application.state} in {leaf.path}"


def _task(application: Application, key: AllocationKey) -> str:
    if key in application.allocations:
        return "being released" if key in application.gang.released else f"runs on {application.allocations[key][1]}"
    if key in application.asks:
        return "pending"
    return "" if application.gang.placeholder_of(key) is None else "replaces a placeholder"
