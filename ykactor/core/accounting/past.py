"""The past of one application until it expires: its states, its peak usage, and what its tasks have used."""

from __future__ import annotations

from msgspec import Struct, field

from ykactor.core.accounting.accounts import TYPES_MAX
from ykactor.core.messages.states import ApplicationState, JobReport, Outcome, TaskRecord
from ykactor.core.values.resources import Resource, add_to

#: The newest changes of the state that are kept.
LOG_MAX = 64
#: Characters of the message of an outcome, and of that of a task, that are kept.
MESSAGE_MAX = 256
#: The newest records of ended tasks that are kept of a live application, and of one that has ended.
RECORDS_MAX, ENDED_RECORDS_MAX = 100, 20
#: Types of instances that are told apart; tasks on further ones count as on those of no type.
INSTANCE_TYPES_MAX = 16
#: The type of a node that does not say its type (AP-90).
NO_TYPE = "UNKNOWN"

_STARTED = frozenset((ApplicationState.STARTING, ApplicationState.RUNNING))
_FAILING = frozenset((ApplicationState.FAILING, ApplicationState.FAILED))
#: By type of instance.
History = dict[str, Resource]


class Past(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The past of one application.

    Attributes:
        states: the states with the times when it entered them, oldest first, without New.
        failure: why it fails (AP-95); "" while it does not, or without a given reason.
        outcome: its outcome; None if the resource manager has not reported one (AP-151).
        message: of the outcome, for people.
        started_ns: when it last entered a started state from one that is not; None if it never did.
        max_used: per type, its peak usage up to the last end or resize of an allocation.
        used, preempted, placeholders: resource-seconds by type of instance, of tasks that ended, that were preempted, and of
            placeholders that ended otherwise (AP-90).
        records: of tasks that have ended, by their keys, the oldest first (AP-152).
        job: what the resource manager says of the job that it is; None if it has not (AP-160).
    """

    states: list[tuple[int, ApplicationState]] = field(default_factory=list)
    failure: str = ""
    outcome: Outcome | None = None
    message: str = ""
    started_ns: int | None = None
    max_used: Resource = field(default_factory=dict)
    used: History = field(default_factory=dict)
    preempted: History = field(default_factory=dict)
    placeholders: History = field(default_factory=dict)
    records: dict[str, TaskRecord] = field(default_factory=dict)
    job: JobReport | None = None

    def enter(self, now_ns: int, before: ApplicationState, state: ApplicationState, why: str = "") -> None:
        """Note a change of the state; ``why`` is its reason."""
        if state in _FAILING and not self.failure:
            self.failure = why
        self.states.append((now_ns, state))
        if len(self.states) > LOG_MAX:
            del self.states[0]
        if state in _STARTED and before not in _STARTED:
            self.started_ns = now_ns

    def conclude(self, outcome: Outcome, message: str) -> None:
        """Note the outcome that the resource manager reports."""
        self.outcome, self.message = outcome, message[:MESSAGE_MAX]

    def record(self, record: TaskRecord) -> None:
        """Keep the record of an ended task; it replaces an older record with its key."""
        self.records.pop(record.allocation_key, None)
        self.records[record.allocation_key] = record
        self.forget_records(RECORDS_MAX)

    def forget_records(self, most: int) -> None:
        """Keep at most ``most`` records, the newest ones."""
        while len(self.records) > most:
            del self.records[next(iter(self.records))]

    def last_work_ns(self) -> int | None:
        """The end of the last task of a completed application; None if it has not completed, or completed at that time."""
        if not self.states or self.states[-1][1] is not ApplicationState.COMPLETED:
            return None
        return next((at_ns for at_ns, state in reversed(self.states) if state is ApplicationState.COMPLETING), None)

    def first_start_ns(self) -> int | None:
        """The time of its first start; None if it never started, or if that change of the state is no longer kept."""
        if len(self.states) == LOG_MAX:
            return None
        return next((at_ns for at_ns, state in self.states if state in _STARTED), None)

    def reach(self, used: Resource) -> bool:
        """Note the present usage. Returns True if that is a new peak of any type."""
        most, is_more = self.max_used, False
        for name, quantity in used.items():
            if quantity > most.get(name, 0) and (name in most or len(most) < TYPES_MAX):
                most[name] = quantity
                is_more = True
        return is_more

    def history(self, *, is_preempted: bool, is_placeholder: bool) -> History:
        """The history to which the end of a task is added."""
        if is_preempted:
            return self.preempted
        return self.placeholders if is_placeholder else self.used

    def amounts(self, history: History, instance_type: str) -> Resource:
        """The sums of an instance type, to be added to."""
        found = history.get(instance_type)
        if found is None:
            known = instance_type if len(history) < INSTANCE_TYPES_MAX else NO_TYPE
            found = history.setdefault(known, {})
        return found


def total(*histories: History) -> Resource:
    """The sum over all instance types."""
    found: Resource = {}
    for history in histories:
        for amounts in history.values():
            add_to(found, amounts)
    return found
