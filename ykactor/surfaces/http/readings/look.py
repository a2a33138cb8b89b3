"""What a reading gets to see."""

from __future__ import annotations

from msgspec import Struct

from ykactor.access.view import View
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import Resource
from ykactor.core.values.times import MS_NS
from ykactor.core.waiting.codes import PendingCause


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
        """Whether the queue, a path in lower case, is shown; "" stands for what is in no queue."""
        return self.view is None or self.view.shows_queue(path)

    def leaf_of(self, application_id: ApplicationID) -> QueuePath | None:
        """The leaf of a live application that is shown. What is hidden takes as long as what does not exist (SE-26)."""
        path = self.core.registry.applications.get(application_id, QueuePath(""))
        return path if self.shows(path) and path else None

    def reason(self, cause: PendingCause, wanted: Resource) -> str:
        """Why an ask is pending that wants so much, base units."""
        return cause.text if self.view is None else self.view.reason(cause, wanted)

    def time(self, at_ns: int) -> int:
        """A time of an application or ask; to a limited reader in whole milliseconds (SE-84)."""
        return at_ns if self.view is None else at_ns - at_ns % MS_NS
