"""What asks are pending for, in one word: of what ``pending_causes`` says in sentences, only which sentence it is.

It looks at no node, so it takes the same time however large the cluster is. What holds for one application of an equivalence
class holds for all of them.
"""

from __future__ import annotations

from ykactor.core.messages.kinds import WaitingCause
from ykactor.core.messages.states import ApplicationState
from ykactor.core.nodes.reservations import Reservation
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.headroom import Shortage
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.scheduling_states import Pending
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import QueuePath


def is_held(state: SchedulerState, application: PendingApplication) -> bool:
    """Whether an operator holds the application, or a queue above it."""
    return application.hold is not None or state.leaf_of(application).is_held()


def of_asks(state: SchedulerState, application: PendingApplication, queue: AskQueue) -> Pending:
    """Of the asks in a queue of an application that is not held."""
    ask_class, own = queue.ask_class, application.leaf.path
    if ask_class is None:
        return Pending(_kept_back(application, queue), own)
    short = application.slot_shortage() or application.shortage(queue.shape)
    if short is not None:
        return Pending(WaitingCause.NODES, own, has_failed=True) if _is_cluster(short) else _of_shortage(short)
    if state.tree.root_max and not ask_class.parked:
        return Pending(WaitingCause.UNTRIED, own)
    return _on_nodes(state, queue, own)


def of_reserved(state: SchedulerState, reservation: Reservation) -> Pending:
    """Of an ask with a reservation, whose application is not held."""
    application = reservation.application
    short = application.slot_shortage() or application.shortage(reservation.shape)
    if short is not None and not _is_cluster(short):
        return _of_shortage(short)
    return Pending(WaitingCause.RESERVED, application.leaf.path, has_failed=not reservation.is_pinned())


def _kept_back(application: PendingApplication, queue: AskQueue) -> WaitingCause:
    """Of a queue that is in no class."""
    if application.state is ApplicationState.FAILING:
        return WaitingCause.APPLICATION
    if application.backoff_ns:
        return WaitingCause.BACKOFF
    return WaitingCause.UNTRIED if application.changed or queue in application.opened else WaitingCause.APPLICATION


def _is_cluster(short: Shortage) -> bool:
    """Whether it is all nodes together that have too little left."""
    place, name = short
    return bool(name) and not isinstance(place, Tracker) and place.parent is None


def _of_shortage(short: Shortage) -> Pending:
    place, name = short
    if not name:
        return Pending(WaitingCause.MAX_APPLICATIONS, place.path)
    return Pending(WaitingCause.USER if isinstance(place, Tracker) else WaitingCause.QUEUE, place.path)


def _on_nodes(state: SchedulerState, queue: AskQueue, own: QueuePath) -> Pending:
    """Of asks that quotas have room for."""
    predicates, question = state.nodes.predicates, (queue.predicate, True)
    for node_id in predicates.awaited(question):
        node = state.nodes.nodes.get(node_id)
        if node is not None and node.fits(queue.needs, queue.selector):
            return Pending(WaitingCause.PREDICATE, own)
    is_refused = bool(queue.predicate) and (not predicates.is_answered or bool(predicates.refusals(question)))
    return Pending(WaitingCause.PREDICATE if is_refused else WaitingCause.NODES, own, has_failed=queue.required_node is None)
