"""The events that a limited reader gets, and their visible fields (SE-81 to SE-83).

The table of kinds says how much of each is seen; an event of another kind is hidden. An event with less in it is made of fields
that name nothing but the objects of its own queue. A text that names more is replaced by one that is made of such fields; it is
never cut, because what it names is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import structs

from ykactor.core.waiting.reasons import AN_OPERATOR
from ykactor.wire.si.kinds import KINDS, Seen
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


_RULES: dict[Seen, Rule] = {
    Seen.WHOLE: _whole,
    Seen.NOTHING: _hidden,
    Seen.NO_TEXT: _without_text,
    Seen.STATE: _of_state,
    Seen.HOLD: _of_hold,
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
