"""Why asks are pending, as text with current numbers."""

from __future__ import annotations

from ykactor.core.messages.states import ApplicationState
from ykactor.core.preemption.attempts import PreemptionAttempts
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import AskClass, PendingApplication
from ykactor.core.quota.limits import Tracker


def explain(application: PendingApplication, queue: AskQueue, preemptions: PreemptionAttempts) -> str:
    """Why the asks of one class of an application are pending, as text for people with current numbers."""
    if application.backoff_ns:
        return "too many asks of the application fit nowhere: it is left alone for a while (application.unschedasks.backoff)"
    if application.state is ApplicationState.FAILING:
        return "the application is Failing: it ends when the resource manager has confirmed its releases"
    if queue.ask_class is None:
        return "another application of the queue starts first (stateaware)"
    shortage, last = _shortage(queue, queue.ask_class), preemptions.last_attempt(queue.first())
    return f"{shortage}; {last.why}" if last is not None and last.why else shortage


def _shortage(queue: AskQueue, ask_class: AskClass) -> str:
    if isinstance(ask_class.reason, str):
        return ask_class.reason
    short, name = ask_class.reason
    if isinstance(short, Tracker):
        where, limits, applications_max = f"the limit of {short.whose} in queue {short.path}", short.limit, short.max_applications
        runs = f"{short.whose} runs in queue {short.path} its"
    else:
        where = "the cluster" if short.parent is None else f"queue {short.path}"
        limits, applications_max = short.max, short.config.max_applications
        runs = f"queue {short.path} runs its"
    if not name:
        return f"{runs} maximum of {applications_max} applications"
    used, limit = short.allocated.get(name, 0), (limits or {}).get(name, 0)
    wanted = dict(queue.needs).get(name, 0)
    return f"not enough {name} in {where}: wants {wanted}, has {max(0, limit - used)} of {limit}"
