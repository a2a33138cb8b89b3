"""One application: its state, and what happens to its asks and allocations (``tasks``).

``Application`` belongs to its leaf (``queues.LeafCore``), which is its only writer. Every method returns its facts,
in order; state changes come before the allocation or release that follows from the same step (AP-96). Methods that concern all
tasks of the application pause (``values.parts``). What happens to its placeholders is in ``gang``.
"""

from __future__ import annotations

from functools import partial

from msgspec import structs

from ykactor.core.accounting.books import COMMON_TYPES, Books
from ykactor.core.config.access import UserGroups
from ykactor.core.messages import conditions
from ykactor.core.messages.acts import Hold
from ykactor.core.messages.asks import Ask, created_ns, handed_back, mistake_in, readmitted, resized, with_policy_of
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    AskAdded,
    AskCondition,
    AskReadmitted,
    AskRemoved,
    AskResized,
    AskReturned,
    EndReported,
    Fact,
    PreemptionPolicyChanged,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.kinds import RejectionCode, TerminationType
from ykactor.core.messages.states import ApplicationEvent, ApplicationState, Outcome
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects import gang
from ykactor.core.objects.account import ApplicationAccount, account_key
from ykactor.core.objects.gang import GROUPS_MAX, ON_COMPLETE, ON_TIMEOUT, Gang, timeout_ns
from ykactor.core.objects.lifecycle import HAVE_STARTED, Lifecycle, Timer, is_stateaware, states_first
from ykactor.core.objects.tasks import ApplicationTasks, Backoffs
from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.parts import Steps, finished, in_parts

#: Looking up the member of an enum is slow in Python 3.11.
_NEW, _RUNNING = ApplicationState.NEW, ApplicationState.RUNNING
_COMPLETING, _FAILING = ApplicationState.COMPLETING, ApplicationState.FAILING
#: Releases of these types are requests of the resource manager and are echoed; the others are confirmations (AP-131).
_ECHOED_TERMINATIONS = frozenset({TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN_TERMINATION_TYPE})


