"""Facts to messages for the resource manager (event records of the feed: ``events``).

Facts come in the order in which they became true; the messages keep that order. A table gives for each class of fact the
message and the list that its entry belongs to; a fact whose class is not in the table is not sent, except
``PredicatesAsked``, which is a message of its own.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    ApplicationAdded,
    ApplicationChanged,
    ApplicationRejected,
    Fact,
    NodeAdded,
    NodeRejected,
    PredicatesAsked,
    Released,
    ReleaseStarted,
)
from ykactor.wire.si import messages as si

PartitionResponse = si.NodeResponse | si.ApplicationResponse | si.AllocationResponse | si.PredicatesRequest


def responses(facts: Iterable[Fact], partition: str) -> list[PartitionResponse]:
    """The messages for the resource manager, without sequence numbers (AP-134).

    Reading the messages in order, and each message's lists in the order in which they are declared, gives the facts in
    their order (AP-96): a message ends where the next entry belongs to another message or to an earlier list.
    """
    messages: list[tuple[type[PartitionResponse], dict[str, Any]]] = []
    rank = 0
    for fact in facts:
        if type(fact) is PredicatesAsked:
            messages.append((si.PredicatesRequest, _predicate_checks(fact, partition)))
            continue
        target = _TARGETS.get(type(fact))
        entry = None if target is None else target.entry(fact, partition)
        if target is None or entry is None:
            continue
        if not messages or messages[-1][0] is not target.message or target.rank < rank:
            messages.append((target.message, {}))
        messages[-1][1].setdefault(target.entries, []).append(entry)
        rank = target.rank
    return [message(**lists) for message, lists in messages]


def _predicate_checks(fact: PredicatesAsked, partition: str) -> dict[str, Any]:
    spec = fact.ask.spec
    checks = [
        si.PredicateCheck(
            predicate=fact.predicate,
            node_id=node_id,
            allocate=fact.allocate,
            allocation_key=spec.allocation_key,
            application_id=spec.application_id,
        )
        for node_id in fact.nodes
    ]
    return {"partition_name": partition, "checks": checks}


def _updated(fact: ApplicationChanged, partition: str) -> si.UpdatedApplication:
    """An entered state. A refused application enters none: it has a ``rejected`` entry (AP-22)."""
    return si.UpdatedApplication(
        application_id=fact.application_id,
        state=fact.state,
        state_transition_timestamp=fact.at_ns,
        message=fact.why or fact.event,
    )


def _new(fact: Allocated, partition: str) -> si.Allocation:
    spec = fact.ask.spec
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
        node_id=fact.node_id,
    )


def _released(fact: Released | ReleaseStarted, partition: str) -> si.AllocationRelease | None:
    """A release without a message is the resource manager's own confirmation: it is not sent back (AP-131)."""
    if not fact.message:
        return None
    return si.AllocationRelease(
        application_id=fact.ask.spec.application_id,
        allocation_key=fact.ask.spec.allocation_key,
        partition_name=partition,
        termination_type=fact.termination_type,
        message=fact.message,
    )


class _Target(NamedTuple):
    """Where a fact is sent: in which list of which message, and as what. ``rank`` is the list's place in the message."""

    message: type[PartitionResponse]
    rank: int
    entries: str
    entry: Callable[[Any, str], msgspec.Struct | None]


_TARGETS: dict[type, _Target] = {
    NodeAdded: _Target(si.NodeResponse, 0, "accepted", lambda fact, _: si.AcceptedNode(node_id=fact.node_id)),
    NodeRejected: _Target(
        si.NodeResponse, 1, "rejected", lambda fact, _: si.RejectedNode(node_id=fact.node_id, reason=fact.reason)
    ),
    ApplicationAdded: _Target(
        si.ApplicationResponse,
        0,
        "accepted",
        lambda fact, _: si.AcceptedApplication(application_id=fact.application_id, queue_name=fact.queue),
    ),
    ApplicationRejected: _Target(
        si.ApplicationResponse,
        1,
        "rejected",
        lambda fact, _: si.RejectedApplication(application_id=fact.application_id, reason=fact.reason),
    ),
    ApplicationChanged: _Target(si.ApplicationResponse, 2, "updated", _updated),
    Allocated: _Target(si.AllocationResponse, 0, "new", _new),
    Released: _Target(si.AllocationResponse, 1, "released", _released),
    ReleaseStarted: _Target(si.AllocationResponse, 1, "released", _released),
    AllocationRejected: _Target(
        si.AllocationResponse,
        2,
        "rejected_allocations",
        lambda fact, _: si.RejectedAllocation(
            allocation_key=fact.allocation_key, application_id=fact.application_id, reason=fact.reason
        ),
    ),
}
