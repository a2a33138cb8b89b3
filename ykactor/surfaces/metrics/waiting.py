"""The number of pending asks by reason; each equivalence class is looked at once."""

from __future__ import annotations

from collections import Counter

from ykactor.core.messages.kinds import WaitingCause
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps
from ykactor.core.waiting.causes import is_held, pending_of, pending_of_reserved

#: What is missing, by its label.
REASONS = {
    WaitingCause.HELD: "an operator, who ends the hold of its application or queue",
    WaitingCause.MAX_APPLICATIONS: "the application may not start: too many run",
    WaitingCause.USER: "a limit of its user or group",
    WaitingCause.QUEUE: "the maximum of a queue",
    WaitingCause.NODES: "room on a node",
    WaitingCause.PREDICATE: "a node that the resource manager lets it run on",
    WaitingCause.RESERVED: "room on the node that is reserved for it",
    WaitingCause.PLACEHOLDER: "a placeholder that it replaces",
    WaitingCause.BACKOFF: "the end of the back-off of its application",
    WaitingCause.APPLICATION: "its application fails, or another one starts first",
    WaitingCause.UNTRIED: "nothing is known to be: its turn has not come yet",
}
#: To look at an ask queue takes as long as so many other items, if its class was not looked at.
_CLASS_ITEMS = 3


def by_reason(state: SchedulerState) -> Steps[Counter[WaitingCause]]:
    """The number of pending asks for each reason."""
    found: Counter[WaitingCause] = Counter()
    known: dict[AskClass, WaitingCause] = {}
    for application in state.applications.values():
        held = is_held(state, application)
        if application.gang is not None and application.gang.held:
            found[WaitingCause.HELD if held else WaitingCause.PLACEHOLDER] += len(application.gang.held)
        for queue in application.queues.values():
            if queue.key[1] == HAS_NODE:
                continue
            found[WaitingCause.HELD if held else _reason(state, application, queue, known)] += len(queue)
            yield _CLASS_ITEMS
        yield 1
    for reservation in state.reservations.by_ask.values():
        held = is_held(state, reservation.application)
        found[WaitingCause.HELD if held else pending_of_reserved(state, reservation).cause] += 1
        yield _CLASS_ITEMS
    return found


def _reason(
    state: SchedulerState, application: PendingApplication, queue: AskQueue, known: dict[AskClass, WaitingCause]
) -> WaitingCause:
    ask_class = queue.ask_class
    if ask_class is None:
        return pending_of(state, application, queue).cause
    reason = known.get(ask_class)
    if reason is None:
        reason = known[ask_class] = pending_of(state, application, queue).cause
    return reason
