"""Handlers of facts about holds: reservations are given up, and held asks are not tried until the hold ends (OP-1 to OP-6)."""

from __future__ import annotations

from ykactor.core.messages.facts import ApplicationHeld, QueueHeld
from ykactor.core.messages.holds import Hold
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.state import node_facts
from ykactor.core.state.state import Handler, SchedulerState, Worklist


def application_held(state: SchedulerState, work: Worklist, fact: ApplicationHeld) -> None:
    """Hold an application, or end its hold."""
    application = state.applications[fact.application_id]
    application.hold = _hold(fact)
    application.changed = True
    if fact.is_held:
        reservations = [state.reservations.of(ask) for ask in application.reserving.values()]
        node_facts.cancel(state, work, fact.at_ns, reservations)
    state.capacity_grew()
    work.touch(state.leaf_of(application), application)


def queue_held(state: SchedulerState, work: Worklist, fact: QueueHeld) -> None:
    """Hold a queue with all below it, or end its hold: a held one shows no priority, so that the walk does not come there."""
    queue = state.tree.nodes[fact.queue]
    queue.hold = _hold(fact)
    if fact.is_held:
        give_up(state, work, fact.at_ns, queue)
    for application in state.applications.values():
        if application.gang is not None and queue in application.leaf.path_up:  # its placeholders may be replaced, or not
            work.touch(state.leaf_of(application), application)
    state.tree.refresh_priority(queue)
    state.tree.update_places(queue.path_up)
    state.capacity_grew()


def give_up(state: SchedulerState, work: Worklist, at_ns: int, queue: QueueNode) -> None:
    """End all reservations in a queue and below it."""
    reservations = state.reservations.by_ask.values()
    below = [reservation for reservation in reservations if queue in reservation.application.leaf.path_up]
    node_facts.cancel(state, work, at_ns, below)


def _hold(fact: ApplicationHeld | QueueHeld) -> Hold | None:
    return Hold(fact.by, fact.at_ns) if fact.is_held else None


#: By type of fact.
HANDLERS: dict[type, Handler] = {ApplicationHeld: application_held, QueueHeld: queue_held}
