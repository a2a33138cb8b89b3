"""The view of a reader that is limited to queues: the events and the state that it may see (SE-83, SE-84).

The sections of ``core.inspection.snapshot``, each made of the fields that are listed here: a new section or field is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import cached_property
from typing import Any

from msgspec import Struct, convert, structs, to_builtins

from ykactor.access.event_rules import IN_PARTITION, IN_QUEUE, OUT_OF_QUEUES, STATE_CAUSES, Rules
from ykactor.access.model import Identity, is_below
from ykactor.core.messages.pending_causes import PendingCause, PendingCode, Place
from ykactor.core.messages.reasons import AN_OPERATOR, without_others
from ykactor.core.messages.states import ApplicationState
from ykactor.core.quota.headroom import left_of
from ykactor.core.values.names import Names
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, min_union
from ykactor.wire.si.messages import EventRecord

#: Of the queue alone; what also depends on the queues above it is computed again or left out.
QUEUE_FIELDS = (
    "allocated",
    "pending",
    "priority",
    "state",
    "isManaged",
    "max",
    "guaranteed",
    "maxApplications",
    "runningApplications",
    "isLeaf",
    "sortPolicy",
    "priorityPolicy",
    "priorityOffset",
    "preemptionPolicy",
    "quotaPreemptionStartTime",
)
APPLICATION_FIELDS = (
    "state",
    "queueName",
    "user",
    "groups",
    "priority",
    "allocated",
    "allocations",
    "replacing",
    "usedSeconds",
    "lostSeconds",
)
APPLICATION_TIMES = ("submissionTime", "startTime", "finishedTime")
RECORD_FIELDS = ("allocationKey", "nodeID", "state", "exitCode", "signal", "peakMemory")
RECORD_TIMES = ("startTime", "finishedTime")
#: Without ``reason``, ``place``, ``leftOut`` and times, which are made anew.
PENDING_FIELDS = ("code", "count", "priority", "resource", "allocationKeys")
ATTEMPT_FIELDS = ("lastAttempt", "nextAttempt")
LIMIT_FIELDS = ("queue", "whose", "max", "allocated", "maxApplications", "applications")

_MS_NS = 10**6
#: An entry of an application takes as long as so many others.
_APPLICATION_ITEMS = 2
#: A group of its pending asks too, for which a sentence is made.
_GROUP_ITEMS = 7

#: It is in no queue; its ``queueName`` is the one that it was meant for, by whomever.
_REJECTED = ApplicationState.REJECTED.value

_Entry = dict[str, Any]
#: Whether a queue is in view, a path in lower case.
ShowsQueue = Callable[[str], bool]


def cut(state: _Entry, shows_queue: ShowsQueue) -> Pausing[_Entry]:
    """A new state with the queues that are shown, their applications and their limits. Pauses every few ms."""
    pace = Pace()
    queues: dict[str, _Entry] = {}
    for path, queue in state["queues"].items():  # parents before children
        if shows_queue(path):
            queues[path] = _of_queue(queue, queues.get(path.rpartition(".")[0]))
        if pace.is_due():
            yield ()
    applications: dict[str, _Entry] = {}
    for name, application in state["applications"].items():
        if application["state"] != _REJECTED and shows_queue(application["queueName"]):
            applications[name] = _of_application(application, shows_queue)
        if pace.is_due(
            _APPLICATION_ITEMS + _GROUP_ITEMS * len(application.get("pending", ())) + len(application.get("records", ()))
        ):
            yield ()
    limits = []
    for limit in state["limits"]:
        if shows_queue(limit["queue"]):
            limits.append(_only(limit, LIMIT_FIELDS))
        if pace.is_due():
            yield ()
    shown: _Entry = {"name": state["name"], "queues": queues, "applications": applications, "limits": limits}
    if "pendingAsks" in state:
        shown["pendingAsks"] = yield from _of_asks(state["pendingAsks"], applications)
    return shown


def _of_asks(parts: _Entry, applications: Container[str]) -> Pausing[_Entry]:
    """The parts of these applications, numbered anew: the numbers would tell how many others there are."""
    found: _Entry = {}
    pace = Pace()
    for part in parts.values():
        if part["applicationID"] in applications:
            found[str(len(found))] = part
        if pace.is_due():
            yield ()
    return found


def _of_queue(queue: _Entry, parent: _Entry | None) -> _Entry:
    """``headroom`` and ``actualGuaranteed`` as if the highest queue that is shown were the root; ``parent`` as it is shown."""
    left = left_of(queue["max"], queue["allocated"])
    return {
        **_only(queue, QUEUE_FIELDS),
        **_of_hold(queue),
        "headroom": _smaller(left, parent, "headroom"),
        "actualGuaranteed": _smaller(queue["guaranteed"], parent, "actualGuaranteed"),
    }


def _smaller(own: Resource | None, parent: _Entry | None, field: str) -> Resource | None:
    return min_union(own, parent[field] if parent is not None else None)


def _of_application(application: _Entry, shows_queue: ShowsQueue) -> _Entry:
    shown = _only(application, APPLICATION_FIELDS) | _of_hold(application)
    shown |= _times(application, APPLICATION_TIMES)
    if application.get("reason") in STATE_CAUSES:
        shown["reason"] = application["reason"]
    if "records" in application:
        shown["records"] = [_only(record, RECORD_FIELDS) | _times(record, RECORD_TIMES) for record in application["records"]]
    if "pending" in application:  # it has not ended
        shown["pending"] = [_of_pending(group, shows_queue) for group in application["pending"]]
    return shown


def _times(entry: _Entry, fields: Iterable[str]) -> _Entry:
    return {field: _rough(time_ns) for field, time_ns in _only(entry, fields).items()}


def _of_hold(holder: _Entry) -> _Entry:
    """Since when it is held; the audit tells by whom."""
    return {"held": {"by": AN_OPERATOR, "since": _rough(holder["held"]["since"])}} if "held" in holder else {}


def _of_pending(group: _Entry, shows_queue: ShowsQueue) -> _Entry:
    place = place_in_view(convert(group["place"], Place), shows_queue) if "place" in group else None
    left_out = {node_id: _rough(until_ns) for node_id, until_ns in group.get("leftOut", {}).items()}
    reason = without_others(PendingCode(group["code"]), place, group["resource"], left_out)
    attempts = {field: time and _rough(time) for field, time in _only(group, ATTEMPT_FIELDS).items()}
    return {
        "reason": reason,
        **_only(group, PENDING_FIELDS),
        **({} if place is None else {"place": to_builtins(place)}),
        **({"leftOut": left_out} if left_out else {}),
        "creationTimes": [*map(_rough, group["creationTimes"])],
        **attempts,
    }


def place_in_view(place: Place, shows_queue: ShowsQueue) -> Place:
    """Where an ask is kept back: its path is known from its own queue, numbers of a queue that is hidden are those of others."""
    return place if shows_queue(place.queue_name) else structs.replace(place, used=None, max=None)


def _rough(time_ns: int) -> int:
    """In whole milliseconds: what arrives together has one nanosecond after another, which would tell how much there was."""
    return time_ns - time_ns % _MS_NS


def _only(entry: _Entry, fields: Iterable[str]) -> _Entry:
    return {field: entry[field] for field in fields if field in entry}


#: Places of which a view remembers what it shows there; more take 1 us for each event.
_PLACES_MAX = 10_000


class View(Struct, frozen=True, dict=True):
    """What is shown of events and states. Equal views show the same.

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

    def of_state(self, state: dict[str, Any]) -> Pausing[dict[str, Any]]:
        """What is shown of the state of a partition, which has to be one that is shown; ``state`` stays as it is."""
        if self.queues is None:
            return state
        return (yield from cut(state, self.shows_queue))

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        """Why an ask is pending that wants so much, base units, as far as it is shown (SE-84)."""
        place = None if cause.place is None else place_in_view(cause.place, self.shows_queue)
        return without_others(cause.code, place, wanted, cause.left_out)

    def shows_partition(self, partition: str) -> bool:
        """Whether anything of the partition is shown."""
        return partition.lower() in self.partitions

    def shows_queue(self, queue: str) -> bool:
        """Whether the queue is shown, a path in lower case, where its partition is; "" stands for what is in no queue."""
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
        """By partition and queue."""
        return {}


def view_of(identity: Identity) -> View | None:
    """What the identity sees as a reader; None: everything."""
    if identity.queues is None and identity.partitions.is_any:
        return None
    return View(identity.partitions, identity.queues)
