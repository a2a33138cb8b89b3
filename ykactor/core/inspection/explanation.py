"""The explanation of a pending ask (AP-153): the levels that it has to pass, nodes by reason, and what comes before it.

And that of a queue and of a node (AP-156): what waits in it, and what could run there.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType, field

from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.inspection.shown import Shown
from ykactor.core.values.resources import Resource


class LevelStatus(Shown, frozen=True, kw_only=True):
    """One level that an ask has to pass.

    Attributes:
        queue_name: of a queue, or of the limit of a user or group in it; "" of the application and the nodes.
        whose: ``user bob``, ``application app-1`` or ``nodes``; "" of a queue.
        resource: the type that is shortest there; "" of running applications, and where nothing is counted.
        used, max: base units of it, or running applications; left out where nothing is counted.
        wants: of one ask.
        code: of AP-150, or "" if there is room.
        reason: the sentence; "" if there is room.
        since: the Unix time since when the ask has waited for this (AP-154); left out if it waits for something else first.
    """

    queue_name: str = ""
    whose: str = ""
    resource: str = ""
    used: int | UnsetType = UNSET
    max: int | UnsetType = UNSET
    wants: int | UnsetType = UNSET
    code: str = ""
    reason: str = ""
    since: int | UnsetType = UNSET


class AheadStatus(Shown, frozen=True, kw_only=True):
    """A queue or an application that comes before.

    Attributes:
        queue_name: the queue, or that of the application.
        application_id: left out of a queue.
        by: what decides: ``priority``, ``share``, ``pending``, ``usage``, ``age`` or ``name``.
        value, own: its value, and that of the ask, as texts.
    """

    queue_name: str
    application_id: str | UnsetType = field(name="applicationID", default=UNSET)
    by: str
    value: str
    own: str


class AskExplanation(Shown, frozen=True, kw_only=True):
    """The explanation of a pending ask.

    Attributes:
        time: the Unix time of the explanation.
        code, reason: those of AP-150.
        waited: for how many nanoseconds it has waited until then, by code (AP-154).
        position, waiting: its number among the asks that wait in its queue, from 1, and how many these are.
        levels: from root to the nodes; those without a limit are left out.
        binding: the index of the level that keeps it back first; left out if none does.
        nodes: the number of nodes by what keeps them from taking it; their sum is the number of nodes.
        ahead: the first of what comes before it, from root down; ``ahead_count`` is the number of all.
    """

    partition_name: str
    application_id: str = field(name="applicationID")
    allocation_key: str
    user: str
    queue_name: str
    code: str
    reason: str
    time: int
    creation_time: int
    waited: dict[str, int]
    priority: int
    resource: Resource
    position: int
    waiting: int
    levels: list[LevelStatus]
    binding: int | UnsetType = UNSET
    nodes: dict[str, int] | UnsetType = UNSET
    ahead: list[AheadStatus]
    ahead_count: int


class OldestStatus(Shown, frozen=True, kw_only=True):
    """The ask that has been pending for the longest; code and reason as of AP-150."""

    application_id: str = field(name="applicationID")
    allocation_key: str
    creation_time: int
    code: str
    reason: str


class ShortStatus(Shown, frozen=True, kw_only=True):
    """The place that keeps back the most asks.

    Attributes:
        queue_name: the queue, or that of the limit of a user or group, ``whose``.
        resource: "" of running applications.
        used, max: base units, or running applications; left out where they are not shown.
        asks: how many it keeps back.
    """

    queue_name: str
    whose: str = ""
    resource: str = ""
    used: int | UnsetType = UNSET
    max: int | UnsetType = UNSET
    asks: int


class UserShare(Shown, frozen=True, kw_only=True):
    """The use of a user, in base units or running applications."""

    user: str
    amount: int


class QueueExplanation(Shown, frozen=True, kw_only=True):
    """The explanation of a queue.

    Attributes:
        pending: the number of asks pending in it and below, by code (AP-150), most first.
        oldest: left out if nothing is pending.
        short: left out if no quota, limit or number of applications keeps asks back.
        users: those who use the most of what is short, where it is short.
        other_users, others_use: the number of the others, and what they use together.
    """

    partition_name: str
    queue_name: str
    status: QueueStatus
    pending: dict[str, int]
    oldest: OldestStatus | UnsetType = UNSET
    short: ShortStatus | UnsetType = UNSET
    users: list[UserShare]
    other_users: int
    others_use: int


class FittingStatus(Shown, frozen=True, kw_only=True):
    """Pending asks of one leaf that are alike, fit on a node and have one code; application and reason are of one of them."""

    queue_name: str
    application_id: str = field(name="applicationID")
    asks: int
    resource: Resource
    code: str
    reason: str


class NodeExplanation(Shown, frozen=True, kw_only=True):
    """The explanation of a node.

    Attributes:
        pending: the number of pending asks by what keeps the node from taking them; ``has room`` are those that fit.
        kept_back: those that fit, by what else keeps them back (AP-150).
        fitting: the largest groups of these; ``fitting_count`` is the number of all.
    """

    partition_name: str
    node_id: str = field(name="nodeID")
    status: NodeStatus
    pending: dict[str, int]
    kept_back: dict[str, int]
    fitting: list[FittingStatus]
    fitting_count: int
