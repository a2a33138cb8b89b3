"""The gang of an application: task groups of placeholders that hold resources, and real asks that replace them (GA-73 to GA-78).

``Gang`` is data and counts; which real ask waits for which placeholder is in ``tasks``. The functions allocate, replace, release
and end the placeholders of an application. Each returns the facts that it caused, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, structs

from ykactor.core.accounting.books import Books
from ykactor.core.messages.asks import Ask, readmitted, resized, with_policy_of
from ykactor.core.messages.facts import (
    Allocated,
    AskRemoved,
    AskReturned,
    Fact,
    PlaceGivenUp,
    PreemptionPolicyChanged,
    ReleaseStarted,
    TaskGroupChanged,
)
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.states import PLACEHOLDER_TIMEOUT_NS, ApplicationEvent, ApplicationState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.account import ApplicationAccount
from ykactor.core.objects.lifecycle import HAVE_STARTED, Lifecycle, Timer
from ykactor.core.objects.tasks import ApplicationTasks
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.quantities import parse_uint64
from ykactor.core.values.resources import Resource, add_to, fits, pruned, subtract_from
from ykactor.core.values.times import MS_NS, S_NS

#: The Unix time in seconds at which an application was created.
APPLICATION_CREATED_TAG = "yunikorn.apache.org/creationTime"
_INT64_MAX = 2**63 - 1

ON_TIMEOUT = "releasing allocated placeholders on placeholder timeout"
ON_COMPLETE = "releasing placeholders on app complete"


#: Task groups of an application: they are kept as long as it is.
GROUPS_MAX = 1000


class TaskGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """The placeholders that any real ask of the same group may replace (GA-73).

    Attributes:
        count: placeholder asks ever submitted.
        replaced: confirmed replacements.
        timed_out: placeholders that ended in any other way.
        min_resource: of the first placeholder.
    """

    count: int = 0
    replaced: int = 0
    timed_out: int = 0
    min_resource: Resource = {}

    def is_open(self) -> bool:
        """True if placeholders are left to replace; real asks of the group wait for them (GA-13)."""
        return self.count > self.replaced + self.timed_out


class Gang:
    """The task groups of one application, and counts of its placeholders. Only its methods write it, and note the row.

    Attributes:
        total: ``placeholderAsk``; empty for an application that is not a gang.
        groups: by name.
        allocated_ever: placeholders ever allocated, also those replaced since (GA-61).
        is_over: the gang has timed out; the application is an ordinary one from then on (GA-50).
    """

    __slots__ = ("_note", "allocated_ever", "groups", "is_hard", "is_over", "timeout_ns", "total")

    def __init__(self, spec: AddApplication, note: Callable[[], object]) -> None:
        self._note = note
        self.total = pruned(spec.placeholder_ask or {})
        self.is_hard = spec.gang_scheduling_style == "Hard"
        self.timeout_ns = timeout_ns(spec.execution_timeout_ms) or PLACEHOLDER_TIMEOUT_NS
        self.groups: dict[str, TaskGroup] = {}
        self.allocated_ever: Resource = {}
        self.is_over = False

    def is_full(self, name: str) -> bool:
        """True if this group would be one too many."""
        return len(self.groups) >= GROUPS_MAX and name not in self.groups

    def is_open(self, name: str) -> bool:
        """True if real asks of this group wait for placeholders."""
        group = self.groups.get(name)
        return group is not None and group.is_open()

    def is_complete(self) -> bool:
        """True if all of ``total`` has been allocated (AP-38)."""
        return bool(self.total) and all(self.allocated_ever.get(name, 0) >= quantity for name, quantity in self.total.items())

    def count(self, ask: Ask) -> None:
        """Count a new placeholder, pending or running."""
        group = self.groups.get(ask.task_group_name) or TaskGroup(min_resource=ask.resource)
        self.groups[ask.task_group_name] = structs.replace(group, count=group.count + 1)
        self._note()

    def count_end(self, name: str, *, is_replaced: bool) -> None:
        """Count a placeholder of a group that has ended: a real ask has replaced it, or it ended in another way (GA-78)."""
        group = self.groups[name]
        self.groups[name] = structs.replace(
            group, replaced=group.replaced + is_replaced, timed_out=group.timed_out + (not is_replaced)
        )
        self._note()

    def change_allocated(self, before: Resource, after: Resource) -> None:
        """Count an allocated placeholder (before: nothing), another size of one, or one that could not start (after: nothing)."""
        subtract_from(self.allocated_ever, before)
        add_to(self.allocated_ever, after)
        self._note()

    def end(self) -> None:
        """End the gang: it has timed out."""
        self.is_over = True
        self._note()


def timeout_ns(milliseconds: int) -> int | None:
    """The timeout that an application was submitted with; None is "not given" (AP-60)."""
    nanoseconds = milliseconds * MS_NS
    return nanoseconds if 0 < nanoseconds <= _INT64_MAX else None


def placeholder_deadline_ns(now_ns: int, gang: Gang, tags: dict[str, str]) -> int:
    """The timeout of a gang whose first placeholder is allocated now, counted from the application's creation (AP-61)."""
    created_s = parse_uint64(tags.get(APPLICATION_CREATED_TAG, ""))
    if created_s is None:
        return now_ns + gang.timeout_ns
    return max(now_ns + MS_NS, created_s * S_NS + gang.timeout_ns)


