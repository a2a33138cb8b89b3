"""The third rendering of a fact: event records of the feed (``render`` has the other two).

The feed renders each fact once, in order. What a fact has to say is found in a table by its class; a fact that is in no table
says nothing. Facts about one ask are nearly all that a busy partition tells, so their records are made without a detour.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from ykactor.core.config.access import PrincipalKind
from ykactor.core.messages import facts as fact
from ykactor.core.messages.kinds import Change, QueueLimit, TerminationType
from ykactor.core.messages.states import ApplicationState
from ykactor.core.values.resources import Resource, saturated, text
from ykactor.wire.si import messages as si
from ykactor.wire.si.preemptions import preemption_entry, preemption_text

#: Longer messages are cut, the last three characters being dots (EV-68).
EVENT_MESSAGE_MAX = 1024

_STATE_DETAILS = {
    ApplicationState.ACCEPTED: "APP_ACCEPTED",
    ApplicationState.STARTING: "APP_STARTING",
    ApplicationState.RUNNING: "APP_RUNNING",
    ApplicationState.COMPLETING: "APP_COMPLETING",
    ApplicationState.COMPLETED: "APP_COMPLETED",
    ApplicationState.FAILING: "APP_FAILING",
    ApplicationState.FAILED: "APP_FAILED",
    ApplicationState.RESUMING: "APP_RESUMING",
    ApplicationState.EXPIRED: "APP_EXPIRED",
}
_RELEASE_DETAILS = {
    TerminationType.STOPPED_BY_RM: "ALLOC_CANCEL",
    TerminationType.PREEMPTED_BY_SCHEDULER: "ALLOC_PREEMPT",
    TerminationType.TIMEOUT: "ALLOC_TIMEOUT",
    TerminationType.PLACEHOLDER_REPLACED: "ALLOC_REPLACED",
}
_PRINCIPAL_DETAILS = {PrincipalKind.USER: "UG_USER_LIMIT", PrincipalKind.GROUP: "UG_GROUP_LIMIT"}
_LIMIT_DETAILS = {QueueLimit.MAX: "QUEUE_MAX", QueueLimit.GUARANTEED: "QUEUE_GUARANTEED"}


def events(decision: fact.Fact, partition: str, first_sequence: int) -> list[si.EventRecord]:
    """The event records of one fact, numbered from ``first_sequence`` on (EV-69 to EV-74); often none.

    ``queue_name`` is the queue concerned where there is one: subscribers filter by it.

    Cost:    0.15 us a record of an ask, of which there are four for each allocation; 0.6 us a record of anything else.
    """
    of_ask = _ASK_EVENTS.get(type(decision))
    if of_ask is not None:
        return of_ask(decision, partition, first_sequence)
    build = _EVENTS.get(type(decision))
    if build is None:
        return []
    return [
        si.EventRecord(
            sequence=sequence,
            type=it.type,
            object_id=it.object_id,
            event_change_type=it.change,
            event_change_detail=it.detail,
            timestamp_nano=decision.at_ns,
            reference_id=it.reference_id,
            message=_cut(it.message),
            partition=partition,
            queue_name=it.queue,
            resource=None if it.resource is None else saturated(it.resource),
            preemption=it.preemption,
        )
        for sequence, it in enumerate(build(decision), first_sequence)
    ]


# ---- asks and allocations

_AskFact = fact.AskAdded | fact.AskRemoved | fact.Allocated | fact.Released


def _of_application(it: _AskFact, partition: str, sequence: int, change: str, detail: str) -> si.EventRecord:
    """About one ask or allocation of an application."""
    spec, key = it.ask.spec, it.ask.spec.allocation_key
    return si.EventRecord(
        sequence, "APP", spec.application_id, change, detail, it.at_ns, key, "", partition, it.queue, spec.resource
    )


def _of_node(it: fact.Allocated | fact.NodeUseChanged, partition: str, sequence: int, change: str) -> si.EventRecord:
    """An allocation was put on its node or taken off."""
    spec, key = it.ask.spec, it.ask.spec.allocation_key
    return si.EventRecord(
        sequence, "NODE", it.node_id, change, "NODE_ALLOC", it.at_ns, key, "", partition, it.queue, spec.resource
    )


def _of_charged(
    it: fact.Allocated | fact.UsageChanged,
    partition: str,
    first: int,
    charged_to: fact.ChargedTo,
    change: str,
    resource: Resource,
) -> list[si.EventRecord]:
    """The user uses more or less, and the group if the application counts against one."""
    at_ns, queue, detail = it.at_ns, it.queue, "UG_USER_RESOURCE"
    records = []
    if charged_to.user:
        user = charged_to.user
        records = [si.EventRecord(first, "USERGROUP", user, change, detail, at_ns, queue, "", partition, queue, resource)]
    if charged_to.group:
        detail, last, group = "UG_GROUP_RESOURCE", first + len(records), charged_to.group
        records += [si.EventRecord(last, "USERGROUP", group, change, detail, at_ns, queue, "", partition, queue, resource)]
    return records


def _ask_added(it: fact.AskAdded, partition: str, first: int) -> list[si.EventRecord]:
    return [_of_application(it, partition, first, "ADD", "APP_REQUEST")]


def _ask_removed(it: fact.AskRemoved, partition: str, first: int) -> list[si.EventRecord]:
    return [_of_application(it, partition, first, "REMOVE", "REQUEST_TIMEOUT" if it.timed_out else "REQUEST_CANCEL")]


def _allocated(it: fact.Allocated, partition: str, first: int) -> list[si.EventRecord]:
    """With its charged_to, all that a placement changes; else it follows what was told of node and user already."""
    charged_to = it.charged_to
    if charged_to is None:
        return [_of_application(it, partition, first, "ADD", "APP_ALLOC")]
    records = [_of_node(it, partition, first, "ADD")]
    records += _of_charged(it, partition, first + 1, charged_to, "ADD", it.ask.spec.resource)
    records.append(_of_application(it, partition, first + len(records), "ADD", "APP_ALLOC"))
    return records


def _released(it: fact.Released, partition: str, first: int) -> list[si.EventRecord]:
    detail = "ALLOC_NODEREMOVED" if it.with_node else _RELEASE_DETAILS.get(it.termination_type, "ALLOC_NODEREMOVED")
    return [_of_application(it, partition, first, "REMOVE", detail)]


def _node_use_changed(it: fact.NodeUseChanged, partition: str, first: int) -> list[si.EventRecord]:
    return [_of_node(it, partition, first, it.change)]


def _usage_changed(it: fact.UsageChanged, partition: str, first: int) -> list[si.EventRecord]:
    return _of_charged(it, partition, first, it.charged_to, it.change, it.resource)


_ASK_EVENTS: dict[type, Callable[[Any, str, int], list[si.EventRecord]]] = {
    fact.AskAdded: _ask_added,
    fact.AskRemoved: _ask_removed,
    fact.Allocated: _allocated,
    fact.Released: _released,
    fact.NodeUseChanged: _node_use_changed,
    fact.UsageChanged: _usage_changed,
}


# ---- everything else


class _Event(NamedTuple):
    """A record without what all records of a fact share."""

    type: str
    object_id: str
    change: str
    detail: str = "DETAILS_NONE"
    reference_id: str = ""
    message: str = ""
    queue: str = ""
    resource: Resource | None = None
    preemption: si.Preemption | None = None


def _cut(message: str) -> str:
    return message if len(message) <= EVENT_MESSAGE_MAX else message[: EVENT_MESSAGE_MAX - 3] + "..."


def _node_added(it: fact.NodeAdded) -> list[_Event]:
    return [_Event("NODE", it.node_id, "ADD", message="Node added to the scheduler", resource=it.capacity)]


def _schedulable(it: fact.NodeSchedulable) -> _Event:
    message = f"schedulable: {'true' if it.schedulable else 'false'}"
    return _Event("NODE", it.node_id, "SET", "NODE_SCHEDULABLE", message=message)


def _node_removed(it: fact.NodeRemoved) -> list[_Event]:
    return [_Event("NODE", it.node_id, "REMOVE", "NODE_DECOMISSION", message="Node removed from the scheduler")]


def _foreign_changed(it: fact.ForeignChanged) -> list[_Event]:
    """A foreign allocation comes or goes like any other; a resize shows in the node's total alone."""
    occupied = _Event("NODE", it.node_id, "SET", "NODE_OCCUPIED", resource=it.occupied)
    if it.change is Change.SET:
        return [occupied]
    moved = _Event("NODE", it.node_id, it.change, "NODE_ALLOC", it.allocation_key, resource=it.resource)
    return [moved, occupied]


