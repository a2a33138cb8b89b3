"""The acts of administrators and operators on an application: end it, hold it, cancel a task, change priorities (OP-1 to OP-13).

``EFFECTS`` has each act: its objection, its changes, and what the audit shows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import structs

from ykactor.core.messages.acts import ApplicationAct, CancelTask, Hold, HoldApplication, SetPriority, TerminateApplication
from ykactor.core.messages.facts import ApplicationHeld, AskPriorityChanged, Fact, ReleaseStarted
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.states import ApplicationState
from ykactor.core.objects.application import Application
from ykactor.core.objects.lifecycle import states_first
from ykactor.core.values.ids import AllocationKey, ApplicationID
from ykactor.core.values.parts import Steps
from ykactor.core.values.quantities import brief

_CANCELLED = "cancelled by an operator"


class Effect(NamedTuple):
    """The effect of an act on the application that it names.

    Attributes:
        objection: the reason why it cannot be carried out, or "".
        carry_out: does it, with pauses if it concerns many tasks; what holds already is left as it is.
        look: the state of its target, before and after; empty if there is none.
        goes_on: True while the resource manager has to confirm a release.
    """

    objection: Callable[[Application, Any], str]
    carry_out: Callable[[Application, int, Any], list[Fact] | Steps[list[Fact]]]
    look: Callable[[Application, Any], str]
    goes_on: Callable[[Application, Any], bool] = lambda application, act: False


def carry_out(application: Application, now_ns: int, act: ApplicationAct) -> Steps[list[Fact]]:
    """Carry out an act to which ``objection`` is "". Returns the facts."""
    facts = EFFECTS[type(act)].carry_out(application, now_ns, act)
    return facts if isinstance(facts, list) else (yield from facts)


def state_of(application: Application, act: object) -> str:
    """``Running in root.a``."""
    return f"{application.state} in {application.queue}"


def _unknown_task(name: ApplicationID, key: AllocationKey) -> str:
    return f"failed to find {brief(key)} of application {name}"


# ---- end it


def _terminate_objection(application: Application, act: TerminateApplication) -> str:
    return f"application {act.application_id} is failing already" if _is_failing(application, act) else ""


def _is_failing(application: Application, act: TerminateApplication) -> bool:
    """True if the application is Failing (AP-128)."""
    return application.state is ApplicationState.FAILING


# ---- hold it


def _hold(application: Application, now_ns: int, act: HoldApplication) -> list[Fact]:
    if (application.hold is not None) is act.is_held:
        return []
    application.set_hold(Hold(act.operator.name, now_ns) if act.is_held else None)
    return [ApplicationHeld(now_ns, act.application_id, application.queue, act.operator.name, act.is_held)]


def hold_text(hold: Hold | None) -> str:
    """An application or a queue for the audit."""
    return "not held" if hold is None else f"held by {hold.by}"


# ---- cancel a task


def _cancel_objection(application: Application, act: CancelTask) -> str:
    key = act.allocation_key
    if key in application.tasks.allocations:
        return f"{brief(key)} of {act.application_id} is being released already" if _is_released(application, act) else ""
    is_known = key in application.tasks.asks or application.tasks.placeholder_of(key) is not None
    return "" if is_known else _unknown_task(act.application_id, key)


def _cancel(application: Application, now_ns: int, act: CancelTask) -> list[Fact]:
    """Remove an ask at once; ask the resource manager to end an allocation, which must not be released already."""
    key = act.allocation_key
    if key in application.tasks.allocations:
        return application.start_release(now_ns, [key], _CANCELLED)
    placeholder = application.tasks.placeholder_of(key)
    ask = application.tasks.asks[key] if placeholder is None else application.tasks.replacing[placeholder][0]
    told = ReleaseStarted(now_ns, ask, application.queue, None, TerminationType.TIMEOUT, _CANCELLED)
    return states_first([told, *application.release(now_ns, key, TerminationType.TIMEOUT)])


def _task(application: Application, act: CancelTask) -> str:
    key = act.allocation_key
    if key in application.tasks.allocations:
        return "being released" if _is_released(application, act) else f"runs on {application.tasks.allocations[key][1]}"
    if key in application.tasks.asks:
        return "pending"
    return "" if application.tasks.placeholder_of(key) is None else "replaces a placeholder"


def _is_released(application: Application, act: CancelTask) -> bool:
    """True if the release of the allocation was started (AP-128)."""
    return act.allocation_key in application.tasks.released


# ---- change priorities


def _priority_objection(application: Application, act: SetPriority) -> str:
    key = act.allocation_key
    if key is None:
        return "" if application.tasks.asks else f"application {act.application_id} has no pending ask"
    if key in application.tasks.asks:
        return ""
    if key in application.tasks.allocations or application.tasks.placeholder_of(key) is not None:
        return f"{brief(key)} of {act.application_id} is placed already, expected a pending ask"
    return _unknown_task(act.application_id, key)


def _prioritise(application: Application, now_ns: int, act: SetPriority) -> Steps[list[Fact]]:
    facts = list[Fact]()
    for key in list(application.tasks.asks) if act.allocation_key is None else [act.allocation_key]:
        before = application.tasks.asks[key]
        if before.priority != act.priority:
            after = structs.replace(before, priority=act.priority)
            application.tasks.update(after)
            facts.append(AskPriorityChanged(now_ns, before, after, application.queue))
        yield 1
    return facts


def _priority(application: Application, act: SetPriority) -> str:
    """The priority of the ask, or the highest of all."""
    keys = application.tasks.asks.keys() if act.allocation_key is None else application.tasks.asks.keys() & {act.allocation_key}
    return f"priority {max(application.tasks.asks[key].priority for key in keys)}" if keys else ""


#: The effects of the acts.
EFFECTS: dict[type[ApplicationAct], Effect] = {
    TerminateApplication: Effect(
        _terminate_objection, lambda application, now_ns, act: application.terminate(now_ns), state_of, _is_failing
    ),
    HoldApplication: Effect(lambda application, act: "", _hold, lambda application, act: hold_text(application.hold)),
    CancelTask: Effect(_cancel_objection, _cancel, _task, _is_released),
    SetPriority: Effect(_priority_objection, _prioritise, _priority),
}
