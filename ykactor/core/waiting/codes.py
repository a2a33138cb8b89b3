"""The reason codes of pending asks (AP-150); ``reasons`` has the sentences."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from ykactor.core.values.ids import NodeID, QueuePath


class PendingCode(StrEnum):
    """The reason codes of pending asks; AP-150 says when each is given."""

    HELD = "HELD"
    FAILING = "FAILING"
    BACKOFF = "BACKOFF"
    ORDER = "ORDER"
    PLACEHOLDER = "PLACEHOLDER"
    MAX_APPLICATIONS = "MAX_APPLICATIONS"
    LIMIT = "LIMIT"
    QUOTA = "QUOTA"
    NO_NODE = "NO_NODE"
    UNKNOWN_NODE = "UNKNOWN_NODE"
    NOT_SELECTED = "NOT_SELECTED"
    LEFT_OUT = "LEFT_OUT"
    TOO_LARGE = "TOO_LARGE"
    DRAINED = "DRAINED"
    NODES = "NODES"
    PREDICATE = "PREDICATE"
    RESERVED = "RESERVED"
    PREEMPTING = "PREEMPTING"
    NEXT = "NEXT"


class Place(Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """The place that keeps an ask back: a queue, the limit of a user or group in it, or a node that is reserved for it.

    Attributes:
        whose: the user or group of a limit, such as ``user bob``.
        resource: the type of which too little is left; "" of a running slot, a hold or a node.
        used, max: base units of that type, or numbers of running applications; None of a hold or a node, and where they are
            not shown (SE-84).
    """

    queue_name: QueuePath = QueuePath("")
    whose: str = ""
    resource: str = ""
    used: int | None = None
    max: int | None = None
    node_id: NodeID = NodeID("")


class PendingCause(Struct, frozen=True, gc=False):
    """The reason of a pending ask.

    Attributes:
        text: a sentence for people, with present numbers and names.
        left_out: the nodes where the ask could not start, each with the Unix nanosecond until which it is left out (AP-144).
    """

    code: PendingCode
    text: str
    place: Place | None = None
    left_out: Mapping[NodeID, int] = {}
