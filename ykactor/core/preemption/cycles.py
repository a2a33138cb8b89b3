"""That preemption does not go round in circles: which queue has taken what from which since something changed from outside.

The laws do not let two queues take the same type from each other (law 4 lets only a queue below its guarantee take, law 2 leaves
the other one at its guarantee at least). This is the proof that is kept while the program runs: what would close a circle is
refused and told, whatever mistake led to it.

Begun afresh when something changes *outside*: configuration, nodes, applications, sizes, or the end of a task that nobody told to
go. That what was preempted is asked for again is not outside. Asks that require their node follow no guarantees (PE-60,
PE-62): for the others what they take is a change from outside too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.messages.facts import (
    Allocated,
    AllocationResized,
    ApplicationAdded,
    ApplicationLeft,
    ApplicationMoved,
    ConfigurationChanged,
    ForeignChanged,
    NodeAdded,
    NodeCapacityChanged,
    NodeRemoved,
    NodeSchedulable,
    QueueAdded,
    QueueLimitChanged,
    QueueRemoved,
)
from ykactor.core.values.ids import QueuePath

#: What owners report that changes from outside what queues may have of each other; ends of tasks are told apart in
#: ``PreemptionAttempts.confirm``.
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
        NodeCapacityChanged,
        NodeRemoved,
        NodeSchedulable,
        QueueAdded,
        QueueLimitChanged,
        QueueRemoved,
    }
)
#: Exchanges that are remembered; the oldest are forgotten first.
TAKEN_MAX = 10_000


class CycleGuard:
    """What leaves have taken from leaves in the present epoch, by type."""

    def __init__(self) -> None:
        #: (whose task went, for whom, type of which that one had too little), the oldest first.
        self._taken: dict[tuple[QueuePath, QueuePath, str], None] = {}

    def note(self, victim: QueuePath, preemptor: QueuePath, names: Iterable[str]) -> None:
        """A task of one leaf goes for an ask of the other, which has too little of the types ``names``."""
        for name in names:
            self._taken[victim, preemptor, name] = None
        while len(self._taken) > TAKEN_MAX:
            del self._taken[next(iter(self._taken))]

    def objection(self, victim: QueuePath, preemptor: QueuePath, names: Iterable[str]) -> str:
        """Why a task of one leaf may not go for an ask of the other: that one gave it what it takes. "" if it may."""
        for name in names:
            if (preemptor, victim, name) in self._taken:
                return f"it would take {name} back from {victim}, for which {preemptor} was preempted: that would go on for ever"
        return ""

    def reset(self) -> None:
        """Something has changed from outside: all may begin again."""
        self._taken.clear()

    def cycles(self) -> Iterator[tuple[QueuePath, QueuePath, str]]:
        """Pairs that have taken the same type from each other; there are none."""
        return ((victim, preemptor, name) for victim, preemptor, name in self._taken if (preemptor, victim, name) in self._taken)