class GangOwner(Protocol):
    """An application, as the functions below use it."""

    application_id: ApplicationID
    queue: QueuePath
    tags: dict[str, str]
    books: Books
    gang: Gang
    lifecycle: Lifecycle
    account: ApplicationAccount
    tasks: ApplicationTasks

    @property
    def state(self) -> ApplicationState: ...
    def move(self, now_ns: int, event: ApplicationEvent, why: str = "") -> list[Fact]: ...
    def run(self, now_ns: int) -> list[Fact]: ...
    def complete(self, now_ns: int) -> list[Fact]: ...
    def leave_out(self, ask: Ask) -> None: ...
    def ask_removed(self, now_ns: int, ask: Ask, *, pending: bool, timed_out: bool = False) -> AskRemoved: ...
    def start_release(self, now_ns: int, keys: list[AllocationKey], message: str) -> list[Fact]: ...
    def start_releases(self, now_ns: int, keys: list[AllocationKey], message: str) -> Steps[list[Fact]]: ...
    def release_if_late(self, now_ns: int, ask: Ask) -> list[Fact]: ...
    def after_failing(self, now_ns: int) -> list[Fact]: ...
    def leave_if_ended(self, now_ns: int) -> list[Fact]: ...


# ---- before they are replaced


def add(application: GangOwner, now_ns: int, ask: Ask) -> list[Fact]:
    """Count a new placeholder, pending or running: real asks of its task group wait for it from now on (GA-13)."""
    name = ask.task_group_name
    was_open = application.gang.is_open(name)
    application.gang.count(ask)
    return [] if was_open else [TaskGroupChanged(now_ns, application.application_id, name, is_open=True)]


def allocated(application: GangOwner, now_ns: int, ask: Ask) -> list[Fact]:
    """Count an allocated placeholder: the gang may be complete (AP-38); its timeout runs from the first one on (GA-40)."""
    gang, is_accepted = application.gang, application.state is ApplicationState.ACCEPTED
    gang.change_allocated({}, ask.resource)
    is_late = bool(ask.failures) and application.state in HAVE_STARTED  # it was handed back, and the timer may have ended
    if (is_accepted or is_late) and Timer.PLACEHOLDERS not in application.lifecycle.timers:
        application.lifecycle.set_timer(Timer.PLACEHOLDERS, placeholder_deadline_ns(now_ns, gang, application.tags))
    return application.run(now_ns) if is_accepted and gang.is_complete() and not gang.is_over else []


# ---- replacement


def start_replacement(application: GangOwner, now_ns: int, ask: Ask, placeholder: AllocationKey, node_id: NodeID) -> list[Fact]:
    """Release a placeholder that a real ask replaces when its end is confirmed (GA-76, GA-77)."""
    replaced, placeholder_node_id = application.tasks.allocations[placeholder]
    application.tasks.replace(placeholder, ask, node_id)
    application.tasks.release(placeholder)
    why, message = TerminationType.PLACEHOLDER_REPLACED, f"replacing allocationKey: {ask.allocation_key}"
    return [ReleaseStarted(now_ns, replaced, application.queue, placeholder_node_id, why, message)]


def withdraw(application: GangOwner, now_ns: int, placeholder: AllocationKey) -> list[Fact]:
    """End the replacement of a placeholder, which still ends; the place of the real ask on another node becomes free."""
    was_elsewhere = application.tasks.is_replaced_elsewhere(placeholder)
    real, node_id = application.tasks.replacing[placeholder]
    application.tasks.end_replacement(placeholder)
    return [PlaceGivenUp(now_ns, real, node_id)] if was_elsewhere else []


