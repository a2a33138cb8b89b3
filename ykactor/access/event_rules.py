"""The events that a limited reader gets, and their visible fields (SE-81 to SE-83).

Each kind of event has an entry, and without one it is hidden. An event with less in it is made of fields that name nothing but
the objects of its own queue. A text that names more is replaced by one that is made of such fields; it is never cut, because
what it names is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import structs

from ykactor.core.waiting.reasons import AN_OPERATOR
from ykactor.wire.si.kinds import EVENT_KINDS
from ykactor.wire.si.messages import EventRecord, Preemption


class Shown(Protocol):
    """The rest of the view."""

    def shows_queue(self, queue: str) -> bool:
        """True if the queue of the event's partition is shown."""


#: The event, one with less in it, or None.
Rule = Callable[[Shown, EventRecord], EventRecord | None]
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


def _whole(view: Shown, event: EventRecord) -> EventRecord:
    return event


def _hidden(view: Shown, event: EventRecord) -> None:
    return None


def _with_text(event: EventRecord, text: str) -> EventRecord:
    return event if event.message == text else structs.replace(event, message=text)


def _without_text(view: Shown, event: EventRecord) -> EventRecord:
    return _with_text(event, "")


def _of_state(view: Shown, event: EventRecord) -> EventRecord:
    return event if event.message in STATE_CAUSES else _with_text(event, "")


def _of_hold(view: Shown, event: EventRecord) -> EventRecord:
    """Held, or no longer; the audit tells by whom."""
    texts = (beginning for beginning in ("held by ", "hold ended by ") if event.message.startswith(beginning))
    return _with_text(event, "".join(f"{beginning}{AN_OPERATOR}" for beginning in texts))


def _of_queue_type(view: Shown, event: EventRecord) -> EventRecord:
    return event if event.message in ("leaf queue: true", "leaf queue: false") else _with_text(event, "")


def _of_application_in_queue(view: Shown, event: EventRecord) -> EventRecord:
    """The application was added or left, or it moved, perhaps from or to a queue that is hidden."""
    for beginning, hidden in _MOVES.items():
        if event.message.startswith(beginning):
            other = event.message.removeprefix(beginning)
            return event if view.shows_queue(other) else _with_text(event, hidden)
    return _with_text(event, "")


def _of_ask(view: Shown, event: EventRecord) -> EventRecord:
    names = {"key": event.object_id, "queue": event.queue_name}
    texts = (text.format(**names) for text in ASK_TEXTS)
    text = next((text for text in texts if event.message.startswith(text)), "")
    if event.preemption is None:
        return _with_text(event, text)
    return structs.replace(event, message=text, preemption=_of_preemption(view, event.preemption))


def _of_preemption(view: Shown, entry: Preemption) -> Preemption:
    """The kind, the node, and the victims that are shown. All else tells of others: it sums up all victims, or names them."""
    victims = [victim for victim in entry.victims if view.shows_queue(victim.queue_name)]
    return Preemption(node_id=entry.node_id, kind=entry.kind, why="", victims=victims)


def _rules(kind: str, rule: Rule, details: str) -> dict[tuple[str, str], Rule]:
    return {(kind, detail): rule for detail in details.split()}


#: The visible events of a partition as a whole: without texts, which may be about anything.
OUT_OF_QUEUES: Rules = _rules("QUEUE", _without_text, "PARTITION_QUARANTINED PARTITION_RESTARTED PARTITION_STOPPED")

#: The audit tells of all queues and partitions, and of other identities.
AUDIT: Rules = _rules("AUDIT", _hidden, " ".join(EVENT_KINDS["AUDIT"]))

#: The visible events of the queues in view. The queue of an event about a node is that of the ask.
IN_QUEUE: Rules = {
    **OUT_OF_QUEUES,
    **_rules("APP", _whole, "DETAILS_NONE APP_NEW APP_REQUEST APP_ALLOC"),
    **_rules("APP", _of_state, "APP_ACCEPTED APP_STARTING APP_RUNNING APP_COMPLETING APP_COMPLETED APP_FAILING APP_FAILED"),
    **_rules("APP", _of_state, "APP_RESUMING APP_EXPIRED"),
    **_rules("APP", _without_text, "APP_REJECT"),
    **_rules("APP", _of_hold, "APP_HOLD"),
    **_rules("APP", _whole, "APP_PRIORITY"),
    **_rules("APP", _whole, "APP_CANNOTRUN_QUEUE APP_CANNOTRUN_QUOTA APP_RUNNABLE_QUEUE APP_RUNNABLE_QUOTA"),
    **_rules("APP", _whole, "ALLOC_CANCEL ALLOC_NODEREMOVED ALLOC_PREEMPT ALLOC_REPLACED ALLOC_TIMEOUT"),
    **_rules("APP", _whole, "REQUEST_CANCEL REQUEST_TIMEOUT"),
    **_rules("NODE", _whole, "NODE_ALLOC NODE_RESERVATION"),
    **_rules("NODE", _hidden, "DETAILS_NONE NODE_ATTRIBUTES NODE_CAPACITY NODE_DECOMISSION NODE_OCCUPIED NODE_SCHEDULABLE"),
    **_rules("QUEUE", _whole, "DETAILS_NONE QUEUE_DYNAMIC QUEUE_GUARANTEED QUEUE_MAX QUEUE_PREEMPTION"),
    **_rules("QUEUE", _of_queue_type, "QUEUE_TYPE"),
    **_rules("QUEUE", _of_application_in_queue, "QUEUE_APP"),
    **_rules("QUEUE", _of_hold, "QUEUE_HOLD"),
    **_rules("QUEUE", _hidden, "QUEUE_ABOVE_MAX QUEUE_CONFIG"),  # the first depends on the guarantees of queues above
    **_rules("REQUEST", _of_ask, "DETAILS_NONE"),
    **AUDIT,
    **_rules("USERGROUP", _whole, "UG_APP_LINK UG_GROUP_LIMIT UG_GROUP_RESOURCE UG_USER_LIMIT UG_USER_RESOURCE"),
}

#: The visible events where only partitions are limited: all but texts that may be about another partition.
IN_PARTITION: Rules = {
    **dict.fromkeys(IN_QUEUE, _whole),
    **OUT_OF_QUEUES,
    **_rules("QUEUE", _without_text, "QUEUE_CONFIG"),
    **AUDIT,
}
