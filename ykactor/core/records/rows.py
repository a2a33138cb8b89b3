"""The rows of the state: one for each object, with everything of it that cannot be computed from other rows.

A row is found by its key (``messages.changed.Key``): its kind, then the identifier of its object. Rows are plain data, so a later
version of the program reads them whatever its rules are; it repeats no decision.

| kind | identified by | row |
|---|---|---|
| ``configuration``, ``partition`` | | ``PartitionConfig``, ``PartitionRow`` |
| ``queue`` | path | ``QueueRow`` |
| ``node``, ``foreign`` | node id, allocation key | ``NodeRow``, ``ForeignRow`` |
| ``application``, ``use``, ``task`` | application id, the same, arrival number | ``ApplicationRow``, ``UseRow``, ``TaskRow`` |
| ``class``, ``shape`` | leaf and name of a class, application id and name of a queue of asks | ``CodeHistory``, ``QueuePast`` |
| ``account`` | UTC day, queue, user, group, application | ``Account`` |
| ``user``, ``ended``, ``rejected`` | name, key, application id | ``UserRow``, ``EndedApplication`` |
| ``reservation``, ``attempt``, ``victim``, ``last_attempt`` | application id, allocation key | rows of the same names |
| ``taken`` | leaf of the victim, leaf of the preemptor, resource type | ``TakenRow`` |
| ``quota_clock`` | path | ``QuotaClockRow`` |
| ``answer`` | predicate class, 1 or 0 for ``allocate``, node id | ``AnswerRow`` |

A field with its default value is left out of the text of a row, so a default must never change.
"""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.accounting.accounts import Account
from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import PartitionConfig, QueueConfig
from ykactor.core.messages.acts import Hold
from ykactor.core.messages.asks import Ask, AskID
from ykactor.core.messages.states import ApplicationState, JobReport, QueueState, TaskRecord
from ykactor.core.nodes.predicates import Answer
from ykactor.core.objects.gang import TaskGroup
from ykactor.core.partition.timers import EndedApplication
from ykactor.core.preemption.attempts import Counts, LastAttempt
from ykactor.core.queueing.waits import AskWait, CodeHistory, QueuePast
from ykactor.core.quota.limits import GroupChoice
from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.resources import Resource


