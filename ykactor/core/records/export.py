"""The rows of the state of a partition: those that a turn has changed, or all.

A row is read from its owner at the end of the turn, so it does not matter which step of the turn changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from ykactor.core.accounting.accounts import Account, AccountKey
from ykactor.core.messages.asks import AskID, unstamped
from ykactor.core.messages.changed import Key
from ykactor.core.objects.application import Application
from ykactor.core.objects.queues import LeafCore
from ykactor.core.partition.partition import PartitionCore
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
    export = _Export(partition, state)
    for key, identity in partition.registry.changed.keys.items():
        yield key, export.row(key, identity)
    yield _PARTITION, export.row(_PARTITION, None)


def everything(partition: PartitionCore, state: SchedulerState) -> Iterator[tuple[Key, Struct]]:
    """All rows, between two turns."""
    export = _Export(partition, state)
    for key, identity in export.all_keys():
        row = export.row(key, identity)
        assert row is not None, key
        yield key, row


class _Export:
    """Reads rows from the owners and the scheduler's state."""

    def __init__(self, partition: PartitionCore, state: SchedulerState) -> None:
        self._partition = partition
        self._registry = partition.registry
        self._state = state
        self._by_kind: dict[str, Callable[..., Struct | None]] = {
            "configuration": lambda: self._registry.config,
            "partition": self._of_partition,
            "queue": self._queue,
            "node": self._node,
            "foreign": self._foreign,
            "application": self._application,
            "account": self._account,
            "use": self._use,
            "user": self._user,
            "ended": partition.timers.ended.get,
            "rejected": partition.timers.rejected.get,
            "reservation": self._reservation,
            "attempt": self._attempt,
            "victim": self._victim,
            "last_attempt": lambda *identity: state.preemptions.last_attempts.get(identity),
            "taken": lambda *taken: TakenRow() if taken in state.preemptions.cycle_guard.taken else None,
            "quota_clock": self._quota_clock,
            "answer": self._answer,
        }

    def row(self, key: Key, identity: AskID | None) -> Struct | None:
        """The row of a key, None if there is no such object; ``identity`` is that of a task."""
        if identity is not None:
            return self._task(identity, key[1])
        return self._by_kind[key[0]](*key[1:])  # type: ignore[index]

    def all_keys(self) -> Iterator[tuple[Key, AskID | None]]:
        """The keys of all rows."""
        registry, timers, state = self._registry, self._partition.timers, self._state
        preemptions = state.preemptions
        yield ("configuration",), None
        yield _PARTITION, None
        by_name: list[tuple[str, Iterable[str]]] = [
            ("queue", registry.queues),
            ("node", registry.nodes),
            ("foreign", (key for node in registry.nodes.values() for key in node.foreign)),
            ("application", registry.applications),
            ("user", self._partition.users.known),
            ("ended", timers.ended),
            ("rejected", timers.rejected),
            ("quota_clock", (queue.path for queue in state.clocks.starts)),
        ]
        for kind, names in by_name:
            yield from (((kind, name), None) for name in names)
        by_names: list[tuple[str, Iterable[tuple[str, ...]]]] = [
            ("reservation", state.reservations.by_ask),
            ("attempt", preemptions.by_ask),
            ("victim", preemptions.victims),
            ("last_attempt", preemptions.last_attempts),
            ("taken", preemptions.cycle_guard.taken),
        ]
        for kind, identities in by_names:
            yield from (((kind, *identity), None) for identity in identities)
        for day, accounts in registry.books.accounts.days.items():
            yield from ((("account", day, *whose), None) for whose in accounts)
        for (predicate, allocate), node_id in state.nodes.predicates.known():
            yield ("answer", predicate, int(allocate), node_id), None
        for name in registry.applications:
            application = registry.leaf_of(name).applications[name]
            if application.account.is_kept():
                yield ("use", name), None
            tasks = application.tasks
            running, replacing = tasks.allocations.values(), tasks.replacing.values()
            asks = [*tasks.asks.values(), *(ask for ask, _ in running), *(ask for ask, _ in replacing)]
            yield from ((("task", ask.arrival), (name, ask.allocation_key)) for ask in asks)

    # ---- the partition

    def _of_partition(self) -> PartitionRow:
        rounds, state = self._partition.rounds, self._state
        return PartitionRow(
            turns=self._partition.turns,
            arrivals=rounds.arrivals,
            last_arrival_ns=rounds.last_arrival_ns,
            cleaning_ns=self._partition.timers.cleaning_ns,
            counts=state.preemptions.counts,
            is_answered=state.nodes.predicates.is_answered,
            states_wanted=state.scheduling_states.is_wanted,
        )

    def _queue(self, path: QueuePath) -> QueueRow | None:
        queue = self._registry.queues.get(path)
        if queue is None:
            return None
        config = structs.replace(queue.config, children=())
        return QueueRow(config=config, is_leaf=isinstance(queue, LeafCore), state=queue.state, hold=queue.hold)

    def _node(self, node_id: NodeID) -> NodeRow | None:
        node = self._registry.nodes.get(node_id)
        if node is None:
            return None
        return NodeRow(capacity=node.capacity, schedulable=node.schedulable, attributes=node.attributes)

    def _foreign(self, key: AllocationKey) -> ForeignRow | None:
        node_id = self._partition.cluster.node_of_foreign(key)
        if node_id is None:
            return None
        task = self._registry.nodes[node_id].foreign[key]
        return ForeignRow(node_id=node_id, spec=unstamped(task), created_ns=task.created_ns)

    def _user(self, name: str) -> UserRow | None:
        known = self._partition.users.known.get(name)
        return None if known is None else UserRow(groups=known[0], until_ns=known[1])

    def _account(self, day: int, *whose: Any) -> Account | None:
        return self._registry.books.accounts.days.get(day, {}).get(AccountKey(*whose))

    # ---- applications and tasks

    def _owned(self, application_id: ApplicationID) -> Application | None:
        path = self._registry.applications.get(application_id)
        return None if path is None else self._registry.leaf(path).applications.get(application_id)

    def _application(self, application_id: ApplicationID) -> ApplicationRow | None:
        application = self._owned(application_id)
        return None if application is None else _application(application, self._state.applications[application_id])

    def _use(self, application_id: ApplicationID) -> UseRow | None:
        application = self._owned(application_id)
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
        )

    def _task(self, identity: AskID, arrival: object) -> TaskRow | None:
        application, key = self._owned(identity[0]), identity[1]
        row = None if application is None else self._task_of(application, key)
        return row if row is not None and row.ask.arrival == arrival else None

    def _task_of(self, application: Application, key: AllocationKey) -> TaskRow | None:
        tasks = application.tasks
        if key in tasks.allocations:
            ask, node_id = tasks.allocations[key]
            return TaskRow(
                ask=ask,
                began_ns=tasks.began_ns[key],
                node_id=node_id,
                released=key in tasks.released,
                sized_ns=tasks.sized_ns.get(key),
                preempted=key in tasks.preempted,
                replaced_ns=tasks.replaced_ns.get(key),
            )
        sized_ns = tasks.sized_ns.get(key)
        if key in tasks.asks:
            pending = self._state.applications[application.application_id]
            return TaskRow(ask=tasks.asks[key], notified=_notified(pending, key), sized_ns=sized_ns)
        placeholder = tasks.placeholder_of(key)
        if placeholder is None:
            return None
        ask, node_id = tasks.replacing[placeholder]
        return TaskRow(ask=ask, node_id=node_id, placeholder=placeholder, sized_ns=sized_ns)

    # ---- the scheduler

    def _reservation(self, *identity: Any) -> ReservationRow | None:
        found = self._state.reservations.by_ask.get(identity)
        return None if found is None else ReservationRow(node_id=found.node.node_id, made_ns=found.made_ns)

    def _attempt(self, *identity: Any) -> AttemptRow | None:
        found = self._state.preemptions.by_ask.get(identity)
        if found is None:
            return None
        return AttemptRow(
            claim=found.claim,
            waits_for=tuple(found.waits_for),
            victims_count=found.victims_count,
            room_made_ns=found.room_made_ns,
        )

    def _victim(self, *identity: Any) -> VictimRow | None:
        found = self._state.preemptions.victims.get(identity)
        return None if found is None else VictimRow(size=found[0], preemptor=found[1])

    def _quota_clock(self, path: QueuePath) -> QuotaClockRow | None:
        queue = self._state.tree.nodes.get(path)
        start_ns = None if queue is None else self._state.clocks.starts.get(queue)
        return None if start_ns is None else QuotaClockRow(start_ns=start_ns)

    def _answer(self, predicate: str, allocate: int, node_id: NodeID) -> AnswerRow | None:
        answer = self._state.nodes.predicates.answer_about((predicate, bool(allocate)), node_id)
        return None if answer is None else AnswerRow(answer=answer)


def _application(application: Application, pending: PendingApplication) -> ApplicationRow:
    gang = application.gang
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
    )


def _notified(pending: PendingApplication, key: AllocationKey) -> int:
    """The bits that were last reported of a pending ask."""
    queue = pending.asks[key][1]
    if queue is None or queue.notified is None:
        return 0
    return next(bits for bits, asks in enumerate(queue.notified.asks) if key in asks)
