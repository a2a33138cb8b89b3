"""The kinds of events: one row of ``KINDS`` for each detail of a type (EV-2)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ykactor.core.messages.acts import Act


class Seen(Enum):
    """The part of an event that a limited reader sees (SE-81 to SE-83); ``access.view`` has the rules."""

    WHOLE = "whole"
    NOTHING = "nothing"
    NO_TEXT = "all but its text"
    STATE = "why an application changed its state, if that names nobody"
    HOLD = "held or not, without by whom"
    QUEUE_TYPE = "leaf or not"
    QUEUE_APP = "an application that comes or goes, without the other queue of a move"
    ASK = "the beginnings of texts that name only the ask and its queue"


class Kind(NamedTuple):
    """A kind of events.

    Attributes:
        type, detail: as in the event.
        seen: by a reader that is limited to queues, if the event is about one of them.
        number: of the detail in the scheduler interface (RE-9); 0: it has none.
        in_partition: by a reader that is limited to partitions only: all of it, unless its text may be about another one.
    """

    type: str
    detail: str
    seen: Seen
    number: int = 0
    in_partition: Seen = Seen.WHOLE


_WHOLE, _NOTHING, _NO_TEXT, _STATE = Seen.WHOLE, Seen.NOTHING, Seen.NO_TEXT, Seen.STATE

#: By type and in the order in which the types are named. The audit tells of all queues and partitions, and of other identities.
KINDS = (
    *(Kind("AUDIT", f"AUDIT_{act}", _NOTHING, in_partition=_NOTHING) for act in Act),
    Kind("APP", "DETAILS_NONE", _WHOLE),
    Kind("APP", "APP_NEW", _WHOLE, 203),
    Kind("APP", "APP_ACCEPTED", _STATE, 204),
    Kind("APP", "APP_STARTING", _STATE, 205),
    Kind("APP", "APP_RUNNING", _STATE, 206),
    Kind("APP", "APP_COMPLETING", _STATE, 207),
    Kind("APP", "APP_COMPLETED", _STATE, 208),
    Kind("APP", "APP_FAILING", _STATE, 209),
    Kind("APP", "APP_FAILED", _STATE, 210),
    Kind("APP", "APP_RESUMING", _STATE, 211),
    Kind("APP", "APP_EXPIRED", _STATE, 212),
    Kind("APP", "APP_HOLD", Seen.HOLD),
    Kind("APP", "APP_PRIORITY", _WHOLE),
    Kind("APP", "APP_REJECT", _NO_TEXT, 202),
    Kind("APP", "APP_REQUEST", _WHOLE, 201),
    Kind("APP", "APP_ALLOC", _WHOLE, 200),
    Kind("APP", "APP_CANNOTRUN_QUEUE", _WHOLE, 213),
    Kind("APP", "APP_CANNOTRUN_QUOTA", _WHOLE, 215),
    Kind("APP", "APP_RUNNABLE_QUEUE", _WHOLE, 214),
    Kind("APP", "APP_RUNNABLE_QUOTA", _WHOLE, 216),
    Kind("APP", "ALLOC_CANCEL", _WHOLE, 500),
    Kind("APP", "ALLOC_NODEREMOVED", _WHOLE, 504),
    Kind("APP", "ALLOC_PREEMPT", _WHOLE, 501),
    Kind("APP", "ALLOC_REPLACED", _WHOLE, 503),
    Kind("APP", "ALLOC_TIMEOUT", _WHOLE, 502),
    Kind("APP", "REQUEST_CANCEL", _WHOLE, 100),
    Kind("APP", "REQUEST_TIMEOUT", _WHOLE, 102),
    Kind("NODE", "DETAILS_NONE", _NOTHING),
    Kind("NODE", "NODE_ALLOC", _WHOLE, 303),
    Kind("NODE", "NODE_ATTRIBUTES", _NOTHING),
    Kind("NODE", "NODE_CAPACITY", _NOTHING, 304),
    Kind("NODE", "NODE_DECOMISSION", _NOTHING, 300),
    Kind("NODE", "NODE_OCCUPIED", _NOTHING, 305),
    Kind("NODE", "NODE_RESERVATION", _WHOLE, 306),
    Kind("NODE", "NODE_SCHEDULABLE", _NOTHING, 302),
    Kind("QUEUE", "DETAILS_NONE", _WHOLE),
    Kind("QUEUE", "PARTITION_QUARANTINED", _NO_TEXT, in_partition=_NO_TEXT),
    Kind("QUEUE", "PARTITION_RESTARTED", _NO_TEXT, in_partition=_NO_TEXT),
    Kind("QUEUE", "PARTITION_STOPPED", _NO_TEXT, in_partition=_NO_TEXT),
    Kind("QUEUE", "QUEUE_ABOVE_MAX", _NOTHING),  # it depends on the guarantees of queues above
    Kind("QUEUE", "QUEUE_APP", Seen.QUEUE_APP, 405),
    Kind("QUEUE", "QUEUE_CONFIG", _NOTHING, 400, _NO_TEXT),
    Kind("QUEUE", "QUEUE_DYNAMIC", _WHOLE, 401),
    Kind("QUEUE", "QUEUE_GUARANTEED", _WHOLE, 404),
    Kind("QUEUE", "QUEUE_HOLD", Seen.HOLD),
    Kind("QUEUE", "QUEUE_MAX", _WHOLE, 403),
    Kind("QUEUE", "QUEUE_PREEMPTION", _WHOLE, 407),
    Kind("QUEUE", "QUEUE_TYPE", Seen.QUEUE_TYPE, 402),
    Kind("REQUEST", "DETAILS_NONE", Seen.ASK),
    Kind("USERGROUP", "UG_APP_LINK", _WHOLE, 602),
    Kind("USERGROUP", "UG_GROUP_LIMIT", _WHOLE, 601),
    Kind("USERGROUP", "UG_GROUP_RESOURCE", _WHOLE, 604),
    Kind("USERGROUP", "UG_USER_LIMIT", _WHOLE, 600),
    Kind("USERGROUP", "UG_USER_RESOURCE", _WHOLE, 603),
)
#: The types, each with its details.
EVENT_KINDS = {name: [kind.detail for kind in KINDS if kind.type == name] for name in dict.fromkeys(kind.type for kind in KINDS)}
