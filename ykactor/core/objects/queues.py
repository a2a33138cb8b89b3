"""The queues: a parent owns its settings and the set of its children, a leaf its settings and its applications.

Commands come from the partition, and for leaves from the scheduler (``SettleBatch``). Most replies are facts, in the order in
which they became true.
"""

import heapq
from typing import Any, TypeVar

from ykactor.core.accounting.books import Books
from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.acts import ApplicationAct, Hold
from ykactor.core.messages.asks import RUN_SECONDS_TAG, Ask, run_ns
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import Allocated, AllocationRejected, ApplicationAdded, Fact
from ykactor.core.messages.kinds import RejectionCode, TerminationType
from ykactor.core.messages.planned import Cancellation, Eviction, Replacement
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import RecordTask, ReleaseAllocations, RemoveApplication, ReportJob
from ykactor.core.objects import acts, gang
from ykactor.core.objects.application import Application
from ykactor.core.objects.commands import (
    ActOn,
    Admitted,
    Adopt,
    Close,
    Configure,
    Disown,
    EndAllocations,
    Expired,
    FailAll,
    FireTimers,
    GiveAway,
    Positioned,
    QueueCommand,
    SetHold,
    SettleBatch,
    SubmitBatch,
    TakeOver,
)
from ykactor.core.objects.lifecycle import Timer, states_first
from ykactor.core.values import selector
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.parts import Pausing, Steps, finished, paced
from ykactor.core.values.resources import Resource

R = TypeVar("R")


class _Queue:
    """The settings, the state and the hold of any queue; each change of them notes the row."""

    def __init__(self, config: QueueConfig, changed: Changed, hold: Hold | None) -> None:
        self.path = config.path
        self.config = config
        self.state = QueueState.ACTIVE
        self.hold = hold
        self._changed = changed

    def _configure(self, config: QueueConfig, state: QueueState) -> None:
        if state is not self.state or config != self.config:
            self._changed.queue(self.path)
        self.config, self.state = config, state

    def _set_hold(self, hold: Hold | None) -> None:
        self.hold = hold
        self._changed.queue(self.path)


class ParentCore(_Queue):
    """A parent queue: its settings and its children. Read freely between commands; written only by ``handle``."""

    def __init__(self, config: QueueConfig, changed: Changed, hold: Hold | None = None) -> None:
        super().__init__(config, changed, hold)
        #: In the order in which they came.
        self.children: dict[QueuePath, None] = {}

    def handle(self, command: QueueCommand[Any]) -> None:
        """Carry out one command; none has a reply."""
        match command:
            case Configure(config, state):
                self._configure(config, state)
            case SetHold(hold):
                self._set_hold(hold)
            case Adopt(children):
                self.children.update(dict.fromkeys(children))
            case Disown(children):
                for child in children:
                    del self.children[child]
            case Close():
                self.children.clear()
            case _:
                raise TypeError(f"{command} is not for a parent")


