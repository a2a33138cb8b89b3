"""The order in which the facts of one step are published (EV-22, EV-30).

Owners return facts in the order that resource managers are promised (AP-96), and the scheduler adds behind each what follows
from it. Events have an order of their own within a step. That order only moves facts that no resource manager receives, so
one list serves both.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from ykactor.core.messages.facts import (
    Allocated,
    ApplicationChanged,
    ApplicationLeft,
    AskRemoved,
    AskReturned,
    Fact,
    GroupLinkChanged,
    NodeRemoved,
    NodeUseChanged,
    QueueLimitChanged,
    Released,
    TaskGroupChanged,
    Unreserved,
    UsageChanged,
)
from ykactor.core.messages.kinds import Change, TerminationType
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import PART_MAX

#: Needed for every placement; looking up the member of an enum is slow in Python 3.11.
_ADD = Change.ADD

_Ranks = dict[type, int]
_ALLOCATION: _Ranks = {NodeUseChanged: 0, ApplicationChanged: 1, UsageChanged: 2, Allocated: 3}
_RELEASE: _Ranks = {UsageChanged: 0, ApplicationChanged: 1, Released: 2, NodeUseChanged: 3, AskRemoved: 4}
_REPLACEMENT: _Ranks = {
    Released: 0, ApplicationChanged: 1, Allocated: 2, NodeUseChanged: 3, UsageChanged: 4, AskRemoved: 5,
}  # fmt: skip
#: Everything that ends with a node is one step, with the change of the total and the reservations of the node.
_DEPARTURE: _Ranks = {
    Unreserved: 0, QueueLimitChanged: 1, NodeUseChanged: 2, UsageChanged: 3, ApplicationChanged: 4, Released: 4,
    AskRemoved: 4, AskReturned: 4, TaskGroupChanged: 4, ApplicationLeft: 4, GroupLinkChanged: 4,
}  # fmt: skip


def with_state_changes(changes: list[Fact], allocated: Allocated) -> list[Fact]:
    """A placement with its consequences: state changes before it (AP-96), usage in facts of its own."""
    states = [fact for fact in changes if type(fact) is ApplicationChanged]
    rest = [fact for fact in changes if type(fact) is not ApplicationChanged]
    at_ns, ask, queue, node_id = allocated.at_ns, allocated.ask, allocated.queue, allocated.node_id
    assert allocated.charged_to is not None
    usage = UsageChanged(at_ns, allocated.charged_to, queue, _ADD, ask.resource)
    alone = structs.replace(allocated, charged_to=None)
    return [NodeUseChanged(at_ns, ask, queue, node_id, _ADD), *states, usage, alone, *rest]


def in_order(facts: list[Fact]) -> Iterator[list[Fact]]:
    """Yield the facts in parts, each step in the order of publication; a fact outside all steps keeps its place."""
    ordered: list[Fact] = []
    position = 0
    while position < len(facts):
        anchor = _skip(facts, position, ApplicationChanged)
        end, ranks = _step(facts, anchor)
        start = _own_changes(facts, position, anchor) if ranks else end
        ordered += facts[position:start]
        ordered += sorted(facts[start:end], key=lambda fact: ranks[type(fact)])
        position = end
        if len(ordered) >= PART_MAX:
            yield ordered
            ordered = []
    yield ordered


def _skip(facts: list[Fact], position: int, *kinds: type) -> int:
    """The end of the run of facts of these kinds that begins at ``position``."""
    while position < len(facts) and type(facts[position]) in kinds:
        position += 1
    return position


def _step(facts: list[Fact], anchor: int) -> tuple[int, _Ranks]:
    """The end and the order of the step whose first fact other than a state change is at ``anchor``; {} if there is no step."""
    first = facts[anchor] if anchor < len(facts) else None
    if type(first) is Allocated:
        return _skip(facts, anchor + 1, UsageChanged, NodeUseChanged), _ALLOCATION
    if type(first) is QueueLimitChanged:
        end = _skip(facts, anchor + 1, *_DEPARTURE)
        is_departure = end < len(facts) and type(facts[end]) is NodeRemoved
        return (end, _DEPARTURE) if is_departure else (anchor + 1, {})
    if type(first) is not Released:
        return min(anchor + 1, len(facts)), {}
    if first.with_node:
        return _skip(facts, anchor + 1, *_DEPARTURE), _DEPARTURE
    end = _skip(facts, anchor + 1, UsageChanged, NodeUseChanged)
    end += end < len(facts) and type(facts[end]) is AskRemoved
    if first.termination_type is TerminationType.PLACEHOLDER_REPLACED:
        successor = _skip(facts, end, ApplicationChanged)
        if successor < len(facts) and type(facts[successor]) is Allocated:
            return _skip(facts, successor + 1, UsageChanged, NodeUseChanged), _REPLACEMENT
    return end, _RELEASE


def _own_changes(facts: list[Fact], position: int, anchor: int) -> int:
    """The position where the state changes of the step begin: those of its application, or all when a node has left."""
    first = facts[anchor]
    if not isinstance(first, Allocated | Released):
        return anchor
    if type(first) is Released and first.with_node:
        return position
    while anchor > position and _application(facts[anchor - 1]) == first.ask.application_id:
        anchor -= 1
    return anchor


def _application(fact: Fact) -> ApplicationID | None:
    return fact.application_id if type(fact) is ApplicationChanged else None
