"""One fact, three renderings: lines of the decision log, messages to the resource manager, event records of the feed.

Facts flow in, in the order in which they became true; everything that flows out keeps that order. Each rendering is a
table from the class of a fact to a function; a fact that is not in a table has nothing to say there.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from ykactor.core import decisions as fact
from ykactor.core.messages import Ask
from ykactor.core.resources import Resource
from ykactor.wire import si

#: What an application's ``message`` holds when nothing else was to be said about a change (AP-95).
_TRANSITIONS = frozenset(
    {
        "runApplication",
        "rejectApplication",
        "completeApplication",
        "failApplication",
        "expireApplication",
        "resumeApplication",
    }
)


def _told(message: str) -> str:
    """The information text of a state change; empty when ``message`` is only the transition's name."""
    return "" if message in _TRANSITIONS else message


# ---- the decision log

Line = dict[str, object]


def decision_lines(decision: fact.Decision) -> list[Line]:
    """The lines of the decision log for one fact, ``at`` in seconds. Source: the table of decisions in the protocol."""
    build = _LINES.get(type(decision))
    return [] if build is None else [{"at": decision.at_ns / 1e9, **build(decision)}]


def decision_log(facts: Iterable[fact.Decision]) -> bytes:
    """All lines as JSON Lines. Equal facts give equal bytes."""
    return _JSON.encode_lines([line for decision in facts for line in decision_lines(decision)])


_JSON = msgspec.json.Encoder()


def _node_line(node_id: str, state: str, reason: str = "") -> Line:
    return {"decision": "node", "nodeID": node_id, "state": state, "reason": reason}


def _application_line(application_id: str, state: str, reason: str = "") -> Line:
    return {"decision": "application", "applicationID": application_id, "state": state, "reason": reason}


def _allocation_line(decision: str, ask: Ask, queue: str, node_id: str) -> Line:
    line: Line = {
        "decision": decision,
        "allocationKey": ask.spec.allocation_key,
        "applicationID": ask.spec.application_id,
        "queueName": queue,
    }
    # A placeholder that times out before it was placed has no node.
    return {**line, "nodeID": node_id} if node_id else line


def _rejected_line(it: fact.AllocationRejected) -> Line:
    return {
        "decision": "rejected",
        "allocationKey": it.allocation_key,
        "applicationID": it.application_id,
        "reason": it.reason,
    }


_LINES: dict[type, Callable[[Any], Line]] = {
    fact.NodeAdded: lambda it: _node_line(it.node_id, "accepted"),
    fact.NodeRejected: lambda it: _node_line(it.node_id, "rejected", it.reason),
    fact.ApplicationAdded: lambda it: _application_line(it.application_id, "New"),
    fact.ApplicationRejected: lambda it: _application_line(it.application_id, "Rejected", it.reason),
    fact.ApplicationChanged: lambda it: _application_line(it.application_id, it.state, _told(it.message)),
    fact.Allocated: lambda it: _allocation_line("allocated", it.ask, it.queue, it.node_id),
    fact.Released: lambda it: {
        **_allocation_line("released", it.ask, it.queue, it.node_id),
        "terminationType": it.termination_type,
    },
    fact.AllocationRejected: _rejected_line,
    fact.ConfigurationChanged: lambda it: {"decision": "configuration", "state": it.state, "reason": it.reason},
}


# ---- messages to the resource manager

PartitionResponse = si.NodeResponse | si.ApplicationResponse | si.AllocationResponse


def responses(facts: Iterable[fact.Decision], partition: str) -> list[PartitionResponse]:
    """What the resource manager is told, without sequence numbers (section 10 of AP).

    Reading the messages in order, and each message's lists in the order in which they are declared, gives the facts in
    their order (AP-96): a message ends where the next entry belongs to another message or to an earlier list.
    """
    messages: list[tuple[type[PartitionResponse], dict[str, Any]]] = []
    rank = 0
    for decision in facts:
        answer = _ANSWERS.get(type(decision))
        entry = None if answer is None else answer.entry(decision, partition)
        if answer is None or entry is None:
            continue
        if not messages or messages[-1][0] is not answer.message or answer.rank < rank:
            messages.append((answer.message, {}))
        messages[-1][1].setdefault(answer.entries, []).append(entry)
        rank = answer.rank
    return [message(**lists) for message, lists in messages]


