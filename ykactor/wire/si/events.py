"""Facts to event records of the feed (messages for the resource manager: ``responses``).

The feed calls ``events`` once for each fact, in order. Two tables give for each class of fact the function that makes its
records; a fact whose class is in neither has no events. Nearly all facts of a busy partition are about one ask: their functions
make the records directly, without the intermediate ``_Event``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ykactor.core.config.access import PrincipalKind
from ykactor.core.messages import facts
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Preempted
from ykactor.core.messages.kinds import Change, QueueLimit, TerminationType
from ykactor.core.messages.states import ApplicationState
from ykactor.core.values.resources import Resource, saturated, text
from ykactor.core.values.words import some
from ykactor.core.waiting.reasons import amounts
from ykactor.wire.si import messages as si

#: Longer messages are cut to this length and end with three dots (EV-68).
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
    TerminationType.SCHEDULING_FAILED_ON_RM: "ALLOC_CANCEL",
}
_PRINCIPAL_DETAILS = {PrincipalKind.USER: "UG_USER_LIMIT", PrincipalKind.GROUP: "UG_GROUP_LIMIT"}
_LIMIT_DETAILS = {QueueLimit.MAX: "QUEUE_MAX", QueueLimit.GUARANTEED: "QUEUE_GUARANTEED"}


def events(fact: facts.Fact, partition: str, first_sequence: int) -> list[si.EventRecord]:
    """The event records of one fact, numbered from ``first_sequence`` on (EV-69 to EV-74); often none.

    ``queue_name`` is the queue concerned, if there is one: subscribers filter by it.

    Cost: 0.15 us for each record about an ask, of which an allocation has four; 0.6 us for each other record.
    """
    of_ask = _ASK_EVENTS.get(type(fact))
    if of_ask is not None:
        return of_ask(fact, partition, first_sequence)
    build = _EVENTS.get(type(fact))
    if build is None:
        return []
    return [
        si.EventRecord(
            sequence=sequence,
            type=event.type,
            object_id=event.object_id,
            event_change_type=event.change,
            event_change_detail=event.detail,
            timestamp_nano=fact.at_ns,
            reference_id=event.reference_id,
            message=_cut(event.message),
            partition=partition,
            queue_name=event.queue,
            resource=None if event.resource is None else saturated(event.resource),
            preemption=event.preemption,
        )
        for sequence, event in enumerate(build(fact), first_sequence)
    ]


# ---- asks and allocations


def _of_application(
    fact: facts.AskAdded | facts.Released, partition: str, sequence: int, change: str, detail: str
) -> si.EventRecord:
    """About one ask or allocation of an application."""
    ask, key = fact.ask, fact.ask.allocation_key
    return si.EventRecord(
        sequence, "APP", ask.application_id, change, detail, fact.at_ns, key, "", partition, fact.queue, ask.resource
    )


def _of_wait(fact: facts.AskRemoved | facts.Allocated, partition: str, sequence: int, change: str, detail: str) -> si.EventRecord:
    """About an ask that may have waited until now."""
    ask, key, waited = fact.ask, fact.ask.allocation_key, fact.waited
    return si.EventRecord(
        sequence,
        "APP",
        ask.application_id,
        change,
        detail,
        fact.at_ns,
        key,
        "",
        partition,
        fact.queue,
        ask.resource,
        None,
        waited,  # type: ignore[arg-type]  # codes are texts
    )


def _of_node(fact: facts.Allocated | facts.NodeUseChanged, partition: str, sequence: int, change: str) -> si.EventRecord:
    """An allocation was put on its node or taken off."""
    ask, key = fact.ask, fact.ask.allocation_key
    return si.EventRecord(
        sequence, "NODE", fact.node_id, change, "NODE_ALLOC", fact.at_ns, key, "", partition, fact.queue, ask.resource
    )


def _of_charged(
    fact: facts.Allocated | facts.UsageChanged,
    partition: str,
    first: int,
    charged_to: facts.ChargedTo,
    use: tuple[str, Resource],
) -> list[si.EventRecord]:
    """The user uses more or less, and so does the group if the application is charged to one."""
    change, resource = use
    at_ns, queue, detail = fact.at_ns, fact.queue, "UG_USER_RESOURCE"
    records = []
    if charged_to.user:
        user = charged_to.user
        records = [si.EventRecord(first, "USERGROUP", user, change, detail, at_ns, queue, "", partition, queue, resource)]
    if charged_to.group:
        detail, last, group = "UG_GROUP_RESOURCE", first + len(records), charged_to.group
        records += [si.EventRecord(last, "USERGROUP", group, change, detail, at_ns, queue, "", partition, queue, resource)]
    return records


def _ask_added(fact: facts.AskAdded, partition: str, first: int) -> list[si.EventRecord]:
    return [_of_application(fact, partition, first, "ADD", "APP_REQUEST")]


def _ask_removed(fact: facts.AskRemoved, partition: str, first: int) -> list[si.EventRecord]:
    detail = "REQUEST_TIMEOUT" if fact.timed_out else "REQUEST_CANCEL"
    return [_of_wait(fact, partition, first, "REMOVE", detail)]


def _allocated(fact: facts.Allocated, partition: str, first: int) -> list[si.EventRecord]:
    """All records of a placement; without ``charged_to``, facts before it have reported node and user."""
    charged_to = fact.charged_to
    if charged_to is None:
        return [_of_wait(fact, partition, first, "ADD", "APP_ALLOC")]
    used = _of_charged(fact, partition, first + 1, charged_to, ("ADD", fact.ask.resource))
    last = first + 1 + len(used)
    return [_of_node(fact, partition, first, "ADD"), *used, _of_wait(fact, partition, last, "ADD", "APP_ALLOC")]


def _released(fact: facts.Released, partition: str, first: int) -> list[si.EventRecord]:
    detail = "ALLOC_NODEREMOVED" if fact.with_node else _RELEASE_DETAILS.get(fact.termination_type, "ALLOC_NODEREMOVED")
    return [_of_application(fact, partition, first, "REMOVE", detail)]


def _node_use_changed(fact: facts.NodeUseChanged, partition: str, first: int) -> list[si.EventRecord]:
    return [_of_node(fact, partition, first, fact.change)]


def _usage_changed(fact: facts.UsageChanged, partition: str, first: int) -> list[si.EventRecord]:
    return _of_charged(fact, partition, first, fact.charged_to, (fact.change, fact.resource))


_ASK_EVENTS: dict[type, Callable[[Any, str, int], list[si.EventRecord]]] = {
    facts.AskAdded: _ask_added,
    facts.AskRemoved: _ask_removed,
    facts.Allocated: _allocated,
    facts.Released: _released,
    facts.NodeUseChanged: _node_use_changed,
    facts.UsageChanged: _usage_changed,
}


# ---- everything else


class _Event(NamedTuple):
    """A record without the fields that all records of a fact share."""

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


def _node_added(fact: facts.NodeAdded) -> list[_Event]:
    return [_Event("NODE", fact.node_id, "ADD", message="Node added to the scheduler", resource=fact.capacity)]


def _schedulable(fact: facts.NodeSchedulable) -> _Event:
    message = f"schedulable: {'true' if fact.schedulable else 'false'}"
    return _Event("NODE", fact.node_id, "SET", "NODE_SCHEDULABLE", message=message)


def _node_removed(fact: facts.NodeRemoved) -> list[_Event]:
    return [_Event("NODE", fact.node_id, "REMOVE", "NODE_DECOMISSION", message="Node removed from the scheduler")]


def _node_attributes_changed(fact: facts.NodeAttributesChanged) -> list[_Event]:
    """The message has all attributes that the node has now."""
    message = ", ".join(f"{name}={value}" for name, value in sorted(fact.attributes.items()))
    return [_Event("NODE", fact.node_id, "SET", "NODE_ATTRIBUTES", message=message)]


def _foreign_changed(fact: facts.ForeignChanged) -> list[_Event]:
    """A foreign allocation is added or removed like any other; a resize only changes the occupied amount of the node."""
    occupied = _Event("NODE", fact.node_id, "SET", "NODE_OCCUPIED", resource=fact.occupied)
    if fact.change is Change.SET:
        return [occupied]
    moved = _Event("NODE", fact.node_id, fact.change, "NODE_ALLOC", fact.allocation_key, resource=fact.resource)
    return [moved, occupied]


def _application_came_or_went(fact: facts.ApplicationAdded | facts.ApplicationLeft, change: str, detail: str) -> list[_Event]:
    return [
        _Event("APP", fact.application_id, change, detail, queue=fact.queue),
        _Event("QUEUE", fact.queue, change, "QUEUE_APP", fact.application_id, queue=fact.queue),
    ]


def _application_rejected(fact: facts.ApplicationRejected) -> list[_Event]:
    return [
        _Event("APP", fact.application_id, "ADD", "APP_NEW"),
        _Event("APP", fact.application_id, "SET", "APP_REJECT", message=fact.reason),
    ]


def _application_changed(fact: facts.ApplicationChanged) -> list[_Event]:
    return [_Event("APP", fact.application_id, "SET", _STATE_DETAILS[fact.state], message=fact.why, queue=fact.queue)]


def _application_moved(fact: facts.ApplicationMoved) -> list[_Event]:
    """The application leaves one queue for another; the messages say that it moved and did not end."""
    left, entered = f"moved to {fact.to_queue}", f"moved from {fact.queue}"
    return [
        _Event("QUEUE", fact.queue, "REMOVE", "QUEUE_APP", fact.application_id, left, fact.queue),
        _Event("QUEUE", fact.to_queue, "ADD", "QUEUE_APP", fact.application_id, entered, fact.to_queue),
    ]


def _hold_text(fact: facts.ApplicationHeld | facts.QueueHeld) -> str:
    return f"held by {fact.by}" if fact.is_held else f"hold ended by {fact.by}"


def _application_held(fact: facts.ApplicationHeld) -> list[_Event]:
    return [_Event("APP", fact.application_id, "SET", "APP_HOLD", message=_hold_text(fact), queue=fact.queue)]


def _queue_held(fact: facts.QueueHeld) -> list[_Event]:
    return [_Event("QUEUE", fact.queue, "SET", "QUEUE_HOLD", message=_hold_text(fact), queue=fact.queue)]


def _ask_priority_changed(fact: facts.AskPriorityChanged) -> list[_Event]:
    ask, message = fact.after, f"priority {fact.before.priority} -> {fact.after.priority}"
    return [_Event("APP", ask.application_id, "SET", "APP_PRIORITY", ask.allocation_key, message, fact.queue)]


def _reservation(fact: facts.Reserved | facts.Unreserved, change: str) -> list[_Event]:
    ask = fact.ask
    return [_Event("NODE", fact.node_id, change, "NODE_RESERVATION", ask.allocation_key, "", fact.queue, ask.resource)]


def _ask_condition(fact: facts.AskCondition) -> list[_Event]:
    ask = fact.ask
    about = ask.allocation_key, "NONE", "DETAILS_NONE", ask.application_id
    return [_Event("REQUEST", *about, fact.message, fact.queue, ask.resource if fact.resource is None else fact.resource)]


def _group_link_changed(fact: facts.GroupLinkChanged) -> list[_Event]:
    return [_Event("USERGROUP", fact.group, fact.change, "UG_APP_LINK", fact.application_id, queue=fact.queue)]


def _limit_changed(fact: facts.LimitChanged) -> list[_Event]:
    detail = _PRINCIPAL_DETAILS[fact.principal.kind]
    return [_Event("USERGROUP", fact.principal.name, fact.change, detail, fact.queue, queue=fact.queue)]


def _runnable_changed(fact: facts.RunnableChanged) -> list[_Event]:
    verdict = "RUNNABLE" if fact.can_run else "CANNOTRUN"
    return [_Event("APP", fact.application_id, "NONE", f"APP_{verdict}_{fact.gate}", queue=fact.queue)]


def _preempted(fact: facts.Preempted) -> list[_Event]:
    """An entry of the preemption ledger: complete as data, and the most important parts as a sentence."""
    ask = fact.ask
    about = ask.allocation_key, "NONE", "DETAILS_NONE", ask.application_id
    return [_Event("REQUEST", *about, preemption_text(fact), fact.queue, ask.resource, preemption_entry(fact))]


def _preemption_refused(fact: facts.PreemptionRefused) -> list[_Event]:
    ask = fact.ask
    about = ask.allocation_key, "NONE", "DETAILS_NONE", ask.application_id
    return [_Event("REQUEST", *about, f"Request '{ask.allocation_key}' may not preempt: {fact.why}", fact.queue, ask.resource)]


def _queue_limit_changed(fact: facts.QueueLimitChanged) -> list[_Event]:
    return [_Event("QUEUE", fact.queue, "SET", _LIMIT_DETAILS[fact.limit], queue=fact.queue, resource=fact.resource)]


def _queue_set_changed(fact: facts.QueueAdded | facts.QueueRemoved, change: str) -> list[_Event]:
    return [_Event("QUEUE", fact.queue, change, "DETAILS_NONE" if fact.managed else "QUEUE_DYNAMIC", queue=fact.queue)]


def _queue_type_changed(fact: facts.QueueTypeChanged) -> list[_Event]:
    message = f"leaf queue: {'true' if fact.is_leaf else 'false'}"
    return [_Event("QUEUE", fact.queue, "SET", "QUEUE_TYPE", message=message, queue=fact.queue)]


def _quota_preempted(fact: facts.QuotaPreempted) -> list[_Event]:
    """PE-89."""
    amounts = f"preemptable resources: {text(fact.amount)}, claimed resources: {text(fact.claimed)}"
    victims = f"selected victims: {fact.candidates}, preempted victims: {fact.victims}"
    message = f"Quota Preemption results summary: {amounts}, {victims}"
    return [_Event("QUEUE", fact.queue, "SET", "QUEUE_PREEMPTION", message=message, queue=fact.queue, resource=fact.max)]


def _stays_above_max(fact: facts.StaysAboveMax) -> list[_Event]:
    """PE-98."""
    where = fact.queue
    return [_Event("QUEUE", where, "SET", "QUEUE_ABOVE_MAX", message=fact.reason, queue=where, resource=fact.amount)]


def _configuration_changed(fact: facts.ConfigurationChanged) -> list[_Event]:
    """The SI defines QUEUE_CONFIG but no event that uses it; here it is an event of the root queue."""
    detail = fact.reason or "; ".join(fact.changes)
    message = f"configuration {'accepted' if fact.is_accepted else 'rejected'}" + (f": {detail}" if detail else "")
    return [_Event("QUEUE", "root", "SET", "QUEUE_CONFIG", message=message, queue="root")]


def _partition_failed(fact: facts.PartitionFailed) -> list[_Event]:
    """The SI has no events about partitions; as one about the configuration, this is an event of the root queue."""
    return [_Event("QUEUE", "root", "SET", f"PARTITION_{fact.consequence}", message=fact.reason, queue="root")]


def _audited(fact: facts.Audited) -> list[_Event]:
    """The event of an act of administration, or of its refusal (EV-75)."""
    detail, change = f"AUDIT_{fact.act}", "NONE" if fact.refusal else "SET"
    return [_Event("AUDIT", fact.target, change, detail, fact.who, audit_text(fact))]


def audit_text(fact: facts.Audited) -> str:
    """An audited act for people, without what and who."""
    if fact.refusal:
        told = f"refused: {fact.refusal}"
    elif fact.act in (Act.ACCESS, Act.CERTIFICATE):  # they have no before
        told = fact.after
    else:
        told = f"{fact.before or 'nothing'} -> {fact.after or 'nothing'}"
    times = f" ({fact.times} times)" if fact.times > 1 else ""
    role = f" as {fact.role}" if fact.role else ""
    return f"from {fact.origin}{role}: {told}{times}"


_EVENTS: dict[type, Callable[[Any], list[_Event]]] = {
    facts.NodeAdded: _node_added,
    facts.NodeRemoved: _node_removed,
    facts.NodeSchedulable: lambda fact: [_schedulable(fact)],
    facts.NodeCapacityChanged: lambda fact: [_Event("NODE", fact.node_id, "SET", "NODE_CAPACITY", resource=fact.capacity)],
    facts.NodeAttributesChanged: _node_attributes_changed,
    facts.ForeignChanged: _foreign_changed,
    facts.Reserved: lambda fact: _reservation(fact, "ADD"),
    facts.Unreserved: lambda fact: _reservation(fact, "REMOVE"),
    facts.AskCondition: _ask_condition,
    facts.GroupLinkChanged: _group_link_changed,
    facts.LimitChanged: _limit_changed,
    facts.RunnableChanged: _runnable_changed,
    facts.Preempted: _preempted,
    facts.PreemptionRefused: _preemption_refused,
    facts.ApplicationAdded: lambda fact: _application_came_or_went(fact, "ADD", "APP_NEW"),
    facts.ApplicationRejected: _application_rejected,
    facts.ApplicationChanged: _application_changed,
    facts.ApplicationLeft: lambda fact: _application_came_or_went(fact, "REMOVE", "DETAILS_NONE"),
    facts.ApplicationMoved: _application_moved,
    facts.ApplicationHeld: _application_held,
    facts.QueueHeld: _queue_held,
    facts.AskPriorityChanged: _ask_priority_changed,
    facts.QueueAdded: lambda fact: _queue_set_changed(fact, "ADD"),
    facts.QueueRemoved: lambda fact: _queue_set_changed(fact, "REMOVE"),
    facts.QueueTypeChanged: _queue_type_changed,
    facts.QueueLimitChanged: _queue_limit_changed,
    facts.QuotaPreempted: _quota_preempted,
    facts.StaysAboveMax: _stays_above_max,
    facts.ConfigurationChanged: _configuration_changed,
    facts.PartitionFailed: _partition_failed,
    facts.Audited: _audited,
}


#: Victims that the sentence names; the entry has all.
_NAMED_MAX = 5


def preemption_entry(fact: Preempted) -> si.Preemption:
    """The complete entry."""
    return si.Preemption(
        node_id=fact.node_id,
        kind=fact.kind,
        why=fact.why,
        victims=[
            si.PreemptionVictim(queue_name=queue, application_id=application_id, allocation_key=key)
            for queue, application_id, key in fact.victims
        ],
        shares_before={path: round(share, 4) for path, share in fact.shares_before.items()},
        shares_after={path: round(share, 4) for path, share in fact.shares_after.items()},
        rejected=[si.Alternative(node_id=node_id, reason=reason) for node_id, reason in fact.rejected],
        work_lost=saturated(fact.work_lost),
    )


def preemption_text(fact: Preempted) -> str:
    """The victims, what allows the preemption, the work lost, the change of shares, and the nodes not chosen."""
    who = some([f"{key} of {app} in {queue}" for queue, app, key in fact.victims], _NAMED_MAX)
    shares = ", ".join(f"{path} {share:.2f} to {fact.shares_after[path]:.2f}" for path, share in fact.shares_before.items())
    parts = [
        f"Request '{fact.ask.allocation_key}' preempts {who} on node {fact.node_id}: {fact.why}",
        f"work lost (resources times seconds) {amounts(fact.work_lost)}",
        f"used parts of guarantees {shares}" if shares else "",
        *(f"not {node_id}: {reason}" for node_id, reason in fact.rejected),
    ]
    return "; ".join(filter(None, parts))


# ---- the objects that events are about, by which the history in a journal is searched

#: The type of the events of the audit, which are also about the audit itself: so it is found by this name.
AUDIT = "AUDIT"


def mentioned(events: Iterable[si.EventRecord]) -> set[str]:
    """The names of all objects that some events are about.

    An event is about its object, its reference, its queue and all queues above it. A preemption is also about its node, its
    victims, and their applications and queues. One of the audit is also about ``AUDIT``.

    Cost: 0.2 us for each event.
    """
    names: set[str] = set()
    paths: set[str] = set()
    for event in events:
        names.add(event.object_id)
        names.add(event.reference_id)
        paths.add(event.queue_name)
        if event.preemption is not None:
            names.update(_names_of(event.preemption))
            paths.update(victim.queue_name for victim in event.preemption.victims)
        if event.type == AUDIT:
            names.add(AUDIT)
    for path in paths:
        while path:
            names.add(path)
            path = path.rpartition(".")[0]
    names.discard("")
    return names


def _names_of(entry: si.Preemption) -> Iterator[str]:
    yield entry.node_id
    for victim in entry.victims:
        yield victim.allocation_key
        yield victim.application_id
