"""Makes the state of the scheduler from restored owners: pending asks and usage, reservations, preemption attempts, clocks."""

from __future__ import annotations

from typing import Any

from ykactor.core.messages.asks import Ask, AskID
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.core.messages.states import COUNTED_AS_RUNNING
from ykactor.core.objects.application import Application
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.preemption.attempts import PreemptionAttempt
from ykactor.core.queueing.equivalence import NotifiedAsks
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.task_groups import PendingGang
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.records.rows import ApplicationRow, TaskRow
from ykactor.core.state.observer import Observer
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps, in_parts
from ykactor.core.values.resources import Resource, add_to

#: The rows of one partition: by kind, then by key.
Rows = dict[str, dict[tuple[Any, ...], Any]]


def restore_scheduler(state: SchedulerState, observer: Observer, rows: Rows, root_max: Resource | None) -> Steps[None]:
    """Fill the empty state of a scheduler; its owners must be complete.

    Args:
        root_max: the capacity of all nodes together.
    """
    queues = state.registry.queues.values()
    if queues:  # there are none before the first configuration and after the removal of the partition
        yield from state.tree.configure((queue.config, isinstance(queue, LeafCore)) for queue in queues)
        state.tree.set_root_max(root_max)
        for queue in queues:
            state.tree.nodes[queue.path].hold = queue.hold
    state.scheduling_states.restore(is_wanted=rows["partition"][()].states_wanted)
    yield from _restore_nodes(state, rows)
    for name, path in state.registry.applications.items():
        application, row = state.registry.leaf(path).applications[name], rows["application"][name,]
        pending = _restore_application(state, application, row)
        _restore_tasks(state, application, pending)
        yield 1 + len(application.asks) + len(application.allocations)
    _restore_preemption(state, rows)
    _restore_reservations(state, rows)
    yield from _restore_notified(state, rows)
    yield from observer.adopt_all()


def _restore_nodes(state: SchedulerState, rows: Rows) -> Steps[None]:
    for node in state.registry.nodes.values():
        state.nodes.sync(node)
        yield 1
    predicates = state.nodes.predicates
    predicates.is_answered = rows["partition"][()].is_answered
    for (predicate, allocate, node_id), row in rows["answer"].items():
        predicates.restore((predicate, bool(allocate)), node_id, row.answer)
        yield 1


# ---- applications


def _restore_application(state: SchedulerState, application: Application, row: ApplicationRow) -> PendingApplication:
    """Restore an application without its tasks: its state, slots, back-off, and trackers."""
    name, leaf = application.application_id, state.tree.nodes[application.queue]
    who, times = row.who, (row.submission_ns, row.arrival)
    stateaware, total = application.lifecycle.stateaware, application.gang.total
    fact = ApplicationAdded(0, name, application.queue, who.user, *times, stateaware, who.groups, total)
    pending = state.applications[name] = PendingApplication(fact, leaf, state.registry.changed)
    pending.state, pending.held, pending.hold = row.state, row.held, row.hold
    _restore_gang(application, pending)
    if row.state in COUNTED_AS_RUNNING:
        state.ledger.take_slot(leaf, name)
    if row.holds_slot:
        pending.holds_slot = True
        state.ledger.hold_slot(leaf, name)
    if row.backoff_ns:
        pending.backoff_ns = state.backoffs[pending] = row.backoff_ns
    pending.choose(row.group)
    pending.counted_as_running = row.counted_as_running
    if row.enrolled:
        pending.track(state.trackers.track(leaf.limits_up(), who, row.group))
    return pending


def _restore_gang(application: Application, pending: PendingApplication) -> None:
    known = application.gang
    if known.groups and pending.gang is None:
        pending.gang = PendingGang({})
    if pending.gang is not None:
        pending.gang.open_groups.update(group for group in known.groups if known.is_open(group))
        pending.gang.allocated_ever = dict(known.allocated_ever)
        pending.gang.is_over = known.is_over


def _restore_tasks(state: SchedulerState, application: Application, pending: PendingApplication) -> None:
    leaf, gang, wanted = pending.leaf, pending.gang, Resource()
    for ask, node_id in application.allocations.values():
        state.ledger.use(leaf, ask.resource)
        pending.begin(ask)
        if ask.placeholder and ask.allocation_key not in application.gang.released:
            assert gang is not None
            gang.offer(ask, node_id)
    for ask in application.asks.values():
        pending.add(ask)
        add_to(wanted, ask.resource)
    state.ledger.change_pending(leaf, wanted)


# ---- what the scheduler has decided and is not over


def _pending_ask(state: SchedulerState, identity: AskID) -> tuple[PendingApplication, QueueNode, Ask]:
    """The application of a pending ask, its leaf, and the ask itself."""
    application = state.applications[identity[0]]
    return application, state.leaf_of(application), application.asks[identity[1]][0]


def _restore_preemption(state: SchedulerState, rows: Rows) -> None:
    preemptions = state.preemptions
    preemptions.counts = rows["partition"][()].counts
    for identity, row in rows["attempt"].items():
        application, leaf, ask = _pending_ask(state, identity)
        waits_for = dict.fromkeys(row.waits_for)
        preemptions.by_ask[identity] = PreemptionAttempt(
            ask, application, row.claim, waits_for, row.victims_count, row.room_made_ns
        )
        for queue in leaf.path_up:
            add_to(queue.claims, row.claim)
    for identity, row in rows["victim"].items():
        preemptions.victims[identity] = row.size, row.preemptor
        for usage in state.applications[identity[0]].leaf.path_up:
            add_to(usage.preempting, row.size)
    preemptions.last_attempts.restore(rows["last_attempt"].items())
    preemptions.cycle_guard.taken.restore((taken, None) for taken in rows["taken"])
    for (path,), clock in rows["quota_clock"].items():
        state.clocks.starts[state.tree.nodes[path]] = clock.start_ns


def _restore_reservations(state: SchedulerState, rows: Rows) -> None:
    """Restore reservations, the oldest first; after the attempts, because an ask with an attempt does not try again."""
    for identity, row in sorted(rows["reservation"].items(), key=lambda item: (item[1].made_ns, item[0])):
        application, _, ask = _pending_ask(state, identity)
        application.reserve(ask, contends=state.may_still_preempt(ask))
        state.reservations.add(row.made_ns, application, ask, state.nodes.nodes[row.node_id])


def _restore_notified(state: SchedulerState, rows: Rows) -> Steps[None]:
    for part in in_parts(rows["task"].values()):
        _restore_conditions(state, part)
        yield len(part)


def _restore_conditions(state: SchedulerState, tasks: list[TaskRow]) -> None:
    for row in tasks:
        if row.notified:
            sent = row.ask
            ask, queue = state.applications[sent.application_id].asks[sent.allocation_key]
            assert queue is not None
            if queue.notified is None:
                queue.notified = NotifiedAsks(queue.items())
            queue.notified.drop(ask)
            queue.notified.asks[row.notified][ask.allocation_key] = ask
