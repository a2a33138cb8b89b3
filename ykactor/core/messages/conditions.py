"""The texts of events for the owners of asks and tasks (EV-71)."""

from __future__ import annotations

from collections.abc import Mapping

from ykactor.core.messages.asks import Failure
from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.resources import Resource, text
from ykactor.core.values.times import utc_text

#: Followed by the queue.
PREEMPTED_BY_QUOTA = "Preempted by Quota change enforcement process in "
#: The reason of refusals that no predicate service has given.
NO_PREDICATE_SERVICE = "no resource manager is connected that says whether it may run"
WITHIN_LIMIT = "fits in the available user quota"


def of_request(key: AllocationKey, ending: str) -> str:
    """``Request 't1' fits in the available user quota``; ``ending`` is one of the next four."""
    return f"Request '{key}' {ending}"


def over_limit(wanted: Resource, free: Resource | None) -> str:
    """The ask exceeds what the limit of its user or group has left; None is no limit."""
    return f"exceeds the available user quota {_requested(wanted, free)}"


def over_quota(path: QueuePath, wanted: Resource, free: Resource | None) -> str:
    """The ask exceeds what its queue has left."""
    return f"does not fit in queue '{path}' {_requested(wanted, free)}"


def within_quota(path: QueuePath) -> str:
    """The queue has room again."""
    return f"has become schedulable in queue '{path}'"


def _requested(wanted: Resource, free: Resource | None) -> str:
    return f"(requested {text(wanted)}, available {text(free)})"


def unschedulable(key: AllocationKey, refusals: Mapping[str, int]) -> str:
    """Predicates refuse all nodes with room (EV-16); ``refusals`` has the number of nodes by reason."""
    return f"Unschedulable request '{key}': {counted(refusals)}; "


def counted(refusals: Mapping[str, int]) -> str:
    """``no gpu driver (2x); tainted (1x)``."""
    return "; ".join(f"{reason} ({count}x)" for reason, count in sorted(refusals.items()))


def handed_back(key: AllocationKey, failure: Failure) -> str:
    """The allocation of the ask could not start (AP-144)."""
    return (
        f"Request '{key}' could not start on node {failure.node_id}, which is left out for it until {utc_text(failure.until_ns)}"
    )


def preempted_by_quota(path: QueuePath) -> str:
    """The task is preempted because this queue is above its max."""
    return f"{PREEMPTED_BY_QUOTA}{path}"


def no_victim_on(key: AllocationKey, node_id: NodeID) -> str:
    """The ask requires this node, and nothing there may be preempted for it (PE-63)."""
    return f"Unschedulable request '{key}' with required node '{node_id}', no preemption victim found"
