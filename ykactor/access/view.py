"""The view of a reader that is limited to queues: the events and the state that it may see (SE-83, SE-84).

Of each struct of the read model (``core.inspection``) it gets the fields that are listed there for it: a new field is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import cached_property
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from ykactor.access.model import Identity, is_below
from ykactor.core.accounting.past import NO_TYPE, History, total
from ykactor.core.inspection import application_status
from ykactor.core.inspection.application_status import (
    OF_THE_ASKS,
    ApplicationDetails,
    ApplicationStatus,
    AsksPart,
    PendingStatus,
    RecordStatus,
)
from ykactor.core.inspection.partition_status import LimitStatus, PartitionStatus
from ykactor.core.inspection.queue_status import (
    OF_THE_QUEUE,
    QueueStatus,
    actual_guaranteed,
    effective_priority,
    headroom,
    held_with,
    parent_path,
)
from ykactor.core.inspection.shown import Held, Shown, ShownT, only
from ykactor.core.messages.acts import AN_OPERATOR
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.states import ApplicationState
from ykactor.core.values.ids import NodeID
from ykactor.core.values.names import Names
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, saturated_and_pruned
from ykactor.core.waiting.reasons import PendingCause, Place, without_others
from ykactor.wire.si.kinds import KINDS, Seen
from ykactor.wire.si.messages import EventRecord, Preemption

_MS_NS = 10**6
#: An entry of an application takes as long as so many others.
_APPLICATION_ITEMS = 2
#: A group of its pending asks too, for which a sentence is made.
_GROUP_ITEMS = 7

#: It is in no queue; its ``queue_name`` is the one that it was meant for, by whomever.
_REJECTED = ApplicationState.REJECTED.value

#: True if a queue is in view, a path in lower case.
ShowsQueue = Callable[[str], bool]


def cut(state: PartitionStatus, shows_queue: ShowsQueue) -> Steps[PartitionStatus]:
    """A new state with the queues that are shown, their applications and their limits. Pauses every few ms."""
    queues: dict[str, QueueStatus] = {}
    for path, queue in state.queues.items():  # parents before children
        if shows_queue(path):
            queues[path] = _of_queue(queue, parent_path(path), queues)
        yield 1
    applications: dict[str, ApplicationStatus] = {}
    for name, application in state.applications.items():
        if application.state != _REJECTED and shows_queue(application.queue_name):
            applications[name] = _of_application(application, queues, shows_queue)
        yield _APPLICATION_ITEMS + _GROUP_ITEMS * len(application.pending or ()) + len(application.records or ())
    limits: list[LimitStatus] = []
    for limit in state.limits:
        if shows_queue(limit.queue):
            limits.append(limit)
        yield 1
    asks = UNSET if state.pending_asks is UNSET else (yield from _of_asks(state.pending_asks, applications))
    return PartitionStatus(name=state.name, queues=queues, applications=applications, limits=limits, pending_asks=asks)


def _of_asks(parts: Mapping[str, AsksPart], applications: Container[str]) -> Steps[dict[str, AsksPart]]:
    """The parts of these applications, numbered anew: the numbers would tell how many others there are."""
    found: dict[str, AsksPart] = {}
    for part in parts.values():
        if part.application_id in applications:
            found[str(len(found))] = part
        yield 1
    return found


def _of_queue(queue: QueueStatus, above: str, queues: Mapping[str, QueueStatus]) -> QueueStatus:
    """The fields that depend on the queues above, as if the highest shown queue were the root; ``queues`` as they are shown."""
    parent = queues.get(above)
    return only(
        queue,
        OF_THE_QUEUE,
        headroom=headroom(queue.max, queue.allocated, parent),
        actual_guaranteed=actual_guaranteed(queue.guaranteed, parent),
        held=_of_hold(queue.held),
        held_with=held_with(above, queues),
    )


def _of_application(
    application: ApplicationStatus, queues: Mapping[str, QueueStatus], shows_queue: ShowsQueue
) -> ApplicationStatus:
    path, own = application.queue_name, application.priority
    return only(
        application,
        application_status.OF_THE_APPLICATION,
        **_times(application, application_status.TIMES),
        held=_of_hold(application.held),
        reason=application.reason if application.reason in STATE_CAUSES else UNSET,
        records=UNSET
        if application.records is UNSET
        else [record_in_view(record, shows_queue) for record in application.records],
        pending=UNSET
        if application.pending is UNSET
        else [_of_pending(group, path, queues, shows_queue) for group in application.pending],
        effective_priority=UNSET if own is UNSET else effective_priority(own, path, queues),
        held_with=UNSET if own is UNSET else held_with(path, queues),
    )


def record_in_view(record: RecordStatus, shows_queue: ShowsQueue) -> RecordStatus:
    """The record of a task of an application that is shown; it may have run in a queue that is hidden."""
    queue = record.queue_name
    seen = UNSET if queue is UNSET or not shows_queue(queue) else queue
    times = _times(record, application_status.RECORD_TIMES)
    return only(record, application_status.OF_THE_RECORD, queue_name=seen, **times)


def _times(shown: Shown, fields: Iterable[str]) -> dict[str, int | UnsetType]:
    return {name: _rough(getattr(shown, name)) for name in fields}


def in_whole_ms(shown: ShownT, fields: Iterable[str]) -> ShownT:
    """The same object with these times in whole milliseconds."""
    return structs.replace(shown, **_times(shown, fields))


def details_in_view(details: ApplicationDetails) -> ApplicationDetails:
    """The details of an application that is shown: a limited reader sees no nodes, and so no types of them."""
    return structs.replace(
        details,
        states=[in_whole_ms(state, ["time"]) for state in details.states],
        backoff_end=_rough(details.backoff_end),
        used=_of_all_types(details.used),
        preempted=_of_all_types(details.preempted),
        placeholders=_of_all_types(details.placeholders),
    )


def _of_all_types(history: History) -> History:
    return {NO_TYPE: saturated_and_pruned(total(history))} if history else {}


def _of_hold(hold: Held | UnsetType) -> Held | UnsetType:
    """The hold with its time only; the audit tells by whom."""
    return UNSET if hold is UNSET else Held(by=AN_OPERATOR, since=hold.since - hold.since % _MS_NS)


def _of_pending(group: PendingStatus, path: str, queues: Mapping[str, QueueStatus], shows_queue: ShowsQueue) -> PendingStatus:
    place = None if group.place is UNSET else place_in_view(group.place, shows_queue)
    left_out: dict[NodeID, int] = {node_id: _rough(until_ns) for node_id, until_ns in (group.left_out or {}).items()}
    return only(
        group,
        OF_THE_ASKS,
        reason=without_others(PendingCode(group.code), place, group.resource, left_out),
        place=UNSET if place is None else place,
        left_out=left_out or UNSET,
        creation_times=[*map(_rough, group.creation_times)],
        oldest_time=_rough(group.oldest_time),
        last_attempt=_rough(group.last_attempt),
        next_attempt=_rough(group.next_attempt),
        effective_priority=effective_priority(group.priority, path, queues),
    )


def place_in_view(place: Place, shows_queue: ShowsQueue) -> Place:
    """The place where an ask is kept back: its path is known from its own queue, numbers of a hidden queue are of others."""
    return place if shows_queue(place.queue_name) else structs.replace(place, used=None, max=None)


def _rough(time_ns: Any) -> Any:
    """The time in whole milliseconds: arrivals of one moment differ by one nanosecond each, which would tell their number."""
    return time_ns - time_ns % _MS_NS if time_ns else time_ns


#: Places of which a view remembers what it shows there; more take 1 us for each event.
_PLACES_MAX = 10_000


class View(Struct, frozen=True, dict=True):
    """The visible part of events and states. Equal views show the same.

    Attributes:
        partitions: in lower case.
        queues: in lower case; these and what is below, and nothing that is in no queue. None: all of the partitions.
    """

    partitions: Names
    queues: frozenset[str] | None

    def of_event(self, event: EventRecord) -> EventRecord | None:
        """The event itself, a new one with less in it, or None: the event is hidden. Cost: 0.3 us for nearly all."""
        place = event.partition, event.queue_name
        rules = self._rules.get(place)
        if rules is None:
            rules = self._remember(*place)
        rule = rules.get((event.type, event.event_change_detail))
        return None if rule is None else rule(self, event)

    def of_state(self, state: PartitionStatus) -> Steps[PartitionStatus]:
        """The visible part of the state of a partition, which has to be one that is shown; ``state`` stays as it is."""
        if self.queues is None:
            return state
        return (yield from cut(state, self.shows_queue))

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        """The reason of a pending ask that wants so much, in base units, as far as it is shown (SE-84)."""
        place = None if cause.place is None else place_in_view(cause.place, self.shows_queue)
        return without_others(cause.code, place, wanted, cause.left_out)

    def queue(self, status: QueueStatus, above: str, queues: Mapping[str, QueueStatus]) -> QueueStatus:
        """The part of the status of a queue in view that is shown, below the queues in view."""
        return _of_queue(status, above, queues)

    def shows_partition(self, partition: str) -> bool:
        """True if anything of the partition is shown."""
        return partition.lower() in self.partitions

    def shows_queue(self, queue: str) -> bool:
        """True if the queue, a path in lower case, is shown where its partition is; "" stands for what is in no queue."""
        return self.queues is None or is_below(queue, self.queues)

    def _remember(self, partition: str, queue: str) -> Rules:
        if len(self._rules) >= _PLACES_MAX:
            self._rules.clear()
        rules = self._rules[partition, queue] = self._find_rules(partition, queue)
        return rules

    def _find_rules(self, partition: str, queue: str) -> Rules:
        if not self.shows_partition(partition):
            return {}
        if self.queues is None:
            return IN_PARTITION
        return IN_QUEUE if self.shows_queue(queue) else OUT_OF_QUEUES

    @cached_property
    def _rules(self) -> dict[tuple[str, str], Rules]:
        """The rules by partition and queue."""
        return {}


def view_of(identity: Identity) -> View | None:
    """The view of the identity as a reader; None: everything."""
    if identity.queues is None and identity.partitions.is_any:
        return None
    return View(identity.partitions, identity.queues)


# ---- events

#: The event, one with less in it, or None.
Rule = Callable[[View, EventRecord], EventRecord | None]
#: The rules of events, by type and detail.
Rules = Mapping[tuple[str, str], Rule]

#: Why an application changed its state (AP-95); no other text is shown.
STATE_CAUSES = frozenset(("PartitionRemoved", "ExecutionTimeout", "Terminated", "ResourceReservationTimeout"))
#: The beginnings of texts about asks (EV-71) that name only the ask and its queue. The first that fits is shown.
ASK_TEXTS = (
    "Request '{key}' does not fit in queue '{queue}'",
    "Request '{key}' has become schedulable in queue '{queue}'",
    "Request '{key}' exceeds the available user quota",
    "Request '{key}' fits in the available user quota",
    "Request '{key}' may not preempt",
    "Request '{key}' preempts",
    "Request '{key}' could not start",
    "Unschedulable request '{key}'",
    "Preempted by Quota change enforcement process",
    "Preempted",
)
#: How the texts of a move begin, each with the queue behind it, and what stands for that queue where it is hidden (EV-73).
_MOVES = {"moved to ": "moved out of view", "moved from ": "moved into view"}


def _whole(view: View, event: EventRecord) -> EventRecord:
    return event


def _hidden(view: View, event: EventRecord) -> None:
    return None


def _with_text(event: EventRecord, text: str) -> EventRecord:
    return event if event.message == text else structs.replace(event, message=text)


def _without_text(view: View, event: EventRecord) -> EventRecord:
    return _with_text(event, "")


def _of_state(view: View, event: EventRecord) -> EventRecord:
    return event if event.message in STATE_CAUSES else _with_text(event, "")


def _of_hold_event(view: View, event: EventRecord) -> EventRecord:
    """Held, or no longer; the audit tells by whom."""
    texts = (beginning for beginning in ("held by ", "hold ended by ") if event.message.startswith(beginning))
    return _with_text(event, "".join(f"{beginning}{AN_OPERATOR}" for beginning in texts))


def _of_queue_type(view: View, event: EventRecord) -> EventRecord:
    return event if event.message in ("leaf queue: true", "leaf queue: false") else _with_text(event, "")


def _of_application_in_queue(view: View, event: EventRecord) -> EventRecord:
    """The application was added or left, or it moved, perhaps from or to a queue that is hidden."""
    for beginning, hidden in _MOVES.items():
        if event.message.startswith(beginning):
            other = event.message.removeprefix(beginning)
            return event if view.shows_queue(other) else _with_text(event, hidden)
    return _with_text(event, "")


def _of_ask(view: View, event: EventRecord) -> EventRecord:
    names = {"key": event.object_id, "queue": event.queue_name}
    texts = (text.format(**names) for text in ASK_TEXTS)
    text = next((text for text in texts if event.message.startswith(text)), "")
    if event.preemption is None:
        return _with_text(event, text)
    return structs.replace(event, message=text, preemption=_of_preemption(view, event.preemption))


def _of_preemption(view: View, entry: Preemption) -> Preemption:
    """The kind, the node, and the victims that are shown. All else tells of others: it sums up all victims, or names them."""
    victims = [victim for victim in entry.victims if view.shows_queue(victim.queue_name)]
    return Preemption(node_id=entry.node_id, kind=entry.kind, why="", victims=victims)


_RULES: dict[Seen, Rule] = {
    Seen.WHOLE: _whole,
    Seen.NOTHING: _hidden,
    Seen.NO_TEXT: _without_text,
    Seen.STATE: _of_state,
    Seen.HOLD: _of_hold_event,
    Seen.QUEUE_TYPE: _of_queue_type,
    Seen.QUEUE_APP: _of_application_in_queue,
    Seen.ASK: _of_ask,
}

#: The events of queues in view. The queue of an event about a node is that of the ask.
IN_QUEUE: Rules = {(kind.type, kind.detail): _RULES[kind.seen] for kind in KINDS}
#: The events where only partitions are limited.
IN_PARTITION: Rules = {(kind.type, kind.detail): _RULES[kind.in_partition] for kind in KINDS}
#: The visible events of a partition as a whole.
OUT_OF_QUEUES: Rules = {key: rule for key, rule in IN_QUEUE.items() if key[1].startswith("PARTITION_")}