def _updated(it: fact.ApplicationChanged, partition: str) -> si.UpdatedApplication | None:
    """Every entered state but Rejected, which the ``rejected`` entry tells (AP-22)."""
    if it.state == "Rejected":
        return None
    return si.UpdatedApplication(
        application_id=it.application_id,
        state=it.state,
        state_transition_timestamp=it.at_ns,
        message=it.message,
    )


def _new(it: fact.Allocated, partition: str) -> si.Allocation:
    spec = it.ask.spec
    return si.Allocation(
        allocation_key=spec.allocation_key,
        application_id=spec.application_id,
        partition_name=partition,
        resource_per_alloc=dict(spec.resource),
        priority=spec.priority,
        allocation_tags=spec.tags,
        task_group_name=spec.task_group_name,
        placeholder=spec.placeholder,
        originator=spec.originator,
        preemption_policy=si.PreemptionPolicy(
            allow_preempt_self=spec.allow_preempt_self, allow_preempt_other=spec.allow_preempt_other
        ),
        node_id=it.node_id,
    )


def _released(it: fact.Released, partition: str) -> si.AllocationRelease | None:
    """A release without a message is the resource manager's own confirmation: it gets no echo (section 6.1 of AP)."""
    if not it.message:
        return None
    return si.AllocationRelease(
        application_id=it.ask.spec.application_id,
        allocation_key=it.ask.spec.allocation_key,
        partition_name=partition,
        termination_type=it.termination_type,
        message=it.message,
    )


class _Answer(NamedTuple):
    """Where a fact goes: into which list of which message, and as what. ``rank`` is the list's place in the message."""

    message: type[PartitionResponse]
    rank: int
    entries: str
    entry: Callable[[Any, str], msgspec.Struct | None]


_ANSWERS: dict[type, _Answer] = {
    fact.NodeAdded: _Answer(si.NodeResponse, 0, "accepted", lambda it, _: si.AcceptedNode(node_id=it.node_id)),
    fact.NodeRejected: _Answer(
        si.NodeResponse, 1, "rejected", lambda it, _: si.RejectedNode(node_id=it.node_id, reason=it.reason)
    ),
    fact.ApplicationAdded: _Answer(
        si.ApplicationResponse,
        0,
        "accepted",
        lambda it, _: si.AcceptedApplication(application_id=it.application_id),
    ),
    fact.ApplicationRejected: _Answer(
        si.ApplicationResponse,
        1,
        "rejected",
        lambda it, _: si.RejectedApplication(application_id=it.application_id, reason=it.reason),
    ),
    fact.ApplicationChanged: _Answer(si.ApplicationResponse, 2, "updated", _updated),
    fact.Allocated: _Answer(si.AllocationResponse, 0, "new", _new),
    fact.Released: _Answer(si.AllocationResponse, 1, "released", _released),
    fact.AllocationRejected: _Answer(
        si.AllocationResponse,
        2,
        "rejected_allocations",
        lambda it, _: si.RejectedAllocation(allocation_key=it.allocation_key, application_id=it.application_id, reason=it.reason),
    ),
}


# ---- event records

#: Longer messages are cut, the last three characters being dots (section 1 of EV).
EVENT_MESSAGE_MAX = 1024

_STATE_DETAILS = {
    "Accepted": "APP_ACCEPTED",
    "Starting": "APP_STARTING",
    "Running": "APP_RUNNING",
    "Completing": "APP_COMPLETING",
    "Completed": "APP_COMPLETED",
    "Failing": "APP_FAILING",
    "Failed": "APP_FAILED",
    "Resuming": "APP_RESUMING",
    "Expired": "APP_EXPIRED",
    "Rejected": "APP_REJECT",
}
_RELEASE_DETAILS = {
    "STOPPED_BY_RM": "ALLOC_CANCEL",
    "PREEMPTED_BY_SCHEDULER": "ALLOC_PREEMPT",
    "TIMEOUT": "ALLOC_TIMEOUT",
    "PLACEHOLDER_REPLACED": "ALLOC_REPLACED",
}
_LIMIT_DETAILS = {"max": "QUEUE_MAX", "guaranteed": "QUEUE_GUARANTEED"}


