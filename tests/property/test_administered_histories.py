"""Moves and terminations in the middle of everything else: nothing drifts, and a refusal changes nothing."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from checked import LARGE, ONE_BY_ONE, SMALL, World
from histories import USERS, draw_history
from seeds import scaled, seeds
from world import S_NS, app, ask, configure, limit, make_world, node, queue, release, tree

from ykactor.core.config.access import UserGroups
from ykactor.core.inspection.invariants import violations
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.facts import ApplicationMoved, Fact, ReleaseStarted, RequestRefused
from ykactor.core.messages.submissions import Administration, MoveApplication, Submission, TerminateApplication
from ykactor.core.planner.planner import Budget
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import finished
from ykactor.wire.decision_log import decision_log

SEEDS = seeds(60)


class Administered(World):
    """A history with administrators; the same seed draws the same requests."""

    def play_with(self, seed: int, batches) -> list[Fact]:
        rng = random.Random(seed)
        for batch in batches:
            self.intake(batch.at_ns, batch.submissions)
            for _ in range(rng.choice((0, 0, 1, 2))):
                self.ask_for(batch.at_ns, draw_request(rng, list(self.core.registry.queues)))
                if rng.random() < 0.5:
                    self.schedule(batch.at_ns)
            self.schedule(batch.at_ns)
        return self.facts

    def ask_for(self, now_ns: int, request: Administration) -> None:
        """Everything holds at once after the request; nothing is different after a refusal."""
        before = finished(partition_state(self.core, self.scheduler.state))
        refusal = self.administer(now_ns, request)
        found = violations(self.core, self.scheduler)
        assert not found, "\n".join([str(request), *found])
        if refusal:
            assert finished(partition_state(self.core, self.scheduler.state)) == before


def draw_request(rng: random.Random, queues: list[str]) -> Administration:
    application_id = ApplicationID(f"app-{rng.randint(1, 6)}")
    who = UserGroups(rng.choice(USERS), ()) if rng.random() < 0.1 else None
    if rng.random() < 0.1:
        return TerminateApplication(application_id, who)
    return MoveApplication(application_id, rng.choice(queues), who)


@cache
def administered(seed: int, budget: Budget) -> list[Fact]:
    """What is decided in one history."""
    history = draw_history(seed)
    return Administered(history.config, budget).play_with(seed, history.batches)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_drifts(seed: int) -> None:
    """Asks, releases, timers, nodes, reloads, moves and terminations in any order: all invariants hold after every step."""
    log = decision_log(administered(seed, LARGE))
    assert decision_log(administered(seed, ONE_BY_ONE)) == log
    assert decision_log(administered(seed, SMALL)) == log


def test_the_histories_do_both() -> None:
    """The requests drawn above are carried out and refused, each a good number of times."""
    facts = [fact for seed in SEEDS for fact in administered(seed, LARGE)]
    assert sum(isinstance(fact, ApplicationMoved) for fact in facts) > scaled(100)
    assert sum(isinstance(fact, RequestRefused) for fact in facts) > scaled(100)


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
    """Gangs in every state are moved and ended while confirmations are lost, repeated and of the wrong kind."""
    rng = random.Random(seed)
    world = make_world(draw_tree(rng), [node("n1", vcore=20), node("n2", vcore=20)], confirms=False)
    told = 0
    for number in range(1, 80):
        world.send(draw_gang_step(rng, number), at=world.now_ns / S_NS + rng.choice((0, 0, 0, 1, 31)))
        if rng.random() < 0.4:
            world.administer(draw_gang_request(rng))
        started = [fact for fact in world.facts[told:] if isinstance(fact, ReleaseStarted)]
        told = len(world.facts)
        for fact in started:
            for _ in range(rng.choice((0, 1, 1, 2))):
                kind = rng.choice((fact.termination_type, fact.termination_type, "STOPPED_BY_RM"))
                world.send(release(fact.ask.spec.allocation_key, fact.ask.spec.application_id, kind))
    assert any(isinstance(fact, ApplicationMoved) for fact in world.facts)


def draw_gang_request(rng: random.Random) -> Administration:
    name = ApplicationID(f"app-{rng.randint(1, 4)}")
    return TerminateApplication(name) if rng.random() < 0.1 else MoveApplication(name, rng.choice(LEAVES))
