"""What a reader that is limited to queues sees of the state of a partition (SE-84).

The sections of ``core.inspection.snapshot``, each made of the fields that are listed here: a new section or field is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ykactor.core.messages.states import ApplicationState
from ykactor.core.quota.headroom import left_of
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, min_union

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
)
#: Without ``reason``, which may name anything, and without times (``_rough``).
PENDING_FIELDS = ("count", "priority", "resource", "allocationKeys")
ATTEMPT_FIELDS = ("lastAttempt", "nextAttempt")
LIMIT_FIELDS = ("queue", "whose", "max", "allocated", "maxApplications", "applications")

_MS_NS = 10**6
#: An entry of an application takes as long as so many others.
_APPLICATION_ITEMS = 2

#: It is in no queue; its ``queueName`` is the one that it was meant for, by whomever.
_REJECTED = ApplicationState.REJECTED.value

_Entry = dict[str, Any]


def cut(state: _Entry, shows_queue: Callable[[str], bool]) -> Pausing[_Entry]:
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
            applications[name] = _of_application(application)
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    limits = []
    for limit in state["limits"]:
        if shows_queue(limit["queue"]):
            limits.append(_only(limit, LIMIT_FIELDS))
        if pace.is_due():
            yield ()
    return {"name": state["name"], "queues": queues, "applications": applications, "nodes": {}, "limits": limits}


def _of_queue(queue: _Entry, parent: _Entry | None) -> _Entry:
    """``headroom`` and ``actualGuaranteed`` as if the highest queue that is shown were the root; ``parent`` as it is shown."""
    left = left_of(queue["max"], queue["allocated"])
    return {
        **_only(queue, QUEUE_FIELDS),
        "headroom": _smaller(left, parent, "headroom"),
        "actualGuaranteed": _smaller(queue["guaranteed"], parent, "actualGuaranteed"),
    }


def _smaller(own: Resource | None, parent: _Entry | None, field: str) -> Resource | None:
    return min_union(own, parent[field] if parent is not None else None)


def _of_application(application: _Entry) -> _Entry:
    shown = _only(application, APPLICATION_FIELDS)
    if "pending" in application:  # it has not ended
        shown["submissionTime"] = _rough(application["submissionTime"])
        shown["pending"] = [_of_pending(group) for group in application["pending"]]
    return shown


def _of_pending(group: _Entry) -> _Entry:
    attempts = {field: time and _rough(time) for field, time in _only(group, ATTEMPT_FIELDS).items()}
    return {"reason": "", **_only(group, PENDING_FIELDS), "creationTimes": [*map(_rough, group["creationTimes"])], **attempts}


def _rough(time_ns: int) -> int:
    """In whole milliseconds: what arrives together has one nanosecond after another, which would tell how much there was."""
    return time_ns - time_ns % _MS_NS


def _only(entry: _Entry, fields: Iterable[str]) -> _Entry:
    return {field: entry[field] for field in fields if field in entry}
