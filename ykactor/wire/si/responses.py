"""Facts to messages for the resource manager (event records of the feed: ``events``).

Facts come in the order in which they became true; the messages keep that order. A table gives for each class of fact the
message and the list that its entry belongs to; a fact whose class is not in the table is not sent, except
``PredicatesAsked`` and ``SchedulingStateChanged``, which are messages of their own.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgspec

from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    ApplicationAdded,
    ApplicationChanged,
    ApplicationHeld,
    ApplicationMoved,
    ApplicationRejected,
    Fact,
    NodeAdded,
    NodeRejected,
    PredicatesAsked,
    Released,
    ReleaseStarted,
    SchedulingStateChanged,
)
from ykactor.core.values.times import S_NS
from ykactor.wire.si import messages as si

PartitionResponse = (
    si.NodeResponse | si.ApplicationResponse | si.AllocationResponse | si.PredicatesRequest | si.SchedulingStateResponse
)

#: Entries in one message about waiting asks.
STATES_MAX = 500


def responses(facts: Iterable[Fact], partition: str) -> list[PartitionResponse]:
    """The messages for the resource manager, without sequence numbers (AP-134).

    Reading the messages in order, and each message's lists in the order in which they are declared, gives in their order the
    facts about each application, and all allocations and releases (AP-96). Otherwise neighbours share messages: the state
    changes of several applications stand together before the allocations that follow from them.
    """
    collected = _Collected()
    for fact in facts:
        if type(fact) is PredicatesAsked:
            collected.append(si.PredicatesRequest, _predicate_checks(fact, partition))
            continue
        if type(fact) is SchedulingStateChanged:
            collected.add_states(partition, _scheduling_states(fact))
            continue
        target = _TARGETS.get(type(fact))
        entry = None if target is None else target.entry(fact, partition)
        if target is not None and entry is not None:
            collected.add(target, entry)
    return [message(**lists) for message, lists in collected.messages]


class _Collected:
    """The messages so far, as their class and lists. The last ones, which may still grow, are the *group*.

    A group has one message about nodes, or one of states, one of allocations behind it, or both.
    """

    def __init__(self) -> None:
        self.messages: list[tuple[type[PartitionResponse], dict[str, Any]]] = []
        self._group: dict[type[PartitionResponse], dict[str, list[Any]]] = {}
        #: The rank of the group's last entry about each application, and of its last entry about anything but a state.
        self._reached: dict[str, int] = {}
        self._rank = 0

    def append(self, message: type[PartitionResponse], lists: dict[str, Any]) -> None:
        """A complete message."""
        self._close()
        self.messages.append((message, lists))

    def add_states(self, partition: str, entries: list[si.SchedulingStateEntry]) -> None:
        """Add the reasons of some asks, to the last message if that is about the same and has room."""
        message, lists = self.messages[-1] if self.messages else (None, {})
        if message is si.SchedulingStateResponse and len(lists["entries"]) + len(entries) <= STATES_MAX:
            lists["entries"] += entries
        else:
            self.append(si.SchedulingStateResponse, {"partition_name": partition, "entries": entries})

    def add(self, target: "_Target", entry: Any) -> None:
        """Another entry; in the group if that keeps the order."""
        message, rank = target.message, target.rank
        if self._group and (message is si.NodeResponse) is not (si.NodeResponse in self._group):
            self._close()
        if rank < (self._reached.get(entry.application_id, 0) if message is si.ApplicationResponse else self._rank):
            self._close()
        if message is not si.NodeResponse:
            self._reached[entry.application_id] = rank
        if message is not si.ApplicationResponse:
            self._rank = rank
        lists = self._group.get(message)
        if lists is None:
            lists = self._begin(message)
        lists.setdefault(target.entries, []).append(entry)

    def _begin(self, message: type[PartitionResponse]) -> dict[str, list[Any]]:
        is_before_allocations = message is si.ApplicationResponse and bool(self._group)
        lists = self._group[message] = {}
        self.messages.insert(len(self.messages) - is_before_allocations, (message, lists))
        return lists

    def _close(self) -> None:
        self._group.clear()
        self._reached.clear()
        self._rank = 0


def _predicate_checks(fact: PredicatesAsked, partition: str) -> dict[str, Any]:
    ask = fact.ask
    checks = [
        si.PredicateCheck(
            predicate=fact.predicate,
            node_id=node_id,
            allocate=fact.allocate,
            allocation_key=ask.allocation_key,
            application_id=ask.application_id,
        )
        for node_id in fact.nodes
    ]
    return {"partition_name": partition, "checks": checks}


def _scheduling_states(fact: SchedulingStateChanged) -> list[si.SchedulingStateEntry]:
    return [
        si.SchedulingStateEntry(
            allocation_key=key,
            application_id=fact.application_id,
            state=fact.state,
            cause=fact.cause,
            queue_name=fact.queue,
            requested=fact.requested,
            available=fact.available,
            nodes=fact.nodes,
            reason=fact.reason,
        )
        for key in fact.allocation_keys
    ]


def _updated(fact: ApplicationChanged, partition: str) -> si.UpdatedApplication:
    """An entered state. A refused application enters none: it has a ``rejected`` entry (AP-22)."""
    return si.UpdatedApplication(
        application_id=fact.application_id,
        state=fact.state,
        state_transition_timestamp=fact.at_ns,
        message=fact.why or fact.event,
    )


def _new(fact: Allocated, partition: str) -> si.Allocation:
    ask = fact.ask
    return si.Allocation(
        allocation_key=ask.allocation_key,
        application_id=ask.application_id,
        partition_name=partition,
        resource_per_alloc=cast("si.WireResource", ask.resource),
        priority=ask.priority,
        allocation_tags=ask.tags,
        task_group_name=ask.task_group_name,
        placeholder=ask.placeholder,
        originator=ask.originator,
        preemption_policy=_POLICIES[ask.allow_preempt_self, ask.allow_preempt_other],
        node_id=fact.node_id,
        releasing=ask.releasing,
    )


def _released(fact: Released | ReleaseStarted, partition: str) -> si.AllocationRelease | None:
    """A release without a message is the resource manager's own confirmation: it is not sent back (AP-131)."""
    if not fact.message:
        return None
    return si.AllocationRelease(
        application_id=fact.ask.application_id,
        allocation_key=fact.ask.allocation_key,
        partition_name=partition,
        termination_type=fact.termination_type,
        message=fact.message,
    )


