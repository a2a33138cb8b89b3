"""What a plan decides about asks and allocations, as the leaf is told of it."""

from msgspec import Struct

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Allocated
from ykactor.core.values.ids import AllocationKey, NodeID


class Replacement(Struct, frozen=True, gc=False):
    """A real ask is to take the place of a placeholder, on its node or, where it has been placed already, on another one."""

    ask: Ask
    placeholder: AllocationKey
    node_id: NodeID


class Cancellation(Struct, frozen=True, gc=False):
    """A placeholder is too small for ``ask`` and has to go."""

    ask: Ask
    placeholder: AllocationKey


class Eviction(Struct, frozen=True, gc=False):
    """A running task, ``ask``, is told to go for another; ``message`` says for which (PE-93)."""

    ask: Ask
    message: str


#: What a plan decides; a placement has been committed by its node.
Planned = Allocated | Replacement | Cancellation | Eviction
