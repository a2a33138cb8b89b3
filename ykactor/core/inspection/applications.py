"""Invariants of applications: the scheduler's applications and pending asks agree with those of the leaves."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.inspection.checks import differs, differs_in, leaves_of, total_of
from ykactor.core.inspection.nodes import allows_preemption
from ykactor.core.messages.asks import Ask, order_of, shape_of
from ykactor.core.messages.states import ApplicationState
from ykactor.core.objects.application import Application
from ykactor.core.objects.registry import Registry
from ykactor.core.queueing.equivalence import HAS_NODE, RESERVES
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.priorities import Priority
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.resources import pruned

_FAILING = ApplicationState.FAILING


def applications(registry: Registry, state: SchedulerState) -> Iterator[str]:
    """Check that the state has every live application with exactly its asks, and the pairs of gangs."""
    live = [application for application in state.applications.values() if not _is_kept_back(state, application)]
    pairs = {application for application in live if application.gang is not None and application.gang.has_pair()}
    known = {application for found in state.pairs.by_leaf.values() for application in found} | state.pairs.aside.keys()
    yield from differs("application index", "where placeholders can be replaced", known, pairs)
    keeping: dict[QueuePath, list[ApplicationID]] = {}
    for holder in state.applications.values():
        for queue in holder.leaf.path_up if holder.holds_slot else ():
            keeping.setdefault(queue.path, []).append(holder.application_id)
    for path, queue in state.tree.nodes.items():
        yield from differs_in(f"queue {path}", "the applications that hold a slot", queue.accepted, keeping.get(path, []))
    yield from differs_in("application index", "the set of applications", state.applications, registry.applications)
    preempting: dict[ApplicationID, set[AllocationKey]] = {}
    for owner, key in state.preemptions.by_ask:
        preempting.setdefault(owner, set()).add(key)
    for leaf in leaves_of(registry):
        for application_id, application in leaf.applications.items():
            if application_id in state.applications:
                waiting = state.applications[application_id]
                yield from differs(f"pending application {application_id}", "the queue", waiting.leaf.path, leaf.path)
                yield from _application(application, waiting, preempting.get(application_id, set()))


def _is_kept_back(state: SchedulerState, application: PendingApplication) -> bool:
    """True if none of its placeholders may be replaced: it is failing, or held."""
    return application.state is _FAILING or application.hold is not None or state.leaf_of(application).is_held()


def _key(ask: Ask) -> AllocationKey:
    return ask.allocation_key


def _application(application: Application, waiting: PendingApplication, preempting: set[AllocationKey]) -> Iterator[str]:
    """Check one application; ``preempting`` are its asks that have an attempt to preempt."""
    where = f"pending application {application.application_id}"
    yield from differs(where, "the state", waiting.state, application.state)
    yield from differs(where, "the submission time", waiting.submission_ns, application.submission_ns)
    yield from differs(where, "the registration number", waiting.arrival, application.arrival)
    allocated = total_of(ask.resource for ask, _ in application.allocations.values())
    yield from differs(where, "allocated", pruned(waiting.allocated), allocated)
    yield from differs(where, "the set of asks", sorted(waiting.asks), sorted(application.asks))
    queued = 0
    for (shape, kind), queue in waiting.queues.items():
        asks = queue.items()
        queued += len(asks)
        if any((ask.allocation_key in waiting.reserving) is not (kind == HAS_NODE) for ask in asks):
            yield f"{where}: asks with a node and without stand in one ask_class, expected kind {kind}"
        attempts = [ask for ask in asks if kind != RESERVES and not ask.allow_preempt_other]
        if attempts:
            yield f"{where}: {len(attempts)} asks stand with those that may preempt, expected none"
        if [shape_of(ask) for ask in asks] != [shape] * len(asks):
            yield f"{where}: asks of several shapes wait in one ask_class, expected {shape}"
        if queue.notified is not None:
            notified = sorted(key for keys in queue.notified.asks for key in keys)
            yield from differs(
                f"{where}, asks of shape {shape}", "the asks with a reported condition", notified, sorted(map(_key, asks))
            )
        keys: list[object] = [order_of(ask) for ask in asks]
        if asks != sorted(asks, key=order_of) or queue.sort_key not in keys:
            yield f"{where}: the asks of shape {shape} are not in order"
        for ask in asks:
            key = ask.allocation_key
            if application.asks.get(key) is not ask or waiting.asks.get(key) != (ask, queue):
                yield f"{where}: ask {key} in ask_class is not the ask that waits"
    held = waiting.gang.held.items() if waiting.gang is not None else []
    aside = [key for key in waiting.reserving if waiting.asks[key][1] is None]
    settled = [key for key, ask in waiting.reserving.items() if not allows_preemption(ask) or key in preempting]
    yield from differs(where, "the asks with a node that stand in no ask_class", sorted(aside), sorted(settled))
    somewhere = queued + len(held) + len(aside)
    yield from differs(where, "the number of asks that wait somewhere", somewhere, len(application.asks))
    yield from _gang(where, application, waiting)
    yield from differs(where, "the priority", waiting.priorities.highest, _priority(application))
    yield from differs(where, "the hold", waiting.hold, application.hold)
    yield from differs(where, "the priority shown to the queue", waiting.shown_priority, _shown_priority(application))


def _gang(where: str, application: Application, waiting: PendingApplication) -> Iterator[str]:
    """Check that real asks of open task groups wait for placeholders, in order, and running placeholders are replaceable."""
    running = application.allocations
    placeholders = {key: ask for key, (ask, _) in running.items() if ask.placeholder}
    reserved = total_of(ask.resource for ask in placeholders.values())
    yield from differs(where, "what placeholders hold", pruned(waiting.reserved), reserved)
    yield from differs(where, "the number of placeholders", application.placeholder_count, len(placeholders))
    yield from differs(where, "the number of real allocations", application.real_count, len(running) - len(placeholders))
    gang = waiting.gang
    if gang is None:
        if placeholders:
            yield f"{where}: has placeholders and no task groups"
        return
    open_groups = {group for group in application.gang.groups if application.gang.is_open(group)}
    yield from differs(where, "the open groups", gang.open_groups, open_groups)
    asks = application.asks.values()
    held = [ask for ask in asks if ask.task_group_name in gang.open_groups and not ask.placeholder]
    yield from differs(where, "who waits for placeholders", gang.held.items(), sorted(held, key=order_of))
    replaceable = {placeholder.allocation_key for some in gang.replaceable.values() for placeholder, _ in some.items()}
    yield from differs(where, "the placeholders to replace", replaceable, placeholders.keys() - application.gang.released)
    yield from differs(
        where, "the placeholders ever allocated", pruned(gang.allocated_ever), pruned(application.gang.allocated_ever)
    )


def _shown_priority(application: Application) -> Priority:
    """The priority that the queue sees: none of a held application (OP-4)."""
    return _priority(application) if application.hold is None else None


def _priority(application: Application) -> Priority:
    """The highest priority of the application's asks; None without asks (PR-3)."""
    return max((ask.priority for ask in application.asks.values()), default=None)
