"""Makes a partition from rows: the owners, then the state of the scheduler.

Nothing is decided here: rows are applied, and the rest is computed from them. State that only saves work (parked classes, failed
searches) starts empty, so that the first cycle tries everything again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from ykactor.core.accounting.accounts import AccountKey
from ykactor.core.accounting.books import Books
from ykactor.core.messages.asks import Ask, AskID
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.messages.states import COUNTED_AS_RUNNING, QueueState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.application import Application
from ykactor.core.objects.lifecycle import Timer
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.partition.reload import configured_types, walk, without_limits
from ykactor.core.preemption.attempts import PreemptionAttempt
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.queueing.pending_gang import PendingGang
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.queueing.waits import AskWait, name_of
from ykactor.core.records.rows import ApplicationRow, PartitionRow, TaskRow, UseRow
from ykactor.core.state.observer import Observer
from ykactor.core.state.state import SchedulerState
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.ids import ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import PART_MAX, Steps
from ykactor.core.values.resources import Resource, add_to

#: The rows of one partition: by kind, then by key.
Rows = dict[str, dict[tuple[Any, ...], Any]]


class DamagedStateError(Exception):
    """The rows do not belong together: one names an object that has no row."""


def restore(rows: Rows, *, reserves: bool) -> Steps[tuple[PartitionCore, SchedulerCore]]:
    """Make a partition and its scheduler from the rows that ``export.everything`` would give for it.

    Args:
        reserves: True if asks reserve nodes (SC-50).

    Raises:
        DamagedStateError: a row is missing.
    """
    try:
        partition = PartitionCore(rows["configuration"][()])
        yield from _restore_partition(partition, rows)
        yield from _restore_applications(partition.registry, rows)
        yield from _restore_timers(partition, rows)
        scheduler = SchedulerCore(partition.registry, reserves=reserves)
        yield from _restore_scheduler(scheduler.state, scheduler.observer, rows, partition.cluster.adopt())
    except KeyError as missing:
        raise DamagedStateError(f"the rows name {missing}, which has no row") from missing
    partition.timers.recheck_ns = scheduler.state.nodes.predicates.due_ns()
    return partition, scheduler


# ---- the partition, queues and nodes


def _restore_partition(partition: PartitionCore, rows: Rows) -> Steps[None]:
    registry, row = partition.registry, rows["partition"][()]
    assert isinstance(row, PartitionRow)
    partition.rounds.arrivals, partition.rounds.last_arrival_ns = row.arrivals, row.last_arrival_ns
    partition.turns, partition.timers.cleaning_ns = row.turns, row.cleaning_ns
    for (name,), user in sorted(rows["user"].items(), key=lambda row: row[1].until_ns):
        partition.users.known[name] = user.groups, user.until_ns
    _restore_queues(registry, rows)
    registry.books.types.configured = yield from configured_types(registry.config)
    for (node_id,), node in rows["node"].items():
        registry.nodes[node_id] = NodeCore(node_id, node.capacity, node.schedulable, node.attributes, registry.changed)
        yield 1
    for (day, *whose), account in rows["account"].items():
        registry.books.accounts.keep(day, AccountKey(*whose), account)
        yield 1
    for foreign in rows["foreign"].values():
        registry.nodes[foreign.node_id].restore_foreign(structs.replace(foreign.spec, created_ns=foreign.created_ns))
        yield 1


def _restore_queues(registry: Registry, rows: Rows) -> None:
    """Restore queues, parents first; queues of the configuration get their children back."""
    configured = {config.path: config for config in walk(registry.config.root)}
    for (path,), row in sorted(rows["queue"].items()):
        config = row.config
        known = configured.get(path)
        if known is not None and structs.replace(known, children=()) == config:
            config = known
        if row.state is QueueState.DRAINING:  # rows of earlier versions have the limits that it had
            config = without_limits(config)
        queue = LeafCore(config, registry.books) if row.is_leaf else ParentCore(config, registry.changed)
        queue.state, queue.hold = row.state, row.hold
        registry.queues[path] = queue
        above = registry.queues.get(QueuePath(path.rpartition(".")[0]))
        if isinstance(above, ParentCore):
            above.children[path] = None
    registry.count_queues()


# ---- applications and their tasks


def _restore_applications(registry: Registry, rows: Rows) -> Steps[None]:
    """Restore applications and tasks, each in the order of their arrival."""
    for (application_id,), row in sorted(rows["application"].items(), key=lambda item: item[1].arrival):
        registry.applications[application_id] = row.queue
        registry.leaf(row.queue).applications[application_id] = _application(application_id, row, registry.books)
        yield 1
    for (application_id,), row in rows["use"].items():
        _restore_use(registry.leaf_of(application_id).applications[application_id], row)
        yield 1
    yield PART_MAX
    arrivals = [arrival for (arrival,) in rows["task"]]
    yield PART_MAX
    arrivals.sort()
    yield PART_MAX
    for arrival in arrivals:
        task = rows["task"][arrival,]
        name = task.ask.application_id
        _restore_task(registry.leaf_of(name).applications[name], task, registry.nodes)
        yield 1


def _application(application_id: ApplicationID, row: ApplicationRow, books: Books) -> Application:
    spec = AddApplication(application_id, row.queue, row.who.user, tags=row.tags, placeholder_ask=row.gang.total)
    application = Application(spec, row.who, row.queue, (row.submission_ns, row.arrival), books)
    lifecycle = application.lifecycle
    lifecycle.state, lifecycle.execution_timeout_ns = row.state, row.execution_timeout_ns
    lifecycle.timers = {Timer(name): due_ns for name, due_ns in row.timers.items()}
    application.ending, application.hold = row.ending, row.hold
    application.account.counted_ns = row.counted_ns
    past = application.past
    past.states, past.failure, past.started_ns = list(row.states), row.failure, row.started_ns
    gang, known = application.gang, row.gang
    gang.total, gang.is_hard, gang.timeout_ns, gang.is_over = known.total, known.is_hard, known.timeout_ns, known.is_over
    gang.groups, gang.allocated_ever = known.groups, known.allocated_ever
    return application


def _restore_use(application: Application, row: UseRow) -> None:
    application.account.day, application.account.of_day = row.day, row.account
    past = application.past
    past.max_used, past.used, past.preempted, past.placeholders = row.max_used, row.used, row.preempted, row.placeholders
    past.records, past.job = row.records, row.job


def _restore_task(application: Application, row: TaskRow, nodes: dict[NodeID, NodeCore]) -> None:
    tasks = application.tasks
    ask, key = row.ask, row.ask.allocation_key
    application.changed.tasks += 1
    application.books.types.add(ask.resource)
    if row.sized_ns is not None:
        tasks.sized_ns[key] = row.sized_ns
    if row.node_id is None:
        tasks.asks[key] = ask
        application.backoffs.note(ask)
    elif row.began_ns is not None:
        tasks.allocations[key] = ask, row.node_id
        tasks.began_ns[key] = row.began_ns
        application.account.count_begin(ask.resource)
        if row.preempted:
            tasks.preempted.add(key)
        if row.replaced_ns is not None:
            tasks.replaced_ns[key] = row.replaced_ns
        tasks.placeholder_count += ask.placeholder
        tasks.real_count += not ask.placeholder
        if row.released:
            tasks.released.add(key)
        nodes[row.node_id].put(ask)
    else:
        if row.placeholder is None:
            raise DamagedStateError(f"the row of ask {key} names a node, and neither when it began there nor a placeholder")
        tasks.replace(row.placeholder, ask, row.node_id)


def _restore_timers(partition: PartitionCore, rows: Rows) -> Steps[None]:
    """Restore timers, and the places of real asks that wait for a placeholder on another node."""
    registry, timers = partition.registry, partition.timers
    for leaf in registry.queues.values():
        if isinstance(leaf, LeafCore):
            leaf.adopt()
            timers.note_leaf(leaf.path, leaf.deadline_ns)
            for application in leaf.applications.values():
                for placeholder, (real, node_id) in application.tasks.replacing.items():
                    if application.tasks.allocations[placeholder][1] != node_id:
                        registry.nodes[node_id].put(real)
            yield 1 + len(leaf.applications)
    for (key,), ended in sorted(rows["ended"].items(), key=lambda item: (item[1].finished_ns, item[0])):
        timers.keep_ended(key, ended)
    for _, rejected in sorted(rows["rejected"].items(), key=lambda item: (item[1].finished_ns, item[0])):
        timers.keep_rejected(rejected)


# ---- the scheduler


def _restore_scheduler(state: SchedulerState, observer: Observer, rows: Rows, root_max: Resource | None) -> Steps[None]:
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
        state.tree.suspend(state.tree.root)
        state.tree.waits.restore(rows["class"].items())
    state.scheduling_states.restore(is_wanted=rows["partition"][()].states_wanted)
    yield from _restore_nodes(state, rows)
    for name, path in state.registry.applications.items():
        application, row = state.registry.leaf(path).applications[name], rows["application"][name,]
        pending = _restore_application(state, application, row)
        _restore_tasks(state, application, pending)
        yield 1 + len(application.tasks.asks) + len(application.tasks.allocations)
    _restore_preemption(state, rows)
    _restore_reservations(state, rows)
    yield from _restore_notified(state, rows["task"].values())
    yield from observer.adopt_all()
    yield from _restore_waits(state, rows)


def _restore_nodes(state: SchedulerState, rows: Rows) -> Steps[None]:
    for node in state.registry.nodes.values():
        state.nodes.sync(node)
        yield 1
    predicates = state.nodes.predicates
    predicates.is_answered = rows["partition"][()].is_answered
    for (predicate, allocate, node_id), row in rows["answer"].items():
        predicates.restore((predicate, bool(allocate)), node_id, row.answer)
        yield 1


# ---- what the scheduler knows of applications


def _restore_application(state: SchedulerState, application: Application, row: ApplicationRow) -> PendingApplication:
    """Restore an application without its tasks: its state, slots, back-off, and trackers."""
    name, leaf = application.application_id, state.tree.nodes[application.queue]
    who, times = row.who, (row.submission_ns, row.arrival)
    stateaware, total = application.lifecycle.stateaware, application.gang.total
    fact = ApplicationAdded(0, name, application.queue, who.user, *times, stateaware, who.groups, total)
    pending = state.applications[name] = PendingApplication(fact, leaf, state.tree.waits)
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
    for ask, node_id in application.tasks.allocations.values():
        state.ledger.charge(leaf, ask.resource, was_pending=False)
        pending.begin(ask)
        if ask.placeholder and ask.allocation_key not in application.tasks.released:
            assert gang is not None
            gang.offer(ask, node_id)
    for ask in application.tasks.asks.values():
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
    attempts: dict[AskID, PreemptionAttempt] = {}
    for identity, row in rows["attempt"].items():
        application, leaf, ask = _pending_ask(state, identity)
        waits_for = dict.fromkeys(row.waits_for)
        attempts[identity] = PreemptionAttempt(ask, application, row.claim, waits_for, row.victims_count, row.room_made_ns)
        for queue in leaf.path_up:
            add_to(queue.claims, row.claim)
    preemptions.by_ask.restore(attempts.items())
    preemptions.victims.restore((identity, (row.size, row.preemptor)) for identity, row in rows["victim"].items())
    for identity, row in rows["victim"].items():
        for usage in state.applications[identity[0]].leaf.path_up:
            add_to(usage.preempting, row.size)
    preemptions.last_attempts.restore(rows["last_attempt"].items())
    preemptions.cycle_guard.taken.restore((taken, None) for taken in rows["taken"])
    starts = ((state.tree.nodes[path], clock.start_ns) for (path,), clock in rows["quota_clock"].items())
    state.clocks.starts.restore(starts)


def _restore_reservations(state: SchedulerState, rows: Rows) -> None:
    """Restore reservations, the oldest first; after the attempts, because an ask with an attempt does not try again."""
    for identity, row in sorted(rows["reservation"].items(), key=lambda item: (item[1].made_ns, item[0])):
        application, _, ask = _pending_ask(state, identity)
        state.occupy(application, ask)
        state.reservations.add(row.made_ns, application, ask, state.nodes.nodes[row.node_id])


def _restore_notified(state: SchedulerState, tasks: Iterable[TaskRow]) -> Steps[None]:
    for row in tasks:
        if row.notified:
            waiting = state.applications[row.ask.application_id]
            ask, queue = waiting.asks[row.ask.allocation_key]
            assert queue is not None
            waiting.report_asks(queue).report([ask], 0, row.notified)
        yield 1


def _restore_waits(state: SchedulerState, rows: Rows) -> Steps[None]:
    """Restore what asks waited for, beside that of their classes, when all of them are where they were."""
    queues = state.tree.waits.queues
    queues.clear()
    queues.restore(rows["shape"].items())
    for name, application in state.applications.items():
        made, application.kept_history = application.kept_history, rows["application"][name,].kept_history
        for queue in application.queues.values():
            queue.past = queues.get((name, name_of(queue.key))) if queues else None
            if made is not None and queue.history is made:
                queue.history = application.kept_history = application.kept_history or made
            yield 1
        application.own_waits.clear()  # reservations were made again
        for key, ask in application.reserving.items():  # rows of earlier versions say nothing of them
            application.own_waits[key] = AskWait(ask.since_ns, PendingCode.RESERVED)
    for row in rows["task"].values():
        if row.wait is not None:
            state.applications[row.ask.application_id].own_waits[row.ask.allocation_key] = row.wait
        yield 1
