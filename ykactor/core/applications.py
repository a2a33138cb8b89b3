"""One application: what it waits for, what it runs, and its state.

``Application`` is a part of its leaf (``queues.LeafCore``), which is its only writer. Every method answers the facts
that it caused, in order; state changes come before the allocation or release that follows from the same step (AP-96).
"""

from enum import StrEnum

from msgspec import structs

from ykactor.core import selector
from ykactor.core.decisions import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    AskAdded,
    AskRemoved,
    AskResized,
    AskReturned,
    Decision,
    Released,
    ReleaseStarted,
    TaskGroupChanged,
)
from ykactor.core.gang import Gang, TaskGroup, placeholder_deadline_ns, timeout_ns
from ykactor.core.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.messages import AddApplication, AllocationSpec, Ask
from ykactor.core.quantities import is_true, parse_uint64
from ykactor.core.resources import Resource, fits, strictly_positive
from ykactor.core.states import (
    APPLICATION_MOVES,
    COMPLETING_TIMEOUT_NS,
    S_NS,
    STARTING_TIMEOUT_NS,
    WINDING_UP,
    ApplicationEvent,
    ApplicationState,
    after_allocation,
)

NEGATIVE_RESOURCES = "allocation contains negative resources"


class Timer(StrEnum):
    """What an application waits for (section 4.3 of AP)."""

    STATE = "state"
    PLACEHOLDERS = "placeholders"
    EXECUTION = "execution"


#: How long a state lasts before its timer moves the application on, and by which event (section 4.3 of AP).
_STATE_TIMERS = {
    ApplicationState.STARTING: (STARTING_TIMEOUT_NS, ApplicationEvent.RUN),
    ApplicationState.COMPLETING: (COMPLETING_TIMEOUT_NS, ApplicationEvent.COMPLETE),
}
_STARTED = (ApplicationState.STARTING, ApplicationState.RUNNING)
_GANG_DONE = (*_STARTED, ApplicationState.COMPLETING)
_ENDED = (ApplicationState.COMPLETED, ApplicationState.FAILED)
_ON_TIMEOUT = "releasing allocated placeholders on placeholder timeout"
_ON_COMPLETE = "releasing placeholders on app complete"

#: Releases with one of these are the resource manager's wish and are echoed; the others confirm (section 6.1 of AP).
_ECHOED_TERMINATIONS = frozenset({"STOPPED_BY_RM", "UNKNOWN_TERMINATION_TYPE"})


def is_stateaware(tags: dict[str, str]) -> bool:
    """False when the tag ``application.stateaware.disable`` (name in any case) holds a true value."""
    return not any(
        name.lower() == "application.stateaware.disable" and is_true(value.lower()) for name, value in tags.items()
    )


def states_first(facts: list[Decision]) -> list[Decision]:
    """The facts of one step, with the state changes before what follows from them (AP-96)."""
    return sorted(facts, key=lambda fact: type(fact) is not ApplicationChanged)


def created_ns(spec: AllocationSpec, arrival_ns: int) -> int:
    """The creation time of an ask: its tag ``creationTime`` in Unix seconds, else its arrival (PR-52)."""
    seconds = parse_uint64(spec.tags.get("creationTime", "")) if spec.tags else None
    return arrival_ns if seconds is None else seconds * S_NS


