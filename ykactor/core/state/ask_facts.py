"""Handlers of facts about asks: pending, resized, cancelled, or waiting for placeholders."""

from __future__ import annotations

from msgspec import structs

from ykactor.core.messages.asks import Ask, ask_id
from ykactor.core.messages.facts import (
    AskPriorityChanged,
    AskReadmitted,
    AskRemoved,
    AskResized,
    AskReturned,
    SchedulingStatesWanted,
    TaskGroupChanged,
)
from ykactor.core.state import node_facts
from ykactor.core.state.state import Handler, SchedulerState, Worklist
from ykactor.core.values.resources import fits


def ask_returned(state: SchedulerState, work: Worklist, fact: AskReturned) -> None:
    """Queue an ask again that was placed, or was about to replace a placeholder."""
    state.scheduling_states.forget(fact.ask)
    add(state, work, fact.ask)
    state.applications[fact.ask.application_id].wait_again(fact.ask)


def ask_added(state: SchedulerState, work: Worklist, ask: Ask) -> None:
    """Queue a new ask."""
    application = state.applications[ask.application_id]
    if not application.asks:
        work.begin(application)
    if application not in work.applications:
        work.touch(state.tree.leaf_of(application), application)
    application.add(ask)
    if state.next_eligible_ns is not None:
        state.note_ages(state.leaf_of(application), (ask,))
    work.change_pending(application.leaf, ask.resource, 1)


def add(state: SchedulerState, work: Worklist, ask: Ask) -> None:
    """Queue a pending ask."""
    leaf, application = state.owner_of(ask)
    application.add(ask)
    state.note_ages(leaf, (ask,))
    work.change_pending(leaf, ask.resource, 1)
    work.touch(leaf, application)


def with_wait(state: SchedulerState, fact: AskRemoved) -> AskRemoved:
    """The end of an ask with what it waited for, if it was pending or was to replace a placeholder (AP-154)."""
    application, key = state.applications.get(fact.ask.application_id), fact.ask.allocation_key
    if application is None or not (fact.pending or key in application.own_waits):
        return fact
    queue = application.asks[key][1] if fact.pending else None
    if queue is not None and application.waits_for_turn(queue):
        return fact
    return structs.replace(fact, waited=application.finish(fact.ask))


def ask_removed(state: SchedulerState, work: Worklist, fact: AskRemoved) -> None:
    """Remove an ask; the scheduler has pending ones only."""
    if fact.pending:
        discard(state, work, fact.at_ns, fact.ask)
        uncount_idle(state, fact.ask)


def discard(state: SchedulerState, work: Worklist, at_ns: int, ask: Ask) -> None:
    """Remove a pending ask, and its reservation."""
    leaf, application = state.owner_of(ask)
    if ask.allocation_key in application.reserving:
        node_facts.cancel(state, work, at_ns, [state.reservations.of(ask)])
    state.preemptions.forget(ask)
    application.discard(ask)
    application.own_waits.pop(ask.allocation_key, None)
    work.change_pending(leaf, ask.resource, -1)
    work.touch(leaf, application)


def ask_resized(state: SchedulerState, work: Worklist, fact: AskResized) -> None:
    """Apply the new size of a pending ask; its reservation stays if the node is large enough."""
    before, after = fact.before, fact.after
    leaf, application = state.owner_of(after)
    keeps_node = False
    if ask_id(before) in state.preemptions.by_ask:  # it preempted others for the old size
        state.preemptions.end(leaf, before)
    if before.allocation_key in application.reserving:
        reservation = state.reservations.of(before)
        keeps_node = fits(reservation.node.capacity, after.resource)
        if not keeps_node:
            node_facts.cancel(state, work, fact.at_ns, [reservation])
    application.replace(before, after)
    state.note_ages(leaf, (after,))
    work.change_pending(leaf, before.resource, -1)
    work.change_pending(leaf, after.resource, 1)
    work.touch(leaf, application)
    if keeps_node:
        state.occupy(application, after)
        state.reservations.renew(after)


def ask_priority_changed(state: SchedulerState, work: Worklist, fact: AskPriorityChanged) -> None:
    """Apply the new priority of a pending ask, as if it had been submitted with it; it keeps a reservation (OP-12, OP-13)."""
    state.preemptions.forget(fact.before)
    renew(state, work, fact.before, fact.after)


def ask_readmitted(state: SchedulerState, work: Worklist, fact: AskReadmitted) -> None:
    """Queue a pending ask that may run on more nodes; it keeps a reservation (AP-144)."""
    renew(state, work, fact.before, fact.after)


def renew(state: SchedulerState, work: Worklist, before: Ask, after: Ask) -> None:
    """Queue a pending ask of the same size where it belongs now; it keeps a reservation."""
    leaf, application = state.owner_of(after)
    has_node = before.allocation_key in application.reserving
    state.preemptions.renew(after)
    application.replace(before, after)
    if has_node:
        state.occupy(application, after)
        state.reservations.renew(after)
    state.capacity_grew()
    work.touch(leaf, application)


def task_group_changed(state: SchedulerState, work: Worklist, fact: TaskGroupChanged) -> None:
    """Let the real asks of a group wait for placeholders from now on, or no longer (GA-13)."""
    application = state.applications[fact.application_id]
    if fact.is_open:  # asks that wait for placeholders have no reservation
        reserving = application.reserving.values()
        asks = [ask for ask in reserving if ask.task_group_name == fact.task_group_name and not ask.placeholder]
        node_facts.cancel(state, work, fact.at_ns, [state.reservations.of(ask) for ask in asks])
    application.change_group(fact.task_group_name, is_open=fact.is_open)
    state.capacity_grew()  # asks that are queued now may be old enough to reserve
    work.touch(state.leaf_of(application), application)


def uncount_idle(state: SchedulerState, ask: Ask) -> None:
    """Stop counting an application as running if nothing of it is pending or allocated.

    This is done at once, not at the end of the observation: its next ask must start a new count (QU-74).
    """
    application = state.applications[ask.application_id]
    if application.counted_as_running and not application.asks and not application.allocated:
        application.uncount()
        state.capacity_grew()


def scheduling_states_wanted(state: SchedulerState, _: Worklist, fact: SchedulingStatesWanted) -> None:
    """Begin to tell a resource manager why its asks are pending, or end it."""
    state.scheduling_states.want(is_wanted=fact.is_wanted)


#: By type of fact.
HANDLERS: dict[type, Handler] = {
    AskReturned: ask_returned,
    AskRemoved: ask_removed,
    AskResized: ask_resized,
    AskReadmitted: ask_readmitted,
    AskPriorityChanged: ask_priority_changed,
    TaskGroupChanged: task_group_changed,
    SchedulingStatesWanted: scheduling_states_wanted,
}
