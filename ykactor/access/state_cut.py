"""What a reader that is limited to queues sees of the state of a partition (SE-84).

The sections of ``core.inspection.snapshot``, each made of the fields that are listed here: a new section or field is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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
    "quotaPreemptionStartTime",
)
APPLICATION_FIELDS = (
    "state",
    "queueName",
    "user",
    "groups",
    "submissionTime",
    "priority",
    "allocated",
    "replacing",
)
#: Without ``reason``, which may name anything.
PENDING_FIELDS = ("count", "resource", "allocationKeys", "creationTimes", "lastAttempt", "nextAttempt")
LIMIT_FIELDS = ("queue", "whose", "max", "allocated", "maxApplications", "applications")

#: An entry of an application takes as long as so many others.
_APPLICATION_ITEMS = 2

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
        if shows_queue(application["queueName"]):
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
        shown["pending"] = [{"reason": "", **_only(group, PENDING_FIELDS)} for group in application["pending"]]
    return shown


def _only(entry: _Entry, fields: Iterable[str]) -> _Entry:
    return {field: entry[field] for field in fields if field in entry}
