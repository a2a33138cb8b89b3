"""The holdings of a partition: counts of everything that is limited, and refusals of what would be too much (SE-48)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ykactor.core.accounting.books import COMMON_TYPES
from ykactor.core.messages.asks import Ask, is_foreign
from ykactor.core.messages.facts import AllocationRejected, ApplicationRejected, NodeRejected
from ykactor.core.messages.kinds import NodeAction, RejectionCode
from ykactor.core.messages.submissions import AddApplication, HeldLimits, Rejected, Submission, UpdateNode, exceeded
from ykactor.core.objects.registry import Registry
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.core.values.quantities import quota_types, shown

#: The kinds of limited objects, by the name of their limit.
Kind = Literal["applications", "asks", "nodes", "queues"]

_NONE: frozenset[str] = frozenset()
_CREATIONS = (NodeAction.CREATE, NodeAction.CREATE_DRAIN)


class Holdings:
    """Counts the holdings of a partition.

    Args:
        foreign: the nodes of foreign allocations.

    Attributes:
        limits: the limits of the sender of the present input; None: it has none.
        exceeded: by limit, the reason of the first refused entry of the present turn.
    """

    def __init__(self, registry: Registry, foreign: Mapping[AllocationKey, NodeID]) -> None:
        self._registry = registry
        self._types = registry.books.types
        self._foreign = foreign
        self.limits: HeldLimits | None = None
        self.exceeded: dict[str, str] = {}

    def begin(self) -> None:
        """Begin a turn."""
        self.limits = None
        self.exceeded.clear()

    def count(self) -> dict[Kind, int]:
        """The number of objects of each kind; to be called between two commands for owners."""
        registry = self._registry
        return {
            "applications": len(registry.applications),
            "asks": registry.changed.tasks + len(self._foreign),
            "nodes": len(registry.nodes),
            "queues": registry.dynamic_queues,
        }

    def left(self) -> dict[Kind, int]:
        """The number of further objects that are allowed of each kind; negative if there are too many already."""
        assert self.limits is not None, "asked for input that is limited"
        return {kind: getattr(self.limits, kind) - found for kind, found in self.count().items()}

    def refusal(self, kind: Kind, more: int = 1) -> str:
        """The reason why so many more are not allowed, or ""."""
        if self.limits is None:
            return ""
        most, found = getattr(self.limits, kind), self.count()[kind]
        if found + more <= most:
            return ""
        reason = exceeded(kind, most, self.limits.identity, f"found {found}, no room for {more} more")
        self.exceeded.setdefault(kind, reason)
        return reason

    def refused(self, submission: Submission, kind: Kind | None) -> Rejected | None:
        """The refusal of a submission that would be one too many of its kind, or names too many types; None if it does not."""
        reason = self.refusal(kind) if kind is not None and self._is_new(submission) else ""
        reason = reason or self.refusal_of_types(self.new_types(submission))
        return _rejected(submission, reason) if reason else None

    # ---- resource types

    def types_left(self) -> int | None:
        """The number of further resource types that are allowed; negative if there are too many already; None is any number."""
        most = None if self.limits is None else self.limits.resource_types
        return None if most is None else most - self._types.found()

    def has_room_for(self, submissions: Sequence[Submission]) -> bool:
        """True if none of the submissions could be one too many, whatever becomes of those before it."""
        assert self.limits is not None, "asked for input that is limited"
        left, types_max = self.left(), self.limits.resource_types
        if min(left["applications"], left["asks"], left["nodes"]) < len(submissions):
            return False
        if types_max is None:
            return True
        for submission in submissions:
            if type(submission) is Ask and submission.resource.keys() <= COMMON_TYPES:
                continue
            if self.new_types(submission):
                return False
        return len(self._types.counts) <= types_max or self._types.found() <= types_max  # not all count against the limit

    def new_types(self, submission: Submission) -> frozenset[str]:
        """The resource types that a submission would add, by what only the partition knows."""
        if type(submission) is Ask:  # by far the most frequent
            if submission.resource.keys() <= COMMON_TYPES:
                return _NONE
            is_possible = is_foreign(submission) or submission.application_id in self._registry.applications
            return self._types.new(submission.resource) if is_possible else _NONE
        if type(submission) is AddApplication and submission.application_id not in self._registry.applications:
            return self._types.new([*(submission.placeholder_ask or {}), *quota_types(submission.tags)])
        return self._types.new(submission.capacity or {}) if type(submission) is UpdateNode else _NONE

    def refusal_of_types(self, new: frozenset[str]) -> str:
        """The reason why these additional resource types are not allowed, or ""."""
        left = self.types_left() if new else None
        if left is None or len(new) <= left:
            return ""
        assert self.limits is not None, "nothing is left of no limit"
        found = self._types.found()
        text = f"found {found}, no room for {len(new)} more, such as {shown(min(new))}"
        reason = exceeded("resourceTypes", found + left, self.limits.identity, text)
        self.exceeded.setdefault("resource_types", reason)
        return reason

    def _is_new(self, submission: Submission) -> bool:
        """True if the submission would add an object, by what only the partition knows (AP-13, AP-103, AP-104)."""
        registry = self._registry
        match submission:
            case AddApplication(application_id):
                return application_id not in registry.applications
            case UpdateNode(node_id):
                return node_id not in registry.nodes
            case Ask() as ask:
                is_possible = ask.node_id in registry.nodes or (ask.node_id is None and not is_foreign(ask))
                return is_possible and not self._has_task(ask)
        return False

    def _has_task(self, ask: Ask) -> bool:
        """True if the ask or allocation exists, or its application does not, so that it would be refused."""
        if is_foreign(ask):
            return ask.allocation_key in self._foreign
        path = self._registry.applications.get(ask.application_id)
        application = None if path is None else self._registry.leaf(path).applications.get(ask.application_id)
        return application is None or application.tasks.has(ask.allocation_key)


def kind_of(submission: Submission) -> Kind | None:
    """The kind of object that a submission may add, or None."""
    if type(submission) is Ask:
        return "asks"
    if type(submission) is AddApplication:
        return "applications"
    if type(submission) is UpdateNode and submission.action in _CREATIONS:
        return "nodes"
    return None


def _rejected(submission: Submission, reason: str) -> Rejected | None:
    match submission:
        case AddApplication(application_id):
            return ApplicationRejected(0, application_id, reason, RejectionCode.LIMIT)
        case UpdateNode(node_id):
            return NodeRejected(0, node_id, reason, RejectionCode.LIMIT)
        case Ask() as ask:
            return AllocationRejected(0, ask.allocation_key, ask.application_id, reason, RejectionCode.LIMIT)
    return None