def _application_added(it: fact.ApplicationAdded) -> list[_Event]:
    return [
        _Event("APP", it.application_id, "ADD", "APP_NEW", queue=it.queue),
        _Event("QUEUE", it.queue, "ADD", "QUEUE_APP", it.application_id, queue=it.queue),
    ]


def _application_rejected(it: fact.ApplicationRejected) -> list[_Event]:
    return [
        _Event("APP", it.application_id, "ADD", "APP_NEW"),
        _Event("APP", it.application_id, "SET", "APP_REJECT", message=it.reason),
    ]


def _application_changed(it: fact.ApplicationChanged) -> list[_Event]:
    return [_Event("APP", it.application_id, "SET", _STATE_DETAILS[it.state], message=it.why, queue=it.queue)]


def _application_left(it: fact.ApplicationLeft) -> list[_Event]:
    return [
        _Event("APP", it.application_id, "REMOVE", queue=it.queue),
        _Event("QUEUE", it.queue, "REMOVE", "QUEUE_APP", it.application_id, queue=it.queue),
    ]


def _application_moved(it: fact.ApplicationMoved) -> list[_Event]:
    """It leaves one queue for another; that nothing of it ended is told by the message."""
    left, entered = f"moved to {it.to_queue}", f"moved from {it.queue}"
    return [
        _Event("QUEUE", it.queue, "REMOVE", "QUEUE_APP", it.application_id, left, it.queue),
        _Event("QUEUE", it.to_queue, "ADD", "QUEUE_APP", it.application_id, entered, it.to_queue),
    ]