class Application:
    """One application.

    Attributes:
        changed: notes changed rows.
        books: the accounts of the partition, and the resource types in use.
        who: the user and its groups, the first of which is that of its account.
        tasks, lifecycle, account: its asks and allocations, its state with its timers, and the account of its tasks.
        past: its past.
        submission_ns: arrival, moved back to the earliest creation time of any ask or allocation (PR-40).
        arrival: registration number, the last criterion of every order (PR-31).
        gang: its task groups.
        backoffs: its pending asks for which nodes are left out.
        ending: the release message for allocations that start to run when the application is failing already (GA-47).
        hold: its own hold; None while it has none (OP-1).
    """

    __slots__ = (
        "_note",
        "account",
        "application_id",
        "arrival",
        "backoffs",
        "books",
        "changed",
        "ending",
        "gang",
        "hold",
        "lifecycle",
        "past",
        "queue",
        "submission_ns",
        "tags",
        "tasks",
        "who",
    )

    def __init__(self, spec: AddApplication, who: UserGroups, queue: QueuePath, arrival: tuple[int, int], books: Books) -> None:
        arrival_ns, number = arrival
        name = spec.application_id
        self.application_id = name
        self.queue = queue
        self.tags = spec.tags
        self.who = who
        self.books = books
        self.changed = books.changed
        #: Notes a change of anything but its tasks.
        self._note = partial(books.changed.application, name)
        self.tasks = ApplicationTasks(books.changed)
        self.gang = Gang(spec, self._note)
        # the execution timeout of a gang limits the wait for its placeholders instead (AP-62, AP-63)
        execution_timeout_ns = None if self.gang.total else timeout_ns(spec.execution_timeout_ms)
        self.account = ApplicationAccount(name, account_key(name, who, queue), arrival_ns, books, self.tasks)
        self.past = self.account.past
        is_aware = is_stateaware(spec.tags)
        self.lifecycle = Lifecycle(self._note, self.past, stateaware=is_aware, execution_timeout_ns=execution_timeout_ns)
        self.books.types.add(self.gang.total)
        self.submission_ns = arrival_ns
        self.arrival = number
        self.ending = ON_TIMEOUT
        self.hold: Hold | None = None
        self.backoffs = Backoffs()
        self._note()

    @property
    def state(self) -> ApplicationState:
        return self.lifecycle.state

    def set_hold(self, hold: Hold | None) -> None:
        """Hold the application, or end its hold (None)."""
        self.hold = hold
        self._note()

    # ---- its state and its timers

    def move(self, now_ns: int, event: ApplicationEvent, why: str = "") -> list[Fact]:
        """Carry out ``event``; nothing happens where the table has no move (AP-30)."""
        entered = self.lifecycle.after(event)
        return [] if entered is None else [self._enter(now_ns, entered, event, why)]

    def run(self, now_ns: int) -> list[Fact]:
        """Move on because a real allocation was added (AP-36, AP-40)."""
        if self.lifecycle.state is _RUNNING:
            return []
        return [self._enter(now_ns, state, ApplicationEvent.RUN) for state in self.lifecycle.after_allocation()]

    def complete(self, now_ns: int) -> list[Fact]:
        """Move to Completing, unless the state is Completing: a second event would end that state early."""
        return [] if self.state is _COMPLETING else self.move(now_ns, ApplicationEvent.COMPLETE)

    def _enter(self, now_ns: int, state: ApplicationState, event: ApplicationEvent, why: str = "") -> ApplicationChanged:
        self.lifecycle.enter(now_ns, state, why)
        return ApplicationChanged(now_ns, self.application_id, self.queue, state, event, why)

    def move_to(self, queue: QueuePath) -> None:
        """Move to another leaf, which has to note all of its timers."""
        self.queue = queue
        self.account.move_to(queue)
        self.lifecycle.arm_all()
        self._note()

    def fire_timer(self, now_ns: int, timer: Timer) -> Steps[list[Fact]]:
        """Carry out what an expired timer is for (AP-43, AP-44, AP-46)."""
        self.lifecycle.set_timer(timer, None)
        match timer:
            case Timer.STATE if self.state is _COMPLETING and self.tasks.placeholder_count:
                return (yield from gang.release_all(self, now_ns, ON_COMPLETE))  # AP-50
            case Timer.STATE:
                return [*self.move(now_ns, self.lifecycle.after_timer()), *self.leave_if_ended(now_ns)]
            case Timer.PLACEHOLDERS:
                return (yield from gang.time_out(self, now_ns))
            case Timer.EXECUTION:
                return (yield from self._execution_timeout(now_ns))
            case Timer.BACKOFF:
                return (yield from self._readmit(now_ns))

    # ---- asks and allocations

    def submit(self, now_ns: int, submitted: Ask, arrival_ns: int, arrival: int) -> list[Fact]:
        """Take an entry of ``AllocationRequest.allocations`` (AP-105 to AP-114)."""
        wrong = mistake_in(submitted)
        if wrong is not None:
            return [AllocationRejected(now_ns, submitted.allocation_key, submitted.application_id, wrong.reason, wrong.code)]
        key, tasks = submitted.allocation_key, self.tasks
        if key in tasks.allocations:
            return self._update_allocation(now_ns, submitted)
        if key in tasks.asks:
            return self._update_ask(now_ns, submitted)
        placeholder = tasks.placeholder_of(key) if tasks.replacing else None
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
        if created < self.submission_ns:
            self.submission_ns = created
            self._note()
        facts = gang.add(self, now_ns, ask) if submitted.placeholder else []
        if submitted.node_id is not None:  # it already runs there (AP-109)
            facts += self.allocate(now_ns, ask, submitted.node_id, recovered=True)
            if submitted.releasing:  # AP-145
                tasks.release(key)
            return facts
        if self.lifecycle.state in (_NEW, _COMPLETING):  # AP-34
            facts += self.move(now_ns, ApplicationEvent.RUN)
        tasks.queue(ask)
        facts.append(AskAdded(now_ns, ask, self.queue))
        return facts

    def _update_ask(self, now_ns: int, update: Ask) -> list[Fact]:
        """Update a pending ask: its size (AP-110) or policy (AP-116), or place it where the resource manager did (AP-112)."""
        facts = self._resize_ask(now_ns, update)
        before = self.tasks.asks[update.allocation_key]
        after = with_policy_of(before, update)
        if after is not before:
            self.tasks.update(after)
            facts.append(PreemptionPolicyChanged(now_ns, before, after, self.queue, None))
        if update.node_id is not None:
            facts += self.allocate(now_ns, after, update.node_id, recovered=True)
            facts += self._note_end(now_ns, update)
        return facts

    def _update_replacement(self, now_ns: int, placeholder: AllocationKey, update: Ask) -> list[Fact]:
        """Update a real ask that waits for its placeholder to end."""
        if update.node_id is None:
            return gang.update_replacement(self, now_ns, placeholder, update)
        before, _ = self.tasks.replacing[placeholder]
        self.account.count_wait(now_ns, before)
        self.books.types.replace(before.resource, update.resource)
        real = with_policy_of(resized(before, update.resource), update)
        facts = gang.withdraw(self, now_ns, placeholder)
        facts += self.allocate(now_ns, real, update.node_id, recovered=True)
        return facts + self._note_end(now_ns, update)

    def _resize_ask(self, now_ns: int, update: Ask) -> list[Fact]:
        before = self.tasks.asks[update.allocation_key]
        if update.resource == before.resource:
            return []  # AP-114
        after = resized(before, update.resource)
        self.account.count_wait(now_ns, before)
        self.tasks.update(after)
        self.tasks.restart(now_ns, after)
        self.books.types.replace(before.resource, update.resource)
        return [AskResized(now_ns, before, after, self.queue)]

    def _update_allocation(self, now_ns: int, update: Ask) -> list[Fact]:
        """Update a running allocation: its size (AP-111) or policy (AP-116), or note that it is ending already (AP-145)."""
        facts = self._resize_allocation(now_ns, update)
        before, node_id = self.tasks.allocations[update.allocation_key]
        after = with_policy_of(before, update)
        if after is not before:
            self.tasks.update(after)
            facts.append(PreemptionPolicyChanged(now_ns, before, after, self.queue, node_id))
        return facts + self._note_end(now_ns, update)

    def _note_end(self, now_ns: int, update: Ask) -> list[Fact]:
        """Note that a known allocation is ending already, if its entry says so (AP-145)."""
        if not update.releasing or update.allocation_key in self.tasks.released:
            return []
        ask, node_id = self.tasks.allocations[update.allocation_key]
        self.tasks.release(update.allocation_key)
        return [EndReported(now_ns, ask, self.queue, node_id)]

    def _resize_allocation(self, now_ns: int, update: Ask) -> list[Fact]:
        before, node_id = self.tasks.allocations[update.allocation_key]
        if update.resource == before.resource:
            return []  # AP-113, AP-114
        after = resized(before, update.resource)
        self.account.count_end(now_ns, before, node_id)
        self.account.count_begin(after.resource)
        self.tasks.update(after)
        self.tasks.restart(now_ns, after)
        self.books.types.replace(before.resource, update.resource)
        if before.placeholder:
            self.gang.change_allocated(before.resource, update.resource)
        return [AllocationResized(now_ns, before, after, self.queue, node_id)]

    def allocate(self, now_ns: int, ask: Ask, node_id: NodeID, *, recovered: bool) -> list[Fact]:
        """Turn an ask into an allocation (AP-130)."""
        allocated = Allocated(now_ns, ask, self.queue, node_id, recovered)
        begun = self.move(now_ns, ApplicationEvent.RUN) if self.state is _NEW else []  # AP-35
        caused = begun + self.settle(now_ns, ask, node_id)
        return states_first([allocated, *caused]) if caused else [allocated]

    def settle(self, now_ns: int, ask: Ask, node_id: NodeID) -> list[Fact]:
        """Record a placement. Returns only what it causes: state changes, and the release of a placement that comes too late."""
        self.tasks.begin(now_ns, ask, node_id)
        self.account.count_begin(ask.resource)
        if ask.placeholder:
            facts = gang.allocated(self, now_ns, ask)
        elif self.lifecycle.state is _RUNNING:  # as nearly always: nothing follows
            return []
        else:
            facts = self.run(now_ns)
        return facts + self.release_if_late(now_ns, ask)

    def release(self, now_ns: int, key: AllocationKey, termination_type: TerminationType) -> list[Fact]:
        """End one allocation or cancel one ask; an unknown key is ignored (AP-131)."""
        if key in self.tasks.asks:
            return finished(self._cancel([self.tasks.asks[key]], now_ns))
        if key not in self.tasks.allocations:
            return gang.cancel_replacement(self, now_ns, key)
        if termination_type in _ECHOED_TERMINATIONS:
            return self.end_allocation(now_ns, key, TerminationType.STOPPED_BY_RM, "allocation remove as per RM request")
        return self.end_allocation(now_ns, key, termination_type, "")

    def release_all(self, now_ns: int, termination_type: TerminationType) -> Steps[list[Fact]]:
        """End all allocations, then cancel all asks, also those that wait for their placeholder."""
        facts = gang.cancel_replacements(self, now_ns)
        for key in list(self.tasks.allocations):
            items = self.account.items(now_ns, self.tasks.began_ns[key])
            facts += self.release(now_ns, key, termination_type)
            yield items
        facts += yield from self._cancel(list(self.tasks.asks.values()), now_ns)
        return facts

    def end_allocation(
        self, now_ns: int, key: AllocationKey, termination_type: TerminationType, message: str, *, with_node: bool = False
    ) -> list[Fact]:
        """End an allocation; the end of the last one completes the application (AP-41, AP-42)."""
        ask, node_id = self._end_allocation(now_ns, key)
        released = Released(now_ns, ask, self.queue, node_id, termination_type, message, with_node)
        facts = self._with_ask(released)
        if ask.placeholder:
            return states_first(facts + gang.ended(self, now_ns, ask, node_id, termination_type))
        if not self.tasks.has_real_work():
            facts += self.complete(now_ns)
        return states_first(facts + self.after_failing(now_ns))

    def _end_allocation(self, now_ns: int, key: AllocationKey) -> tuple[Ask, NodeID]:
        """Count the end of an allocation. Returns it."""
        ask, node_id = self.tasks.allocations[key]
        self.account.count_end(now_ns, ask, node_id)
        self.tasks.end(key)
        return ask, node_id

    def lose(self, now_ns: int, key: AllocationKey, message: str) -> list[Fact]:
        """End an allocation whose node has left (SC-112), or the place there of a real ask that waits for its placeholder."""
        if key not in self.tasks.allocations:
            return gang.lose_replacement(self, now_ns, key)
        if self.tasks.is_replaced_elsewhere(key):  # SC-114
            return self.end_allocation(now_ns, key, TerminationType.PLACEHOLDER_REPLACED, "")
        return self.end_allocation(now_ns, key, TerminationType.STOPPED_BY_RM, message, with_node=True)

    def _cancel(self, asks: list[Ask], now_ns: int) -> Steps[list[Fact]]:
        facts: list[Fact] = []
        for ask in asks:
            if ask.placeholder:
                facts += gang.drop_pending(self, now_ns, ask)
        if asks and len(asks) == len(self.tasks.asks) and not self.tasks.allocations:
            facts += self.complete(now_ns)  # AP-39
        facts += yield from self._removed(asks, now_ns)
        return facts

    def _removed(self, asks: list[Ask], now_ns: int) -> Steps[list[Fact]]:
        facts = list[Fact]()
        for ask in asks:
            facts.append(self.ask_removed(now_ns, ask, pending=True))
            yield self.account.items(now_ns, ask.since_ns)
        return facts

    def ask_removed(self, now_ns: int, ask: Ask, *, pending: bool, timed_out: bool = False) -> AskRemoved:
        """The fact about the end of a task, which counts no more; the wait of a pending one is counted."""
        self.changed.tasks -= 1
        self.books.types.remove(ask.resource)
        if pending:
            self.account.count_wait(now_ns, ask)
        self.tasks.remove(ask)
        return AskRemoved(now_ns, ask, self.queue, pending, timed_out)

    # ---- releases that the scheduler starts

    def start_release(
        self, now_ns: int, keys: list[AllocationKey], message: str, why: TerminationType = TerminationType.TIMEOUT
    ) -> list[Fact]:
        """Ask the resource manager to end these few allocations; usage goes down when it confirms (AP-133)."""
        facts: list[Fact] = []
        for key in keys:
            if key not in self.tasks.released:
                self.tasks.release(key)
                ask, node_id = self.tasks.allocations[key]
                facts.append(ReleaseStarted(now_ns, ask, self.queue, node_id, why, message))
        return facts

    def start_releases(self, now_ns: int, keys: list[AllocationKey], message: str) -> Steps[list[Fact]]:
        """Ask the resource manager to end any number of allocations (AP-133)."""
        facts = list[Fact]()
        for part in in_parts(keys):
            facts += self.start_release(now_ns, part, message)
            yield len(part)
        return facts

    def preempt(self, now_ns: int, key: AllocationKey, message: str) -> list[Fact]:
        """Release a victim of preemption (PE-93)."""
        if key not in self.tasks.released:
            self.tasks.preempt(key)
        return self.start_release(now_ns, [key], message, TerminationType.PREEMPTED_BY_SCHEDULER)

    def release_if_late(self, now_ns: int, ask: Ask) -> list[Fact]:
        """Release a new allocation at once if all allocations of its kind are being released already (AP-50, GA-47)."""
        if self.state is _FAILING or (ask.placeholder and self.state is ApplicationState.RESUMING):
            return self.start_release(now_ns, [ask.allocation_key], self.ending)
        if ask.placeholder and self.state is _COMPLETING and Timer.STATE not in self.lifecycle.timers:
            return self.start_release(now_ns, [ask.allocation_key], ON_COMPLETE)
        return []

    # ---- what could not be carried out (AP-144)

    def hand_back(self, now_ns: int, key: AllocationKey, node_id: NodeID | None) -> list[Fact]:
        """Queue the ask of an allocation again that could not start on the node, with its age. Ignored if it runs elsewhere."""
        if key not in self.tasks.allocations or node_id not in (None, self.tasks.allocations[key][1]):
            return []
        if key in self.tasks.released:  # it is to end, and this confirms it (AP-121)
            return self.release(now_ns, key, TerminationType.STOPPED_BY_RM)
        ask, left_out = self._end_allocation(now_ns, key)
        if ask.placeholder:
            self.gang.change_allocated(ask.resource, {})
        changes = self.move(now_ns, ApplicationEvent.RUN) if self.state is _COMPLETING else []
        after = handed_back(ask, now_ns, left_out)
        self.tasks.queue(after)
        self.tasks.restart(now_ns, after)
        self.leave_out(after)
        released = Released(now_ns, ask, self.queue, left_out, TerminationType.SCHEDULING_FAILED_ON_RM, "")
        condition = AskCondition(now_ns, after, self.queue, conditions.handed_back(key, after.failures[-1]))
        return states_first([*changes, released, AskReturned(now_ns, after, self.queue), condition])

    def leave_out(self, ask: Ask) -> None:
        """Note when the first of the nodes that are left out for a pending ask no longer is, and set the timer."""
        due_ns = self.backoffs.note(ask)
        if due_ns is not None:
            self.lifecycle.set_timer(Timer.BACKOFF, min(due_ns, self.lifecycle.timers.get(Timer.BACKOFF, due_ns)))

    def _readmit(self, now_ns: int) -> Steps[list[Fact]]:
        """Readmit nodes whose time is over: the timer has expired."""
        facts = list[Fact]()
        for before in self.backoffs.take_due(self.tasks.asks, now_ns):
            after = readmitted(before, now_ns)
            self.tasks.update(after)
            facts.append(AskReadmitted(now_ns, before, after, self.queue))
            self.backoffs.note(after)
            yield 1
        due_ns = self.backoffs.due_ns(self.tasks.asks)
        if due_ns is not None:
            self.lifecycle.set_timer(Timer.BACKOFF, due_ns)
        return facts

    # ---- the end

    def remove(self, now_ns: int, outcome: Outcome | None = None, said: str = "") -> Steps[list[Fact]]:
        """Remove the application for its resource manager: Completing, Completed, then everything ends (AP-80, AP-81).

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

    def fail(self, now_ns: int, why: str, message: str) -> Steps[list[Fact]]:
        """Fail at once because of ``why`` (AP-95): Failing, Failed, then all allocations end with ``message``, and all asks."""
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        facts += self.move(now_ns, ApplicationEvent.FAIL)
        facts += yield from self._end(now_ns, message, is_removed=False)
        return facts

    def _end(self, now_ns: int, message: str, *, is_removed: bool) -> Steps[list[Fact]]:
        facts = gang.cancel_replacements(self, now_ns)
        for key in list(self.tasks.allocations):
            items = self.account.items(now_ns, self.tasks.began_ns[key])
            ask, node_id = self._end_allocation(now_ns, key)
            facts += self._with_ask(Released(now_ns, ask, self.queue, node_id, TerminationType.STOPPED_BY_RM, message))
            yield items
        facts += yield from self._removed(list(self.tasks.asks.values()), now_ns)
        return facts + self.leave(now_ns, is_removed=is_removed)

    def terminate(self, now_ns: int) -> Steps[list[Fact]]:
        """End the application for an administrator; it must not be failing already."""
        return self._wind_up(now_ns, "Terminated", "releasing allocations on application termination")

    def _execution_timeout(self, now_ns: int) -> Steps[list[Fact]]:
        """End the application, which has used up its execution time (AP-62)."""
        if self.state not in HAVE_STARTED:
            return []
        return (yield from self._wind_up(now_ns, "ExecutionTimeout", "releasing allocations on application execution timeout"))

    def _wind_up(self, now_ns: int, why: str, message: str) -> Steps[list[Fact]]:
        """Begin to fail because of ``why``: drop asks, release allocations; Failed when the last one is gone (AP-47)."""
        self.lifecycle.set_timer(Timer.PLACEHOLDERS, None)
        self.ending = message
        self._note()
        facts = self.move(now_ns, ApplicationEvent.FAIL, why)
        for ask in list(self.tasks.asks.values()):
            if ask.placeholder:
                facts += gang.drop_pending(self, now_ns, ask)
            facts.append(self.ask_removed(now_ns, ask, pending=True, timed_out=True))
            yield self.account.items(now_ns, ask.since_ns)
        facts += yield from self.start_releases(now_ns, list(self.tasks.allocations), message)
        return facts + self.after_failing(now_ns)

    def _with_ask(self, released: Released) -> list[Fact]:
        """The end of an allocation, with the end of its ask."""
        timed_out = released.termination_type is TerminationType.TIMEOUT
        return [released, self.ask_removed(released.at_ns, released.ask, pending=False, timed_out=timed_out)]

    def after_failing(self, now_ns: int) -> list[Fact]:
        """Move a failing application to Failed when its last allocation is gone (AP-47)."""
        if self.state is not _FAILING or self.tasks.allocations:
            return []
        return [*self.move(now_ns, ApplicationEvent.FAIL), *self.leave_if_ended(now_ns)]

    def leave_if_ended(self, now_ns: int) -> list[Fact]:
        """Leave the queue in Completed and Failed (AP-70)."""
        return self.leave(now_ns) if self.lifecycle.has_ended() else []

    def leave(self, now_ns: int, *, is_removed: bool = False) -> list[Fact]:
        """Drop the remaining asks and leave the queue (AP-70)."""
        facts: list[Fact] = [self.ask_removed(now_ns, ask, pending=True) for ask in list(self.tasks.asks.values())]
        self.account.close()
        self._note()
        self.books.types.remove(self.gang.total)
        facts.append(ApplicationLeft(now_ns, self.application_id, self.queue, is_removed))
        return facts
