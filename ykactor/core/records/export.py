"""The rows of the state of a partition: those that a turn has changed, or all.

A row is read from its owner at the end of the turn, so it does not matter which step of the turn changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, structs

from ykactor.core.accounting.accounts import Account, AccountKey
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.asks import AskID, unstamped
from ykactor.core.messages.changed import Key
from ykactor.core.objects.application import Application
from ykactor.core.objects.node import NodeCore
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import QueueCore
from ykactor.core.objects.tasks import ApplicationTasks
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.preemption.attempts import PreemptionAttempt
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.records.rows import (
    AnswerRow,
    ApplicationRow,
    AttemptRow,
    ForeignRow,
    GangRow,
    NodeRow,
    PartitionRow,
    QueueRow,
    QuotaClockRow,
    ReservationRow,
    TakenRow,
    TaskRow,
    UseRow,
    UserRow,
    VictimRow,
)
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath

#: The key of the row that every turn writes.
_PARTITION: Key = ("partition",)


def changes(partition: PartitionCore, state: SchedulerState) -> Iterator[tuple[Key, Struct | None]]:
    """The rows that a turn has changed, as they are at its end; None for an object that is gone."""
    for key, identity in partition.registry.changed.keys.items():
        yield key, _row(partition, state, key, identity)
    yield _PARTITION, _partition(partition, state)


def everything(partition: PartitionCore, state: SchedulerState) -> Iterator[tuple[Key, Struct]]:
    """All rows, between two turns."""
    for key, identity in _all_keys(partition, state):
        row = _row(partition, state, key, identity)
        assert row is not None, key
        yield key, row


def _row(partition: PartitionCore, state: SchedulerState, key: Key, task: AskID | None) -> Struct | None:
    """The row of a key, None if there is no such object; ``task`` is the identity of a task."""
    if task is not None:
        return _task(partition, state, task, key[1])
    kind, *identity = key
    items_of = _ITEMS.get(kind)  # type: ignore[arg-type]
    if items_of is None:
        return _OTHERS[kind](partition, state, *identity)  # type: ignore[index]
    items, name = items_of.mapping(partition, state), identity[0] if len(identity) == 1 else tuple(identity)
    return items_of.row(items[name]) if name in items else None


def _all_keys(partition: PartitionCore, state: SchedulerState) -> Iterator[tuple[Key, AskID | None]]:
    """The keys of all rows."""
    registry = partition.registry
    yield ("configuration",), None
    yield _PARTITION, None
    for kind, items_of in _ITEMS.items():
        names = items_of.mapping(partition, state)
        yield from (((kind, *name) if isinstance(name, tuple) else (kind, name), None) for name in names)
    yield from ((("foreign", key), None) for node in registry.nodes.values() for key in node.foreign)
    yield from ((("quota_clock", queue.path), None) for queue in state.clocks.starts)
    for day, accounts in registry.books.accounts.days.items():
        yield from ((("account", day, *whose), None) for whose in accounts)
    for (predicate, allocate), node_id in state.nodes.predicates.known():
        yield ("answer", predicate, int(allocate), node_id), None
    for name in registry.applications:
        application = registry.leaf_of(name).applications[name]
        yield ("application", name), None
        if application.account.is_kept():
            yield ("use", name), None
        tasks = application.tasks
        running, replacing = tasks.allocations.values(), tasks.replacing.values()
        asks = [*tasks.asks.values(), *(ask for ask, _ in running), *(ask for ask, _ in replacing)]
        yield from ((("task", ask.arrival), (name, ask.allocation_key)) for ask in asks)


# ---- the items of mappings


class _Items(NamedTuple):
    """The rows of a kind that are the items of one mapping.

    Attributes:
        mapping: by name, or by a tuple of names.
        row: makes the row of a value.
    """

    mapping: Callable[[PartitionCore, SchedulerState], Mapping[Any, Any]]
    row: Callable[[Any], Struct]


def _itself(row: Struct) -> Struct:
    return row


def _queue(queue: QueueCore) -> QueueRow:
    config = structs.replace(queue.config, children=())
    return QueueRow(config=config, is_leaf=isinstance(queue, LeafCore), state=queue.state, hold=queue.hold)


def _node(node: NodeCore) -> NodeRow:
    return NodeRow(capacity=node.capacity, schedulable=node.schedulable, attributes=node.attributes)


def _attempt(found: PreemptionAttempt) -> AttemptRow:
    waits_for = tuple(found.waits_for)
    return AttemptRow(claim=found.claim, waits_for=waits_for, victims_count=found.victims_count, room_made_ns=found.room_made_ns)


_ITEMS = {
    "queue": _Items(lambda partition, _: partition.registry.queues, _queue),
    "node": _Items(lambda partition, _: partition.registry.nodes, _node),
    "user": _Items(lambda partition, _: partition.users.known, lambda known: UserRow(groups=known[0], until_ns=known[1])),
    "ended": _Items(lambda partition, _: partition.timers.ended, _itself),
    "rejected": _Items(lambda partition, _: partition.timers.rejected, _itself),
    "reservation": _Items(
        lambda _, state: state.reservations.by_ask,
        lambda found: ReservationRow(node_id=found.node.node_id, made_ns=found.made_ns),
    ),
    "attempt": _Items(lambda _, state: state.preemptions.by_ask, _attempt),
    "victim": _Items(lambda _, state: state.preemptions.victims, lambda found: VictimRow(size=found[0], preemptor=found[1])),
    "last_attempt": _Items(lambda _, state: state.preemptions.last_attempts, _itself),
    "class": _Items(lambda _, state: state.tree.waits.classes, _itself),
    "shape": _Items(lambda _, state: state.tree.waits.queues, _itself),
    "taken": _Items(lambda _, state: state.preemptions.cycle_guard.taken, lambda _: TakenRow()),
}


# ---- other objects


def _configuration(partition: PartitionCore, _: SchedulerState) -> PartitionConfig:
    return partition.registry.config


def _partition(partition: PartitionCore, state: SchedulerState) -> PartitionRow:
    rounds = partition.rounds
    return PartitionRow(
        turns=partition.turns,
        arrivals=rounds.arrivals,
        last_arrival_ns=rounds.last_arrival_ns,
        cleaning_ns=partition.timers.cleaning_ns,
        counts=state.preemptions.counts,
        is_answered=state.nodes.predicates.is_answered,
        states_wanted=state.scheduling_states.is_wanted,
    )


def _foreign(partition: PartitionCore, _: SchedulerState, key: AllocationKey) -> ForeignRow | None:
    node_id = partition.cluster.foreign.get(key)
    if node_id is None:
        return None
    task = partition.registry.nodes[node_id].foreign[key]
    return ForeignRow(node_id=node_id, spec=unstamped(task), created_ns=task.created_ns)


def _account(partition: PartitionCore, _: SchedulerState, day: int, *whose: Any) -> Account | None:
    return partition.registry.books.accounts.days.get(day, {}).get(AccountKey(*whose))


def _quota_clock(_: PartitionCore, state: SchedulerState, path: QueuePath) -> QuotaClockRow | None:
    queue = state.tree.nodes.get(path)
    start_ns = None if queue is None else state.clocks.starts.get(queue)
    return None if start_ns is None else QuotaClockRow(start_ns=start_ns)


def _answer(_: PartitionCore, state: SchedulerState, predicate: str, allocate: int, node_id: NodeID) -> AnswerRow | None:
    answer = state.nodes.predicates.answer_about((predicate, bool(allocate)), node_id)
    return None if answer is None else AnswerRow(answer=answer)


# ---- applications and their tasks


def _owned(partition: PartitionCore, application_id: ApplicationID) -> Application | None:
    path = partition.registry.applications.get(application_id)
    return None if path is None else partition.registry.leaf(path).applications.get(application_id)


def _application(partition: PartitionCore, state: SchedulerState, application_id: ApplicationID) -> ApplicationRow | None:
    application = _owned(partition, application_id)
    if application is None:
        return None
    gang, pending = application.gang, state.applications[application_id]
    return ApplicationRow(
        queue=application.queue,
        state=application.state,
        tags=application.tags,
        timers={str(timer): due_ns for timer, due_ns in application.lifecycle.timers.items()},
        execution_timeout_ns=application.lifecycle.execution_timeout_ns,
        submission_ns=application.submission_ns,
        arrival=application.arrival,
        ending=application.ending,
        gang=GangRow(
            total=gang.total,
            is_hard=gang.is_hard,
            timeout_ns=gang.timeout_ns,
            groups=gang.groups,
            allocated_ever=gang.allocated_ever,
            is_over=gang.is_over,
        ),
        who=application.who,
        group=pending.group,
        enrolled=pending.enrolled,
        counted_as_running=pending.counted_as_running,
        holds_slot=pending.holds_slot,
        held=pending.held,
        backoff_ns=pending.backoff_ns,
        counted_ns=application.account.counted_ns,
        states=tuple(application.past.states),
        failure=application.past.failure,
        started_ns=application.past.started_ns,
        hold=application.hold,
        kept_history=pending.kept_history,
    )


def _use(partition: PartitionCore, _: SchedulerState, application_id: ApplicationID) -> UseRow | None:
    application = _owned(partition, application_id)
    if application is None or not application.account.is_kept():
        return None
    past = application.past
    return UseRow(
        day=application.account.day,
        account=application.account.of_day,
        max_used=past.max_used,
        used=past.used,
        preempted=past.preempted,
        placeholders=past.placeholders,
        records=past.records,
        job=past.job,
    )


def _task(partition: PartitionCore, state: SchedulerState, identity: AskID, arrival: object) -> TaskRow | None:
    application = _owned(partition, identity[0])
    row = None if application is None else _task_of(application.tasks, state.applications[identity[0]], identity[1])
    return row if row is not None and row.ask.arrival == arrival else None


def _task_of(tasks: ApplicationTasks, pending: PendingApplication, key: AllocationKey) -> TaskRow | None:
    sized_ns = tasks.sized_ns.get(key)
    if key in tasks.allocations:
        ask, node_id = tasks.allocations[key]
        return TaskRow(
            ask=ask,
            began_ns=tasks.began_ns[key],
            node_id=node_id,
            released=key in tasks.released,
            sized_ns=sized_ns,
            preempted=key in tasks.preempted,
            replaced_ns=tasks.replaced_ns.get(key),
        )
    if key in tasks.asks:
        wait = pending.own_waits.get(key)
        return TaskRow(ask=tasks.asks[key], notified=_notified(pending, key), sized_ns=sized_ns, wait=wait)
    placeholder = tasks.placeholder_of(key)
    if placeholder is None:
        return None
    ask, node_id = tasks.replacing[placeholder]
    return TaskRow(ask=ask, node_id=node_id, placeholder=placeholder, sized_ns=sized_ns, wait=pending.own_waits.get(key))


def _notified(pending: PendingApplication, key: AllocationKey) -> int:
    """The bits that were last reported of a pending ask."""
    queue = pending.asks[key][1]
    if queue is None or queue.notified is None:
        return 0
    return next(bits for bits, asks in enumerate(queue.notified.asks) if key in asks)


_OTHERS: dict[str, Callable[..., Struct | None]] = {
    "configuration": _configuration,
    "partition": _partition,
    "foreign": _foreign,
    "account": _account,
    "quota_clock": _quota_clock,
    "answer": _answer,
    "application": _application,
    "use": _use,
}
