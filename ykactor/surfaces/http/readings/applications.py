"""Applications: with their asks and allocations while they live, and as they are remembered when they have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.accounting.past import Past
from ykactor.core.inspection.application_status import (
    TIMES,
    end_of,
    ended_details,
    live_details,
    record_statuses,
    status_of,
)
from ykactor.core.inspection.explaining import explain
from ykactor.core.inspection.pending_asks import pending_causes, was_tried
from ykactor.core.inspection.task_status import ALLOCATION_TIMES, ASK_TIMES, allocation_status, ask_status
from ykactor.core.messages.states import ApplicationState
from ykactor.core.objects.application import Application
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.parts import Steps, sorted_in_parts
from ykactor.core.values.resources import add_to, saturated_and_pruned
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import applications as rest
from ykactor.wire.rest.codec import Item, encode, encode_each, encode_part, encode_with

#: The values of ``status``: the states of applications that live.
LIVE_STATES = ("new", "accepted", "running", "completing", "failing", "resuming")
#: An application, and each ask and allocation, takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10
_SMALL_MAX = 20


def are_small(found: Iterable[Application]) -> bool:
    """True if these and their asks and allocations are so few together that to read them takes less than 1 ms."""
    size = 0
    for application in found:
        size += 1 + len(application.tasks.asks) + len(application.tasks.allocations)
        if size > _SMALL_MAX:
            return False
    return True


def live(look: Look, queue: QueuePath | None = None, status: str = "") -> Steps[list[Item]]:
    """The live applications of a leaf, or of all with None, in a state, or in any with ""; encoded, by their submission."""
    found = []
    for _, _, application in (yield from sorted_in_parts(_live(look, queue))):
        if status in ("", rest.state_name(application.state).lower()):
            found.append((yield from _live_application(look, application)))
        yield _ENTRY_ITEMS
    return found


def _live(look: Look, queue: QueuePath | None) -> Iterator[tuple[int, int, Application]]:
    """The applications that are shown, each after its order: the submission, and the number of the registration."""
    registry = look.core.registry
    for path in dict.fromkeys(registry.applications.values()) if queue is None else [queue]:
        for application in registry.leaf(path).applications.values() if look.shows(path) else ():
            yield application.submission_ns, application.arrival, application


def completed(look: Look) -> Steps[list[bytes]]:
    """Applications that have ended, also those that failed, the oldest first; encoded."""
    return _remembered(look, look.core.timers.ended.values())


def rejected(look: Look) -> Steps[list[bytes]]:
    """Applications that were rejected, the oldest first; encoded. They are in no queue, so limited readers see none."""
    return _remembered(look, look.core.timers.rejected.values() if look.shows("") else ())


def explanation(look: Look, application_id: ApplicationID, key: AllocationKey) -> Steps[bytes | None]:
    """The explanation of a pending ask, encoded; None if it is not pending."""
    if look.leaf_of(application_id) is None:
        return None
    found = yield from explain(look.core, look.state, (application_id, key), look.now_ns, look.view)
    return None if found is None else encode(look.times(found, ["creation_time"]))


def _remembered(look: Look, entries: Iterable[EndedApplication]) -> Steps[list[bytes]]:
    found = []
    for entry in entries:
        if entry.state is ApplicationState.REJECTED or look.shows(entry.queue):
            found.append(encode_part(_ended_application(look, entry)))
        yield _ENTRY_ITEMS
    return found


def one(look: Look, application_id: ApplicationID, queue: QueuePath | None = None) -> Steps[Item | None]:
    """A live application, also only if it is in a queue, encoded; None if there is none."""
    found = look.leaf_of(application_id)
    if found is None or queue not in (None, found):
        return None
    application = look.core.registry.leaf_of(application_id).applications[application_id]
    return (yield from _live_application(look, application))


def _live_application(look: Look, application: Application) -> Steps[Item]:
    waiting, total = look.state.applications[application.application_id], dict[str, int]()
    asks = (yield from _requests(look, waiting, total)) if waiting.asks else []
    allocations = (yield from _allocations(look, application)) if application.tasks.allocations else []
    status, details = look.times(status_of(waiting), TIMES), look.details(live_details(application, waiting))
    shown = rest.application(look.core.name, application.application_id, status, details, saturated_and_pruned(total))
    return (yield from encode_with(shown, {"requests": asks, "allocations": allocations}))


def _requests(look: Look, pending: PendingApplication, total: dict[str, int]) -> Steps[list[bytes]]:
    """The pending asks by their arrival, encoded; what they want is added to ``total``."""
    tried: dict[AskQueue | None, bool] = {}
    found: list[bytes] = []
    for _, key in (yield from sorted_in_parts((ask.arrival, key) for key, (ask, _) in pending.asks.items())):
        ask, queue = pending.asks[key]
        add_to(total, ask.resource)
        if queue not in tried:
            tried[queue] = was_tried(look.state, pending, queue)
        status = ask_status(look.state, ask, is_tried=tried[queue] or key in pending.reserving)
        found.append(encode_part(rest.request(look.times(status, ASK_TIMES))))
        yield _ENTRY_ITEMS
    return found


def _allocations(look: Look, application: Application) -> Steps[list[bytes]]:
    """The allocations of an application by their arrival, encoded."""
    running = application.tasks.allocations
    keys: Iterable[AllocationKey] = running
    if len(running) > 1:
        keys = (key for _, key in (yield from sorted_in_parts((ask.arrival, key) for key, (ask, _) in running.items())))
    statuses = (look.times(allocation_status(look.state, application, key), ALLOCATION_TIMES) for key in keys)
    return (yield from encode_each(map(rest.allocation, statuses), _ENTRY_ITEMS))


def _ended_application(look: Look, entry: EndedApplication) -> rest.Application:
    status, details = look.times(end_of(entry), TIMES), look.details(ended_details(entry))
    return rest.application(look.core.name, entry.application_id, status, details, {})


# ---- the ends of the tasks of an application (AP-152)


def records(look: Look, application_id: ApplicationID) -> Steps[list[rest.TaskRecord] | None]:
    """The records of an application that lives, else of the last one with this id that has ended; None if there is neither."""
    found = yield from _past_of(look, application_id)
    if found is None:
        return None
    user, past = found
    return [*ended_tasks(look, user, past)]


def ended_tasks(look: Look, user: str, past: Past) -> Iterator[rest.TaskRecord]:
    """The records of an application of a user, the oldest first."""
    return (rest.record(user, look.record(record)) for record in record_statuses(past))


def _past_of(look: Look, application_id: ApplicationID) -> Steps[tuple[str, Past] | None]:
    if look.leaf_of(application_id) is not None:
        application = look.core.registry.leaf_of(application_id).applications[application_id]
        return application.who.user, application.past
    for ended in reversed(look.core.timers.ended.values()):
        if ended.application_id == application_id and look.shows(ended.queue):
            return ended.user, ended.past
        yield 1
    return None


# ---- the reasons of the pending asks of an application


def pending_asks(look: Look, application_id: ApplicationID) -> Steps[list[bytes] | None]:
    """The reason of each pending ask of a live application, by their arrival, encoded; None if there is no such application."""
    if look.leaf_of(application_id) is None:
        return None
    causes = yield from pending_causes(look.state, look.state.applications[application_id])
    shown = (
        rest.PendingAsk(allocation_key=ask.allocation_key, code=cause.code.value, reason=look.reason(cause, ask.resource))
        for ask, cause in causes
    )
    return (yield from encode_each(shown, _ENTRY_ITEMS))
