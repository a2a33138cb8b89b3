"""What waits: the scheduler's index of the asks of one application, grouped by shape.

The leaf owns asks; this index is derived from its facts and exists to answer two questions at once, however many asks
wait: which ask is next, and can it be skipped because asks of its shape have just failed. Two asks of one application
with the same shape fare alike, so they wait in one ``AskQueue`` and are parked together.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from ykactor.core.decisions import ApplicationAdded
from ykactor.core.ids import AllocationKey, NodeID
from ykactor.core.messages import AllocationSpec, Ask
from ykactor.core.ordering import Lineup, SortKey
from ykactor.core.priorities import Priority, PriorityBag
from ykactor.core.resources import Resource, add_to, subtract_from
from ykactor.core.states import ApplicationState

if TYPE_CHECKING:
    from ykactor.core.ledger import Account

#: Tags that pin an ask to one node; the first wins (AP-54).
_REQUIRED_NODE_TAGS = ("kubernetes.io/meta/requiredNode", "yunikorn.apache.org/requiredNode")

#: What decides whether an ask fits: its resources, and the node it must run on.
Shape = tuple[tuple[tuple[str, int], ...], NodeID | None]


def shape_of(spec: AllocationSpec) -> Shape:
    """The shape of an ask; asks of equal shape are interchangeable but for their order."""
    items = tuple(spec.resource.items())
    if len(items) > 1:
        items = tuple(sorted(items))
    required = None
    if spec.tags:
        required = next((NodeID(spec.tags[tag]) for tag in _REQUIRED_NODE_TAGS if spec.tags.get(tag)), None)
    return items, required


def order_of(ask: Ask) -> tuple[int, int, int]:
    """Higher priority, then older, then earlier arrival (PR-50 to PR-52)."""
    return -ask.spec.priority, ask.created_ns, ask.arrival


class AskQueue:
    """The waiting asks of one shape of one application, in order. Removing at the front is a step of ``_start``."""

    __slots__ = ("_asks", "_start", "items", "parked", "reason", "required_node", "shape", "sort_key")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.items, self.required_node = shape
        self._asks: list[tuple[tuple[int, int, int], Ask]] = []
        self._start = 0
        self.sort_key: SortKey | None = None
        self.parked = False
        #: Why it was parked last: a sentence, or the queue and the type that it is short of (see ``planner.explain``).
        self.reason: str | tuple[Account, str] = "not yet considered"

    def __len__(self) -> int:
        return len(self._asks) - self._start

    def head(self) -> Ask:
        """The next ask; there must be one."""
        return self._asks[self._start][1]

    def head_key(self) -> SortKey | None:
        """The order of the next ask; None when nothing waits."""
        return self._asks[self._start][0] if self._start < len(self._asks) else None

    def add(self, ask: Ask) -> None:
        insort(self._asks, (order_of(ask), ask), lo=self._start)

    def pop(self) -> Ask:
        """Take the next ask."""
        ask = self.head()
        self._start += 1
        if self._start > 1000 and self._start * 2 > len(self._asks):
            del self._asks[: self._start]
            self._start = 0
        return ask

    def discard(self, ask: Ask) -> None:
        """Take out any ask; it must be here."""
        place = bisect_left(self._asks, (order_of(ask),), lo=self._start)
        assert self._asks[place][1] is ask
        del self._asks[place]

    def asks(self, count: int | None = None) -> list[Ask]:
        """The first ``count`` that wait, or all, in order."""
        end = None if count is None else self._start + count
        return [ask for _, ask in self._asks[self._start : end]]


class WaitingApplication:
    """What the scheduler keeps of one live application; the candidate of its leaf's lineup.

    Attributes:
        state: as the leaf has it, or will have it when the present plan is settled.
        allocated: sum of the allocations, base units, for the fair policy (section 6.2 of PR).
        submission_ns: see ``applications.Application``; moved back by asks that are older.
    """

    __slots__ = (
        "allocated",
        "application_id",
        "arrival",
        "asks",
        "held_by",
        "lineup",
        "parked",
        "priorities",
        "queues",
        "shown_priority",
        "sort_key",
        "state",
        "stateaware",
        "submission_ns",
    )

    def __init__(self, fact: ApplicationAdded) -> None:
        self.application_id = fact.application_id
        self.arrival = fact.arrival
        self.stateaware = fact.stateaware
        self.submission_ns = fact.submission_ns
        self.state = ApplicationState.NEW
        self.allocated: Resource = {}
        self.asks: dict[AllocationKey, tuple[Ask, AskQueue]] = {}
        self.queues: dict[Shape, AskQueue] = {}
        self.lineup: Lineup[AskQueue] = Lineup()
        self.priorities = PriorityBag()
        #: The priority that the leaf's own bag holds of this application.
        self.shown_priority: Priority = None
        self.sort_key: SortKey | None = None
        self.parked = False
        #: The queue whose ``maxapplications`` held the application back when it was looked at last.
        self.held_by: Account | None = None

    def add(self, ask: Ask) -> AskQueue:
        """An ask waits from now on. O(log asks) plus a memory move."""
        shape = shape_of(ask.spec)
        queue = self.queues.get(shape)
        if queue is None:
            queue = self.queues[shape] = AskQueue(shape)
        queue.add(ask)
        self.asks[ask.spec.allocation_key] = ask, queue
        self.priorities.add(ask.spec.priority)
        self.submission_ns = min(self.submission_ns, ask.created_ns)
        self.lineup.put(queue, queue.head_key())
        return queue

    def take(self, queue: AskQueue) -> Ask:
        """The next ask of ``queue`` is placed."""
        ask = queue.pop()
        self._forget(ask, queue)
        add_to(self.allocated, ask.spec.resource)
        return ask

    def discard(self, ask: Ask) -> None:
        """An ask waits no more without having been placed."""
        queue = self.asks[ask.spec.allocation_key][1]
        queue.discard(ask)
        self._forget(ask, queue)

    def put_back(self, ask: Ask) -> None:
        """A placement was refused: the ask waits again."""
        subtract_from(self.allocated, ask.spec.resource)
        self.add(ask)

    def _forget(self, ask: Ask, queue: AskQueue) -> None:
        del self.asks[ask.spec.allocation_key]
        self.priorities.remove(ask.spec.priority)
        self.lineup.put(queue, queue.head_key())
        if not queue:
            del self.queues[queue.shape]

    def __repr__(self) -> str:
        return f"<WaitingApplication {self.application_id} {self.state}>"
