"""The status of a partition: its queues, applications, nodes and limits, and the numbers of its scheduler."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ykactor.core.inspection.application_status import ApplicationStatus
from ykactor.core.inspection.ask_status import AsksPart
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.inspection.shown import Shown
from ykactor.core.values.resources import Resource


class LimitStatus(Shown, frozen=True, kw_only=True):
    """A limit of a user or group in a queue that applications count against.

    Attributes:
        whose: the user or group, such as ``user bob``.
        max: None is no limit of resources.
        max_applications: 0 is no limit.
        applications: the applications that count as running.
    """

    queue: str
    whose: str
    max: Resource | None
    allocated: Resource
    max_applications: int
    applications: list[str]


class PredicateStatus(Shown, frozen=True, kw_only=True):
    """A predicate class, with the numbers of nodes that were asked, passed and refused; ``allocate`` as in SC-120."""

    predicate: str
    allocate: bool
    asked: int
    passed: int
    refused: int


class PredicatesStatus(Shown, frozen=True, kw_only=True):
    """The questions to the predicate service, and if one is connected that answers them."""

    is_answered: bool
    classes: list[PredicateStatus]


class PreemptionStatus(Shown, frozen=True, kw_only=True):
    """The counters of preemption, and the current numbers of attempts and victims."""

    enabled: bool
    preemptions: int
    evictions: int
    in_vain: int
    refused: int
    work_lost: Resource
    preemptors: int
    victims: int


class PartitionStatus(Shown, frozen=True, kw_only=True):
    """The state of a partition. Objects outside of queues are left out for readers that are limited to queues.

    Attributes:
        queues: by path, parents before their children.
        applications: by id; live ones, and ended ones that are still kept.
        nodes: by id.
        pending_asks: all pending asks in numbered parts, each of one application; only on request.
    """

    name: str
    queues: dict[str, QueueStatus]
    applications: dict[str, ApplicationStatus]
    nodes: dict[str, NodeStatus] | UnsetType = UNSET
    pending_asks: dict[str, AsksPart] | UnsetType = UNSET
    limits: list[LimitStatus]
    predicates: PredicatesStatus | UnsetType = UNSET
    preemption: PreemptionStatus | UnsetType = UNSET
