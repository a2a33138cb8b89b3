"""One application: what it waits for, what it runs, and its state.

``Application`` is a part of its leaf (``queues.LeafCore``), which is its only writer. Every method answers the facts
that it caused, in order; state changes come before the allocation or release that follows from the same step (AP-96).
"""

from msgspec import structs

from ykactor.core.decisions import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    AskAdded,
    AskRemoved,
    AskResized,
    Decision,
    Released,
)
from ykactor.core.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.messages import AddApplication, AllocationSpec, Ask
from ykactor.core.quantities import is_true, parse_uint64
from ykactor.core.resources import strictly_positive
from ykactor.core.states import (
    APPLICATION_MOVES,
    COMPLETING_TIMEOUT_NS,
    S_NS,
    STARTING_TIMEOUT_NS,
    ApplicationEvent,
    ApplicationState,
    after_allocation,
)

NEGATIVE_RESOURCES = "allocation contains negative resources"

#: How long a state lasts before its timer moves the application on, and by which event (section 4.3 of AP).
_STATE_TIMERS = {
    ApplicationState.STARTING: (STARTING_TIMEOUT_NS, ApplicationEvent.RUN),
    ApplicationState.COMPLETING: (COMPLETING_TIMEOUT_NS, ApplicationEvent.COMPLETE),
}

#: Releases with one of these are the resource manager's wish and are echoed; the others confirm (section 6.1 of AP).
_ECHOED_TERMINATIONS = frozenset({"STOPPED_BY_RM", "UNKNOWN_TERMINATION_TYPE"})


def is_stateaware(tags: dict[str, str]) -> bool:
    """False when the tag ``application.stateaware.disable`` (name in any case) holds a true value."""
    return not any(
        name.lower() == "application.stateaware.disable" and is_true(value.lower()) for name, value in tags.items()
    )


def created_ns(spec: AllocationSpec, arrival_ns: int) -> int:
    """The creation time of an ask: its tag ``creationTime`` in Unix seconds, else its arrival (PR-52)."""
    seconds = parse_uint64(spec.tags.get("creationTime", "")) if spec.tags else None
    return arrival_ns if seconds is None else seconds * S_NS