class Application:
    """The record of section 1 of AP, as far as it decides anything.

    Attributes:
        submission_ns: arrival, moved back to the earliest creation time of any ask or allocation (PR-40).
        arrival: registration number, the last word in any order (PR-31).
        asks, allocations: what waits, and what runs with its node; placeholders among them.
        real_count, placeholder_count: how many of the allocations are real, and how many hold space only.
        gang: placeholders and what takes their place.
        ending: the message of what is released because it came to run when the application was failing already (GA-47).
        timers: when what is due; ``armed`` has those that the leaf has not heard of yet.
    """

    __slots__ = (
        "allocations",
        "application_id",
        "armed",
        "arrival",
        "asks",
        "ending",
        "execution_timeout_ns",
        "gang",
        "placeholder_count",
        "queue",
        "real_count",
        "state",
        "stateaware",
        "submission_ns",
        "tags",
        "timers",
    )

    def __init__(self, spec: AddApplication, queue: QueuePath, arrival_ns: int, arrival: int) -> None:
        self.application_id = spec.application_id
        self.queue = queue
        self.tags = spec.tags
        self.stateaware = is_stateaware(spec.tags)
        self.submission_ns = arrival_ns
        self.arrival = arrival
        self.state = ApplicationState.NEW
        self.gang = Gang(spec)
        self.ending = _ON_TIMEOUT
        #: Of an application that is no gang (AP-62, AP-63).
        self.execution_timeout_ns = None if self.gang.total else timeout_ns(spec.execution_timeout_ms)
        self.timers: dict[Timer, int] = {}
        self.armed: list[tuple[int, Timer]] = []
        self.asks: dict[AllocationKey, Ask] = {}
        self.allocations: dict[AllocationKey, tuple[Ask, NodeID]] = {}
        self.real_count = self.placeholder_count = 0

    # ---- queue

    def move_to(self, queue: QueuePath) -> None:
        """It is in another leaf from now on, which has to hear of all its timers."""
        self.queue = queue
        self.armed = [(deadline_ns, timer) for timer, deadline_ns in self.timers.items()]

    # ---- state

    def move(self, now_ns: int, event: ApplicationEvent, why: str = "") -> list[Decision]:
        """Carry out ``event``; nothing happens where the table has no move (AP-30). ``why`` is told instead of its name."""
        entered = APPLICATION_MOVES.get((self.state, event))
        return [] if entered is None else [self._enter(now_ns, entered, why or event.value)]

    def _enter(self, now_ns: int, state: ApplicationState, message: str) -> ApplicationChanged:
        before, self.state = self.state, state
        self._set_timer(Timer.STATE, now_ns + _STATE_TIMERS[state][0] if state in _STATE_TIMERS else None)
        if state in _STARTED and before not in _STARTED and self.execution_timeout_ns and Timer.EXECUTION not in self.timers:
            self._set_timer(Timer.EXECUTION, now_ns + self.execution_timeout_ns)
        if state in _ENDED:
            self.timers.clear()
        return ApplicationChanged(now_ns, self.application_id, self.queue, state.value, message)

    def _set_timer(self, timer: Timer, deadline_ns: int | None) -> None:
        if deadline_ns is None:
            self.timers.pop(timer, None)
        elif self.timers.get(timer) != deadline_ns:
            self.timers[timer] = deadline_ns
            self.armed.append((deadline_ns, timer))

    def fire_timer(self, now_ns: int, timer: Timer) -> list[Decision]:
        """A timer's time is up (AP-43, AP-44, AP-46)."""
        self._set_timer(timer, None)
        match timer:
            case Timer.STATE if self.state is ApplicationState.COMPLETING and self.placeholder_count:
                return self._release_placeholders(now_ns, _ON_COMPLETE)  # AP-50
            case Timer.STATE:
                facts = self.move(now_ns, _STATE_TIMERS[self.state][1])
                return facts + self.leave_if_ended(now_ns)
            case Timer.PLACEHOLDERS:
                return self._gang_timeout(now_ns)
            case Timer.EXECUTION:
                return self._execution_timeout(now_ns)

    def has_ended(self) -> bool:
        """Whether the application has reached a state that it leaves its queue in."""
        return self.state in _ENDED

    def leave_if_ended(self, now_ns: int) -> list[Decision]:
        """Leave the queue in Completed and Failed (AP-70)."""
        return self.leave(now_ns) if self.has_ended() else []

    def leave(self, now_ns: int, *, is_removed: bool = False) -> list[Decision]:
        """End: drop the remaining asks and leave the queue (AP-70)."""
        facts: list[Decision] = [AskRemoved(now_ns, ask, self.queue, True) for ask in self.asks.values()]
        self.asks.clear()
        facts.append(ApplicationLeft(now_ns, self.application_id, self.queue, is_removed))
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
        placeholder = self.gang.placeholder_of(spec.allocation_key)
        if placeholder is not None:
            return self._change_taker(now_ns, placeholder, spec)
        created = created_ns(spec, arrival_ns)
        ask = Ask(spec, created, arrival, created if created < now_ns else now_ns)
        self.submission_ns = min(self.submission_ns, ask.created_ns)
        facts = self._count_placeholder(now_ns, ask) if spec.placeholder else []
        if spec.node_id is not None:  # it already runs there (AP-109)
            return facts + self.allocate(now_ns, ask, spec.node_id, recovered=True)
        if self.state in (ApplicationState.NEW, ApplicationState.COMPLETING):  # AP-34
            facts += self.move(now_ns, ApplicationEvent.RUN)
        self.asks[spec.allocation_key] = ask
        facts.append(AskAdded(now_ns, ask, self.queue))
        return facts

    def _resize_ask(self, now_ns: int, spec: AllocationSpec) -> list[Decision]:
        before = self.asks[spec.allocation_key]
        if spec.resource == before.spec.resource:
            return []  # AP-114
        after = _resized(before, spec.resource)
        self.asks[spec.allocation_key] = after
        return [AskResized(now_ns, before, after, self.queue)]

    def _resize_allocation(self, now_ns: int, spec: AllocationSpec) -> list[Decision]:
        before, node_id = self.allocations[spec.allocation_key]
        if spec.resource == before.spec.resource:
            return []  # AP-113, AP-114
        after = _resized(before, spec.resource)
        self.allocations[spec.allocation_key] = after, node_id
        if before.spec.placeholder:
            self.gang.resize(before.spec.resource, spec.resource)
        return [AllocationResized(now_ns, before, after, self.queue, node_id)]

    def allocate(self, now_ns: int, ask: Ask, node_id: NodeID, *, recovered: bool) -> list[Decision]:
        """An ask becomes an allocation (section 5.3 of AP)."""
        facts: list[Decision] = [Allocated(now_ns, ask, self.queue, node_id, recovered)]
        if self.state is ApplicationState.NEW:  # AP-35
            facts += self.move(now_ns, ApplicationEvent.RUN)
        return states_first(facts + self.settle(now_ns, ask, node_id))

    def settle(self, now_ns: int, ask: Ask, node_id: NodeID) -> list[Decision]:
        """Record a placement; only what it causes is answered: state changes, and its end where it comes too late."""
        self.asks.pop(ask.spec.allocation_key, None)
        self.allocations[ask.spec.allocation_key] = ask, node_id
        if ask.spec.placeholder:
            self.placeholder_count += 1
            facts = self._secure(now_ns, ask)
        else:
            self.real_count += 1
            facts = self._run(now_ns)
        return facts + self._dismiss(now_ns, ask)

    def _dismiss(self, now_ns: int, ask: Ask) -> list[Decision]:
        """What comes to run when all of its kind has been told to go has to go as well (AP-50, GA-47)."""
        state, message = self.state, self.ending
        is_late = state is ApplicationState.FAILING
        if ask.spec.placeholder and state is ApplicationState.RESUMING:
            is_late = True
        elif ask.spec.placeholder and state is ApplicationState.COMPLETING and Timer.STATE not in self.timers:
            is_late, message = True, _ON_COMPLETE
        return self._start_release(now_ns, [ask.spec.allocation_key], message) if is_late else []

    def _run(self, now_ns: int) -> list[Decision]:
        """A real allocation was added (AP-36, AP-40)."""
        entered = after_allocation(self.state, stateaware=self.stateaware)
        return [self._enter(now_ns, state, ApplicationEvent.RUN.value) for state in entered]

    def release(self, now_ns: int, key: AllocationKey, termination_type: str) -> list[Decision]:
        """End one allocation or cancel one ask; an unknown key is ignored (section 6.1 of AP)."""
        if key in self.asks:
            return self._cancel([self.asks.pop(key)], now_ns)
        if key not in self.allocations:
            return self._cut_replacement(key)
        if termination_type in _ECHOED_TERMINATIONS:
            return self.end_allocation(now_ns, key, "STOPPED_BY_RM", "allocation remove as per RM request")
        return self.end_allocation(now_ns, key, termination_type, "")

    def release_all(self, now_ns: int, termination_type: str) -> list[Decision]:
        """End all allocations, then cancel all asks; what is about to take a placeholder's place is forgotten."""
        self.gang.replacing.clear()
        facts: list[Decision] = []
        for key in list(self.allocations):
            facts += self.release(now_ns, key, termination_type)
        asks = list(self.asks.values())
        self.asks.clear()
        return facts + self._cancel(asks, now_ns)

    def end_allocation(self, now_ns: int, key: AllocationKey, termination_type: str, message: str) -> list[Decision]:
        """An allocation is over; when it was the last thing of the application that completes it (AP-41, AP-42)."""
        ask, node_id = self.allocations.pop(key)
        self.gang.released.discard(key)
        facts = _ended(now_ns, ask, self.queue, node_id, termination_type, message)
        if ask.spec.placeholder:
            return states_first(facts + self._end_placeholder(now_ns, ask, node_id, termination_type))
        self.real_count -= 1
        if not self._has_real_work():
            facts += self.move_to_completing(now_ns)
        return states_first(facts + self._after_failing(now_ns))

    def _cancel(self, asks: list[Ask], now_ns: int) -> list[Decision]:
        facts: list[Decision] = []
        for ask in asks:
            if ask.spec.placeholder:
                facts += self._give_up_placeholder(now_ns, ask)
        if asks and not self.asks and not self.allocations:
            facts += self.move_to_completing(now_ns)  # AP-39
        facts += [AskRemoved(now_ns, ask, self.queue, True) for ask in asks]
        return facts

    def _has_real_work(self) -> bool:
        """Whether an ask waits or something other than a placeholder runs; what is about to run does neither (AP-41, GA-60)."""
        return bool(self.asks or self.real_count)

    def move_to_completing(self, now_ns: int) -> list[Decision]:
        """Complete unless it is on its way already: a second event would end Completing early."""
        if self.state is ApplicationState.COMPLETING:
            return []
        return self.move(now_ns, ApplicationEvent.COMPLETE)

    def _after_failing(self, now_ns: int) -> list[Decision]:
        """A failing application fails when nothing of it runs any more (AP-47)."""
        if self.state is not ApplicationState.FAILING or self.allocations:
            return []
        return [*self.move(now_ns, ApplicationEvent.FAIL), *self.leave_if_ended(now_ns)]

    def remove(self, now_ns: int) -> list[Decision]:
        """The resource manager forgets the application: Completing, Completed, then everything goes (AP-80, AP-81)."""
        facts: list[Decision] = []
        if self.state in (ApplicationState.ACCEPTED, *_GANG_DONE):
            facts = self.move_to_completing(now_ns)
            facts += self.move(now_ns, ApplicationEvent.COMPLETE)
        return facts + self._end(now_ns, f"Application {self.application_id} Removed", is_removed=True)

    def fail(self, now_ns: int, why: str, message: str) -> list[Decision]:
        """Failing because of ``why`` (AP-95), Failed, then everything goes, with a message for what ran."""
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        facts += self.move(now_ns, ApplicationEvent.FAIL)
        return facts + self._end(now_ns, message, is_removed=False)

    def _end(self, now_ns: int, message: str, *, is_removed: bool) -> list[Decision]:
        facts: list[Decision] = []
        for ask, node_id in self.allocations.values():
            facts += _ended(now_ns, ask, self.queue, node_id, "STOPPED_BY_RM", message)
        self.allocations.clear()
        self.real_count = self.placeholder_count = 0
        return facts + self.leave(now_ns, is_removed=is_removed)

    def terminate(self, now_ns: int) -> list[Decision]:
        """Somebody who may has ended it. It must not be failing already."""
        return self._wind_up(now_ns, "Terminated", "releasing allocations on application termination")

    def _execution_timeout(self, now_ns: int) -> list[Decision]:
        """It has run for as long as it may (AP-62)."""
        if self.state not in _GANG_DONE:
            return []
        return self._wind_up(now_ns, "ExecutionTimeout", "releasing allocations on application execution timeout")

    def _wind_up(self, now_ns: int, why: str, message: str) -> list[Decision]:
        """Failing because of ``why``: nothing waits any more, and what runs is asked to end; then it has failed (AP-47)."""
        self._set_timer(Timer.PLACEHOLDERS, None)
        self._set_timer(Timer.EXECUTION, None)
        self.ending = message
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        asks = list(self.asks.values())
        self.asks.clear()
        for ask in asks:
            if ask.spec.placeholder:
                facts += self._give_up_placeholder(now_ns, ask)
            facts.append(AskRemoved(now_ns, ask, self.queue, True, timed_out=True))
        facts += self._start_release(now_ns, list(self.allocations), message)
        return facts + self._after_failing(now_ns)

    def _start_release(self, now_ns: int, keys: list[AllocationKey], message: str) -> list[Decision]:
        """Ask the resource manager to end these; usage goes down when it confirms (section 6.2 of AP)."""
        facts: list[Decision] = []
        for key in keys:
            if key not in self.gang.released:
                self.gang.released.add(key)
                ask, node_id = self.allocations[key]
                facts.append(ReleaseStarted(now_ns, ask, self.queue, node_id, "TIMEOUT", message))
        return facts

    # ---- placeholders

    def _placeholders(self) -> list[AllocationKey]:
        return [key for key, (ask, _) in self.allocations.items() if ask.spec.placeholder]

    def _count_placeholder(self, now_ns: int, ask: Ask) -> list[Decision]:
        name = ask.spec.task_group_name
        was_open = self.gang.is_open(name)
        self.gang.add(ask)
        return [] if was_open else [TaskGroupChanged(now_ns, self.application_id, name, is_open=True)]

    def _secure(self, now_ns: int, ask: Ask) -> list[Decision]:
        """A placeholder was allocated: the gang may be complete (AP-38), and its time runs from the first on (GA-40)."""
        gang = self.gang
        gang.secure(ask.spec.resource)
        if self.state is not ApplicationState.ACCEPTED:
            return []
        if Timer.PLACEHOLDERS not in self.timers:
            self._set_timer(Timer.PLACEHOLDERS, placeholder_deadline_ns(now_ns, gang, self.tags))
        return self._run(now_ns) if gang.is_complete() and not gang.is_over else []

    def start_replacement(self, now_ns: int, ask: Ask, placeholder: AllocationKey) -> list[Decision]:
        """A real ask will take a placeholder's place when its end is confirmed (row 2 of section 3 of GA)."""
        del self.asks[ask.spec.allocation_key]
        holder, node_id = self.allocations[placeholder]
        self.gang.released.add(placeholder)
        self.gang.replacing[placeholder] = ask, node_id
        message = f"replacing allocationKey: {ask.spec.allocation_key}"
        return [ReleaseStarted(now_ns, holder, self.queue, node_id, "PLACEHOLDER_REPLACED", message)]

    def _change_taker(self, now_ns: int, placeholder: AllocationKey, spec: AllocationSpec) -> list[Decision]:
        """What waits for its placeholder to go has this size (AP-110), or it runs elsewhere already (AP-112)."""
        real, node_id = self.gang.replacing[placeholder]
        real = _resized(real, spec.resource)
        if spec.node_id is None:
            self.gang.replacing[placeholder] = real, node_id
            return []
        del self.gang.replacing[placeholder]
        return self.allocate(now_ns, real, spec.node_id, recovered=True)

    def cancel_placeholder(self, now_ns: int, placeholder: AllocationKey) -> list[Decision]:
        """A placeholder is smaller than what should take its place (row 1 of section 3 of GA)."""
        return self._start_release(now_ns, [placeholder], "cancel placeholder: resource incompatible")

    def _release_placeholders(self, now_ns: int, message: str) -> list[Decision]:
        return self._start_release(now_ns, self._placeholders(), message)

    def _end_placeholder(self, now_ns: int, holder: Ask, node_id: NodeID, termination_type: str) -> list[Decision]:
        """A placeholder is gone: somebody takes its place (GA-30), or it ended in another way (section 5 of GA)."""
        self.placeholder_count -= 1
        real, _ = self.gang.replacing.pop(holder.spec.allocation_key, (None, node_id))
        group = self.gang.groups[holder.spec.task_group_name]
        was_open = group.is_open()
        facts: list[Decision] = []
        if real is not None and termination_type == "PLACEHOLDER_REPLACED" and fits(holder.spec.resource, real.spec.resource):
            group.replaced += 1
            facts += self._take_place(now_ns, real, node_id)
        else:
            group.timed_out += 1
            if real is not None:  # GA-36, or one of the two was resized meanwhile (GA-33)
                facts += self._return(now_ns, real)
        if was_open and not group.is_open():
            facts.append(TaskGroupChanged(now_ns, self.application_id, holder.spec.task_group_name, is_open=False))
        return facts + self._after_last_placeholder(now_ns)

    def _return(self, now_ns: int, real: Ask) -> list[Decision]:
        """What was to take a place waits again, as if it had just been asked for (AP-34)."""
        self.asks[real.spec.allocation_key] = real
        changes = self.move(now_ns, ApplicationEvent.RUN) if self.state is ApplicationState.COMPLETING else []
        return [*changes, AskReturned(now_ns, real, self.queue)]

    def _take_place(self, now_ns: int, real: Ask, node_id: NodeID) -> list[Decision]:
        """GA-31; the first real allocation of a gang that is complete does not move the state (AP-37)."""
        is_first = not self.real_count
        self.allocations[real.spec.allocation_key] = real, node_id
        self.real_count += 1
        changes = [] if is_first and self.state is not ApplicationState.COMPLETING else self._run(now_ns)
        return [*changes, Allocated(now_ns, real, self.queue, node_id), *self._dismiss(now_ns, real)]

    def _after_last_placeholder(self, now_ns: int) -> list[Decision]:
        """AP-42, when there is none left."""
        if self.placeholder_count:
            return []
        self._set_timer(Timer.PLACEHOLDERS, None)
        if self.state is ApplicationState.RESUMING:
            return self._resume(now_ns)
        if self.state is ApplicationState.FAILING:
            return self._after_failing(now_ns)
        if self._has_real_work():
            return []
        return [*self.move(now_ns, ApplicationEvent.COMPLETE), *self.leave_if_ended(now_ns)]

    def _resume(self, now_ns: int) -> list[Decision]:
        """An ordinary application from now on; what it runs already moves it on (GA-49)."""
        facts = self.move(now_ns, ApplicationEvent.RUN)
        for _ in range(min(2, self.real_count)):
            facts += self._run(now_ns)
        return facts

    def _give_up_placeholder(self, now_ns: int, ask: Ask) -> list[Decision]:
        """A placeholder that waited will not come."""
        group: TaskGroup = self.gang.groups[ask.spec.task_group_name]
        group.timed_out += 1
        if group.is_open():
            return []
        return [TaskGroupChanged(now_ns, self.application_id, ask.spec.task_group_name, is_open=False)]

    def _cut_replacement(self, key: AllocationKey) -> list[Decision]:
        """What waits for its placeholder to go is cancelled; the placeholder's end is still awaited (AP-125)."""
        placeholder = self.gang.placeholder_of(key)
        if placeholder is not None:
            del self.gang.replacing[placeholder]
        return []

    def _gang_timeout(self, now_ns: int) -> list[Decision]:
        """GA-42: a gang that is complete lets its unused placeholders go, another one resumes without or fails."""
        if self.state in (*_GANG_DONE, *WINDING_UP):
            return self._release_placeholders(now_ns, _ON_TIMEOUT)
        gang = self.gang
        gang.is_over = True
        event = ApplicationEvent.FAIL if gang.is_hard else ApplicationEvent.RESUME
        facts = self.move(now_ns, event, "ResourceReservationTimeout")
        given_up = [ask for ask in self.asks.values() if ask.spec.placeholder or gang.is_hard]
        ending = list(self.allocations) if gang.is_hard else self._placeholders()
        facts += self._start_release(now_ns, ending, _ON_TIMEOUT)
        for ask in given_up:
            del self.asks[ask.spec.allocation_key]
            message = "releasing pending placeholders on placeholder timeout"
            facts.append(ReleaseStarted(now_ns, ask, self.queue, None, "TIMEOUT", message))
            if ask.spec.placeholder:
                facts += self._give_up_placeholder(now_ns, ask)
            facts.append(AskRemoved(now_ns, ask, self.queue, True, timed_out=True))
        return facts + self._after_last_placeholder(now_ns)


def _resized(ask: Ask, resource: Resource) -> Ask:
    return structs.replace(ask, spec=structs.replace(ask.spec, resource=resource))


def _ended(
    now_ns: int, ask: Ask, queue: QueuePath, node_id: NodeID, termination_type: str, message: str
) -> list[Decision]:
    return [Released(now_ns, ask, queue, node_id, termination_type, message), AskRemoved(now_ns, ask, queue, False)]


def _refusal(spec: AllocationSpec) -> str:
    """Why this entry cannot be taken, or "" (AP-105 to AP-107)."""
    if any(quantity < 0 for quantity in spec.resource.values()):
        return NEGATIVE_RESOURCES
    if not strictly_positive(spec.resource):
        return "allocation contains no resources"
    if spec.placeholder and not spec.task_group_name:
        return "placeholder without task group"
    try:
        selector.parse(spec.tags.get(selector.TAG, ""))
    except selector.SelectorError as error:
        return f"tag {selector.TAG}: {error}"
    return ""
