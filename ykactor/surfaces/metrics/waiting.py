"""Why asks are pending, by class: of what ``core.inspection.pending`` says in sentences, only which sentence it is.

It looks at each equivalence class once, and at no node: so it takes the same time however large the cluster is.
"""

from __future__ import annotations

from collections import Counter

from ykactor.core.messages.states import ApplicationState
from ykactor.core.queueing.equivalence import HAS_NODE, AskQueue
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Pace, Pausing

#: What is missing, by its label.
REASONS = {
    "maxapps": "the application may not start: too many run",
    "user": "a limit of its user or group",
    "queue": "the maximum of a queue",
    "nodes": "room on a node",
    "predicate": "a node that the resource manager lets it run on",
    "reserved": "room on the node that is reserved for it",
    "placeholder": "a placeholder that it replaces",
    "backoff": "the end of the back-off of its application",
    "application": "its application fails, or another one starts first",
    "untried": "nothing is known to be: its turn has not come yet",
}
#: To look at an ask queue takes as long as so many other items, if its class was not looked at.
_CLASS_ITEMS = 3


def by_reason(state: SchedulerState) -> Pausing[Counter[str]]:
    """How many asks are pending for each reason."""
    found: Counter[str] = Counter()
    known: dict[AskClass, str] = {}
    pace = Pace()
    for application in state.applications.values():
        if application.gang is not None and application.gang.held:
            found["placeholder"] += len(application.gang.held)
        for queue in application.queues.values():
            if queue.key[1] == HAS_NODE:
                continue
            found[_reason(state, application, queue, known)] += len(queue)
            if pace.is_due(_CLASS_ITEMS):
                yield ()
        if pace.is_due():
            yield ()
    if state.reservations.by_ask:
        found["reserved"] = len(state.reservations.by_ask)
    return found


def _reason(state: SchedulerState, application: PendingApplication, queue: AskQueue, known: dict[AskClass, str]) -> str:
    ask_class = queue.ask_class
    if ask_class is None:
        return _kept_back(application, queue)
    reason = known.get(ask_class)
    if reason is None:
        reason = known[ask_class] = _of_class(state, application, queue)
    return reason


def _kept_back(application: PendingApplication, queue: AskQueue) -> str:
    """Of a queue that is in no class."""
    if application.state is ApplicationState.FAILING:
        return "application"
    if application.backoff_ns:
        return "backoff"
    return "untried" if application.changed or queue in application.opened else "application"


def _of_class(state: SchedulerState, application: PendingApplication, queue: AskQueue) -> str:
    """Of the class of the queue: what holds for one of its applications holds for all."""
    short = application.slot_shortage() or application.shortage(queue.shape)
    if short is not None:
        place, name = short
        if not name:
            return "maxapps"
        if isinstance(place, Tracker):
            return "user"
        return "nodes" if place.parent is None else "queue"
    if queue.ask_class is not None and not queue.ask_class.parked:
        return "untried"
    predicate = queue.shape[3]
    return "predicate" if predicate and state.nodes.predicates.refusals((predicate, True)) else "nodes"