class Application:
    """The record of section 1 of AP, as far as it decides anything.

    Attributes:
        submission_ns: arrival, moved back to the earliest creation time of any ask or allocation (PR-40).
        arrival: registration number, the last word in any order (PR-31).
        deadline_ns: when the timer of the present state fires; None when it has none.
    """

    __slots__ = (
        "allocations",
        "application_id",
        "arrival",
        "asks",
        "deadline_ns",
        "queue",
        "state",
        "stateaware",
        "submission_ns",
    )

    def __init__(self, spec: AddApplication, queue: QueuePath, arrival_ns: int, arrival: int) -> None:
        self.application_id = spec.application_id
        self.queue = queue
        self.stateaware = is_stateaware(spec.tags)
        self.submission_ns = arrival_ns
        self.arrival = arrival
        self.state = ApplicationState.NEW
        self.deadline_ns: int | None = None
        self.asks: dict[AllocationKey, Ask] = {}
        #: What runs, with its node.
        self.allocations: dict[AllocationKey, tuple[Ask, NodeID]] = {}

    # ---- state

    def move(self, now_ns: int, event: ApplicationEvent, why: str = "") -> list[Decision]:
        """Carry out ``event``; nothing happens where the table has no move (AP-30). ``why`` is told instead of its name."""
        entered = APPLICATION_MOVES.get((self.state, event))
        return [] if entered is None else [self._enter(now_ns, entered, why or event.value)]

    def _enter(self, now_ns: int, state: ApplicationState, message: str) -> ApplicationChanged:
        self.state = state
        timer = _STATE_TIMERS.get(state)
        self.deadline_ns = None if timer is None else now_ns + timer[0]
        return ApplicationChanged(now_ns, self.application_id, self.queue, state.value, message)

    def fire_timer(self, now_ns: int) -> list[Decision]:
        """The present state's time is up (AP-43)."""
        facts = self.move(now_ns, _STATE_TIMERS[self.state][1])
        if self.state is ApplicationState.COMPLETED:
            facts += self.leave(now_ns)
        return facts

    def has_ended(self) -> bool:
        """Whether the application has reached a state that it leaves its queue in."""
        return self.state in (ApplicationState.COMPLETED, ApplicationState.FAILED)

    def leave(self, now_ns: int) -> list[Decision]:
        """End: drop the remaining asks and leave the queue (AP-70)."""
        facts: list[Decision] = [AskRemoved(now_ns, ask, self.queue, True) for ask in self.asks.values()]
        self.asks.clear()
        facts.append(ApplicationLeft(now_ns, self.application_id, self.queue))
        return facts

    # ---- asks and allocations

    def submit(self, now_ns: int, spec: AllocationSpec, arrival_ns: int, arrival: int) -> list[Decision]:
        """Take an entry of ``AllocationRequest.allocations`` (section 5.2 of AP)."""
        refusal = _refusal(spec)
        if refusal:
            return [AllocationRejected(now_ns, spec.allocation_key, spec.application_id, refusal)]
        if spec.allocation_key in self.allocations:
            return self._resize_allocation(now_ns, spec)
        if spec.allocation_key in self.asks:
            facts = self._resize_ask(now_ns, spec)
            if spec.node_id is not None:  # placement by the resource manager (AP-112)
                facts += self.allocate(now_ns, self.asks[spec.allocation_key], spec.node_id, recovered=True)
            return facts
        ask = Ask(spec, created_ns(spec, arrival_ns), arrival)
        self.submission_ns = min(self.submission_ns, ask.created_ns)
        if spec.node_id is not None:  # it already runs there (AP-109)
            return self.allocate(now_ns, ask, spec.node_id, recovered=True)
        facts = []
        if self.state in (ApplicationState.NEW, ApplicationState.COMPLETING):  # AP-34
            facts = self.move(now_ns, ApplicationEvent.RUN)
        self.asks[spec.allocation_key] = ask
        facts.append(AskAdded(now_ns, ask, self.queue))
        return facts

    def _resize_ask(self, now_ns: int, spec: AllocationSpec) -> list[Decision]:
        before = self.asks[spec.allocation_key]
        if spec.resource == before.spec.resource:
            return []  # AP-114
        after = structs.replace(before, spec=structs.replace(before.spec, resource=spec.resource))
        self.asks[spec.allocation_key] = after
        return [AskResized(now_ns, before, after, self.queue)]

    def _resize_allocation(self, now_ns: int, spec: AllocationSpec) -> list[Decision]:
        before, node_id = self.allocations[spec.allocation_key]
        if spec.resource == before.spec.resource:
            return []  # AP-113, AP-114
        after = structs.replace(before, spec=structs.replace(before.spec, resource=spec.resource))
        self.allocations[spec.allocation_key] = after, node_id
        return [AllocationResized(now_ns, before, after, self.queue, node_id)]

    def allocate(self, now_ns: int, ask: Ask, node_id: NodeID, *, recovered: bool) -> list[Decision]:
        """An ask becomes an allocation (section 5.3 of AP)."""
        changes = self.settle(now_ns, ask, node_id)
        return [*changes, Allocated(now_ns, ask, self.queue, node_id, recovered)]

    def settle(self, now_ns: int, ask: Ask, node_id: NodeID) -> list[Decision]:
        """Record a placement; only the state changes that it causes are answered."""
        self.asks.pop(ask.spec.allocation_key, None)
        self.allocations[ask.spec.allocation_key] = ask, node_id
        if self.state is ApplicationState.RUNNING:
            return []
        entered = after_allocation(self.state, stateaware=self.stateaware)
        return [self._enter(now_ns, state, ApplicationEvent.RUN.value) for state in entered]

    def release(self, now_ns: int, key: AllocationKey, termination_type: str) -> list[Decision]:
        """End one allocation or cancel one ask; an unknown key is ignored (section 6.1 of AP)."""
        if key in self.asks:
            return self._cancel([self.asks.pop(key)], now_ns)
        if key not in self.allocations:
            return []
        if termination_type in _ECHOED_TERMINATIONS:
            return self.end_allocation(now_ns, key, "STOPPED_BY_RM", "allocation remove as per RM request")
        return self.end_allocation(now_ns, key, termination_type, "")

    def release_all(self, now_ns: int, termination_type: str) -> list[Decision]:
        """End all allocations, then cancel all asks."""
        facts: list[Decision] = []
        for key in list(self.allocations):
            facts += self.release(now_ns, key, termination_type)
        asks = list(self.asks.values())
        self.asks.clear()
        return facts + self._cancel(asks, now_ns)

    def end_allocation(self, now_ns: int, key: AllocationKey, termination_type: str, message: str) -> list[Decision]:
        """An allocation is over; when it was the last thing of the application that completes it (AP-41)."""
        ask, node_id = self.allocations.pop(key)
        facts: list[Decision] = []
        if not self.asks and not self.allocations:
            facts = self.move_to_completing(now_ns)
        facts.append(Released(now_ns, ask, self.queue, node_id, termination_type, message))
        facts.append(AskRemoved(now_ns, ask, self.queue, False))
        return facts

    def _cancel(self, asks: list[Ask], now_ns: int) -> list[Decision]:
        facts: list[Decision] = []
        if asks and not self.asks and not self.allocations:
            facts = self.move_to_completing(now_ns)  # AP-39
        facts += [AskRemoved(now_ns, ask, self.queue, True) for ask in asks]
        return facts

    def move_to_completing(self, now_ns: int) -> list[Decision]:
        """Complete unless it is on its way already: a second event would end Completing early."""
        if self.state is ApplicationState.COMPLETING:
            return []
        return self.move(now_ns, ApplicationEvent.COMPLETE)

    def remove(self, now_ns: int) -> list[Decision]:
        """The resource manager forgets the application: Completing, Completed, then everything goes (AP-80, AP-81)."""
        facts = self.move_to_completing(now_ns)
        facts += self.move(now_ns, ApplicationEvent.COMPLETE)
        return facts + self._end(now_ns, f"Application {self.application_id} Removed")

    def fail(self, now_ns: int, why: str, message: str) -> list[Decision]:
        """Failing because of ``why`` (AP-95), Failed, then everything goes, with a message for what ran."""
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        facts += self.move(now_ns, ApplicationEvent.FAIL)
        return facts + self._end(now_ns, message)

    def _end(self, now_ns: int, message: str) -> list[Decision]:
        facts: list[Decision] = []
        for ask, node_id in self.allocations.values():
            facts.append(Released(now_ns, ask, self.queue, node_id, "STOPPED_BY_RM", message))
            facts.append(AskRemoved(now_ns, ask, self.queue, False))
        self.allocations.clear()
        return facts + self.leave(now_ns)


def _refusal(spec: AllocationSpec) -> str:
    """Why this entry cannot be taken, or "" (AP-105 to AP-107)."""
    if strictly_positive(spec.resource):
        if spec.placeholder or spec.task_group_name:
            return "gang scheduling is not supported in this version"
        return ""
    if any(quantity < 0 for quantity in spec.resource.values()):
        return NEGATIVE_RESOURCES
    return "allocation contains no resources"