class LeafCore(_Queue):
    """A leaf queue. Read freely between commands; written only by ``handle``."""

    def __init__(self, config: QueueConfig, books: Books, hold: Hold | None = None) -> None:
        super().__init__(config, books.changed, hold)
        self._books = books
        books.types.add(_quotas(config))
        #: Applications that have not ended, in the order in which they came to this leaf.
        self.applications: dict[ApplicationID, Application] = {}
        #: Those that the last command has ended, in that order.
        self.ended: list[Application] = []
        self._timers: list[tuple[int, int, ApplicationID, Timer]] = []
        #: When the next timer of any application is due; None when there is none.
        self.deadline_ns: int | None = None

    def handle(self, command: QueueCommand[R]) -> R:
        """Carry out one command without a pause. Returns its reply."""
        return finished(self.work(command))

    def work(self, command: QueueCommand[R]) -> Pausing[R]:
        """Carry out one command, with pauses if it concerns many tasks. Returns its reply.

        Nobody may read the leaf, and there may be no other command, before the end.
        """
        self.ended = []
        reply: R = yield from paced(self._carry_out(command))
        self.deadline_ns = self._next_deadline_ns()
        return reply

    def _carry_out(self, command: QueueCommand[Any]) -> Steps[Any]:
        match command:
            case SubmitBatch():
                return (yield from self.on_submit_batch(command))
            case SettleBatch():
                return self.on_settle_batch(command)
            case EndAllocations():
                return self.on_end_allocations(command)
            case FailAll():
                return (yield from self.on_fail_all(command))
            case ActOn(now_ns, act):
                return (yield from self.on_act(now_ns, act))
            case SetHold(hold):
                self._set_hold(hold)
            case GiveAway(application_id):
                return self.applications.pop(application_id)
            case TakeOver(application):
                self.on_take_over(application)
            case FireTimers():
                return (yield from self.on_fire_timers(command))
            case Configure(config, state):
                self._books.types.replace(_quotas(self.config), _quotas(config))
                self._configure(config, state)
            case Close():
                self._books.types.remove(_quotas(self.config))
                self.applications.clear()
                self._timers.clear()
            case _:
                raise TypeError(f"{command} is not for a leaf")
        return None

    def _next_deadline_ns(self) -> int | None:
        timers = self._timers
        while timers and not self._is_armed(timers[0]):
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _is_armed(self, entry: tuple[int, int, ApplicationID, Timer]) -> bool:
        deadline_ns, arrival, application_id, timer = entry
        application = self.applications.get(application_id)
        if application is None or application.arrival != arrival:
            return False
        return application.lifecycle.timers.get(timer) == deadline_ns

    def _arm(self, application: Application) -> None:
        for deadline_ns, timer in application.lifecycle.armed:
            heapq.heappush(self._timers, (deadline_ns, application.arrival, application.application_id, timer))
        application.lifecycle.armed.clear()

    def adopt(self) -> None:
        """Note the timers of all restored applications."""
        for application in self.applications.values():
            application.lifecycle.arm_all()
            self._arm(application)
        self.deadline_ns = self._next_deadline_ns()

    def on_submit_batch(self, command: SubmitBatch) -> Steps[Positioned]:
        now_ns = command.now_ns
        reply = []
        for position, submission, arrival_ns, arrival in command.entries:
            if type(submission) is Ask:
                if submission.tags:
                    yield selector.items(submission.tags)
                facts = self._submit(now_ns, submission, arrival_ns, arrival)
            elif type(submission) is RecordTask:
                facts = self._record(submission)
            elif type(submission) is ReportJob:
                facts = self._report(submission)
            elif type(submission) is Admitted:
                facts = [self._add_application(now_ns, submission, arrival_ns, arrival)]
            else:
                facts = yield from self._release(now_ns, submission)
            reply.append((position, facts))
        return reply

    def _add_application(self, now_ns: int, admitted: Admitted, arrival_ns: int, arrival: int) -> Fact:
        spec, who = admitted.spec, admitted.who
        application = Application(spec, who, self.path, (arrival_ns, arrival), self._books)
        self.applications[spec.application_id] = application
        return ApplicationAdded(
            now_ns,
            spec.application_id,
            self.path,
            who.user,
            arrival_ns,
            arrival,
            application.lifecycle.stateaware,
            who.groups,
            application.gang.total,
            0 if run_ns(spec.tags.get(RUN_SECONDS_TAG, "")) else self.config.properties.usual_walltime_ns,
        )

    def _submit(self, now_ns: int, ask: Ask, arrival_ns: int, arrival: int) -> list[Fact]:
        application = self.applications.get(ask.application_id)
        if application is None:  # it ended earlier in this batch (AP-103)
            reason = f"failed to find application {ask.application_id}"
            return [AllocationRejected(now_ns, ask.allocation_key, ask.application_id, reason, RejectionCode.NO_APPLICATION)]
        facts = application.submit(now_ns, ask, arrival_ns, arrival)
        if application.lifecycle.armed:  # that it has ended needs no look: nothing that is submitted ends an application
            self._arm(application)
        return facts

    def _record(self, submission: RecordTask) -> list[Fact]:
        application = self.applications.get(submission.application_id)
        if application is not None:
            application.account.record(submission.record)
        return []

    def _report(self, submission: ReportJob) -> list[Fact]:
        application = self.applications.get(submission.application_id)
        if application is not None:
            application.account.report(submission.job)
        return []

    def _release(self, now_ns: int, submission: ReleaseAllocations | RemoveApplication) -> Steps[list[Fact]]:
        application = self.applications.get(submission.application_id)
        if application is None:
            return []
        if type(submission) is RemoveApplication:
            del self.applications[submission.application_id]
            if submission.outcome is not None:
                self.ended.append(application)
            return (yield from application.remove(now_ns, submission.outcome, submission.message))
        key, termination_type = submission.allocation_key, submission.termination_type
        if key is None:
            facts = yield from application.release_all(now_ns, termination_type)
        elif termination_type is TerminationType.SCHEDULING_FAILED_ON_RM:
            facts = application.hand_back(now_ns, key, submission.node_id)
        else:
            facts = application.release(now_ns, key, termination_type)
        self._keep_or_drop(application)
        return facts

    def _keep_or_drop(self, application: Application) -> None:
        """Note the timers that an application set; drop the application when it has ended."""
        if application.lifecycle.armed:
            self._arm(application)
        if application.lifecycle.has_ended():
            self.ended.append(self.applications.pop(application.application_id))

    def on_settle_batch(self, command: SettleBatch) -> Positioned:
        reply = []
        for position, decision in command.decisions:
            application = self.applications[decision.ask.application_id]
            if isinstance(decision, Allocated):  # by far the most frequent
                changes = application.settle(command.now_ns, decision.ask, decision.node_id)
            else:
                changes = _settle(application, command.now_ns, decision)
            if changes:
                reply.append((position, changes))
            if application.lifecycle.armed:
                self._arm(application)
        return reply

    def on_end_allocations(self, command: EndAllocations) -> list[Fact]:
        facts: list[Fact] = []
        for application_id, key in command.keys:
            application = self.applications[application_id]
            facts += application.lose(command.now_ns, key, command.message)
            self._keep_or_drop(application)
        return states_first(facts)  # so that the releases are not split into several messages

    def on_fail_all(self, command: FailAll) -> Steps[list[Fact]]:
        failing = self.ended = list(self.applications.values())
        self.applications.clear()
        facts: list[Fact] = []
        for application in failing:
            facts += yield from application.fail(command.now_ns, command.why, command.message)
        return facts

    def on_act(self, now_ns: int, act: ApplicationAct) -> Steps[list[Fact]]:
        application = self.applications[act.application_id]
        facts = yield from acts.carry_out(application, now_ns, act)
        self._keep_or_drop(application)
        return facts

    def on_take_over(self, application: Application) -> None:
        application.move_to(self.path)
        self.applications[application.application_id] = application
        self._arm(application)

    def on_fire_timers(self, command: FireTimers) -> Steps[Expired]:
        reply = []
        while (deadline_ns := self._next_deadline_ns()) is not None and deadline_ns <= command.now_ns:
            _, arrival, application_id, timer = heapq.heappop(self._timers)
            application = self.applications[application_id]
            facts = yield from application.fire_timer(command.now_ns, timer)
            self._keep_or_drop(application)
            reply.append(((deadline_ns, arrival), facts))
        return reply


def _quotas(config: QueueConfig) -> Resource:
    """The quotas of a dynamic queue, which applications bring; those of the configuration are limited there (E48)."""
    return {} if config.managed else (config.max or {}) | (config.guaranteed or {})


def _settle(application: Application, now_ns: int, decision: Replacement | Cancellation | Eviction) -> list[Fact]:
    match decision:
        case Replacement():
            return gang.start_replacement(application, now_ns, decision.ask, decision.placeholder, decision.node_id)
        case Cancellation():
            return gang.release_too_small(application, now_ns, decision.placeholder)
        case Eviction():
            return application.preempt(now_ns, decision.ask.allocation_key, decision.message)
