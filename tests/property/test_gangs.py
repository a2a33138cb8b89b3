"""Gangs under generated histories: the laws of ``gang.md`` hold after every step, and everything comes to its end."""

from __future__ import annotations

import pytest
import trio
from checked import LARGE, ONE_BY_ONE, above_max
from ganghistories import APPLICATIONS, NODES, S_NS, ResourceManager
from seeds import seeds
from simulated import simulate, simulate_with_actors
from world import load, node, release, remove

from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import (
    Allocated,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    AskAdded,
    AskRemoved,
    AskResized,
    Fact,
    Released,
    ReleaseStarted,
)
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.states import ApplicationState
from ykactor.core.messages.submissions import (
    AddApplication,
    ReleaseAllocations,
    RemoveApplication,
    Submission,
    UpdateNode,
)
from ykactor.core.objects.application import Application
from ykactor.core.objects.lifecycle import Timer
from ykactor.core.objects.queues import LeafCore
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.resources import Resource, fits
from ykactor.sim import trial
from ykactor.sim.direct import DirectPartition
from ykactor.wire import scenario
from ykactor.wire.decision_log import decision_log
from ykactor.wire.si import messages as si

STEPS = 40
ON_THE_WAY_OUT = (ApplicationState.FAILING, ApplicationState.RESUMING, ApplicationState.COMPLETING)
REPLACED = "PLACEHOLDER_REPLACED"


class Watch:
    """The laws that the facts of a partition must never break: kept by application."""

    def __init__(self) -> None:
        #: Placeholders that wait or run.
        self.open: dict[str, dict[str, Ask]] = {}
        #: By placeholder that is being released, the real ask that is to take its place.
        self.promised: dict[str, dict[str, str]] = {}
        #: The placeholder that has just gone, and who was to take its place.
        self.gone: tuple[Ask, str | None] | None = None

    def see(self, facts: list[Fact]) -> None:
        for decision in facts:
            match decision:
                case ReleaseStarted(termination_type=termination_type, message=message, ask=ask) if termination_type == REPLACED:
                    self._promise(ask, message.removeprefix("replacing allocationKey: "))
                case AskAdded(ask=ask) | AskResized(after=ask) | AllocationResized(after=ask) if ask.placeholder:
                    self.open.setdefault(ask.application_id, {})[ask.allocation_key] = ask
                case Allocated(ask=ask, recovered=recovered):
                    if ask.placeholder:
                        self.open.setdefault(ask.application_id, {})[ask.allocation_key] = ask
                    elif not recovered:
                        self._begin(ask)
                case Released(ask=ask) if ask.placeholder:
                    self.gone = ask, self.promised.get(ask.application_id, {}).pop(ask.allocation_key, None)
                case AskRemoved(ask=ask) if ask.placeholder:
                    self.open[ask.application_id].pop(ask.allocation_key)
                case ApplicationLeft(application_id=name):
                    self.open.pop(name, None)
                    self.promised.pop(name, None)
            if not isinstance(decision, Released | AskRemoved | ApplicationChanged):  # who takes the place does so at once
                self.gone = None

    def _promise(self, holder: Ask, real: str) -> None:
        promised = self.promised.setdefault(holder.application_id, {})
        assert holder.allocation_key not in promised, f"{holder.allocation_key} is replaced twice (GA-22)"
        promised[holder.allocation_key] = real

    def _begin(self, real: Ask) -> None:
        """A real task of a group with open placeholders begins by replacement only (GA-13), and never needs more (GA-33)."""
        name, key, group = real.application_id, real.allocation_key, real.task_group_name
        holder, taker = self.gone or (None, None)
        if holder is None or holder.application_id != name or taker != key:
            waiting = [entry for entry, ask in self.open.get(name, {}).items() if ask.task_group_name == group]
            assert not waiting, f"{key} runs while {waiting} of its group {group} are open (GA-13)"
        else:
            assert fits(holder.resource, real.resource), f"{key} takes more than its placeholder held (GA-33)"