def cancel_replacement(application: GangOwner, now_ns: int, key: AllocationKey) -> list[Fact]:
    """Cancel the real ask ``key`` if it waits for its placeholder, which still ends (AP-125)."""
    placeholder = application.tasks.placeholder_of(key)
    return [] if placeholder is None else _cancel_replacement_of(application, now_ns, placeholder)


def _cancel_replacement_of(application: GangOwner, now_ns: int, placeholder: AllocationKey) -> list[Fact]:
    real, _ = application.tasks.replacing[placeholder]
    application.account.count_wait(now_ns, real)
    return [*withdraw(application, now_ns, placeholder), application.ask_removed(now_ns, real, pending=False)]


def cancel_replacements(application: GangOwner, now_ns: int) -> list[Fact]:
    """Cancel every real ask that waits for its placeholder."""
    waited_for = list(application.tasks.replacing)
    return [fact for placeholder in waited_for for fact in _cancel_replacement_of(application, now_ns, placeholder)]


def lose_replacement(application: GangOwner, now_ns: int, key: AllocationKey) -> list[Fact]:
    """Queue the real ask ``key`` again, which had its place on a node that has left, not on its placeholder's (SC-115)."""
    placeholder = application.tasks.placeholder_of(key)
    assert placeholder is not None
    real, _ = application.tasks.replacing[placeholder]
    application.tasks.end_replacement(placeholder)
    return _return_ask(application, now_ns, real)


def update_replacement(application: GangOwner, now_ns: int, placeholder: AllocationKey, update: Ask) -> list[Fact]:
    """Update the size (AP-110) or preemption policy (AP-116) of the real ask that waits for this placeholder."""
    before, node_id = application.tasks.replacing[placeholder]
    real = with_policy_of(before, update)
    is_elsewhere = application.tasks.is_replaced_elsewhere(placeholder)
    facts = list[Fact]()
    if real is not before:
        application.tasks.update(real)
        if is_elsewhere:
            facts.append(PreemptionPolicyChanged(now_ns, before, real, application.queue, node_id))
    if update.resource == real.resource:
        return facts  # AP-114
    return facts + _resize_replacement(application, now_ns, placeholder, update.resource)


def _resize_replacement(application: GangOwner, now_ns: int, placeholder: AllocationKey, resource: Resource) -> list[Fact]:
    before, _ = application.tasks.replacing[placeholder]
    real = resized(before, resource)
    application.books.types.replace(before.resource, resource)
    application.account.count_wait(now_ns, before)
    application.tasks.restart(now_ns, real)
    if application.tasks.is_replaced_elsewhere(placeholder):  # its place on the other node has the old size
        return withdraw(application, now_ns, placeholder) + _return_ask(application, now_ns, real)
    application.tasks.update(real)
    return []


def release_too_small(application: GangOwner, now_ns: int, placeholder: AllocationKey) -> list[Fact]:
    """Release a placeholder that is smaller than the real ask that should replace it (GA-75)."""
    return application.start_release(now_ns, [placeholder], "cancel placeholder: resource incompatible")


# ---- the end of a placeholder


def ended(
    application: GangOwner, now_ns: int, placeholder: Ask, node_id: NodeID, termination_type: TerminationType
) -> list[Fact]:
    """Count a placeholder that has ended: a real ask replaces it (GA-30), or it ended in another way (GA-78)."""
    gang, tasks, name = application.gang, application.tasks, placeholder.task_group_name
    real, real_node_id = tasks.replacing.get(placeholder.allocation_key, (None, node_id))
    tasks.end_replacement(placeholder.allocation_key)
    facts: list[Fact] = []
    if real is not None and real_node_id != node_id:
        facts = [PlaceGivenUp(now_ns, real, real_node_id)]
    is_replaced = termination_type is TerminationType.PLACEHOLDER_REPLACED
    if real is not None and is_replaced and fits(placeholder.resource, real.resource):
        gang.count_end(name, is_replaced=True)
        facts += _replace(application, now_ns, real, real_node_id, placeholder)
    else:
        gang.count_end(name, is_replaced=False)
        if real is not None:  # GA-36, or one of the two was resized meanwhile (GA-33)
            facts += _return_ask(application, now_ns, real)
    if not gang.is_open(name):
        facts.append(TaskGroupChanged(now_ns, application.application_id, name, is_open=False))
    return facts + _after_last(application, now_ns)


def _replace(application: GangOwner, now_ns: int, real: Ask, node_id: NodeID, placeholder: Ask) -> list[Fact]:
    """Allocate a real ask (GA-31); the first one of a gang that is complete does not change the state (AP-37)."""
    is_first = not application.tasks.real_count
    application.account.count_begin(real.resource)
    application.tasks.begin(now_ns, real, node_id, placeholder)
    changes = [] if is_first and application.state is not ApplicationState.COMPLETING else application.run(now_ns)
    allocation = Allocated(now_ns, real, application.queue, node_id)
    return [*changes, allocation, *application.release_if_late(now_ns, real)]


