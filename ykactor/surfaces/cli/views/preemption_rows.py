"""Preemptions as rows, from the events that tell of them and of what became of them: no other record is kept."""

from __future__ import annotations

from typing import Any

import msgspec

from ykactor.core.messages.kinds import PreemptionKind
from ykactor.core.messages.reasons import PREEMPTED_BY_QUOTA
from ykactor.surfaces.cli.views.listing import Row
from ykactor.wire.si import messages as si

#: The events that ``PreemptionRows`` has to see.
KINDS = [
    "REQUEST",
    "QUEUE_ABOVE_MAX",
    "QUEUE_PREEMPTION",
    "APP_ALLOC",
    "ALLOC_CANCEL",
    "ALLOC_NODEREMOVED",
    "ALLOC_PREEMPT",
    "ALLOC_REPLACED",
    "ALLOC_TIMEOUT",
    "REQUEST_CANCEL",
    "REQUEST_TIMEOUT",
]

#: Partition, application, and key of an ask or a task.
_Task = tuple[str, str, str]


class PreemptionRows:
    """Reads events in their order.

    Attributes:
        rows: the oldest first. ``kind`` as in PE-90; ``released`` counts the victims that have ended; ``outcome`` is that of the
            ask: ``pending``, ``placed``, ``cancelled``, or ``repeated`` if it has preempted again. In a queue above its max there
            is no ask, and it is ``pending`` or ``released``, or ``stays`` if the queue stays above its max without victims.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        #: Those whose ask waits.
        self._of_ask: dict[_Task, Row] = {}
        #: Those whose victim has not ended.
        self._of_victim: dict[_Task, Row] = {}
        #: By partition and queue above its max: victims whose preemption is told next.
        self._chosen: dict[tuple[str, str], list[dict[str, str]]] = {}

    def read(self, event: si.EventRecord) -> None:
        """The next event."""
        if event.preemption is not None:
            self._add_of_ask(event, event.preemption)
        elif event.event_change_detail == "QUEUE_PREEMPTION":
            self._add_of_quota(event, self._chosen.pop((event.partition, event.queue_name), []))
        elif event.event_change_detail == "QUEUE_ABOVE_MAX":
            self._add_of_quota(event, [])
        elif event.type == "REQUEST":
            if event.message.startswith(PREEMPTED_BY_QUOTA):
                of_queue = event.partition, event.message.removeprefix(PREEMPTED_BY_QUOTA)
                self._chosen.setdefault(of_queue, []).append(_victim_of(event))
        elif event.event_change_detail == "APP_ALLOC":
            self._end(_task_of(event), "placed")
        elif event.event_change_detail.startswith("REQUEST_"):
            self._end(_task_of(event), "cancelled")
        else:
            self._release(_task_of(event))

    def _add_of_ask(self, event: si.EventRecord, entry: si.Preemption) -> None:
        ask = event.partition, event.reference_id, event.object_id
        self._end(ask, "repeated")
        about = {"allocationKey": event.object_id, "applicationID": event.reference_id}
        self._of_ask[ask] = self._add(event, about | msgspec.to_builtins(entry))

    def _add_of_quota(self, event: si.EventRecord, victims: list[dict[str, str]]) -> None:
        row = self._add(event, {"kind": PreemptionKind.QUOTA.value, "why": event.message, "victims": victims})
        if not victims:
            row["outcome"] = "stays"

    def _add(self, event: si.EventRecord, found: dict[str, Any]) -> Row:
        where = {"partition": event.partition, "queueName": event.queue_name}
        row = {"sequence": event.sequence, "timestampNano": event.timestamp_nano, **where, **found}
        row |= {"released": 0, "outcome": "pending"}
        self.rows.append(row)
        for victim in row["victims"]:
            self._of_victim[event.partition, victim["applicationID"], victim["allocationKey"]] = row
        return row

    def _end(self, ask: _Task, outcome: str) -> None:
        row = self._of_ask.pop(ask, None)
        if row is not None:
            row["outcome"] = outcome

    def _release(self, task: _Task) -> None:
        row = self._of_victim.pop(task, None)
        if row is not None:
            row["released"] += 1
            if row["kind"] == PreemptionKind.QUOTA and row["released"] == len(row["victims"]):
                row["outcome"] = "released"


def _task_of(event: si.EventRecord) -> _Task:
    """The ask or task that an event of an application is about."""
    return event.partition, event.object_id, event.reference_id


def _victim_of(event: si.EventRecord) -> dict[str, str]:
    """The task that an event of type ``REQUEST`` is about."""
    return {"queueName": event.queue_name, "applicationID": event.reference_id, "allocationKey": event.object_id}