class Session:
    """A partition, and a resource manager that plays one history with it."""

    def __init__(self, seed: int, budget: Budget = LARGE, *, confirms: bool = False, is_modest: bool = False) -> None:
        self.manager = ResourceManager(seed, is_modest=is_modest)
        self.watch = Watch()
        self.facts: list[Fact] = []
        self.said: list[tuple[int, list[Submission]]] = []
        self.is_modest = is_modest
        self.partition = DirectPartition(load(self.manager.text), budget, self._hear, self._check, confirms=confirms)
        self.say(self.manager.opening())

    def _hear(self, facts: list[Fact]) -> None:
        self.facts += facts
        self.manager.hear(facts)
        self.watch.see(facts)

    def _check(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        found = violations(core, scheduler) + (above_max(scheduler) if self.is_modest else [])
        assert not found, "\n".join(found)
        for application in live(core):
            check_application(application)

    def applications(self) -> list[Application]:
        return live(self.partition.core)

    def say(self, submissions: list[Submission]) -> None:
        self.said.append((self.manager.now_ns, submissions))
        self.partition.intake(self.manager.now_ns, submissions)

    def play(self, steps: int = STEPS) -> Session:
        for _ in range(steps):
            self.say(self.manager.draw())
        return self

    def wait(self, seconds: int) -> None:
        self.manager.now_ns += seconds * S_NS
        self.say([])

    def wind_up(self) -> None:
        """All that is real ends, the rest is confirmed, and time goes by."""
        for _ in range(5):
            for application in self.applications():
                keys = [*application.tasks.asks, *application.tasks.allocations]
                self.say([release(key, application.application_id) for key in keys if not _holds_space(application, key)])
            self.say(self.manager.answers())
            self.wait(1000)


def _holds_space(application: Application, key: str) -> bool:
    return key in application.tasks.allocations and application.tasks.allocations[key][0].placeholder


def live(core: PartitionCore) -> list[Application]:
    leaves = [queue for queue in core.registry.queues.values() if isinstance(queue, LeafCore)]
    return [application for leaf in leaves for application in leaf.applications.values()]


def check_application(application: Application) -> None:
    """Check the laws of an application between two steps."""
    for name, group in application.gang.groups.items():
        assert group.count >= group.replaced + group.timed_out, f"{application.application_id}: group {name} ended too often"
    if Timer.PLACEHOLDERS not in application.lifecycle.timers:
        running = {key: ask for key, (ask, _) in application.tasks.allocations.items() if key not in application.tasks.released}
        endless = [key for key, ask in running.items() if ask.placeholder and ask.failures]
        assert not endless, f"{application.application_id}: {endless} were handed back, run again, and no timer ends them (GA-41)"
    if application.state in ON_THE_WAY_OUT and not application.lifecycle.timers:
        assert application.tasks.allocations, f"{application.application_id} is {application.state} for nothing"
        unasked = [ask for key, (ask, _) in application.tasks.allocations.items() if key not in application.tasks.released]
        left = [ask.allocation_key for ask in unasked if ask.placeholder or _must_end(application, ask)]
        assert not left, f"{application.application_id} is {application.state}, and nobody ends {left}"


def _must_end(application: Application, real: Ask) -> bool:
    """True if a failing application was scheduled it; the resource manager may add what runs already, and end it itself."""
    return application.state is ApplicationState.FAILING and real.node_id is None


@pytest.mark.parametrize("seed", seeds(150))
def test_laws(seed: int) -> None:
    """After every step all invariants and laws hold; then everything ends, and nothing is left of it."""
    session = Session(seed).play()
    session.wind_up()
    assert [application.application_id for application in session.applications() if not _may_wait(application)] == []
    session.say([remove(name) for name in APPLICATIONS])
    assert_empty(session)


def _may_wait(application: Application) -> bool:
    """Nothing comes of it by itself.

    It waits for its first ask, as a gang that timed out also does (GA-50); or it has gone on before its last placeholders were
    placed, which no timer ends then (GA-40).
    """
    if application.tasks.asks or application.lifecycle.timers:
        return False
    match application.state:
        case ApplicationState.NEW:
            return True
        case ApplicationState.ACCEPTED:
            return application.gang.is_over and not application.tasks.allocations
        case ApplicationState.STARTING | ApplicationState.RUNNING:
            return application.tasks.placeholder_count > 0 and not application.tasks.real_count
    return False


@pytest.mark.parametrize("seed", seeds(100))
def test_removal_in_the_middle(seed: int) -> None:
    """Whatever is under way, nothing is left of applications that are removed (AP-84); late answers are ignored."""
    session = Session(1000 + seed).play()
    session.say([remove(name) for name in APPLICATIONS])
    assert_empty(session)
    session.say(session.manager.answers())
    session.say([node(name, "DECOMISSION") for name in NODES])
    assert_empty(session)


def assert_empty(session: Session) -> None:
    registry, state = session.partition.core.registry, session.partition.scheduler.state
    assert registry.applications == {}
    assert state.applications == {}
    assert state.pairs.by_leaf == {}
    assert state.trackers.in_use == {}
    for node_core in registry.nodes.values():
        assert not any(node_core.allocated.values())
    for account in state.tree.nodes.values():
        assert not any([*account.allocated.values(), *account.pending.values()])
        assert not account.running
        assert not account.accepted


@pytest.mark.parametrize("seed", seeds(100))
def test_never_above_what_is_allowed(seed: int) -> None:
    """Applications that ask only for what limits hold for never get more than these allow: quotas, users, nodes."""
    session = Session(2000 + seed, is_modest=True).play()
    for tracker in session.partition.scheduler.state.trackers.in_use.values():
        assert fits(tracker.max or {}, tracker.allocated) or tracker.max is None


@pytest.mark.parametrize("seed", seeds(100))
def test_the_budget_changes_nothing(seed: int) -> None:
    """One placement per cycle or as many as there are: with answers at once every decision is the same."""
    logs = [decision_log(Session(3000 + seed, budget, confirms=True).play().facts) for budget in (ONE_BY_ONE, LARGE)]
    assert logs[0] == logs[1]


# ---- actors


def told(seed: int) -> scenario.Scenario:
    """One history as a scenario file would have it, confirmed by the simulator."""
    session = Session(seed, confirms=True, is_modest=True).play(25)
    messages = [
        scenario.TimedRequest(at_ns / S_NS, request)
        for at_ns, said in session.said
        for submission in said
        for request in _requests(submission)
    ]
    return scenario.Scenario(f"gangs-{seed}", session.manager.text, session.manager.now_ns / S_NS + 1000, messages=messages)


def _requests(said: Submission) -> list[si.WorkRequest]:
    match said:
        case UpdateNode(name, action, capacity):
            return [si.NodeRequest(nodes=[si.NodeInfo(node_id=name, action=action, schedulable_resource=_wire(capacity))])]
        case AddApplication():
            new = si.AddApplicationRequest(
                application_id=said.application_id,
                queue_name=said.queue_name,
                ugi=si.UserGroupInformation(user=said.user),
                execution_timeout_milli_seconds=said.execution_timeout_ms,
                placeholder_ask=_wire(said.placeholder_ask),
                gang_scheduling_style=said.gang_scheduling_style,
            )
            return [si.ApplicationRequest(new=[new])]
        case RemoveApplication(name):
            return [si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id=name)])]
        case Ask() as ask:
            allocation = si.Allocation(
                allocation_key=ask.allocation_key,
                application_id=ask.application_id,
                resource_per_alloc=dict(ask.resource),
                priority=ask.priority,
                task_group_name=ask.task_group_name,
                placeholder=ask.placeholder,
            )
            return [si.AllocationRequest(allocations=[allocation])]
        case ReleaseAllocations(name, key, termination_type):
            end = si.AllocationRelease(application_id=name, allocation_key=key or "", termination_type=termination_type)
            return [si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[end]))]
    raise AssertionError(f"{said} is not part of a modest history")