def _reservation(it: fact.Reserved | fact.Unreserved, change: str) -> list[_Event]:
    spec = it.ask.spec
    return [_Event("NODE", it.node_id, change, "NODE_RESERVATION", spec.allocation_key, "", it.queue, spec.resource)]


def _ask_remark(it: fact.AskCondition) -> list[_Event]:
    spec = it.ask.spec
    about = spec.allocation_key, "NONE", "DETAILS_NONE", spec.application_id
    return [_Event("REQUEST", *about, it.message, it.queue, spec.resource if it.resource is None else it.resource)]


def _group_link_changed(it: fact.GroupLinkChanged) -> list[_Event]:
    return [_Event("USERGROUP", it.group, it.change, "UG_APP_LINK", it.application_id, queue=it.queue)]


def _limit_changed(it: fact.LimitChanged) -> list[_Event]:
    detail = _PRINCIPAL_DETAILS[it.principal.kind]
    return [_Event("USERGROUP", it.principal.name, it.change, detail, it.queue, queue=it.queue)]


def _runnable_changed(it: fact.RunnableChanged) -> list[_Event]:
    answer = "RUNNABLE" if it.can_run else "CANNOTRUN"
    return [_Event("APP", it.application_id, "NONE", f"APP_{answer}_{it.gate}", queue=it.queue)]


