"""Acts of administrators and operators in the middle of everything else: nothing drifts, and a refusal changes nothing."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest
from checked import LARGE, ONE_BY_ONE, SMALL, World
from histories import PRIORITIES, USERS, draw_history
from preemptinghistories import Preempting
from seeds import IS_NIGHT, scaled, seeds
from world import S_NS, app, ask, configure, limit, make_world, node, queue, release, tree

from ykactor.core.config.access import UserGroups
from ykactor.core.inspection.invariants import violations
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.acts import (
    Administration,
    CancelTask,
    HoldApplication,
    HoldQueue,
    MoveApplication,
    Operator,
    OperatorAct,
    SetPriority,
    SetQueueQuotas,
    TerminateApplication,
)
from ykactor.core.messages.asks import Ask, ask_id
from ykactor.core.messages.facts import (
    Allocated,
    AllocationResized,
    ApplicationHeld,
    ApplicationMoved,
    AskPriorityChanged,
    Fact,
    Preempted,
    QueueHeld,
    QueueLimitChanged,
    Released,
    ReleaseStarted,
    RequestRefused,
    Unreserved,
)
from ykactor.core.messages.submissions import Submission
from ykactor.core.planner.planner import Budget
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName, QueuePath
from ykactor.core.values.parts import finished
from ykactor.core.values.resources import Resource, add_to, pruned, subtract_from
from ykactor.sim.fairness import PARTS, FairnessAccount
from ykactor.sim.tallies import PartitionTallies, Tallies
from ykactor.wire.decision_log import decision_log

SEEDS = seeds(160)
OPS = Operator("ops")
Task = tuple[ApplicationID, AllocationKey]
#: Before anything was asked for.
NO_TASK = (ApplicationID("app-1"), AllocationKey("nothing"))


class Administered(World):
    """A history with administrators and operators; the same seed draws the same requests."""

    def play_with(self, seed: int, batches, draw=None) -> list[Fact]:
        """``draw`` draws a request, of a queue and a task; any if it is None."""
        rng = random.Random(seed)
        tasks = [NO_TASK]
        for batch in batches:
            asks = [submission for submission in batch.submissions if isinstance(submission, Ask)]
            tasks += [(ask.application_id, ask.allocation_key) for ask in asks if ask.application_id]
            self.intake(batch.at_ns, batch.submissions)
            for _ in range(rng.choice((0, 0, 1, 2))):
                queues = list(self.core.registry.queues)
                self.ask_for(batch.at_ns, (draw or draw_request)(rng, rng.choice(queues), rng.choice(tasks[-30:])))
                if rng.random() < 0.5:
                    self.schedule(batch.at_ns)
            self.schedule(batch.at_ns)
        return self.facts

    def ask_for(self, now_ns: int, request: Administration) -> None:
        """Carry out the request; all invariants hold at once after it, and a refusal changes nothing."""
        before = finished(partition_state(self.core, self.scheduler.state))
        refusal = self.administer(now_ns, request)
        found = violations(self.core, self.scheduler)
        assert not found, "\n".join([str(request), *found])
        if refusal:
            assert finished(partition_state(self.core, self.scheduler.state)) == before


def draw_request(rng: random.Random, queue_name: str, task: Task) -> Administration:
    if rng.random() < 0.5:
        return draw_operation(rng, queue_name, task)
    application_id = draw_application(rng)
    who = UserGroups(rng.choice(USERS), ()) if rng.random() < 0.1 else None
    if rng.random() < 0.1:
        return TerminateApplication(application_id, who)
    return MoveApplication(application_id, queue_name, who)


def draw_application(rng: random.Random) -> ApplicationID:
    return ApplicationID(f"app-{rng.randint(1, 6)}")


QUOTA = '{"resources": {"vcore": {"value": 3}}}'
QUOTA_TAGS = "namespace.resourcequota", "namespace.resourceguaranteed"


def draw_operation(rng: random.Random, queue_name: str, task: Task) -> OperatorAct | SetQueueQuotas:
    """Holds end more often than they begin, so that something goes on."""
    application_id = rng.choice((task[0], draw_application(rng)))
    match rng.randint(0, 8):
        case 0 | 1 | 2:
            return HoldApplication(application_id, rng.random() < 0.4, OPS)
        case 3 | 4 | 5:
            return HoldQueue(queue_name, rng.random() < 0.4, OPS)
        case 6:
            return CancelTask(*task, OPS)
        case 7:
            return SetQueueQuotas(queue_name, {rng.choice(QUOTA_TAGS): rng.choice(("", QUOTA))})
    name, key = task if rng.random() < 0.6 else (application_id, None)
    return SetPriority(name, key, rng.choice(PRIORITIES), OPS)


@cache
def administered(seed: int, budget: Budget) -> list[Fact]:
    """The facts of one history. By day the invariants are checked after every step of small cycles only."""
    history = draw_history(seed)
    return Administered(history.config, budget, is_thorough=IS_NIGHT or budget == SMALL).play_with(seed, history.batches)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_drifts(seed: int) -> None:
    """Asks, releases, timers, nodes, reloads, moves and terminations in any order: all invariants hold after every step."""
    log = decision_log(administered(seed, LARGE))
    assert decision_log(administered(seed, SMALL)) == log


@pytest.mark.parametrize("seed", seeds(30))
def test_decisions_among_operations(seed: int) -> None:
    """OP-1 to OP-13: whatever is held, cancelled and prioritised, each decision is that of the reference."""
    history = draw_history(seed)
    compared = Administered(history.config, ONE_BY_ONE, compare=True)
    log = decision_log(compared.play_with(seed, history.batches, draw_operation))
    other = Administered(history.config, LARGE, is_thorough=IS_NIGHT)
    assert decision_log(other.play_with(seed, history.batches, draw_operation)) == log


def test_the_histories_do_all() -> None:
    """The requests drawn above are carried out and refused, each a good number of times."""
    facts = [fact for seed in SEEDS for fact in administered(seed, LARGE)]
    counts = Counter(map(type, facts))
    assert counts[ApplicationMoved] > scaled(50)
    assert counts[RequestRefused] > scaled(100)
    assert counts[ApplicationHeld] > scaled(40)
    assert counts[QueueHeld] > scaled(50)
    assert counts[AskPriorityChanged] > scaled(20)
    assert sum(isinstance(fact, QueueLimitChanged) and fact.queue != "root" for fact in facts) > scaled(20)
    assert sum(isinstance(fact, ReleaseStarted) and fact.message == "cancelled by an operator" for fact in facts) > scaled(5)


# ---- gangs, with a resource manager that confirms late, twice, otherwise or never

TERMINATIONS = ("TIMEOUT", "PLACEHOLDER_REPLACED", "STOPPED_BY_RM")


def draw_tree(rng: random.Random) -> str:
    """Leaves below two parents, with quotas and limits that are often in the way."""

    def draw_leaf(name: str) -> dict[str, Any]:
        limits = [limit("alice", vcore=rng.choice((3, 5)), applications=rng.choice((0, 2)))] if rng.random() < 0.3 else []
        keys = {"max": {"vcore": rng.choice((6, 15))}} if rng.random() < 0.3 else {}
        policy = rng.choice(("fifo", "fifo", "stateaware", "fair"))
        return queue(name, limits=limits, p={"application.sort.policy": policy}, **keys)

    groups = [limit(groups=("dev",), vcore=20)] if rng.random() < 0.5 else []
    return tree(queue("p", draw_leaf("a"), draw_leaf("b"), limits=groups), queue("q", draw_leaf("c")), draw_leaf("d"))


LEAVES = ("root.p.a", "root.p.b", "root.q.c", "root.d")


def draw_gang_step(rng: random.Random, number: int) -> Submission:
    name = f"app-{rng.randint(1, 4)}"
    groups = {"group": rng.choice(("g", "h", ""))}
    match rng.randint(0, 9):
        case 0 | 1:
            style = rng.choice(("Soft", "Hard"))
            announced = rng.choice((None, {"vcore": 6}))
            leaf = rng.choice(LEAVES)
            return app(name, leaf, groups=("dev",), timeout_ms=rng.choice((0, 3000)), placeholders=announced, style=style)
        case 2 | 3 | 4:
            return ask(f"p{number}", name, placeholder=True, vcore=rng.choice((2, 3)), group=rng.choice(("g", "h")))
        case 5 | 6:
            return ask(f"r{number}", name, priority=rng.randint(0, 2), vcore=rng.choice((1, 2, 4)), **groups)
        case 7:
            return release(rng.choice("pr") + str(rng.randint(1, number)), name, rng.choice(TERMINATIONS))
        case 8:
            return configure(draw_tree(rng)) if rng.random() < 0.3 else node("n2", "DECOMISSION")
    return node("n2", vcore=20)


@pytest.mark.parametrize("seed", seeds(60))
def test_gangs_move_and_end(seed: int) -> None:
    """Gangs in every state are moved, held, cancelled and ended while confirmations are lost, repeated and of the wrong kind."""
    rng = random.Random(seed)
    world = make_world(draw_tree(rng), [node("n1", vcore=20), node("n2", vcore=20)], confirms=False)
    told = 0
    for number in range(1, 80):
        world.send(draw_gang_step(rng, number), at=world.now_ns / S_NS + rng.choice((0, 0, 0, 1, 31)))
        if rng.random() < 0.4:
            world.administer(draw_gang_request(rng, number))
        started = [fact for fact in world.facts[told:] if isinstance(fact, ReleaseStarted)]
        told = len(world.facts)
        for fact in started:
            for _ in range(rng.choice((0, 1, 1, 2))):
                kind = rng.choice((fact.termination_type, fact.termination_type, "STOPPED_BY_RM"))
                world.send(release(fact.ask.allocation_key, fact.ask.application_id, kind))
    assert any(isinstance(fact, ApplicationMoved | ApplicationHeld | QueueHeld) for fact in world.facts)


def draw_gang_request(rng: random.Random, number: int) -> Administration:
    name, key = ApplicationID(f"app-{rng.randint(1, 4)}"), AllocationKey(rng.choice("pr") + str(rng.randint(1, number)))
    if rng.random() < 0.5:
        return draw_operation(rng, rng.choice((*LEAVES, "root.p", "root")), (name, key))
    return TerminateApplication(name) if rng.random() < 0.1 else MoveApplication(name, rng.choice(LEAVES))


# ---- preemption, for guarantees, for quotas and on required nodes


PREEMPTING_SEEDS = seeds(134)


@cache
def preempted(seed: int) -> list[Fact]:
    """The facts while an operator acts on applications that preempt; confirmations come late, twice, otherwise or never."""
    manager = Preempting(seed)
    world = make_world(manager.text, manager.opening(), confirms=False)
    for _ in range(80):
        before = len(world.facts)
        world.send(*manager.draw(), at=manager.now_ns / S_NS)
        preempting = [*world.direct.scheduler.state.preemptions.by_ask]
        if preempting and manager.rng.random() < 0.7:
            world.administer(draw_against(manager.rng, manager.rng.choice(preempting)))
        elif manager.rng.random() < 0.4:
            name = ApplicationID(manager.task()[0])
            world.administer(manager.rng.choice((HoldQueue("root.b", False, OPS), HoldApplication(name, False, OPS))))
        manager.hear(world.facts[before:])
    return world.facts


def draw_against(rng: random.Random, task: Task) -> OperatorAct:
    """Draw an operator's act against a task that preempts."""
    acts = (
        HoldApplication(task[0], True, OPS),
        HoldQueue("root.b", True, OPS),
        SetPriority(*task, rng.choice(PRIORITIES), OPS),
        CancelTask(*task, OPS),
    )
    return rng.choice(acts)