class Row(Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """The base of rows; the key of a row names its object."""


class PartitionRow(Row, frozen=True):
    """The state that belongs to no other object; written by every turn.

    Attributes:
        turns: the number of turns so far.
        arrivals, last_arrival_ns: the newest arrival number and its time.
        cleaning_ns: the time when empty queues are removed next.
        counts: of preemption, since the partition was created.
        is_answered: True if a predicate service is connected.
        states_wanted: True if a resource manager is connected that wants to know why its asks are pending.
    """

    turns: int
    arrivals: int
    last_arrival_ns: int
    cleaning_ns: int | None
    counts: Counts
    is_answered: bool
    states_wanted: bool = False


class QueueRow(Row, frozen=True):
    """A queue; ``config`` is without its children, which have rows of their own."""

    config: QueueConfig
    is_leaf: bool
    state: QueueState
    hold: Hold | None = None


class NodeRow(Row, frozen=True):
    """A node, without its tasks, which have rows of their own."""

    capacity: Resource
    schedulable: bool
    attributes: dict[str, str]


class ForeignRow(Row, frozen=True):
    """An allocation that another scheduler has placed, and when it was created; 0 in a row of an older version."""

    node_id: NodeID
    spec: Ask
    created_ns: int = 0


class GangRow(Row, frozen=True):
    """The placeholders of an application (``objects.gang.Gang``)."""

    total: Resource
    is_hard: bool
    timeout_ns: int
    groups: dict[str, TaskGroup]
    allocated_ever: Resource
    is_over: bool


class ApplicationRow(Row, frozen=True):
    """An application that has not ended: what its leaf and the scheduler know (``objects.application``, ``queueing.pending``)."""

    queue: QueuePath
    state: ApplicationState
    tags: dict[str, str]
    timers: dict[str, int]
    execution_timeout_ns: int | None
    submission_ns: int
    arrival: int
    ending: str
    gang: GangRow
    who: UserGroups
    group: GroupChoice | None = None
    enrolled: bool = False
    counted_as_running: bool = False
    holds_slot: bool = False
    held: int = 0
    backoff_ns: int = 0
    counted_ns: int = 0
    states: tuple[tuple[int, ApplicationState], ...] = ()
    failure: str = ""
    started_ns: int | None = None
    hold: Hold | None = None
    kept_history: CodeHistory | None = None


class UseRow(Row, frozen=True):
    """The accounts and the past of a live application (``objects.account``, ``accounting.past``); written when tasks end.

    Attributes:
        day, account: the account of a day that is not in an ``account`` row yet.
    """

    day: int
    account: Account
    max_used: Resource
    used: dict[str, Resource] = {}
    preempted: dict[str, Resource] = {}
    placeholders: dict[str, Resource] = {}
    records: dict[str, TaskRecord] = {}
    job: JobReport | None = None


class TaskRow(Row, frozen=True):
    """An ask or an allocation.

    Attributes:
        began_ns: the begin of the allocation; None for an ask that is pending or waits for a placeholder.
        node_id: the node of the allocation, or of the ask when its placeholder has ended.
        placeholder: the placeholder that the ask waits for.
        released: True if the release of the allocation was started and is not confirmed.
        notified: the bits last reported of the pending ask (``NotifiedAsks``).
        sized_ns: the time since which the task has its size, if it was resized.
        preempted: True if the allocation is preempted.
        replaced_ns: the creation time of the placeholder that the allocation has replaced.
        wait: what the pending ask waits for, if it is not what its queue waits for.
    """

    ask: Ask
    began_ns: int | None = None
    node_id: NodeID | None = None
    placeholder: AllocationKey | None = None
    released: bool = False
    notified: int = 0
    sized_ns: int | None = None
    preempted: bool = False
    replaced_ns: int | None = None
    wait: AskWait | None = None


class UserRow(Row, frozen=True):
    """The groups of a user, valid until ``until_ns``."""

    groups: tuple[str, ...]
    until_ns: int


class ReservationRow(Row, frozen=True):
    """A reservation of a node for an ask since ``made_ns``."""

    node_id: NodeID
    made_ns: int


class AttemptRow(Row, frozen=True):
    """An attempt of an ask to preempt (``preemption.attempts.PreemptionAttempt``)."""

    claim: Resource
    waits_for: tuple[AskID, ...]
    victims_count: int
    room_made_ns: int | None


class VictimRow(Row, frozen=True):
    """A victim of preemption: the size that counts as preempting, and the ask that preempts (None: a quota)."""

    size: Resource
    preemptor: AskID | None


class TakenRow(Row, frozen=True):
    """A resource type that a leaf has taken from another one (``CycleGuard``)."""


class QuotaClockRow(Row, frozen=True):
    """The start of quota preemption of a queue."""

    start_ns: int


class AnswerRow(Row, frozen=True):
    """An answer of the predicate service about a node."""

    answer: Answer


#: The type of each kind of row.
ROWS: dict[str, type[Struct]] = {
    "configuration": PartitionConfig,
    "partition": PartitionRow,
    "queue": QueueRow,
    "node": NodeRow,
    "foreign": ForeignRow,
    "application": ApplicationRow,
    "use": UseRow,
    "task": TaskRow,
    "class": CodeHistory,
    "shape": QueuePast,
    "account": Account,
    "user": UserRow,
    "ended": EndedApplication,
    "rejected": EndedApplication,
    "reservation": ReservationRow,
    "attempt": AttemptRow,
    "victim": VictimRow,
    "last_attempt": LastAttempt,
    "taken": TakenRow,
    "quota_clock": QuotaClockRow,
    "answer": AnswerRow,
}
