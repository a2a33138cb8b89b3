"""Asks that are pending, those that run, and foreign allocations."""

from __future__ import annotations

from ykactor.core.messages.asks import FOREIGN_TAG, STATIC, Ask, ForeignTask, ask_id, shape_of
from ykactor.core.objects.application import Application
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import types
from ykactor.wire.rest.amounts import limit


def request(look: Look, ask: Ask, *, is_tried: bool) -> types.Request:
    """A pending ask."""
    spec = ask.spec
    preempts = ask_id(ask) in look.state.preemptions.by_ask
    return types.Request(
        allocation_key=spec.allocation_key,
        allocation_tags=spec.tags,
        request_time=look.time(ask.created_ns),
        resource=limit(spec.resource),
        priority=str(spec.priority),
        required_node_id=shape_of(spec)[1] or "" if spec.tags else "",
        application_id=spec.application_id,
        placeholder=spec.placeholder,
        task_group_name=spec.task_group_name,
        triggered_preemption=preempts,
        originator=spec.originator,
        scheduling_attempted=is_tried,
        triggered_scale_up=look.state.scheduling_states.has_told_failed(ask),
    )


def allocation(look: Look, application: Application, key: AllocationKey) -> types.Allocation:
    """An allocation of an application."""
    ask, node_id = application.allocations[key]
    spec, began_ns = ask.spec, look.time(application.began_ns[key])
    requested_ns = look.time(application.replaced_ns.get(key, ask.created_ns))
    return types.Allocation(
        allocation_key=spec.allocation_key,
        allocation_tags=spec.tags,
        request_time=requested_ns,
        allocation_time=began_ns,
        allocation_delay=max(0, began_ns - requested_ns),
        resource=limit(spec.resource),
        priority=str(spec.priority),
        node_id=node_id,
        application_id=spec.application_id,
        placeholder=spec.placeholder,
        placeholder_used=key in application.replaced_ns,
        task_group_name=spec.task_group_name,
        preempted=ask_id(ask) in look.state.preemptions.victims,
        originator=spec.originator,
    )


def foreign(look: Look, task: ForeignTask, node_id: NodeID) -> types.ForeignAllocation:
    """What is on a node and was not placed here."""
    spec = task.spec
    return types.ForeignAllocation(
        allocation_key=spec.allocation_key,
        allocation_tags=spec.tags,
        allocation_time=look.time(task.created_ns),
        resource=limit(spec.resource),
        priority=str(spec.priority),
        node_id=node_id,
        preemptable=spec.tags.get(FOREIGN_TAG) != STATIC,
    )
