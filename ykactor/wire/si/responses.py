"""Two renderings of facts: lines of the decision log, and messages to the resource manager (``events`` has the third).

Facts flow in, in the order in which they became true; everything that flows out keeps that order. Each rendering is a
table from the class of a fact to a function; a fact that is not in a table has nothing to say there.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from ykactor.core.messages import facts as fact
from ykactor.core.messages.asks import Ask
from ykactor.wire.si import messages as si

# ---- the decision log

Line = dict[str, object]


def decision_lines(decision: fact.Fact) -> list[Line]:
    """The lines of the decision log for one fact, ``at`` in seconds. Source: the table of decisions in the protocol."""
    if isinstance(decision, fact.Released) and decision.message:  # else it was told when it started
        return [{"at": decision.at_ns / 1e9, **_released_line(decision)}]
    build = _LINES.get(type(decision))
    return [] if build is None else [{"at": decision.at_ns / 1e9, **build(decision)}]


def decision_log(facts: Iterable[fact.Fact]) -> bytes:
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


def _released_line(it: fact.Released | fact.ReleaseStarted) -> Line:
    return {**_allocation_line("released", it.ask, it.queue, it.node_id or ""), "terminationType": it.termination_type}


def _configuration_line(it: fact.ConfigurationChanged) -> Line:
    state = "accepted" if it.is_accepted else "rejected"
    return {"decision": "configuration", "state": state, "reason": it.reason}


_LINES: dict[type, Callable[[Any], Line]] = {
    fact.NodeAdded: lambda it: _node_line(it.node_id, "accepted"),
    fact.NodeRejected: lambda it: _node_line(it.node_id, "rejected", it.reason),
    fact.ApplicationAdded: lambda it: _application_line(it.application_id, "New"),
    fact.ApplicationRejected: lambda it: _application_line(it.application_id, "Rejected", it.reason),
    fact.ApplicationChanged: lambda it: _application_line(it.application_id, it.state, it.why),
    fact.Allocated: lambda it: _allocation_line("allocated", it.ask, it.queue, it.node_id),
    fact.ReleaseStarted: _released_line,
    fact.AllocationRejected: _rejected_line,
    fact.ConfigurationChanged: _configuration_line,
}


# ---- messages to the resource manager

PartitionResponse = si.NodeResponse | si.ApplicationResponse | si.AllocationResponse | si.PredicatesRequest


def responses(facts: Iterable[fact.Fact], partition: str) -> list[PartitionResponse]:
    """What the resource manager is told, without sequence numbers (AP-134).

    Reading the messages in order, and each message's lists in the order in which they are declared, gives the facts in
    their order (AP-96): a message ends where the next entry belongs to another message or to an earlier list.
    """
    messages: list[tuple[type[PartitionResponse], dict[str, Any]]] = []
    rank = 0
    for decision in facts:
        if type(decision) is fact.PredicatesAsked:
            messages.append((si.PredicatesRequest, _questions(decision, partition)))
            continue
        answer = _ANSWERS.get(type(decision))
        entry = None if answer is None else answer.entry(decision, partition)
        if answer is None or entry is None:
            continue
        if not messages or messages[-1][0] is not answer.message or answer.rank < rank:
            messages.append((answer.message, {}))
        messages[-1][1].setdefault(answer.entries, []).append(entry)
        rank = answer.rank
    return [message(**lists) for message, lists in messages]


def _questions(it: fact.PredicatesAsked, partition: str) -> dict[str, Any]:
    spec = it.ask.spec
    checks = [
        si.PredicateCheck(
            predicate=it.predicate,
            node_id=node_id,
            allocate=it.allocate,
            allocation_key=spec.allocation_key,
            application_id=spec.application_id,
        )
        for node_id in it.nodes
    ]
    return {"partition_name": partition, "checks": checks}


def _updated(it: fact.ApplicationChanged, partition: str) -> si.UpdatedApplication:
    """An entered state. A refused application enters none: it has a ``rejected`` entry (AP-22)."""
    return si.UpdatedApplication(
        application_id=it.application_id,
        state=it.state,
        state_transition_timestamp=it.at_ns,
        message=it.why or it.event,
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


def _released(it: fact.Released | fact.ReleaseStarted, partition: str) -> si.AllocationRelease | None:
    """A release without a message is the resource manager's own confirmation: it gets no echo (AP-131)."""
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
        lambda it, _: si.AcceptedApplication(application_id=it.application_id, queue_name=it.queue),
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
    fact.ReleaseStarted: _Answer(si.AllocationResponse, 1, "released", _released),
    fact.AllocationRejected: _Answer(
        si.AllocationResponse,
        2,
        "rejected_allocations",
        lambda it, _: si.RejectedAllocation(allocation_key=it.allocation_key, application_id=it.application_id, reason=it.reason),
    ),
}
