"""Kinds of submissions, facts and rejections, as enums. The values are the spelling of the wire."""

from enum import StrEnum

from msgspec import Struct


class Change(StrEnum):
    """The kinds of changes of something that can be counted or listed."""

    ADD = "ADD"
    REMOVE = "REMOVE"
    SET = "SET"


class TerminationType(StrEnum):
    """The reasons for which an allocation ends (AP-131)."""

    UNKNOWN_TERMINATION_TYPE = "UNKNOWN_TERMINATION_TYPE"
    STOPPED_BY_RM = "STOPPED_BY_RM"
    TIMEOUT = "TIMEOUT"
    PREEMPTED_BY_SCHEDULER = "PREEMPTED_BY_SCHEDULER"
    PLACEHOLDER_REPLACED = "PLACEHOLDER_REPLACED"
    SCHEDULING_FAILED_ON_RM = "SCHEDULING_FAILED_ON_RM"


class NodeAction(StrEnum):
    """The actions of a resource manager on a node (SC-152)."""

    CREATE = "CREATE"
    CREATE_DRAIN = "CREATE_DRAIN"
    UPDATE = "UPDATE"
    DRAIN_NODE = "DRAIN_NODE"
    DRAIN_TO_SCHEDULABLE = "DRAIN_TO_SCHEDULABLE"
    DECOMISSION = "DECOMISSION"


class QueueLimit(StrEnum):
    """The two amounts of a queue."""

    MAX = "max"
    GUARANTEED = "guaranteed"


class PreemptionKind(StrEnum):
    """The triggers of preemption: an ask without room, an ask that requires its node, a queue above its max (PE-90)."""

    GENERIC = "generic"
    REQUIRED_NODE = "required_node"
    QUOTA = "quota"


class AboveMaxCause(StrEnum):
    """The reason codes of a queue that stays above its max (PE-98)."""

    OFF = "off"
    WAITS = "waits"
    GUARANTEE = "guarantee"
    GIVEN = "given"


class Gate(StrEnum):
    """The gates that keep applications from running: ``maxapplications`` of queues, or limits of users and groups (EV-12)."""

    QUEUE = "QUEUE"
    QUOTA = "QUOTA"


class SchedulingState(StrEnum):
    """The result of the last attempt of a pending ask: not tried on the nodes, or tried without success (AP-147)."""

    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class WaitingCause(StrEnum):
    """The reason codes of a pending ask in the SI (AP-147)."""

    HELD = "held"
    MAX_APPLICATIONS = "maxapps"
    USER = "user"
    QUEUE = "queue"
    NODES = "nodes"
    PREDICATE = "predicate"
    RESERVED = "reserved"
    PLACEHOLDER = "placeholder"
    BACKOFF = "backoff"
    APPLICATION = "application"
    UNTRIED = "untried"


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


#: Codes about nodes, which are one in AP-154, NODES: to tell them apart means to look at all nodes.
OF_NODES = frozenset(
    (
        PendingCode.NO_NODE,
        PendingCode.UNKNOWN_NODE,
        PendingCode.NOT_SELECTED,
        PendingCode.LEFT_OUT,
        PendingCode.TOO_LARGE,
        PendingCode.DRAINED,
    )
)


class Consequence(StrEnum):
    """The consequences of a failure: the partition goes on as before, without the message that caused it, or not at all."""

    RESTARTED = "RESTARTED"
    QUARANTINED = "QUARANTINED"
    STOPPED = "STOPPED"


class RejectionCode(StrEnum):
    """The codes of rejections (AP-139). ``UNKNOWN``: recorded before there were codes."""

    UNKNOWN = "UNKNOWN"
    NO_PARTITION = "NO_PARTITION"
    NO_APPLICATION = "NO_APPLICATION"
    NO_NODE = "NO_NODE"
    NO_QUEUE = "NO_QUEUE"
    ACL = "ACL"
    QUOTA = "QUOTA"
    SORT_POLICY = "SORT_POLICY"
    LIMIT = "LIMIT"
    DUPLICATE = "DUPLICATE"
    BAD_USER = "BAD_USER"
    NOT_PERMITTED = "NOT_PERMITTED"
    NO_RESOURCES = "NO_RESOURCES"
    NEGATIVE_RESOURCES = "NEGATIVE_RESOURCES"
    NO_TASK_GROUP = "NO_TASK_GROUP"
    BAD_TAG = "BAD_TAG"
    WALLTIME = "WALLTIME"
    BAD_QUANTITY = "BAD_QUANTITY"
    UNKNOWN_NAME = "UNKNOWN_NAME"
    OUT_OF_RANGE = "OUT_OF_RANGE"


class Rejection(Struct, frozen=True, gc=False):
    """The reason why something is rejected."""

    code: RejectionCode
    reason: str
