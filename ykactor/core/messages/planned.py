"""The decisions of a plan about asks and allocations, for their leaf, and the budget of a plan."""

from msgspec import Struct

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated
from ykactor.core.values.ids import AllocationKey, NodeID


class Replacement(Struct, frozen=True, gc=False):
    """A real ask replaces a placeholder, on the node of the placeholder or on another one, where it has a place already."""

    ask: Ask
    placeholder: AllocationKey
    node_id: NodeID


class Cancellation(Struct, frozen=True, gc=False):
    """A placeholder is too small for ``ask`` and is released."""

    ask: Ask
    placeholder: AllocationKey


class Eviction(Struct, frozen=True, gc=False):
    """A running task, ``ask``, is preempted; ``message`` names the ask that preempts it (PE-93)."""

    ask: Ask
    message: str


#: What a plan decides for one leaf.
Planned = Allocated | Replacement | Cancellation | Eviction


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of one plan, in units of work, never in time: the same input gives the same plan on every machine."""

    placements_max: int
    #: ``planner.plan.TRY_WORK`` for each candidate tried, 1 for each node looked at.
    work_max: int
