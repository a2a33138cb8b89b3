"""One application: its asks and allocations, and what they mean for its state.

``Application`` belongs to its leaf (``leaf.LeafCore``), which is its only writer. Every method returns the facts that it caused,
in order; state changes come before the allocation or release that follows from the same step (AP-96). Methods that concern all
tasks of the application pause (``values.parts``).
"""

from __future__ import annotations

from msgspec import structs

from ykactor.core.accounting.resource_types import COMMON_TYPES
from ykactor.core.messages.asks import (
    NEGATIVE_RESOURCES,
    PREDICATE_CLASS_MAX,
    PREDICATE_TAG,
    Ask,
    created_ns,
    resized,
    with_policy_of,
)
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    AskAdded,
    AskResized,
    EndReported,
    Fact,
    PreemptionPolicyChanged,
    Released,
)
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.rejections import Rejection, RejectionCode
from ykactor.core.messages.states import ApplicationEvent, ApplicationState, Outcome
from ykactor.core.messages.task_record import NAME_MAX, TaskRecord
from ykactor.core.objects import failures, placeholders
from ykactor.core.objects.gang import GROUPS_MAX, ON_COMPLETE
from ykactor.core.objects.lifecycle import HAVE_STARTED, Timer, states_first
from ykactor.core.objects.record import ApplicationRecord
from ykactor.core.values import selector
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.core.values.parts import Pace, Pausing, finished

#: Looking up the member of an enum is slow in Python 3.11.
_NEW, _RUNNING, _COMPLETING = ApplicationState.NEW, ApplicationState.RUNNING, ApplicationState.COMPLETING
#: Releases of these types are requests of the resource manager and are echoed; the others are confirmations (AP-131).
_ECHOED_TERMINATIONS = frozenset({TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN_TERMINATION_TYPE})


