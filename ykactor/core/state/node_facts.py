"""Handlers of facts about nodes and answers of the predicate service, with the reservations that they end."""

from __future__ import annotations

from ykactor.core.messages.asks import ask_id
from ykactor.core.messages.facts import (
    ForeignChanged,
    NodeAdded,
    NodeAttributesChanged,
    NodeCapacityChanged,
    NodeRemoved,
    NodeSchedulable,
    PlaceGivenUp,
    PredicateAnswered,
    PredicateServiceChanged,
    PredicatesForgotten,
    RecheckDue,
)
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.state.state import Handler, SchedulerState, Worklist
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import fits
from ykactor.core.values.selector import NODE_ID, selects


def touch_node(state: SchedulerState, work: Worklist, node_id: NodeID) -> None:
    """Note a changed node: its state is read again at the end of the observation."""
    if node_id in state.registry.nodes:
        work.nodes[node_id] = None
        state.capacity_grew()


def cancel(state: SchedulerState, work: Worklist, at_ns: int, reservations: list[Reservation]) -> None:
    """Cancel reservations."""
    for reservation in reservations:
        work.consequences.append(state.unreserve(at_ns, reservation))
        work.touch(state.leaf_of(reservation.application), reservation.application)


def node_touched(state: SchedulerState, work: Worklist, fact: NodeAdded | ForeignChanged | PlaceGivenUp) -> None:
    """Note a node that is new, or whose available amounts have changed."""
    touch_node(state, work, fact.node_id)


def node_schedulable(state: SchedulerState, work: Worklist, fact: NodeSchedulable) -> None:
    """Note a node that is drained, or schedulable again; a drained one loses reservations."""
    touch_node(state, work, fact.node_id)
    if not fact.schedulable:  # SC-61: an ask that has preempted others keeps its reservation
        reservations, preempting = state.reservations.on(fact.node_id), state.preemptions.by_ask
        given_up = [each for each in reservations if not each.is_pinned() and ask_id(each.ask) not in preempting]
        cancel(state, work, fact.at_ns, given_up)


def node_capacity_changed(state: SchedulerState, work: Worklist, fact: NodeCapacityChanged) -> None:
    """Apply the new capacity of a node; answers about it are no longer valid (SC-156)."""
    nodes = state.nodes
    touch_node(state, work, fact.node_id)
    nodes.predicates.forget("", fact.node_id)
    if fact.node_id in nodes.nodes:
        nodes.set_capacity(nodes.nodes[fact.node_id], fact.capacity)
    reservations = state.reservations.on(fact.node_id)
    cancel(state, work, fact.at_ns, [each for each in reservations if not fits(fact.capacity, each.ask.resource)])  # SC-104


def node_attributes_changed(state: SchedulerState, work: Worklist, fact: NodeAttributesChanged) -> None:
    """Apply the new attributes of a node: other asks may select it, and answers about it are no longer valid (SC-156, SC-159)."""
    touch_node(state, work, fact.node_id)
    state.nodes.predicates.forget("", fact.node_id)
    attributes = {**fact.attributes, NODE_ID: fact.node_id}
    reservations = state.reservations.on(fact.node_id)
    cancel(state, work, fact.at_ns, [each for each in reservations if not selects(each.shape[2], attributes)])


def node_removed(state: SchedulerState, work: Worklist, fact: NodeRemoved) -> None:
    """Remove a node."""
    nodes = state.nodes
    nodes.predicates.forget("", fact.node_id)
    if fact.node_id in nodes.nodes:  # it is unknown if it was added and removed between two observations
        nodes.remove(fact.node_id)
    work.nodes.pop(fact.node_id, None)


def predicate_answered(state: SchedulerState, _: Worklist, fact: PredicateAnswered) -> None:
    """Keep the answer of the predicate service about a class and a node."""
    if state.nodes.predicates.answer((fact.predicate, fact.allocate), fact.node_id, fact.error, fact.uses):
        state.capacity_grew()


def predicates_forgotten(state: SchedulerState, _: Worklist, fact: PredicatesForgotten) -> None:
    """Forget answers that the predicate service has withdrawn."""
    state.nodes.predicates.forget(fact.predicate, fact.node_id)
    state.capacity_grew()


def predicate_service_changed(state: SchedulerState, _: Worklist, fact: PredicateServiceChanged) -> None:
    """Note that a predicate service is connected, or none is any longer."""
    state.nodes.predicates.set_answered(fact.is_there)
    state.capacity_grew()


def recheck_due(state: SchedulerState, _: Worklist, fact: RecheckDue) -> None:
    """Expire questions: an answer is overdue, or a question may be asked again (SC-155)."""
    if state.nodes.predicates.expire(fact.at_ns):
        state.capacity_grew()


#: By type of fact.
HANDLERS: dict[type, Handler] = {
    NodeAdded: node_touched,
    ForeignChanged: node_touched,
    PlaceGivenUp: node_touched,
    NodeSchedulable: node_schedulable,
    NodeAttributesChanged: node_attributes_changed,
    NodeCapacityChanged: node_capacity_changed,
    NodeRemoved: node_removed,
    PredicateAnswered: predicate_answered,
    PredicatesForgotten: predicates_forgotten,
    PredicateServiceChanged: predicate_service_changed,
    RecheckDue: recheck_due,
}
