"""What an application does with its placeholders (GA-73 to GA-78): they are counted, replaced, told to go, and gone.

A part of ``applications``, in functions of its own. What has to be remembered is in ``gang``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ykactor.core.messages.asks import AllocationSpec, Ask, resized
from ykactor.core.messages.facts import (
    Allocated,
    AskRemoved,
    AskReturned,
    Decision,
    PlaceGivenUp,
    ReleaseStarted,
    TaskGroupChanged,
)
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.objects.gang import ON_TIMEOUT, placeholder_deadline_ns
from ykactor.core.objects.lifecycle import HAVE_STARTED, Timer
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.core.values.resources import fits

if TYPE_CHECKING:
    from ykactor.core.objects.application import Application


# ---- before they are replaced


def count(it: Application, now_ns: int, ask: Ask) -> list[Decision]:
    """A placeholder came, waiting or running: real asks of its group wait for it from now on (GA-13)."""
    name = ask.spec.task_group_name
    was_open = it.gang.is_open(name)
    it.gang.add(ask)
    return [] if was_open else [TaskGroupChanged(now_ns, it.application_id, name, is_open=True)]


def secure(it: Application, now_ns: int, ask: Ask) -> list[Decision]:
    """A placeholder was allocated: the gang may be complete (AP-38), and its time runs from the first on (GA-40)."""
    gang = it.gang
    gang.secure(ask.spec.resource)
    if it.state is not ApplicationState.ACCEPTED:
        return []
    if Timer.PLACEHOLDERS not in it.timers:
        it.set_timer(Timer.PLACEHOLDERS, placeholder_deadline_ns(now_ns, gang, it.tags))
    return it.run(now_ns) if gang.is_complete() and not gang.is_over else []


# ---- replacement


def start_replacement(
    it: Application, now_ns: int, ask: Ask, placeholder: AllocationKey, node_id: NodeID
) -> list[Decision]:
    """A real ask will take a placeholder's place when its end is confirmed (GA-76, GA-77)."""
    del it.asks[ask.spec.allocation_key]
    holder, holder_node_id = it.allocations[placeholder]
    it.gang.released.add(placeholder)
    it.gang.replacing[placeholder] = ask, node_id
    message = f"replacing allocationKey: {ask.spec.allocation_key}"
    return [ReleaseStarted(now_ns, holder, it.queue, holder_node_id, "PLACEHOLDER_REPLACED", message)]


def is_moving(it: Application, placeholder: AllocationKey) -> bool:
    """Whether the real task that takes its place has one on another node already."""
    replacing = it.gang.replacing
    return placeholder in replacing and replacing[placeholder][1] != it.allocations[placeholder][1]


def _give_up_place(it: Application, now_ns: int, placeholder: AllocationKey) -> list[Decision]:
    """Nobody takes the placeholder's place any more, on whatever node it was."""
    was_moving = is_moving(it, placeholder)
    real, node_id = it.gang.replacing.pop(placeholder)
    return [PlaceGivenUp(now_ns, real, node_id)] if was_moving else []


def cut(it: Application, now_ns: int, key: AllocationKey) -> list[Decision]:
    """What is about to take a placeholder's place is cancelled; the placeholder's end is still awaited (AP-125)."""
    placeholder = it.gang.placeholder_of(key)
    return [] if placeholder is None else _cut(it, now_ns, placeholder)


def _cut(it: Application, now_ns: int, placeholder: AllocationKey) -> list[Decision]:
    real, _ = it.gang.replacing[placeholder]
    return [*_give_up_place(it, now_ns, placeholder), AskRemoved(now_ns, real, it.queue, False)]


def cut_all(it: Application, now_ns: int) -> list[Decision]:
    """Nothing is about to take a place any more."""
    return [fact for placeholder in list(it.gang.replacing) for fact in _cut(it, now_ns, placeholder)]


def lose_taker(it: Application, now_ns: int, key: AllocationKey) -> list[Decision]:
    """The node is gone on which a real task waited for its placeholder to go (SC-115)."""
    placeholder = it.gang.placeholder_of(key)
    assert placeholder is not None
    real, _ = it.gang.replacing.pop(placeholder)
    return _take_back(it, now_ns, real)


def cancel(it: Application, now_ns: int, placeholder: AllocationKey) -> list[Decision]:
    """A placeholder is smaller than what should take its place (GA-75)."""
    return it.start_release(now_ns, [placeholder], "cancel placeholder: resource incompatible")


def change_taker(it: Application, now_ns: int, placeholder: AllocationKey, spec: AllocationSpec) -> list[Decision]:
    """What waits for its placeholder to go has this size (AP-110), or it runs elsewhere already (AP-112)."""
    before, node_id = it.gang.replacing[placeholder]
    if spec.node_id is None and spec.resource == before.spec.resource:
        return []  # AP-114
    real = resized(before, spec.resource)
    if spec.node_id is not None:
        return _give_up_place(it, now_ns, placeholder) + it.allocate(now_ns, real, spec.node_id, recovered=True)
    if is_moving(it, placeholder):  # its place there is for another size
        return _give_up_place(it, now_ns, placeholder) + _take_back(it, now_ns, real)
    it.gang.replacing[placeholder] = real, node_id
    return []


