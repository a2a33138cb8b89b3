"""The deadlines of a partition. Its actor is the only task that waits for them.

Timers of applications belong to their leaves; here are the times to wake leaves, and the deadlines of what belongs to no leaf:
ended applications, and queues to remove.
"""

from __future__ import annotations

import heapq

from msgspec import Struct, field

from ykactor.core.accounting.past import ENDED_RECORDS_MAX, Past
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.messages.states import TERMINAL_TIMEOUT_NS, ApplicationState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.application import Application
from ykactor.core.values.ids import ApplicationID, QueuePath

#: Refused applications that stay visible at most, and ended ones: they must not fill the memory.
REJECTED_MAX = ENDED_MAX = 10_000
#: Groups of an application are kept as long as their names together have at most so many characters.
GROUPS_MAX = 1024
#: Deadlines of leaves that do not hold any more are dropped when there are so many more than leaves.
SPARE = 64


class EndedApplication(Struct, forbid_unknown_fields=True):
    """An application that is not in a queue any more but still visible (AP-71, AP-22).

    Attributes:
        reason: the reason why it was refused.
        submission_ns: 0 if it ended before this was kept.
    """

    application_id: ApplicationID
    queue: str
    state: ApplicationState
    finished_ns: int
    reason: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    submission_ns: int = 0
    past: Past = field(default_factory=Past)


def ended(application: Application, finished_ns: int) -> EndedApplication:
    """Make the record that is kept of an application that has just ended."""
    application.past.forget_records(ENDED_RECORDS_MAX)
    return EndedApplication(
        application.application_id,
        application.queue,
        application.state,
        finished_ns,
        user=application.who.user,
        groups=_first(application.who.groups),
        submission_ns=application.submission_ns,
        past=application.past,
    )


def rejected(spec: AddApplication, at_ns: int, reason: str) -> EndedApplication:
    """Make the record that is kept of an application that was refused."""
    return EndedApplication(
        spec.application_id,
        spec.queue_name,
        ApplicationState.REJECTED,
        at_ns,
        reason,
        user=spec.user,
        groups=_first(spec.groups),
        submission_ns=at_ns,
    )


def _first(groups: tuple[str, ...]) -> tuple[str, ...]:
    """The first groups of a user, with ``GROUPS_MAX`` characters at most."""
    left = GROUPS_MAX
    for number, group in enumerate(groups):
        left -= len(group)
        if left < 0:
            return groups[:number]
    return groups


class Timers:
    """Deadlines of one partition, Unix nanoseconds."""

    def __init__(self, changed: Changed) -> None:
        self._leaves: list[tuple[int, QueuePath]] = []
        #: The earliest deadline noted for each leaf.
        self._noted: dict[QueuePath, int] = {}
        #: By ``<applicationID>-<unix seconds>``, a further ``-<n>`` when that is taken (AP-71).
        self.ended: KeptRows[str, EndedApplication] = KeptRows(changed.ended)
        self._expiries: list[tuple[int, str]] = []
        #: Refused applications, the oldest refusal first (AP-22).
        self.rejected: KeptRows[ApplicationID, EndedApplication] = KeptRows(changed.rejected)
        #: When empty queues are removed next; None while there are none to remove.
        self.cleaning_ns: int | None = None
        #: When the scheduler wants to recheck pending asks, from its last cycle; None if it does not.
        self.recheck_ns: int | None = None

    def note_leaf(self, path: QueuePath, deadline_ns: int | None) -> None:
        """Note that a leaf's next timer is due at ``deadline_ns``. Noting it twice is harmless."""
        noted_ns = self._noted.get(path)
        if deadline_ns is not None and (noted_ns is None or deadline_ns < noted_ns):
            self._noted[path] = deadline_ns
            heapq.heappush(self._leaves, (deadline_ns, path))
            if len(self._leaves) > 2 * len(self._noted) + SPARE:
                self._leaves = sorted((at_ns, leaf) for leaf, at_ns in self._noted.items())

    def forget_leaf(self, path: QueuePath) -> None:
        """Forget a removed leaf. Its applications may have had deadlines in the far future."""
        self._noted.pop(path, None)

    def note_ended(self, application: EndedApplication) -> None:
        """Keep an application that completed or failed until it expires."""
        stem = key = f"{application.application_id}-{application.finished_ns // 1_000_000_000}"
        number = 1
        while key in self.ended:
            number += 1
            key = f"{stem}-{number}"
        self.keep_ended(key, application)

    def keep_ended(self, key: str, application: EndedApplication) -> None:
        """Keep an application under a key that is not taken."""
        self.ended[key] = application
        heapq.heappush(self._expiries, (application.finished_ns + TERMINAL_TIMEOUT_NS, key))

    def note_rejected(self, application: EndedApplication) -> None:
        """Keep a refused application; a later refusal of the same id replaces it (AP-22). Of many, the newest are kept."""
        self.keep_rejected(application)
        if len(self.rejected) > REJECTED_MAX:
            del self.rejected[next(iter(self.rejected))]

    def keep_rejected(self, application: EndedApplication) -> None:
        """Keep an application as the newest refusal."""
        self.rejected.discard(application.application_id)
        self.rejected[application.application_id] = application

    def forget_ended(self) -> None:
        """Forget all ended and refused applications."""
        self.ended.clear()
        self._expiries.clear()
        self.rejected.clear()

    def next_ns(self) -> int | None:
        """The earliest deadline of all; None if there is none."""
        heads = []
        if self._leaves:
            heads.append(self._leaves[0][0])
        if self._expiries:
            heads.append(self._expiries[0][0])
        if self.rejected:  # the oldest refusal is the first
            heads.append(next(iter(self.rejected.values())).finished_ns + TERMINAL_TIMEOUT_NS)
        if self.cleaning_ns is not None:
            heads.append(self.cleaning_ns)
        if self.recheck_ns is not None:
            heads.append(self.recheck_ns)
        return min(heads, default=None)

    def due_leaves(self, now_ns: int) -> list[QueuePath]:
        """Remove and return the leaves to wake, earliest first, each once."""
        paths: dict[QueuePath, None] = {}
        while self._leaves and self._leaves[0][0] <= now_ns:
            path = heapq.heappop(self._leaves)[1]
            if self._noted.pop(path, None) is not None:
                paths[path] = None
        return list(paths)

    def due_expiries(self, now_ns: int) -> list[EndedApplication]:
        """Remove and return the ended applications that expire (AP-73); refused ones are forgotten without a fact."""
        while self.rejected:
            oldest = next(iter(self.rejected.values()))
            if oldest.finished_ns + TERMINAL_TIMEOUT_NS > now_ns:
                break
            del self.rejected[oldest.application_id]
        expired = []
        while self._expiries and self._expiries[0][0] <= now_ns:
            expired.append(self._expire_next())
        return expired

    def surplus(self) -> list[EndedApplication]:
        """Remove and return ended applications, the first to end first, until not too many are kept (AP-73)."""
        return [self._expire_next() for _ in range(len(self.ended) - ENDED_MAX)]

    def _expire_next(self) -> EndedApplication:
        _, key = heapq.heappop(self._expiries)
        return self.ended.pop(key)