class Application(ApplicationRecord):
    """What happens to the asks and allocations of one application."""

    __slots__ = ()

    def fire_timer(self, now_ns: int, timer: Timer) -> Pausing[list[Fact]]:
        """A timer has expired (AP-43, AP-44, AP-46)."""
        self.set_timer(timer, None)
        match timer:
            case Timer.STATE if self.state is ApplicationState.COMPLETING and self.placeholder_count:
                return (yield from placeholders.release_all(self, now_ns, ON_COMPLETE))  # AP-50
            case Timer.STATE:
                return [*self.move_on(now_ns), *self.leave_if_ended(now_ns)]
            case Timer.PLACEHOLDERS:
                return (yield from placeholders.time_out(self, now_ns))
            case Timer.EXECUTION:
                return (yield from self._execution_timeout(now_ns))
            case Timer.BACKOFF:
                return (yield from failures.readmit(self, now_ns))

    # ---- asks and allocations

    def submit(self, now_ns: int, submitted: Ask, arrival_ns: int, arrival: int) -> list[Fact]:
        """Take an entry of ``AllocationRequest.allocations`` (AP-105 to AP-114)."""
        wrong = _mistake(submitted)
        if wrong is not None:
            return [AllocationRejected(now_ns, submitted.allocation_key, submitted.application_id, wrong.reason, wrong.code)]
        key = submitted.allocation_key
        if key in self.allocations:
            return self._update_allocation(now_ns, submitted)
        if key in self.asks:
            return self._update_ask(now_ns, submitted)
        placeholder = self.gang.placeholder_of(key) if self.gang.replacing else None
        if placeholder is not None:
            return self._update_replacement(now_ns, placeholder, submitted)
        if submitted.placeholder and self.gang.is_full(submitted.task_group_name):
            reason = f"found {GROUPS_MAX} task groups, no room for one more"
            return [AllocationRejected(now_ns, key, submitted.application_id, reason, RejectionCode.LIMIT)]
        created = created_ns(submitted, arrival_ns) if submitted.tags else arrival_ns
        self.changed.tasks += 1
        if not submitted.resource.keys() <= COMMON_TYPES:
            self.books.types.add(submitted.resource)
        since = created if created < now_ns else now_ns
        ask = structs.replace(submitted, created_ns=created, arrival=arrival, since_ns=since)
        self.changed.task(ask)
        if created < self.submission_ns:
            self.submission_ns = created
            self.touch()
        facts = placeholders.add(self, now_ns, ask) if submitted.placeholder else []
        if submitted.node_id is not None:  # it already runs there (AP-109)
            facts += self.allocate(now_ns, ask, submitted.node_id, recovered=True)
            if submitted.releasing:  # AP-145
                self.gang.released.add(key)
            return facts
        if self.state in (_NEW, _COMPLETING):  # AP-34
            facts += self.move(now_ns, ApplicationEvent.RUN)
        self.asks[key] = ask
        facts.append(AskAdded(now_ns, ask, self.queue))
        return facts

    def _update_ask(self, now_ns: int, update: Ask) -> list[Fact]:
        """A pending ask has another size (AP-110) or policy (AP-116), or the resource manager has placed it itself (AP-112)."""
        facts = self._resize_ask(now_ns, update)
        before = self.asks[update.allocation_key]
        after = with_policy_of(before, update)
        if after is not before:
            self.asks[update.allocation_key] = after
            self.changed.task(after)
            facts.append(PreemptionPolicyChanged(now_ns, before, after, self.queue, None))
        if update.node_id is not None:
            facts += self.allocate(now_ns, after, update.node_id, recovered=True)
            facts += self._note_end(now_ns, update)
        return facts

    def _update_replacement(self, now_ns: int, placeholder: AllocationKey, update: Ask) -> list[Fact]:
        """The same for a real ask that waits for its placeholder to end."""
        if update.node_id is None:
            return placeholders.update_replacement(self, now_ns, placeholder, update)
        before, _ = self.gang.replacing[placeholder]
        self.count_wait(now_ns, before)
        self.books.types.replace(before.resource, update.resource)
        real = with_policy_of(resized(before, update.resource), update)
        facts = placeholders.withdraw(self, now_ns, placeholder)
        facts += self.allocate(now_ns, real, update.node_id, recovered=True)
        return facts + self._note_end(now_ns, update)

    def _resize_ask(self, now_ns: int, update: Ask) -> list[Fact]:
        before = self.asks[update.allocation_key]
        if update.resource == before.resource:
            return []  # AP-114
        after = resized(before, update.resource)
        self.count_wait(now_ns, before)
        self.sized_ns[update.allocation_key] = now_ns
        self.asks[update.allocation_key] = after
        self.books.types.replace(before.resource, update.resource)
        self.changed.task(after)
        return [AskResized(now_ns, before, after, self.queue)]

    def _update_allocation(self, now_ns: int, update: Ask) -> list[Fact]:
        """A running allocation has another size (AP-111) or policy (AP-116), or is ending already (AP-145)."""
        facts = self._resize_allocation(now_ns, update)
        before, node_id = self.allocations[update.allocation_key]
        after = with_policy_of(before, update)
        if after is not before:
            self.allocations[update.allocation_key] = after, node_id
            self.changed.task(after)
            facts.append(PreemptionPolicyChanged(now_ns, before, after, self.queue, node_id))
        return facts + self._note_end(now_ns, update)

    def _note_end(self, now_ns: int, update: Ask) -> list[Fact]:
        """Note that a known allocation is ending already, if its entry says so (AP-145)."""
        if not update.releasing or update.allocation_key in self.gang.released:
            return []
        ask, node_id = self.allocations[update.allocation_key]
        self.gang.released.add(update.allocation_key)
        self.changed.task(ask)
        return [EndReported(now_ns, ask, self.queue, node_id)]

    def _resize_allocation(self, now_ns: int, update: Ask) -> list[Fact]:
        before, node_id = self.allocations[update.allocation_key]
        if update.resource == before.resource:
            return []  # AP-113, AP-114
        after = resized(before, update.resource)
        self.count_resize(now_ns, before, after, node_id, self.began_ns[update.allocation_key])
        self.allocations[update.allocation_key] = after, node_id
        self.books.types.replace(before.resource, update.resource)
        self.changed.task(after)
        if before.placeholder:
            self.gang.resize(before.resource, update.resource)
            self.touch()
        return [AllocationResized(now_ns, before, after, self.queue, node_id)]

    def allocate(self, now_ns: int, ask: Ask, node_id: NodeID, *, recovered: bool) -> list[Fact]:
        """An ask becomes an allocation (AP-130)."""
        allocated = Allocated(now_ns, ask, self.queue, node_id, recovered)
        begun = self.move(now_ns, ApplicationEvent.RUN) if self.state is _NEW else []  # AP-35
        caused = begun + self.settle(now_ns, ask, node_id)
        return states_first([allocated, *caused]) if caused else [allocated]

    def settle(self, now_ns: int, ask: Ask, node_id: NodeID) -> list[Fact]:
        """Record a placement. Returns only what it causes: state changes, and the release of a placement that comes too late."""
        key = ask.allocation_key
        if self.asks.pop(key, None) is None:
            self.count_placed(now_ns, ask)
        self.count_begin(ask.resource)
        self.allocations[key] = ask, node_id
        self.began_ns[key] = now_ns
        self.changed.task(ask)
        if ask.placeholder:
            self.placeholder_count += 1
            facts = placeholders.allocated(self, now_ns, ask)
        else:
            self.real_count += 1
            if self.state is _RUNNING:  # as nearly always: nothing follows
                return []
            facts = self.run(now_ns)
        return facts + self.release_if_late(now_ns, ask)

    def hand_back(self, now_ns: int, key: AllocationKey, node_id: NodeID | None) -> list[Fact]:
        """An allocation could not start on the node; ignored if it does not run there (AP-144)."""
        if key not in self.allocations or node_id not in (None, self.allocations[key][1]):
            return []
        if key in self.gang.released:  # it is to end, and this confirms it (AP-121)
            return self.release(now_ns, key, TerminationType.STOPPED_BY_RM)
        return failures.hand_back(self, now_ns, key)

    def release(self, now_ns: int, key: AllocationKey, termination_type: TerminationType) -> list[Fact]:
        """End one allocation or cancel one ask; an unknown key is ignored (AP-131)."""
        if key in self.asks:
            return finished(self._cancel([self.asks.pop(key)], now_ns))
        if key not in self.allocations:
            return placeholders.cancel_replacement(self, now_ns, key)
        if termination_type in _ECHOED_TERMINATIONS:
            return self.end_allocation(now_ns, key, TerminationType.STOPPED_BY_RM, "allocation remove as per RM request")
        return self.end_allocation(now_ns, key, termination_type, "")

    def release_all(self, now_ns: int, termination_type: TerminationType) -> Pausing[list[Fact]]:
        """End all allocations, then cancel all asks, also those that wait for their placeholder."""
        facts, pace = placeholders.cancel_replacements(self, now_ns), Pace()
        for key in list(self.allocations):
            items = self.count_items(now_ns, self.began_ns[key])
            facts += self.release(now_ns, key, termination_type)
            if pace.is_due(items):
                yield ()
        facts += yield from self._cancel(self.take_asks(), now_ns)
        return facts

    def end_allocation(
        self, now_ns: int, key: AllocationKey, termination_type: TerminationType, message: str, *, with_node: bool = False
    ) -> list[Fact]:
        """An allocation is over; the end of the last one completes the application (AP-41, AP-42)."""
        ask, node_id = self.allocations.pop(key)
        self.count_end(now_ns, ask, node_id, self.began_ns.pop(key))
        self.replaced_ns.pop(key, None)
        self.changed.task(ask)
        self.gang.released.discard(key)
        released = Released(now_ns, ask, self.queue, node_id, termination_type, message, with_node)
        facts = self._with_ask(released)
        if ask.placeholder:
            return states_first(facts + placeholders.ended(self, now_ns, ask, node_id, termination_type))
        self.real_count -= 1
        if not self.has_real_work():
            facts += self.complete(now_ns)
        return states_first(facts + self.after_failing(now_ns))

    def lose(self, now_ns: int, key: AllocationKey, message: str) -> list[Fact]:
        """The node of an allocation has left (SC-112), or the node on which a real ask waits for its placeholder."""
        if key not in self.allocations:
            return placeholders.lose_replacement(self, now_ns, key)
        if placeholders.is_replaced_elsewhere(self, key):  # SC-114
            return self.end_allocation(now_ns, key, TerminationType.PLACEHOLDER_REPLACED, "")
        return self.end_allocation(now_ns, key, TerminationType.STOPPED_BY_RM, message, with_node=True)

    def _cancel(self, asks: list[Ask], now_ns: int) -> Pausing[list[Fact]]:
        facts: list[Fact] = []
        for ask in asks:
            if ask.placeholder:
                facts += placeholders.drop_pending(self, now_ns, ask)
        if asks and not self.asks and not self.allocations:
            facts += self.complete(now_ns)  # AP-39
        facts += yield from self._removed(asks, now_ns)
        return facts

    def _removed(self, asks: list[Ask], now_ns: int) -> Pausing[list[Fact]]:
        facts, pace = list[Fact](), Pace()
        for ask in asks:
            facts.append(self.ask_removed(now_ns, ask, pending=True))
            if pace.is_due(self.count_items(now_ns, ask.since_ns)):
                yield ()
        return facts

    def record(self, record: TaskRecord) -> None:
        """A task has ended, as its resource manager says; where it ran is known here until it is released (AP-152)."""
        key = record.allocation_key
        node_id = self.allocations[key][1] if key in self.allocations else NodeID("")
        self.past.record(
            structs.replace(record, allocation_key=AllocationKey(key[:NAME_MAX]), node_id=NodeID(node_id[:NAME_MAX]))
        )
        self.touch_use()

    # ---- the end

    def remove(self, now_ns: int, outcome: Outcome | None = None, said: str = "") -> Pausing[list[Fact]]:
        """The resource manager removes the application: Completing, Completed, then everything ends (AP-80, AP-81).

        With an outcome it has ended like that, and is kept (AP-151).
        """
        facts: list[Fact] = []
        if outcome in (None, Outcome.COMPLETED) and (self.state is ApplicationState.ACCEPTED or self.state in HAVE_STARTED):
            facts = self.complete(now_ns)
            facts += self.move(now_ns, ApplicationEvent.COMPLETE)
        elif outcome is not None:
            facts = self.move(now_ns, ApplicationEvent.FAIL, said)
            facts += self.move(now_ns, ApplicationEvent.FAIL)
        if outcome is not None:
            self.past.conclude(outcome, said)
        facts += yield from self._end(now_ns, f"Application {self.application_id} Removed", is_removed=outcome is None)
        return facts

    def fail(self, now_ns: int, why: str, message: str) -> Pausing[list[Fact]]:
        """Failing because of ``why`` (AP-95), Failed, then everything ends, with ``message`` for each allocation."""
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        facts += self.move(now_ns, ApplicationEvent.FAIL)
        facts += yield from self._end(now_ns, message, is_removed=False)
        return facts

    def _end(self, now_ns: int, message: str, *, is_removed: bool) -> Pausing[list[Fact]]:
        facts, pace = placeholders.cancel_replacements(self, now_ns), Pace()
        for ask, node_id in self.allocations.values():
            began_ns = self.began_ns[ask.allocation_key]
            self.count_end(now_ns, ask, node_id, began_ns)
            self.changed.task(ask)
            facts += self._with_ask(Released(now_ns, ask, self.queue, node_id, TerminationType.STOPPED_BY_RM, message))
            if pace.is_due(self.count_items(now_ns, began_ns)):
                yield ()
        facts += yield from self._removed(self.take_asks(), now_ns)
        return facts + self.leave(now_ns, is_removed=is_removed)

    def terminate(self, now_ns: int) -> Pausing[list[Fact]]:
        """An administrator ends the application, which must not be failing already."""
        return self._wind_up(now_ns, "Terminated", "releasing allocations on application termination")

    def _execution_timeout(self, now_ns: int) -> Pausing[list[Fact]]:
        """The application has used up its execution time (AP-62)."""
        if self.state not in HAVE_STARTED:
            return []
        return (yield from self._wind_up(now_ns, "ExecutionTimeout", "releasing allocations on application execution timeout"))

    def _wind_up(self, now_ns: int, why: str, message: str) -> Pausing[list[Fact]]:
        """Failing because of ``why``: asks are dropped, allocations released; Failed when the last one is gone (AP-47)."""
        self.set_timer(Timer.PLACEHOLDERS, None)
        self.ending = message
        self.touch()
        facts, pace = self.move(now_ns, ApplicationEvent.FAIL, why), Pace()
        for ask in self.take_asks():
            if ask.placeholder:
                facts += placeholders.drop_pending(self, now_ns, ask)
            facts.append(self.ask_removed(now_ns, ask, pending=True, timed_out=True))
            if pace.is_due(self.count_items(now_ns, ask.since_ns)):
                yield ()
        facts += yield from self.start_releases(now_ns, list(self.allocations), message)
        return facts + self.after_failing(now_ns)

    def _with_ask(self, released: Released) -> list[Fact]:
        """The end of an allocation is the end of its ask too."""
        timed_out = released.termination_type is TerminationType.TIMEOUT
        return [released, self.ask_removed(released.at_ns, released.ask, pending=False, timed_out=timed_out)]

    def preempt(self, now_ns: int, key: AllocationKey, message: str) -> list[Fact]:
        """Release a victim of preemption (PE-93)."""
        if key not in self.gang.released:
            self.preempted.add(key)
        return self.start_release(now_ns, [key], message, TerminationType.PREEMPTED_BY_SCHEDULER)