#: By "may be preempted" and "may preempt others"; all messages share them.
_POLICIES = {
    (of_self, of_other): si.PreemptionPolicy(allow_preempt_self=of_self, allow_preempt_other=of_other)
    for of_self in (False, True)
    for of_other in (False, True)
}


def _taken(kind: type[msgspec.Struct]) -> Callable[[Any, str], msgspec.Struct]:
    """The function that makes an entry of this kind of the fields of a fact, which have the same names."""
    names = kind.__struct_fields__
    return lambda fact, _: kind(**{name: getattr(fact, name) for name in names})


class _Target(NamedTuple):
    """The destination of a fact: in which list of which message, and as what.

    ``rank`` is the place of the list: in messages about nodes, or in one of states followed by one of allocations.
    """

    message: type[PartitionResponse]
    rank: int
    entries: str
    entry: Callable[[Any, str], msgspec.Struct | None]


def _accepted(fact: ApplicationAdded, _partition: str) -> si.AcceptedApplication:
    return si.AcceptedApplication(application_id=fact.application_id, queue_name=fact.queue, run_seconds=fact.walltime_ns / S_NS)


_TARGETS: dict[type, _Target] = {
    NodeAdded: _Target(si.NodeResponse, 0, "accepted", _taken(si.AcceptedNode)),
    NodeRejected: _Target(si.NodeResponse, 1, "rejected", _taken(si.RejectedNode)),
    ApplicationAdded: _Target(
        si.ApplicationResponse,
        0,
        "accepted",
        _accepted,
    ),
    ApplicationRejected: _Target(si.ApplicationResponse, 1, "rejected", _taken(si.RejectedApplication)),
    ApplicationMoved: _Target(
        si.ApplicationResponse,
        2,
        "moved",
        lambda fact, _: si.MovedApplication(application_id=fact.application_id, queue_name=fact.to_queue),
    ),
    ApplicationChanged: _Target(si.ApplicationResponse, 3, "updated", _updated),
    ApplicationHeld: _Target(
        si.ApplicationResponse,
        4,
        "held",
        lambda fact, _: si.HeldApplication(application_id=fact.application_id, held=fact.is_held),
    ),
    Allocated: _Target(si.AllocationResponse, 5, "new", _new),
    Released: _Target(si.AllocationResponse, 6, "released", _released),
    ReleaseStarted: _Target(si.AllocationResponse, 6, "released", _released),
    AllocationRejected: _Target(si.AllocationResponse, 7, "rejected_allocations", _taken(si.RejectedAllocation)),
}