def _wire(resource: Resource | None) -> si.WireResource | None:
    return None if resource is None else dict(resource)


@pytest.mark.parametrize("seed", range(5006, 5009))
def test_actors_agree_with_the_plain_loop(seed: int) -> None:
    """Whatever order trio runs its tasks in, replacements and timeouts come out the same, byte for byte."""
    story = told(seed)
    for budget in (ONE_BY_ONE, LARGE):
        expected = simulate(story, budget=budget)
        log = decision_log(expected.facts)
        assert REPLACED.encode() in log
        for order in range(5):
            trio._core._run._r.seed(order)
            outcome = simulate_with_actors(story, budget=budget)
            assert decision_log(outcome.facts) == log, f"task order {order}"
            assert (outcome.final, outcome.waiting) == (expected.final, expected.waiting)


@pytest.mark.parametrize("seed", seeds(60, 5000))
def test_a_report_of_gangs(seed: int) -> None:
    """Placeholders and the asks that replace them: what each has waited for adds up to its wait."""
    report = trial.run(told(seed)).report
    for group in (report.total, *report.queues.values()):
        for name in ("mean", "p50", "p95", "max"):
            parts = getattr(group.waited_for, name)
            assert sum(parts.values()) == pytest.approx(getattr(group.wait_seconds, name) or 0)