def events(decision: fact.Decision, partition: str, first_sequence: int) -> list[si.EventRecord]:
    """The event records of one fact, numbered from ``first_sequence`` on (sections 2 to 5 of EV); often none.

    ``queue_name`` is the queue concerned where there is one: subscribers filter by it.

    Cost:    0.6 us a record; there are two or three for each allocation.
    """
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
            resource=it.resource,
        )
        for sequence, it in enumerate(build(decision), first_sequence)
    ]


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
    if it.change == "SET":
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
    detail, message = _STATE_DETAILS[it.state], _told(it.message)
    return [_Event("APP", it.application_id, "SET", detail, message=message, queue=it.queue)]


def _application_left(it: fact.ApplicationLeft) -> list[_Event]:
    return [
        _Event("APP", it.application_id, "REMOVE", queue=it.queue),
        _Event("QUEUE", it.queue, "REMOVE", "QUEUE_APP", it.application_id, queue=it.queue),
    ]


def _ask_added(it: fact.AskAdded) -> list[_Event]:
    return [_app_event(it.ask, it.queue, "ADD", "APP_REQUEST")]


def _ask_removed(it: fact.AskRemoved) -> list[_Event]:
    return [_app_event(it.ask, it.queue, "REMOVE", "REQUEST_CANCEL")]


def _allocated(it: fact.Allocated) -> list[_Event]:
    return [
        _node_event(it, "ADD"),
        _app_event(it.ask, it.queue, "ADD", "APP_ALLOC"),
    ]


def _released_events(it: fact.Released) -> list[_Event]:
    """A node's removal is told to the resource manager as STOPPED_BY_RM; only the message tells it from a release."""
    detail = _RELEASE_DETAILS.get(it.termination_type, "ALLOC_NODEREMOVED")
    if it.message == f"Node {it.node_id} Removed":
        detail = "ALLOC_NODEREMOVED"
    removed = [_app_event(it.ask, it.queue, "REMOVE", detail)]
    return [*removed, _node_event(it, "REMOVE")] if it.node_id else removed


def _app_event(ask: Ask, queue: str, change: str, detail: str) -> _Event:
    """About one ask or allocation of an application."""
    spec = ask.spec
    return _Event("APP", spec.application_id, change, detail, spec.allocation_key, "", queue, spec.resource)


def _node_event(it: fact.Allocated | fact.Released, change: str) -> _Event:
    """An allocation was put on its node or taken off."""
    spec = it.ask.spec
    return _Event("NODE", it.node_id, change, "NODE_ALLOC", spec.allocation_key, "", it.queue, spec.resource)


def _queue_limit_changed(it: fact.QueueLimitChanged) -> list[_Event]:
    return [_Event("QUEUE", it.queue, "SET", _LIMIT_DETAILS[it.limit], queue=it.queue, resource=it.resource)]


def _configuration_changed(it: fact.ConfigurationChanged) -> list[_Event]:
    """The SI defines QUEUE_CONFIG but has no row for it; it is the root's event here."""
    message = f"configuration {it.state}" + (f": {it.reason}" if it.reason else "")
    return [_Event("QUEUE", "root", "SET", "QUEUE_CONFIG", message=message, queue="root")]


_EVENTS: dict[type, Callable[[Any], list[_Event]]] = {
    fact.NodeAdded: _node_added,
    fact.NodeRemoved: _node_removed,
    fact.NodeSchedulable: lambda it: [_schedulable(it)],
    fact.NodeCapacityChanged: lambda it: [_Event("NODE", it.node_id, "SET", "NODE_CAPACITY", resource=it.capacity)],
    fact.ForeignChanged: _foreign_changed,
    fact.ApplicationAdded: _application_added,
    fact.ApplicationRejected: _application_rejected,
    fact.ApplicationChanged: _application_changed,
    fact.ApplicationLeft: _application_left,
    fact.AskAdded: _ask_added,
    fact.AskRemoved: _ask_removed,
    fact.Allocated: _allocated,
    fact.Released: _released_events,
    fact.QueueAdded: lambda it: [_Event("QUEUE", it.queue, "ADD", queue=it.queue)],
    fact.QueueRemoved: lambda it: [_Event("QUEUE", it.queue, "REMOVE", queue=it.queue)],
    fact.QueueLimitChanged: _queue_limit_changed,
    fact.ConfigurationChanged: _configuration_changed,
}