def _return_ask(application: GangOwner, now_ns: int, real: Ask) -> list[Fact]:
    """Queue a real ask again that was to replace a placeholder, as if it were new (AP-34)."""
    real = readmitted(real, now_ns)
    application.leave_out(real)
    application.tasks.queue(real)
    is_completing = application.state is ApplicationState.COMPLETING
    changes = application.move(now_ns, ApplicationEvent.RUN) if is_completing else []
    return [*changes, AskReturned(now_ns, real, application.queue)]


def _after_last(application: GangOwner, now_ns: int) -> list[Fact]:
    """Move on when no placeholder runs any more (AP-42)."""
    if application.tasks.placeholder_count:
        return []
    application.lifecycle.set_timer(Timer.PLACEHOLDERS, None)
    if application.state is ApplicationState.RESUMING:
        return _resume(application, now_ns)
    if application.state is ApplicationState.FAILING:
        return application.after_failing(now_ns)
    if application.tasks.has_real_work():
        return []
    return [*application.move(now_ns, ApplicationEvent.COMPLETE), *application.leave_if_ended(now_ns)]


def _resume(application: GangOwner, now_ns: int) -> list[Fact]:
    """Go on as an ordinary application; real tasks that run already change its state (GA-49)."""
    facts = application.move(now_ns, ApplicationEvent.RUN)
    for _ in range(min(2, application.tasks.real_count)):
        facts += application.run(now_ns)
    return facts


# ---- timeouts and releases


def drop_pending(application: GangOwner, now_ns: int, ask: Ask) -> list[Fact]:
    """Count a pending placeholder that was cancelled; its task group may be over."""
    gang, name = application.gang, ask.task_group_name
    gang.count_end(name, is_replaced=False)
    return [] if gang.is_open(name) else [TaskGroupChanged(now_ns, application.application_id, name, is_open=False)]


def release_all(application: GangOwner, now_ns: int, message: str) -> Steps[list[Fact]]:
    """Release every placeholder that runs."""
    keys = [key for key, (ask, _) in application.tasks.allocations.items() if ask.placeholder]
    return application.start_releases(now_ns, keys, message)


def time_out(application: GangOwner, now_ns: int) -> Steps[list[Fact]]:
    """Release unused placeholders; a gang that is not complete resumes without them (Soft) or fails (Hard) (GA-42)."""
    if application.state in HAVE_STARTED:
        facts = yield from release_all(application, now_ns, ON_TIMEOUT)
        return facts + (yield from _give_up_handed_back(application, now_ns))
    gang = application.gang
    gang.end()
    event = ApplicationEvent.FAIL if gang.is_hard else ApplicationEvent.RESUME
    facts = application.move(now_ns, event, "ResourceReservationTimeout")
    cancelled = [ask for ask in application.tasks.asks.values() if ask.placeholder or gang.is_hard]
    if gang.is_hard:
        facts += yield from application.start_releases(now_ns, list(application.tasks.allocations), ON_TIMEOUT)
    else:
        facts += yield from release_all(application, now_ns, ON_TIMEOUT)
    for ask in cancelled:
        facts += _time_out_pending(application, now_ns, ask)
        yield 1
    return facts + _after_last(application, now_ns)


def _give_up_handed_back(application: GangOwner, now_ns: int) -> Steps[list[Fact]]:
    """End placeholders that could not start and wait again: they belong to the gang that has timed out (AP-144)."""
    facts = list[Fact]()
    for ask in [ask for ask in application.tasks.asks.values() if ask.placeholder and ask.failures]:
        facts += _time_out_pending(application, now_ns, ask)
        yield 1
    if facts and not application.tasks.asks and not application.tasks.allocations:
        facts += application.complete(now_ns)  # AP-39
    return facts


def _time_out_pending(application: GangOwner, now_ns: int, ask: Ask) -> list[Fact]:
    """Cancel a pending ask, and notify the resource manager as of an allocation."""
    message = "releasing pending placeholders on placeholder timeout"
    started = ReleaseStarted(now_ns, ask, application.queue, None, TerminationType.TIMEOUT, message)
    changes = drop_pending(application, now_ns, ask) if ask.placeholder else []
    return [started, *changes, application.ask_removed(now_ns, ask, pending=True, timed_out=True)]
