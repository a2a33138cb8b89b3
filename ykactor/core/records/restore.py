"""Makes a partition from rows: the owners, then the state of the scheduler.

Nothing is decided here: rows are applied, and the rest is computed from them. State that only saves work (parked classes, failed
searches) starts empty, so that the first cycle tries everything again.
"""

from __future__ import annotations

from msgspec import structs

from ykactor.core.accounting.accounts import AccountKey
from ykactor.core.accounting.books import Books
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.application import Application
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.lifecycle import Timer
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.parent import ParentCore
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.partition.reload import configured_types, walk, without_limits
from ykactor.core.records.restore_scheduler import Rows, restore_scheduler
from ykactor.core.records.rows import ApplicationRow, PartitionRow, TaskRow, UseRow
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.ids import ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import PART_MAX, Steps


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
        yield from restore_scheduler(scheduler.state, scheduler.observer, rows, partition.cluster.adopt())
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
        registry.nodes[node_id] = NodeCore(node_id, node.capacity, node.schedulable, node.attributes)
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
        queue = LeafCore(config, registry.books) if row.is_leaf else ParentCore(config)
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
    past.records = row.records


def _restore_task(application: Application, row: TaskRow, nodes: dict[NodeID, NodeCore]) -> None:
    ask, key = row.ask, row.ask.allocation_key
    application.changed.tasks += 1
    application.books.types.add(ask.resource)
    if row.sized_ns is not None:
        application.account.sized_ns[key] = row.sized_ns
    if row.node_id is None:
        application.asks[key] = ask
        application.backoffs.note(ask)
    elif row.began_ns is not None:
        application.allocations[key] = ask, row.node_id
        application.began_ns[key] = row.began_ns
        application.account.count_begin(ask.resource)
        if row.preempted:
            application.account.preempted.add(key)
        if row.replaced_ns is not None:
            application.replaced_ns[key] = row.replaced_ns
        application.placeholder_count += ask.placeholder
        application.real_count += not ask.placeholder
        if row.released:
            application.gang.released.add(key)
        nodes[row.node_id].restore_allocation(ask)
    else:
        if row.placeholder is None:
            raise DamagedStateError(f"the row of ask {key} names a node, and neither when it began there nor a placeholder")
        application.gang.replace(row.placeholder, ask, row.node_id)


def _restore_timers(partition: PartitionCore, rows: Rows) -> Steps[None]:
    """Restore timers, and the places of real asks that wait for a placeholder on another node."""
    registry, timers = partition.registry, partition.timers
    for leaf in registry.queues.values():
        if isinstance(leaf, LeafCore):
            leaf.adopt()
            timers.note_leaf(leaf.path, leaf.deadline_ns)
            for application in leaf.applications.values():
                for placeholder, (real, node_id) in application.gang.replacing.items():
                    if application.allocations[placeholder][1] != node_id:
                        registry.nodes[node_id].restore_allocation(real)
            yield 1 + len(leaf.applications)
    for (key,), ended in sorted(rows["ended"].items(), key=lambda item: (item[1].finished_ns, item[0])):
        timers.keep_ended(key, ended)
    for _, rejected in sorted(rows["rejected"].items(), key=lambda item: (item[1].finished_ns, item[0])):
        timers.keep_rejected(rejected)
