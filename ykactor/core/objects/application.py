"""One application: what it waits for and what it runs, and what that means for its state.

``Application`` is a part of its leaf (``queues.LeafCore``), which is its only writer. Every method answers the facts
that it caused, in order; state changes come before the allocation or release that follows from the same step (AP-96).
"""

from __future__ import annotations

from ykactor.core.messages.asks import NEGATIVE_RESOURCES, PREDICATE_CLASS_MAX, PREDICATE_TAG, AllocationSpec, Ask, resized
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationLeft,
    AskAdded,
    AskRemoved,
    AskResized,
    Decision,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects import placeholders
from ykactor.core.objects.gang import ON_COMPLETE, ON_TIMEOUT, Gang, timeout_ns
from ykactor.core.objects.lifecycle import HAVE_STARTED, Lifecycle, Timer, states_first
from ykactor.core.values import selector
from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.quantities import parse_uint64
from ykactor.core.values.resources import strictly_positive
from ykactor.core.values.times import S_NS

#: Releases with one of these are the resource manager's wish and are echoed; the others confirm (AP-131).
_ECHOED_TERMINATIONS = frozenset({"STOPPED_BY_RM", "UNKNOWN_TERMINATION_TYPE"})


def created_ns(spec: AllocationSpec, arrival_ns: int) -> int:
    """The creation time of an ask: its tag ``creationTime`` in Unix seconds, else its arrival (PR-52)."""
    seconds = parse_uint64(spec.tags.get("creationTime", "")) if spec.tags else None
    return arrival_ns if seconds is None else seconds * S_NS


