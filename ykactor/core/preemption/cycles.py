"""The guard against preemption cycles: the resource types that leaves have taken from each other.

The laws already prevent two leaves from taking the same type from each other: law 4 lets only a queue below its guarantee take,
and law 2 leaves the other queue at or above its guarantee. The guard checks this at run time. A preemption that would close a
cycle is refused and reported, whatever mistake led to it.

The guard starts anew after an *external* change: configuration, nodes, applications, sizes, or the end of a task that was not a
victim. A preempted task that is asked for again is not an external change. Guarantees do not apply to asks that require their
node (PE-60, PE-62), so what these take is an external change too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import (
    Allocated,
    AllocationResized,
    ApplicationAdded,
    ApplicationLeft,
    ApplicationMoved,
    ConfigurationChanged,
    ForeignChanged,
    NodeAdded,
    NodeAttributesChanged,
    NodeCapacityChanged,
    NodeRemoved,
    NodeSchedulable,
    QueueAdded,
    QueueLimitChanged,
    QueueRemoved,
)
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.values.ids import QueuePath

#: Facts about external changes. The end of a task may be external or not: ``PreemptionAttempts.confirm`` decides.
OUTSIDE = frozenset(
    {
        Allocated,
        AllocationResized,
        ApplicationAdded,
        ApplicationLeft,
        ApplicationMoved,
        ConfigurationChanged,
        ForeignChanged,
        NodeAdded,
        NodeAttributesChanged,
        NodeCapacityChanged,
        NodeRemoved,
        NodeSchedulable,
        QueueAdded,
        QueueLimitChanged,
        QueueRemoved,
    }
)
#: The most entries; the oldest are forgotten first.
TAKEN_MAX = 10_000


class CycleGuard:
    """The resource types that leaves have taken from each other since the last external change."""

    def __init__(self, changed: Changed) -> None:
        #: (leaf of the victim, leaf of the preemptor, type that the preemptor's leaf lacked), the oldest first.
        self.taken: KeptRows[tuple[QueuePath, QueuePath, str], None] = KeptRows(lambda taken: changed.taken(*taken))

    def note(self, victim: QueuePath, preemptor: QueuePath, names: Iterable[str]) -> None:
        """Note that a task of leaf ``victim`` is preempted for an ask of leaf ``preemptor``, which lacks the types ``names``."""
        for name in names:
            self.taken[victim, preemptor, name] = None
        while len(self.taken) > TAKEN_MAX:
            del self.taken[next(iter(self.taken))]

    def objection(self, victim: QueuePath, preemptor: QueuePath, names: Iterable[str]) -> str:
        """The reason why an ask of ``preemptor`` may not preempt a task of ``victim``: it takes a type back. "" if it may."""
        for name in names:
            if (preemptor, victim, name) in self.taken:
                return f"preempting would take {name} back from {victim}, for which {preemptor} was preempted: a preemption cycle"
        return ""

    def reset(self) -> None:
        """Forget everything: there was an external change."""
        self.taken.clear()

    def cycles(self) -> Iterator[tuple[QueuePath, QueuePath, str]]:
        """(victim, preemptor, type) of leaves that have taken the same type from each other; there must be none."""
        return ((victim, preemptor, name) for victim, preemptor, name in self.taken if (preemptor, victim, name) in self.taken)