def _preempted(it: fact.Preempted) -> list[_Event]:
    """An entry of the ledger of preemptions: whole for programs, with its most important part in words."""
    spec = it.ask.spec
    about = spec.allocation_key, "NONE", "DETAILS_NONE", spec.application_id
    return [_Event("REQUEST", *about, preemption_text(it), it.queue, spec.resource, preemption_entry(it))]


def _preemption_refused(it: fact.PreemptionRefused) -> list[_Event]:
    spec = it.ask.spec
    about = spec.allocation_key, "NONE", "DETAILS_NONE", spec.application_id
    return [_Event("REQUEST", *about, f"Request '{spec.allocation_key}' may not preempt: {it.why}", it.queue, spec.resource)]


def _queue_limit_changed(it: fact.QueueLimitChanged) -> list[_Event]:
    return [_Event("QUEUE", it.queue, "SET", _LIMIT_DETAILS[it.limit], queue=it.queue, resource=it.resource)]


def _queue_set_changed(it: fact.QueueAdded | fact.QueueRemoved, change: str) -> list[_Event]:
    return [_Event("QUEUE", it.queue, change, "DETAILS_NONE" if it.managed else "QUEUE_DYNAMIC", queue=it.queue)]


def _queue_type_changed(it: fact.QueueTypeChanged) -> list[_Event]:
    message = f"leaf queue: {'true' if it.is_leaf else 'false'}"
    return [_Event("QUEUE", it.queue, "SET", "QUEUE_TYPE", message=message, queue=it.queue)]


def _quota_preempted(it: fact.QuotaPreempted) -> list[_Event]:
    """PE-89."""
    amounts = f"preemptable resources: {text(it.amount)}, claimed resources: {text(it.claimed)}"
    message = f"Quota Preemption results summary: {amounts}, selected victims: {it.candidates}, preempted victims: {it.victims}"
    return [_Event("QUEUE", it.queue, "SET", "QUEUE_PREEMPTION", message=message, queue=it.queue, resource=it.max)]


def _configuration_changed(it: fact.ConfigurationChanged) -> list[_Event]:
    """The SI defines QUEUE_CONFIG but has no row for it; it is the root's event here."""
    detail = it.reason or "; ".join(it.changes)
    message = f"configuration {'accepted' if it.is_accepted else 'rejected'}" + (f": {detail}" if detail else "")
    return [_Event("QUEUE", "root", "SET", "QUEUE_CONFIG", message=message, queue="root")]


_EVENTS: dict[type, Callable[[Any], list[_Event]]] = {
    fact.NodeAdded: _node_added,
    fact.NodeRemoved: _node_removed,
    fact.NodeSchedulable: lambda it: [_schedulable(it)],
    fact.NodeCapacityChanged: lambda it: [_Event("NODE", it.node_id, "SET", "NODE_CAPACITY", resource=it.capacity)],
    fact.ForeignChanged: _foreign_changed,
    fact.Reserved: lambda it: _reservation(it, "ADD"),
    fact.Unreserved: lambda it: _reservation(it, "REMOVE"),
    fact.AskCondition: _ask_remark,
    fact.GroupLinkChanged: _group_link_changed,
    fact.LimitChanged: _limit_changed,
    fact.RunnableChanged: _runnable_changed,
    fact.Preempted: _preempted,
    fact.PreemptionRefused: _preemption_refused,
    fact.ApplicationAdded: _application_added,
    fact.ApplicationRejected: _application_rejected,
    fact.ApplicationChanged: _application_changed,
    fact.ApplicationLeft: _application_left,
    fact.ApplicationMoved: _application_moved,
    fact.QueueAdded: lambda it: _queue_set_changed(it, "ADD"),
    fact.QueueRemoved: lambda it: _queue_set_changed(it, "REMOVE"),
    fact.QueueTypeChanged: _queue_type_changed,
    fact.QueueLimitChanged: _queue_limit_changed,
    fact.QuotaPreempted: _quota_preempted,
    fact.ConfigurationChanged: _configuration_changed,
}
