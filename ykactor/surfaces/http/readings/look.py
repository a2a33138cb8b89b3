"""The input of a reading: a partition, and the view of the caller."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, Struct, structs

from ykactor.access.view import STATE_CAUSES, View, details_in_view, in_whole_ms, record_in_view
from ykactor.core.inspection.application_status import TIMES, ApplicationDetails, ApplicationStatus, RecordStatus
from ykactor.core.inspection.shown import ShownT
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import Resource
from ykactor.core.waiting.reasons import PendingCause


class Look(Struct, frozen=True, gc=False):
    """A partition between two turns, to be read only.

    Attributes:
        now_ns: the time of the look.
        view: that of a reader which is limited to queues (SE-88); None: everything is shown.
    """

    core: PartitionCore
    state: SchedulerState
    now_ns: int
    view: View | None = None

    def shows(self, path: str) -> bool:
        """True if the queue, a path in lower case, is shown; "" stands for what is in no queue."""
        return self.view is None or self.view.shows_queue(path)

    def leaf_of(self, application_id: ApplicationID) -> QueuePath | None:
        """The leaf of a live application that is shown. What is hidden takes as long as what does not exist (SE-26)."""
        path = self.core.registry.applications.get(application_id, QueuePath(""))
        return path if self.shows(path) and path else None

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        """The reason of a pending ask that wants so much, in base units."""
        return cause.text if self.view is None else self.view.reason(cause, wanted)

    def times(self, shown: ShownT, fields: Iterable[str]) -> ShownT:
        """An object with its times; for a limited reader in whole milliseconds (SE-84)."""
        return shown if self.view is None else in_whole_ms(shown, fields)

    def record(self, record: RecordStatus) -> RecordStatus:
        """The record of a task of an application that is shown, as far as it is shown itself."""
        return record if self.view is None else record_in_view(record, self.view.shows_queue)

    def end(self, status: ApplicationStatus) -> ApplicationStatus:
        """An application that has ended; a limited reader gets no reason in the words of others (SE-84)."""
        is_hidden = self.view is not None and status.reason not in STATE_CAUSES
        return structs.replace(self.times(status, TIMES), reason=UNSET if is_hidden else status.reason)

    def details(self, details: ApplicationDetails) -> ApplicationDetails:
        """The details of an application, as far as they are shown."""
        return details if self.view is None else details_in_view(details)