@pytest.mark.parametrize("seed", PREEMPTING_SEEDS)
def test_operations_among_preemptions(seed: int) -> None:
    """OP-3, OP-10, OP-13: whatever an operator does while tasks preempt and are preempted, all invariants hold."""
    assert preempted(seed)


def test_attempts_end_by_operations() -> None:
    """Asks that preempt are held, cancelled and get other priorities in these histories."""
    ways: Counter[str] = Counter()
    for seed in PREEMPTING_SEEDS:
        preempting: set[Task] = set()
        for fact in preempted(seed):
            match fact:
                case Preempted(_, ask):
                    preempting.add(ask_id(ask))
                case Unreserved(_, ask) | Allocated(_, ask):
                    preempting.discard(ask_id(ask))
                case ApplicationHeld(_, application_id, _, _, True):
                    ways["held"] += any(name == application_id for name, _ in preempting)
                case QueueHeld(_, _, _, True):
                    ways["held with its queue"] += bool(preempting)
                case AskPriorityChanged(_, _, after):
                    ways["prioritised"] += ask_id(after) in preempting
    assert min(ways[way] for way in ("held", "held with its queue", "prioritised")) > 0, ways


@pytest.mark.parametrize("seed", seeds(30))
def test_accounts_among_operations(seed: int) -> None:
    """Moves, terminations, preemption, resizes and reloads: the fairness account ends with what runs, in all queues together."""
    for facts in (administered(seed, LARGE), preempted(seed)):
        end_ns = facts[-1].at_ns
        account = FairnessAccount(0, 0, end_ns)
        tallies = PartitionTallies(PartitionName("default"), Tallies(), account)
        for fact in facts:
            tallies.observe(fact)
        tallies.finish(end_ns, {})
        used: Resource = {}
        for fact in facts:
            if isinstance(fact, Allocated):
                add_to(used, fact.ask.resource)
            elif isinstance(fact, Released):
                subtract_from(used, fact.ask.resource)
            elif isinstance(fact, AllocationResized):
                add_to(used, fact.after.resource)
                subtract_from(used, fact.before.resource)
        expected = {name: amount * PARTS for name, amount in pruned(used).items()}
        below = Counter[str]()
        for each in account:
            below.update(each.used if each.path.count(".") == 1 else {})
            assert all(amount > 0 for amount in (*each.used.values(), *each.wanted.values()))
        assert account.queues[QueuePath("root")].used == dict(below) == expected