class Application(Lifecycle):
    """What decides about one application.

    Attributes:
        submission_ns: arrival, moved back to the earliest creation time of any ask or allocation (PR-40).
        arrival: registration number, the last word in any order (PR-31).
        asks, allocations: what waits, and what runs with its node; placeholders among them.
        began_ns: since when each allocation runs.
        real_count, placeholder_count: how many of the allocations are real, and how many hold space only.
        gang: what is remembered of placeholders and what takes their place.
        ending: the message of what is released because it came to run when the application was failing already (GA-47).
    """

    __slots__ = (
        "allocations",
        "arrival",
        "asks",
        "began_ns",
        "ending",
        "gang",
        "placeholder_count",
        "real_count",
        "submission_ns",
    )

    def __init__(self, spec: AddApplication, queue: QueuePath, arrival_ns: int, arrival: int) -> None:
        self.gang = Gang(spec)
        # of an application that is no gang (AP-62, AP-63)
        may_run_ns = None if self.gang.total else timeout_ns(spec.execution_timeout_ms)
        super().__init__(spec.application_id, queue, spec.tags, may_run_ns)
        self.submission_ns = arrival_ns
        self.arrival = arrival
        self.ending = ON_TIMEOUT
        self.asks: dict[AllocationKey, Ask] = {}
        self.allocations: dict[AllocationKey, tuple[Ask, NodeID]] = {}
        self.began_ns: dict[AllocationKey, int] = {}
        self.real_count = self.placeholder_count = 0

    # ---- timers and the end

    def fire_timer(self, now_ns: int, timer: Timer) -> list[Decision]:
        """A timer's time is up (AP-43, AP-44, AP-46)."""
        self.set_timer(timer, None)
        match timer:
            case Timer.STATE if self.state is ApplicationState.COMPLETING and self.placeholder_count:
                return placeholders.release(self, now_ns, ON_COMPLETE)  # AP-50
            case Timer.STATE:
                return [*self.move_on(now_ns), *self.leave_if_ended(now_ns)]
            case Timer.PLACEHOLDERS:
                return placeholders.time_out(self, now_ns)
            case Timer.EXECUTION:
                return self._execution_timeout(now_ns)

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
        """Take an entry of ``AllocationRequest.allocations`` (AP-105 to AP-114)."""
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
            return placeholders.change_taker(self, now_ns, placeholder, spec)
        created = created_ns(spec, arrival_ns)
        ask = Ask(spec, created, arrival, created if created < now_ns else now_ns)
        self.submission_ns = min(self.submission_ns, ask.created_ns)
        facts = placeholders.count(self, now_ns, ask) if spec.placeholder else []
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
        after = resized(before, spec.resource)
        self.asks[spec.allocation_key] = after
        return [AskResized(now_ns, before, after, self.queue)]

    def _resize_allocation(self, now_ns: int, spec: AllocationSpec) -> list[Decision]:
        before, node_id = self.allocations[spec.allocation_key]
        if spec.resource == before.spec.resource:
            return []  # AP-113, AP-114
        after = resized(before, spec.resource)
        self.allocations[spec.allocation_key] = after, node_id
        if before.spec.placeholder:
            self.gang.resize(before.spec.resource, spec.resource)
        return [AllocationResized(now_ns, before, after, self.queue, node_id)]

    def allocate(self, now_ns: int, ask: Ask, node_id: NodeID, *, recovered: bool) -> list[Decision]:
        """An ask becomes an allocation (AP-130)."""
        facts: list[Decision] = [Allocated(now_ns, ask, self.queue, node_id, recovered)]
        if self.state is ApplicationState.NEW:  # AP-35
            facts += self.move(now_ns, ApplicationEvent.RUN)
        return states_first(facts + self.settle(now_ns, ask, node_id))

    def settle(self, now_ns: int, ask: Ask, node_id: NodeID) -> list[Decision]:
        """Record a placement; only what it causes is answered: state changes, and its end where it comes too late."""
        self.asks.pop(ask.spec.allocation_key, None)
        self.allocations[ask.spec.allocation_key] = ask, node_id
        self.began_ns[ask.spec.allocation_key] = now_ns
        if ask.spec.placeholder:
            self.placeholder_count += 1
            facts = placeholders.secure(self, now_ns, ask)
        else:
            self.real_count += 1
            facts = self.run(now_ns)
        return facts + self.dismiss(now_ns, ask)

    def dismiss(self, now_ns: int, ask: Ask) -> list[Decision]:
        """What comes to run when all of its kind has been told to go has to go as well (AP-50, GA-47)."""
        if self.state is ApplicationState.FAILING or (ask.spec.placeholder and self.state is ApplicationState.RESUMING):
            return self.start_release(now_ns, [ask.spec.allocation_key], self.ending)
        if ask.spec.placeholder and self.state is ApplicationState.COMPLETING and Timer.STATE not in self.timers:
            return self.start_release(now_ns, [ask.spec.allocation_key], ON_COMPLETE)
        return []

    def release(self, now_ns: int, key: AllocationKey, termination_type: str) -> list[Decision]:
        """End one allocation or cancel one ask; an unknown key is ignored (AP-131, AP-132)."""
        if key in self.asks:
            return self._cancel([self.asks.pop(key)], now_ns)
        if key not in self.allocations:
            return placeholders.cut(self, now_ns, key)
        if termination_type in _ECHOED_TERMINATIONS:
            return self.end_allocation(now_ns, key, "STOPPED_BY_RM", "allocation remove as per RM request")
        return self.end_allocation(now_ns, key, termination_type, "")

    def release_all(self, now_ns: int, termination_type: str) -> list[Decision]:
        """End all allocations, then cancel all asks; what is about to take a placeholder's place is forgotten."""
        facts = placeholders.cut_all(self, now_ns)
        for key in list(self.allocations):
            facts += self.release(now_ns, key, termination_type)
        asks = list(self.asks.values())
        self.asks.clear()
        return facts + self._cancel(asks, now_ns)

    def end_allocation(self, now_ns: int, key: AllocationKey, termination_type: str, message: str) -> list[Decision]:
        """An allocation is over; when it was the last thing of the application that completes it (AP-41, AP-42)."""
        ask, node_id = self.allocations.pop(key)
        del self.began_ns[key]
        self.gang.released.discard(key)
        facts = _ended(now_ns, ask, self.queue, node_id, termination_type, message)
        if ask.spec.placeholder:
            return states_first(facts + placeholders.end(self, now_ns, ask, node_id, termination_type))
        self.real_count -= 1
        if not self.has_real_work():
            facts += self.complete(now_ns)
        return states_first(facts + self.after_failing(now_ns))

    def lose(self, now_ns: int, key: AllocationKey, message: str) -> list[Decision]:
        """The node of an allocation is gone (SC-112), or that of a task which waits there for its placeholder to go."""
        if key not in self.allocations:
            return placeholders.lose_taker(self, now_ns, key)
        if placeholders.is_moving(self, key):  # SC-114
            return self.end_allocation(now_ns, key, "PLACEHOLDER_REPLACED", "")
        return self.end_allocation(now_ns, key, "STOPPED_BY_RM", message)

    def _cancel(self, asks: list[Ask], now_ns: int) -> list[Decision]:
        facts: list[Decision] = []
        for ask in asks:
            if ask.spec.placeholder:
                facts += placeholders.give_up(self, now_ns, ask)
        if asks and not self.asks and not self.allocations:
            facts += self.complete(now_ns)  # AP-39
        facts += [AskRemoved(now_ns, ask, self.queue, True) for ask in asks]
        return facts

    def has_real_work(self) -> bool:
        """Whether an ask waits or something other than a placeholder runs; what is about to run does neither (AP-41, GA-60)."""
        return bool(self.asks or self.real_count)

    def after_failing(self, now_ns: int) -> list[Decision]:
        """A failing application fails when nothing of it runs any more (AP-47)."""
        if self.state is not ApplicationState.FAILING or self.allocations:
            return []
        return [*self.move(now_ns, ApplicationEvent.FAIL), *self.leave_if_ended(now_ns)]

    def remove(self, now_ns: int) -> list[Decision]:
        """The resource manager forgets the application: Completing, Completed, then everything goes (AP-80, AP-81)."""
        facts: list[Decision] = []
        if self.state in (ApplicationState.ACCEPTED, *HAVE_STARTED):
            facts = self.complete(now_ns)
            facts += self.move(now_ns, ApplicationEvent.COMPLETE)
        return facts + self._end(now_ns, f"Application {self.application_id} Removed", is_removed=True)

    def fail(self, now_ns: int, why: str, message: str) -> list[Decision]:
        """Failing because of ``why`` (AP-95), Failed, then everything goes, with a message for what ran."""
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        facts += self.move(now_ns, ApplicationEvent.FAIL)
        return facts + self._end(now_ns, message, is_removed=False)

    def _end(self, now_ns: int, message: str, *, is_removed: bool) -> list[Decision]:
        facts = placeholders.cut_all(self, now_ns)
        for ask, node_id in self.allocations.values():
            facts += _ended(now_ns, ask, self.queue, node_id, "STOPPED_BY_RM", message)
        return facts + self.leave(now_ns, is_removed=is_removed)

    def terminate(self, now_ns: int) -> list[Decision]:
        """Somebody who may has ended it. It must not be failing already."""
        return self._wind_up(now_ns, "Terminated", "releasing allocations on application termination")

    def _execution_timeout(self, now_ns: int) -> list[Decision]:
        """It has run for as long as it may (AP-62)."""
        if self.state not in HAVE_STARTED:
            return []
        return self._wind_up(now_ns, "ExecutionTimeout", "releasing allocations on application execution timeout")

    def _wind_up(self, now_ns: int, why: str, message: str) -> list[Decision]:
        """Failing because of ``why``: nothing waits any more, and what runs is asked to end; then it has failed (AP-47)."""
        self.set_timer(Timer.PLACEHOLDERS, None)
        self.ending = message
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        asks = list(self.asks.values())
        self.asks.clear()
        for ask in asks:
            if ask.spec.placeholder:
                facts += placeholders.give_up(self, now_ns, ask)
            facts.append(AskRemoved(now_ns, ask, self.queue, True, timed_out=True))
        facts += self.start_release(now_ns, list(self.allocations), message)
        return facts + self.after_failing(now_ns)

    def evict(self, now_ns: int, key: AllocationKey, message: str) -> list[Decision]:
        """A task has to go for another one (PE-93)."""
        return self.start_release(now_ns, [key], message, "PREEMPTED_BY_SCHEDULER")

    def start_release(
        self, now_ns: int, keys: list[AllocationKey], message: str, termination_type: str = "TIMEOUT"
    ) -> list[Decision]:
        """Ask the resource manager to end these; usage goes down when it confirms (AP-133)."""
        facts: list[Decision] = []
        for key in keys:
            if key not in self.gang.released:
                self.gang.released.add(key)
                ask, node_id = self.allocations[key]
                facts.append(ReleaseStarted(now_ns, ask, self.queue, node_id, termination_type, message))
        return facts


def _ended(
    now_ns: int, ask: Ask, queue: QueuePath, node_id: NodeID, termination_type: str, message: str
) -> list[Decision]:
    released = Released(now_ns, ask, queue, node_id, termination_type, message)
    return [released, AskRemoved(now_ns, ask, queue, False, termination_type == "TIMEOUT")]


def _refusal(spec: AllocationSpec) -> str:
    """Why this entry cannot be taken, or "" (AP-105 to AP-107)."""
    if any(quantity < 0 for quantity in spec.resource.values()):
        return NEGATIVE_RESOURCES
    if not strictly_positive(spec.resource):
        return "allocation contains no resources"
    if spec.placeholder and not spec.task_group_name:
        return "placeholder without task group"
    if len(spec.tags.get(PREDICATE_TAG, "")) > PREDICATE_CLASS_MAX:
        return f"tag {PREDICATE_TAG}: found {len(spec.tags[PREDICATE_TAG])} characters, expected at most {PREDICATE_CLASS_MAX}"
    try:
        selector.parse(spec.tags.get(selector.TAG, ""))
    except selector.SelectorError as error:
        return f"tag {selector.TAG}: {error}"
    return ""