def end(it: Application, now_ns: int, holder: Ask, node_id: NodeID, termination_type: str) -> list[Decision]:
    """A placeholder is gone: somebody takes its place (GA-30), or it ended in another way (GA-78)."""
    it.placeholder_count -= 1
    real, real_node_id = it.gang.replacing.pop(holder.spec.allocation_key, (None, node_id))
    group = it.gang.groups[holder.spec.task_group_name]
    facts: list[Decision] = []
    if real is not None and real_node_id != node_id:
        facts = [PlaceGivenUp(now_ns, real, real_node_id)]
    if real is not None and termination_type == "PLACEHOLDER_REPLACED" and fits(holder.spec.resource, real.spec.resource):
        group.replaced += 1
        facts += _take_place(it, now_ns, real, real_node_id)
    else:
        group.timed_out += 1
        if real is not None:  # GA-36, or one of the two was resized meanwhile (GA-33)
            facts += _take_back(it, now_ns, real)
    if not group.is_open():
        facts.append(TaskGroupChanged(now_ns, it.application_id, holder.spec.task_group_name, is_open=False))
    return facts + _after_last(it, now_ns)


def _take_place(it: Application, now_ns: int, real: Ask, node_id: NodeID) -> list[Decision]:
    """GA-31; the first real allocation of a gang that is complete does not move the state (AP-37)."""
    is_first = not it.real_count
    it.allocations[real.spec.allocation_key] = real, node_id
    it.began_ns[real.spec.allocation_key] = now_ns
    it.real_count += 1
    changes = [] if is_first and it.state is not ApplicationState.COMPLETING else it.run(now_ns)
    return [*changes, Allocated(now_ns, real, it.queue, node_id), *it.dismiss(now_ns, real)]


def _take_back(it: Application, now_ns: int, real: Ask) -> list[Decision]:
    """What was to take a place waits again, as if it had just been asked for (AP-34)."""
    it.asks[real.spec.allocation_key] = real
    changes = it.move(now_ns, ApplicationEvent.RUN) if it.state is ApplicationState.COMPLETING else []
    return [*changes, AskReturned(now_ns, real, it.queue)]


# ---- the end


def _after_last(it: Application, now_ns: int) -> list[Decision]:
    """AP-42, when there is none left."""
    if it.placeholder_count:
        return []
    it.set_timer(Timer.PLACEHOLDERS, None)
    if it.state is ApplicationState.RESUMING:
        return _resume(it, now_ns)
    if it.state is ApplicationState.FAILING:
        return it.after_failing(now_ns)
    if it.has_real_work():
        return []
    return [*it.move(now_ns, ApplicationEvent.COMPLETE), *it.leave_if_ended(now_ns)]


def _resume(it: Application, now_ns: int) -> list[Decision]:
    """An ordinary application from now on; what it runs already moves it on (GA-49)."""
    facts = it.move(now_ns, ApplicationEvent.RUN)
    for _ in range(min(2, it.real_count)):
        facts += it.run(now_ns)
    return facts


def give_up(it: Application, now_ns: int, ask: Ask) -> list[Decision]:
    """A placeholder that waited will not come."""
    group = it.gang.groups[ask.spec.task_group_name]
    group.timed_out += 1
    if group.is_open():
        return []
    return [TaskGroupChanged(now_ns, it.application_id, ask.spec.task_group_name, is_open=False)]


def release(it: Application, now_ns: int, message: str) -> list[Decision]:
    """All that run are told to go."""
    return it.start_release(now_ns, [key for key, (ask, _) in it.allocations.items() if ask.spec.placeholder], message)


def time_out(it: Application, now_ns: int) -> list[Decision]:
    """GA-42: a gang that is complete lets its unused placeholders go, another one resumes without or fails."""
    if it.state in HAVE_STARTED:
        return release(it, now_ns, ON_TIMEOUT)
    gang = it.gang
    gang.is_over = True
    facts = it.move(now_ns, ApplicationEvent.FAIL if gang.is_hard else ApplicationEvent.RESUME, "ResourceReservationTimeout")
    given_up = [ask for ask in it.asks.values() if ask.spec.placeholder or gang.is_hard]
    facts += it.start_release(now_ns, list(it.allocations), ON_TIMEOUT) if gang.is_hard else release(it, now_ns, ON_TIMEOUT)
    for ask in given_up:
        del it.asks[ask.spec.allocation_key]
        message = "releasing pending placeholders on placeholder timeout"
        facts.append(ReleaseStarted(now_ns, ask, it.queue, None, "TIMEOUT", message))
        if ask.spec.placeholder:
            facts += give_up(it, now_ns, ask)
        facts.append(AskRemoved(now_ns, ask, it.queue, True, timed_out=True))
    return facts + _after_last(it, now_ns)
