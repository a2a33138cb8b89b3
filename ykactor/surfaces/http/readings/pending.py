"""Why the asks of an application are pending."""

from __future__ import annotations

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import WaitingCause
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Pace, Pausing, sorted_in_parts
from ykactor.core.waiting.causes import PendingCauses, is_held, pending_of
from ykactor.core.waiting.codes import PendingCause
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import tasks
from ykactor.wire.rest.codec import encode_part

#: What the attempt to place an ask has found; everything else keeps it back before it is tried.
_FOUND_BY_TRYING = frozenset((WaitingCause.QUEUE, WaitingCause.NODES, WaitingCause.PREDICATE, WaitingCause.RESERVED))
#: An ask takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10


def pending_asks(look: Look, application_id: ApplicationID) -> Pausing[list[bytes] | None]:
    """Why each ask of a live application is pending, by their arrival, encoded; None if there is no such application."""
    if look.leaf_of(application_id) is None:
        return None
    pending, causes, pace = look.state.applications[application_id], PendingCauses(look.state), Pace()
    known: dict[AskQueue, PendingCause] = {}
    found: list[bytes] = []
    for _, key in (yield from sorted_in_parts((ask.arrival, key) for key, (ask, _) in pending.asks.items())):
        ask, queue = pending.asks[key]
        if queue is None or key in pending.reserving:
            cause = _cause_of_one(look, pending, ask, causes)
        else:
            cause = known[queue] = known.get(queue) or causes.of(pending, queue)
        reason = look.reason(cause, ask.resource)
        found.append(encode_part(tasks.PendingAsk(allocation_key=key, code=cause.code.value, reason=reason)))
        if pace.is_due(_ENTRY_ITEMS):
            yield ()
    return found


def _cause_of_one(look: Look, pending: PendingApplication, ask: Ask, causes: PendingCauses) -> PendingCause:
    """The cause of an ask that has a reservation, or waits for a placeholder."""
    is_reserving = ask.allocation_key in pending.reserving
    return causes.of_reserved(look.state.reservations.of(ask)) if is_reserving else causes.of_held(pending, ask)


def was_tried(look: Look, pending: PendingApplication, queue: AskQueue | None) -> bool:
    """True if the scheduler has tried to place the asks of a queue of the application; None: those that wait for placeholders."""
    if queue is None or queue.ask_class is None or is_held(look.state, pending):
        return False
    cause = pending_of(look.state, pending, queue).cause
    return cause in _FOUND_BY_TRYING or (cause is WaitingCause.UNTRIED and not queue.ask_class.is_new())
