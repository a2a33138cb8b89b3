"""When something falls due in a partition: the partition actor is its only alarm clock.

Timers of applications belong to their leaves; here is only which leaf to wake when. What no leaf keeps any more
(ended applications, queues to clean up) has its deadlines here.
"""

from __future__ import annotations

import heapq

from msgspec import Struct

from ykactor.core.ids import ApplicationID, QueuePath
from ykactor.core.states import TERMINAL_TIMEOUT_NS, ApplicationState

#: Refused applications that stay visible: a resource manager that is refused in a loop must not fill the memory.
REJECTED_MAX = 10_000


class EndedApplication(Struct):
    """An application that is no longer in a queue but still visible (AP-71, AP-22)."""

    application_id: ApplicationID
    queue: str
    state: ApplicationState
    finished_ns: int
    reason: str = ""


class Timetable:
    """Deadlines of one partition, Unix nanoseconds."""

    def __init__(self) -> None:
        self._leaves: list[tuple[int, QueuePath]] = []
        #: By ``<applicationID>-<unix seconds>``, a further ``-<n>`` when that is taken (AP-71); refused ones by their id.
        self.ended: dict[str, EndedApplication] = {}
        self._expiries: list[tuple[int, str]] = []
        #: Keys of refused applications, the oldest refusal first.
        self._rejected: dict[str, None] = {}
        #: When empty draining queues are removed next; None while none drains.
        self.cleaning_ns: int | None = None

    def note_leaf(self, path: QueuePath, deadline_ns: int | None) -> None:
        """A leaf's next timer is due at ``deadline_ns``. Noting it twice is harmless."""
        if deadline_ns is not None:
            heapq.heappush(self._leaves, (deadline_ns, path))

    def note_ended(self, application: EndedApplication) -> None:
        """Keep an application that completed or failed until it expires."""
        stem = key = f"{application.application_id}-{application.finished_ns // 1_000_000_000}"
        number = 1
        while key in self.ended:
            number += 1
            key = f"{stem}-{number}"
        self._keep(key, application)

    def note_rejected(self, application: EndedApplication) -> None:
        """Keep a refused application; a later refusal of the same id replaces it (AP-22). Of many, the newest are kept."""
        self._rejected.pop(application.application_id, None)
        self._rejected[application.application_id] = None
        self._keep(application.application_id, application)
        if len(self._rejected) > REJECTED_MAX:
            oldest = next(iter(self._rejected))
            del self._rejected[oldest], self.ended[oldest]

    def _keep(self, key: str, application: EndedApplication) -> None:
        self.ended[key] = application
        heapq.heappush(self._expiries, (application.finished_ns + TERMINAL_TIMEOUT_NS, key))

    def forget_ended(self) -> None:
        """A fresh start: nothing that ended is visible any more."""
        self.ended.clear()
        self._expiries.clear()
        self._rejected.clear()

    def next_ns(self) -> int | None:
        """The earliest deadline of all; None when nothing is to come."""
        heads = [heap[0][0] for heap in (self._leaves, self._expiries) if heap]
        if self.cleaning_ns is not None:
            heads.append(self.cleaning_ns)
        return min(heads, default=None)

    def due_leaves(self, now_ns: int) -> list[QueuePath]:
        """Take out the leaves to wake, earliest first, each once."""
        paths: dict[QueuePath, None] = {}
        while self._leaves and self._leaves[0][0] <= now_ns:
            paths[heapq.heappop(self._leaves)[1]] = None
        return list(paths)

    def due_expiries(self, now_ns: int) -> list[EndedApplication]:
        """Take out the ended applications whose time is up (AP-73)."""
        expired = []
        while self._expiries and self._expiries[0][0] <= now_ns:
            deadline_ns, key = heapq.heappop(self._expiries)
            application = self.ended.get(key)
            # a refused one may be gone or have been refused anew since
            if application is not None and application.finished_ns + TERMINAL_TIMEOUT_NS == deadline_ns:
                expired.append(self.ended.pop(key))
                self._rejected.pop(key, None)
        return expired