def _mistake(ask: Ask) -> Rejection | None:
    """Why this entry cannot be taken, or None (AP-105 to AP-107)."""
    is_empty = True
    for quantity in ask.resource.values():
        if quantity < 0:
            return Rejection(RejectionCode.NEGATIVE_RESOURCES, NEGATIVE_RESOURCES)
        if quantity:
            is_empty = False
    if is_empty:
        return Rejection(RejectionCode.NO_RESOURCES, "allocation contains no resources")
    if ask.placeholder and not ask.task_group_name:
        return Rejection(RejectionCode.NO_TASK_GROUP, "placeholder without task group")
    wrong = _mistake_in_tags(ask) if ask.tags else ""
    return Rejection(RejectionCode.BAD_TAG, wrong) if wrong else None


def _mistake_in_tags(ask: Ask) -> str:
    if len(ask.tags.get(PREDICATE_TAG, "")) > PREDICATE_CLASS_MAX:
        return f"tag {PREDICATE_TAG}: found {len(ask.tags[PREDICATE_TAG])} characters, expected at most {PREDICATE_CLASS_MAX}"
    try:
        names = selector.names_in(selector.parse(ask.tags.get(selector.TAG, "")))
    except selector.SelectorError as error:
        return f"tag {selector.TAG}: {error}"
    limit = selector.NAMES_MAX
    return f"tag {selector.TAG}: found {names} keys and values, expected at most {limit}" if names > limit else ""
