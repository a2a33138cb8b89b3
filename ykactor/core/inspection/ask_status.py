"""The status of pending asks: in groups with the reason, and by their keys."""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field

from ykactor.core.inspection.shown import Shown
from ykactor.core.queueing.priorities import PRIORITY_MIN
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource
from ykactor.core.waiting.codes import Place


class PendingStatus(Shown, frozen=True, kw_only=True):
    """Asks of an application that are pending for the same reason (AP-150).

    Attributes:
        left_out: the nodes where they could not start, each with the time until which it is left out for them.
        priority: the highest of their own; ``effective_priority`` is this priority at root, or at the highest queue that is shown
            (PR-11).
        resource: the amounts of each of them.
        allocation_keys: the keys of the first few, the next one first; ``creation_times`` are theirs, and
            ``oldest_time`` is the earliest of these; 0 from an older daemon.
        last_attempt, next_attempt: the times of the attempts to preempt for the first ask, if it may; None if there was none.
    """

    reason: str
    code: str
    place: Place | UnsetType = UNSET
    left_out: dict[NodeID, int] | UnsetType = UNSET
    count: int
    priority: int
    resource: Resource
    allocation_keys: list[str]
    creation_times: list[int]
    oldest_time: int = 0
    last_attempt: int | UnsetType | None = UNSET
    next_attempt: int | UnsetType = UNSET
    effective_priority: int = PRIORITY_MIN


#: The fields that a limited reader sees as they are.
OF_THE_ASKS = ("code", "count", "priority", "resource", "allocation_keys")


class AsksPart(Shown, frozen=True, kw_only=True):
    """The keys and creation times of some pending asks of an application."""

    application_id: str = field(name="applicationID")
    allocation_keys: list[str]
    creation_times: list[int]
