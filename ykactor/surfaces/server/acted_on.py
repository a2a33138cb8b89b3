"""What operators act on, as the audit tells of it: its name, and what it is like before and after (SE-72)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ykactor.core.messages.states import ApplicationState
from ykactor.core.messages.submissions import (
    CancelTask,
    HoldApplication,
    HoldQueue,
    Operator,
    OperatorAct,
    SetPriority,
    TerminateApplication,
)
from ykactor.core.objects.application import Application
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.operations import full_path, may_operate, unknown_application
from ykactor.core.values.ids import AllocationKey, ApplicationID
from ykactor.core.values.parts import Pausing, in_parts


def name_of(wanted: OperatorAct) -> str:
    """``root.a``, ``app-1``, or ``app-1/t1`` for a task."""
    match wanted:
        case HoldQueue(queue_name):
            return full_path(queue_name)
        case CancelTask(name, key):
            return f"{name}/{key}"
        case SetPriority(name, key) if key is not None:
            return f"{name}/{key}"
    return wanted.application_id


def look(registry: Registry, wanted: OperatorAct) -> str:
    """What it is like at present, also in the middle of a turn; empty if it is not there, as while it moves, or is hidden."""
    if isinstance(wanted, HoldQueue):
        queue = registry.queues.get(full_path(wanted.queue_name))
        return "" if queue is None else "not held" if queue.hold is None else f"held by {queue.hold.by}"
    if unknown_application(registry, wanted.application_id, wanted.operator):
        return ""
    application = _application(registry, wanted.application_id)
    if application is None:
        return ""
    match wanted:
        case HoldApplication():
            return "not held" if application.hold is None else f"held by {application.hold.by}"
        case CancelTask(_, key):
            return _task(application, key)
        case SetPriority(_, None):
            asks = application.asks.values()
            return f"priority {max(ask.spec.priority for ask in asks)}" if asks else ""
        case SetPriority(_, key) if key is not None:
            return f"priority {application.asks[key].spec.priority}" if key in application.asks else ""
    return f"{application.state} in {application.queue}"


def is_releasing(registry: Registry, wanted: OperatorAct) -> bool:
    """Whether what an operator has cancelled goes on until the resource manager has confirmed its release (AP-128)."""
    match wanted:
        case CancelTask(name, key):
            application = _application(registry, name)
            return application is not None and key in application.gang.released
        case TerminateApplication(name):
            application = _application(registry, name)
            return application is not None and application.state is ApplicationState.FAILING
    return False


def _application(registry: Registry, name: ApplicationID) -> Application | None:
    """None if it is not there, also while it moves."""
    return registry.leaf_of(name).applications.get(name) if name in registry.applications else None


def tasks_named(registry: Registry, keys: AbstractSet[str], operator: Operator) -> Pausing[list[str]]:
    """``app-1/t1`` for each ask and allocation that has one of these keys, as far as the operator knows its application."""
    found: list[str] = []
    for part in in_parts(list(registry.applications)):
        for name in part:
            path = registry.applications.get(name)  # it may end or move in the pauses
            application = None if path is None else registry.leaf(path).applications.get(name)
            if path is not None and application is not None and may_operate(operator, path):
                found += [f"{name}/{key}" for key in sorted(_tasks_among(keys, application))]
        yield ()
    return found


def _tasks_among(keys: AbstractSet[str], application: Application) -> AbstractSet[str]:
    """An intersection takes as long as the smaller side."""
    replacing = {ask.spec.allocation_key for ask, _ in application.gang.replacing.values()}
    return (application.asks.keys() & keys) | (application.allocations.keys() & keys) | (replacing & keys)


def _task(application: Application, key: AllocationKey) -> str:
    if key in application.allocations:
        return "being released" if key in application.gang.released else f"runs on {application.allocations[key][1]}"
    if key in application.asks:
        return "pending"
    return "" if application.gang.placeholder_of(key) is None else "replaces a placeholder"
