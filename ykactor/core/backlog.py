"""What waits: the scheduler's index of the asks of one application, grouped by shape.

The leaf owns asks; this index is derived from its facts and exists to answer two questions at once, however many asks
wait: which ask is next, and can it be skipped because asks of its shape have just failed. Two asks of one application
with the same shape fare alike, so they wait in one ``AskQueue`` and are parked together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ykactor.core.access import UserGroups
from ykactor.core.decisions import ApplicationAdded
from ykactor.core.ids import AllocationKey, NodeID
from ykactor.core.limits import GroupChoice, TrackerTuple, charge, credit
from ykactor.core.messages import AllocationSpec, Ask
from ykactor.core.ordering import Lineup
from ykactor.core.priorities import Priority, PriorityBag
from ykactor.core.ranking import Ranking, SortKey
from ykactor.core.resources import Resource, add_to, subtract_from
from ykactor.core.states import ApplicationState

if TYPE_CHECKING:
    from ykactor.core.appsort import Line

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


class AskQueue(Ranking[Ask]):
    """The waiting asks of one shape of one application, in order."""

    __slots__ = ("line", "needs", "parked", "required_node", "shape", "sort_key")

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.needs, self.required_node = shape
        self.sort_key: SortKey | None = None
        self.parked = False
        #: Where the application stands with these asks; None while it is kept back. Written by the leaf's order.
        self.line: Line | None = None


class WaitingApplication:
    """What the scheduler keeps of one live application.

    Attributes:
        state: as the leaf has it, or will have it when the present plan is settled.
        allocated: sum of the allocations, base units, for the fair policy (section 6.2 of PR).
        submission_ns: see ``applications.Application``; moved back by asks that are older.
        queues: its asks by shape; ``lineup`` has them in the order of their first asks.
        opened, closed: queues that came and went since the leaf's order looked last.
        shown_priority: the priority that the leaf's own bag holds of this application.
        sort_key: its place by the leaf's policy; None while it is in no line. Written by the leaf's order.
        changed: whether its state or age changed since the leaf's order looked last; ``used``: whether its usage did.
        in_lines: whether these are lines of Accepted applications; None while it is in no line.
        enrolled: whether it holds its ``trackers`` yet (see ``limits``), which it does from its first ask or allocation on.
        group: what it counts against beside its user; None is no group.
        counted: whether its trackers count it as an application (QU-74).
    """

    __slots__ = (
        "allocated",
        "application_id",
        "arrival",
        "asks",
        "changed",
        "closed",
        "counted",
        "enrolled",
        "group",
        "in_lines",
        "lineup",
        "opened",
        "priorities",
        "queues",
        "shown_priority",
        "sort_key",
        "state",
        "stateaware",
        "submission_ns",
        "trackers",
        "used",
        "who",
    )

    def __init__(self, fact: ApplicationAdded) -> None:
        self.application_id = fact.application_id
        self.arrival = fact.arrival
        self.stateaware = fact.stateaware
        self.who = UserGroups(fact.user, fact.groups)
        self.submission_ns = fact.submission_ns
        self.state = ApplicationState.NEW
        self.allocated: Resource = {}
        self.asks: dict[AllocationKey, tuple[Ask, AskQueue]] = {}
        self.queues: dict[Shape, AskQueue] = {}
        self.lineup: Lineup[AskQueue] = Lineup()
        self.opened: list[AskQueue] = []
        self.closed: list[AskQueue] = []
        self.priorities = PriorityBag()
        self.shown_priority: Priority = None
        self.sort_key: SortKey | None = None
        self.in_lines: bool | None = None
        self.changed = True
        self.used = False
        self.enrolled = False
        self.group: GroupChoice | None = None
        self.trackers: TrackerTuple = ()
        self.counted = False

    def add(self, ask: Ask) -> None:
        """An ask waits from now on. O(log asks) plus a memory move."""
        shape = shape_of(ask.spec)
        queue = self.queues.get(shape)
        if queue is None:
            queue = self.queues[shape] = AskQueue(shape)
            self.opened.append(queue)
        queue.add(order_of(ask), ask)
        self.asks[ask.spec.allocation_key] = ask, queue
        self.priorities.add(ask.spec.priority)
        if ask.created_ns < self.submission_ns:
            self.submission_ns = ask.created_ns
            self.changed = True
        self.lineup.put(queue, queue.first_key())

    def take(self, queue: AskQueue) -> Ask:
        """The next ask of ``queue`` is placed."""
        ask = queue.pop()
        self._forget(ask, queue)
        self.begin(ask.spec.resource)
        return ask

    def discard(self, ask: Ask) -> None:
        """An ask waits no more without having been placed."""
        queue = self.asks[ask.spec.allocation_key][1]
        queue.remove(order_of(ask))
        self._forget(ask, queue)

    def put_back(self, ask: Ask) -> None:
        """A placement was refused: the ask waits again."""
        self.end(ask.spec.resource)
        self.add(ask)

    def begin(self, resource: Resource) -> None:
        """Something of it runs; its user and group are charged."""
        add_to(self.allocated, resource)
        self.used = True
        if self.trackers:
            charge(self.trackers, resource)
        if not self.counted:
            self.count()

    def end(self, resource: Resource) -> None:
        """Something of it runs no more."""
        subtract_from(self.allocated, resource)
        self.used = True
        if self.trackers:
            credit(self.trackers, resource)

    def hold(self, trackers: TrackerTuple) -> None:
        """Count against these trackers from now on, with what runs already."""
        self.enrolled = True
        self.trackers = trackers
        if self.allocated or self.counted:
            charge(trackers, self.allocated)
            self.count()

    def count(self) -> None:
        """Be one of the applications of its trackers."""
        self.counted = True
        for tracker in self.trackers:
            tracker.applications[self.application_id] = None

    def uncount(self) -> None:
        """Nothing of it waits or runs any more."""
        self.counted = False
        for tracker in self.trackers:
            tracker.applications.pop(self.application_id, None)

    def enter(self, state: ApplicationState) -> None:
        """The application is, or will be, in this state."""
        self.state = state
        self.changed = True

    def leave_lines(self) -> None:
        """The leaf's order begins anew: stand nowhere."""
        for queue in self.queues.values():
            queue.line = None
        self.opened.clear()
        self.closed.clear()
        self.sort_key = self.in_lines = None
        self.changed = True

    def _forget(self, ask: Ask, queue: AskQueue) -> None:
        del self.asks[ask.spec.allocation_key]
        self.priorities.remove(ask.spec.priority)
        self.lineup.put(queue, queue.first_key())
        if not queue:
            del self.queues[queue.shape]
            self.closed.append(queue)

    def __repr__(self) -> str:
        return f"<WaitingApplication {self.application_id} {self.state}>"
