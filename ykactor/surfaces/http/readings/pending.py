"""The reasons of the pending asks of an application."""

from __future__ import annotations

from ykactor.core.inspection.pending_asks import pending_causes
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import tasks
from ykactor.wire.rest.codec import encode_part

#: An ask takes as long as so many other items: 20 us.
_ENTRY_ITEMS = 10


def pending_asks(look: Look, application_id: ApplicationID) -> Steps[list[bytes] | None]:
    """The reason of each pending ask of a live application, by their arrival, encoded; None if there is no such application."""
    if look.leaf_of(application_id) is None:
        return None
    found = list[bytes]()
    for ask, cause in (yield from pending_causes(look.state, look.state.applications[application_id])):
        reason = look.reason(cause, ask.resource)
        found.append(encode_part(tasks.PendingAsk(allocation_key=ask.allocation_key, code=cause.code.value, reason=reason)))
        yield _ENTRY_ITEMS
    return found
