"""What only an operator may do to applications and queues: hold them, cancel tasks, change priorities (OP-1 to OP-14)."""

from __future__ import annotations

from ykactor.core.messages.facts import ApplicationHeld, Fact, QueueHeld
from ykactor.core.messages.holds import Hold
from ykactor.core.messages.submissions import CancelTask, HoldApplication, HoldQueue, Operation, Operator, SetPriority
from ykactor.core.objects.commands import Cancel, HoldOne, Prioritise, SetHold
from ykactor.core.objects.exchange import Exchange, send
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.placement.rules import brief
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath


def full_path(name: str) -> QueuePath:
    """The queue that is meant: in lower case, with or without ``root.`` in front."""
    path = name.lower()
    return QueuePath(path if path == "root" or path.startswith("root.") else f"root.{path}")


def may_operate(operator: Operator, path: QueuePath) -> bool:
    """Whether the queue is among those that the operator is limited to."""
    return not operator.queues or any(f"{path}.".startswith(f"{queue}.") for queue in operator.queues)


def unknown_application(registry: Registry, application_id: ApplicationID, operator: Operator | None) -> str:
    """Why the application does not exist, for who asks (SE-26), or ""."""
    path = registry.applications.get(application_id, QueuePath(""))
    # Asked of what does not exist too: the same work for it as for what must not be seen.
    if (operator is None or may_operate(operator, path)) and path:
        return ""
    return f"failed to find application {brief(application_id)}"


def refusal_of(registry: Registry, request: Operation) -> str:
    """Why the request cannot be carried out, or ""."""
    if isinstance(request, HoldQueue):
        path = full_path(request.queue_name)
        is_known = path in registry.queues and may_operate(request.operator, path)
        return "" if is_known else f"queue {brief(path)} does not exist"
    unknown = unknown_application(registry, request.application_id, request.operator)
    if unknown:
        return unknown
    leaf = registry.leaf_of(request.application_id)
    match request:
        case CancelTask(name, key):
            return _cancel_objection(leaf, name, key)
        case SetPriority(name, key):
            return _priority_objection(leaf, name, key)
    return ""


def _cancel_objection(leaf: LeafCore, name: ApplicationID, key: AllocationKey) -> str:
    application = leaf.applications[name]
    if key in application.allocations:
        return f"{brief(key)} of {name} is being released already" if key in application.gang.released else ""
    is_known = key in application.asks or application.gang.placeholder_of(key) is not None
    return "" if is_known else _unknown_task(name, key)


def _priority_objection(leaf: LeafCore, name: ApplicationID, key: AllocationKey | None) -> str:
    application = leaf.applications[name]
    if key is None:
        return "" if application.asks else f"application {name} has no pending ask"
    if key in application.asks:
        return ""
    if key in application.allocations or application.gang.placeholder_of(key) is not None:
        return f"{brief(key)} of {name} is placed already, expected a pending ask"
    return _unknown_task(name, key)


def _unknown_task(name: ApplicationID, key: AllocationKey) -> str:
    return f"failed to find {brief(key)} of application {name}"


def carry_out(registry: Registry, now_ns: int, request: Operation) -> Exchange[list[Fact]]:
    """Carry out a request to which ``refusal_of`` had no objection; what holds already is left as it is."""
    if isinstance(request, HoldQueue):
        return (yield from _hold_queue(registry, now_ns, request))
    name, leaf = request.application_id, registry.leaf_of(request.application_id)
    match request:
        case HoldApplication(_, is_held, operator):
            if (leaf.applications[name].hold is not None) is is_held:
                return []
            yield from send([(leaf, HoldOne(name, _hold(request, now_ns)))])
            return [ApplicationHeld(now_ns, name, leaf.path, operator.name, is_held)]
        case CancelTask(_, key):
            (facts,) = yield from send([(leaf, Cancel(now_ns, name, key))])
        case SetPriority(_, of, priority):
            (facts,) = yield from send([(leaf, Prioritise(now_ns, name, of, priority))])
    return facts


def _hold_queue(registry: Registry, now_ns: int, request: HoldQueue) -> Exchange[list[Fact]]:
    queue = registry.queues[full_path(request.queue_name)]
    if (queue.hold is not None) is request.is_held:
        return []
    registry.changed.queue(queue.path)
    yield from send([(queue, SetHold(_hold(request, now_ns)))])
    return [QueueHeld(now_ns, queue.path, request.operator.name, request.is_held)]


def _hold(request: HoldApplication | HoldQueue, now_ns: int) -> Hold | None:
    return Hold(request.operator.name, now_ns) if request.is_held else None
