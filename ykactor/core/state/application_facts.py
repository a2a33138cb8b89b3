"""Handlers of facts about applications: added, in another state, held, moved, or left."""

from __future__ import annotations

from ykactor.core.messages.acts import Hold
from ykactor.core.messages.facts import ApplicationAdded, ApplicationChanged, ApplicationHeld, ApplicationLeft, ApplicationMoved
from ykactor.core.messages.states import COUNTED_AS_RUNNING, ApplicationState
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.state import enrolment, node_facts, queue_facts
from ykactor.core.state.state import Handler, SchedulerState, Worklist


def application_added(state: SchedulerState, work: Worklist, fact: ApplicationAdded) -> None:
    """Add a new application to its leaf."""
    state.applications[fact.application_id] = PendingApplication(fact, state.tree.nodes[fact.queue], state.tree.waits)
    queue_facts.adopt_quotas(state, work, fact.queue)


def application_changed(state: SchedulerState, work: Worklist, fact: ApplicationChanged) -> None:
    """Apply the new state of an application."""
    entered = fact.state
    if entered is ApplicationState.EXPIRED:
        return  # it ended long ago; another application may have its id now (AP-72)
    application = state.applications[fact.application_id]
    leaf = state.leaf_of(application)
    if application.state in COUNTED_AS_RUNNING and entered not in COUNTED_AS_RUNNING:
        state.ledger.give_slot_back(leaf, fact.application_id)
        state.capacity_grew()
    application.enter(entered)
    if entered in COUNTED_AS_RUNNING:
        state.ledger.take_slot(leaf, fact.application_id)
        state.quota_reports.usage_grew()
    if entered is ApplicationState.RESUMING and application.gang is not None:
        application.gang.is_over = True
    work.touch(leaf, application)


def application_held(state: SchedulerState, work: Worklist, fact: ApplicationHeld) -> None:
    """Hold an application, or end its hold: its reservations are given up, and its asks are not tried meanwhile (OP-1)."""
    application = state.applications[fact.application_id]
    application.hold = Hold(fact.by, fact.at_ns) if fact.is_held else None
    application.changed = True
    if fact.is_held:
        reservations = [state.reservations.of(ask) for ask in application.reserving.values()]
        node_facts.cancel(state, work, fact.at_ns, reservations)
    state.capacity_grew()
    work.touch(state.leaf_of(application), application)


def application_left(state: SchedulerState, work: Worklist, fact: ApplicationLeft) -> None:
    """Remove an application that has left its leaf, with all asks and allocations."""
    application = state.applications.pop(fact.application_id)
    leaf = state.leaf_of(application)
    work.consequences += enrolment.leave(state, fact.at_ns, application)
    work.applications.pop(application, None)
    work.woken.pop(application, None)
    state.quota_reports.forget(application)
    state.backoffs.pop(application, None)
    leaf.applications.remove(application)
    state.pairs.forget(leaf, application)
    leaf.priorities.replace(application.shown_priority, None)
    state.ledger.give_slot_back(leaf, fact.application_id)
    state.capacity_grew()
    work.leaves[leaf] = None


def application_moved(state: SchedulerState, work: Worklist, fact: ApplicationMoved) -> None:
    """Count in the new leaf what counted in the old one; the limits are those of the new path."""
    application, leaf = state.applications[fact.application_id], state.tree.nodes[fact.to_queue]
    old = state.leaf_of(application)
    for ask, _ in application.asks.values():
        work.change_pending(old, ask.resource, -1)
        work.change_pending(leaf, ask.resource, 1)
    state.pairs.forget(old, application)
    state.tree.move(application, leaf)
    state.ledger.move(old, leaf, application.allocated)
    state.ledger.give_slot_back(old, application.application_id)
    if application.state in COUNTED_AS_RUNNING:
        state.ledger.take_slot(leaf, application.application_id)
    elif application.holds_slot:
        state.ledger.hold_slot(leaf, application.application_id)
    state.preemptions.move(old, leaf, application)
    work.consequences += enrolment.move(state, fact.at_ns, application, old)
    if leaf.is_held():
        queue_facts.give_up(state, work, fact.at_ns, leaf)
    work.touch(leaf, application)
    work.leaves[old] = None
    state.capacity_grew()


#: By type of fact.
HANDLERS: dict[type, Handler] = {
    ApplicationAdded: application_added,
    ApplicationChanged: application_changed,
    ApplicationHeld: application_held,
    ApplicationLeft: application_left,
    ApplicationMoved: application_moved,
}
