"""The ends of the tasks of an application (AP-152)."""

from __future__ import annotations

from ykactor.core.accounting.past import Past
from ykactor.core.inspection.application_status import RECORD_TIMES, record_statuses
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import tasks


def records(look: Look, application_id: ApplicationID) -> Steps[list[tasks.TaskRecord] | None]:
    """The records of an application that lives, else of the last one with this id that has ended; None if there is neither."""
    found = yield from _found(look, application_id)
    if found is None:
        return None
    user, past = found
    return [tasks.record(user, look.times(record, RECORD_TIMES)) for record in record_statuses(past)]


def _found(look: Look, application_id: ApplicationID) -> Steps[tuple[str, Past] | None]:
    if look.leaf_of(application_id) is not None:
        application = look.core.registry.leaf_of(application_id).applications[application_id]
        return application.who.user, application.past
    for ended in reversed(look.core.timers.ended.values()):
        if ended.application_id == application_id and look.shows(ended.queue):
            return ended.user, ended.past
        yield 1
    return None
