"""Kinds of submissions and facts, as enums. The values are the spelling of the wire."""

from enum import StrEnum


class Change(StrEnum):
    """What happened to something that can be counted or listed."""

    ADD = "ADD"
    REMOVE = "REMOVE"
    SET = "SET"


class TerminationType(StrEnum):
    """Why an allocation ends (AP-131)."""

    UNKNOWN_TERMINATION_TYPE = "UNKNOWN_TERMINATION_TYPE"
    STOPPED_BY_RM = "STOPPED_BY_RM"
    TIMEOUT = "TIMEOUT"
    PREEMPTED_BY_SCHEDULER = "PREEMPTED_BY_SCHEDULER"
    PLACEHOLDER_REPLACED = "PLACEHOLDER_REPLACED"
    SCHEDULING_FAILED_ON_RM = "SCHEDULING_FAILED_ON_RM"


class NodeAction(StrEnum):
    """What the resource manager does with a node (SC-152)."""

    CREATE = "CREATE"
    CREATE_DRAIN = "CREATE_DRAIN"
    UPDATE = "UPDATE"
    DRAIN_NODE = "DRAIN_NODE"
    DRAIN_TO_SCHEDULABLE = "DRAIN_TO_SCHEDULABLE"
    DECOMISSION = "DECOMISSION"


class QueueLimit(StrEnum):
    """Which of a queue's two amounts is meant."""

    MAX = "max"
    GUARANTEED = "guaranteed"


class PreemptionKind(StrEnum):
    """What starts a preemption: an ask that finds no room, one that requires its node, a queue above its max (PE-90)."""

    GENERIC = "generic"
    REQUIRED_NODE = "required_node"
    QUOTA = "quota"


class AboveMaxCause(StrEnum):
    """Why a queue stays above its max, in one word (PE-98)."""

    OFF = "off"
    WAITS = "waits"
    GUARANTEE = "guarantee"
    GIVEN = "given"


class Gate(StrEnum):
    """What can keep an application from running: ``maxapplications`` of queues, or the limits of users and groups (EV-12)."""

    QUEUE = "QUEUE"
    QUOTA = "QUOTA"


class SchedulingState(StrEnum):
    """Whether a pending ask was tried on the nodes without success, or not at all (AP-147)."""

    SKIPPED = "SKIPPED"
    FAILED = "FAILED"


class WaitingCause(StrEnum):
    """What a pending ask waits for, in one word (AP-147)."""

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


class Consequence(StrEnum):
    """What follows from a failure of a partition: it goes on as before, without the message that caused it, or not at all."""

    RESTARTED = "RESTARTED"
    QUARANTINED = "QUARANTINED"
    STOPPED = "STOPPED"
