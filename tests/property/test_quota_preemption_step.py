"""Queues that give back, under random quotas, tasks and confirmations: never too much, and never what is guaranteed."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from seeds import scaled, seeds
from world import PLENTY, S_NS, World, app, ask, configure, make_world, node, queue, release, tree

from ykactor.core.messages.facts import QuotaPreempted, ReleaseStarted
from ykactor.core.messages.submissions import Submission
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.wire.decision_log import decision_log

TYPES = ("vcore", "memory")
LEAVES = ("root.p.a", "root.p.b", "root.c")


def draw_queue(rng: random.Random, name: str, bound: dict[str, int], *children: dict[str, Any]) -> dict[str, Any]:
    """A queue whose limits stay within ``bound``, and what is guaranteed below it within its own."""
    keys: dict[str, Any] = {}
    below = [child.get("guaranteed", {}) for child in children]
    guaranteed = {name: sum(child.get(name, 0) for child in below) + rng.choice((0, 0, 3, 8)) for name in TYPES}
    limit = {name: max(guaranteed[name], rng.randint(1, bound[name])) for name in TYPES if rng.random() < 0.7}
    for child in children:
        for type_ in child.get("max", {}):
            limit[type_] = max(limit.get(type_, guaranteed[type_]), child["max"][type_])
    delay = rng.choice(("0", "1s", "5s", "20s"))
    keys |= {"max": limit} if limit and rng.random() < 0.8 else {}
    keys |= {"guaranteed": {entry: amount for entry, amount in guaranteed.items() if amount}}
    return {"name": name, "p": {"quota.preemption.delay": delay}, "children": children, **keys}


def built(drawn: dict[str, Any]) -> dict[str, Any]:
    keys = {key: value for key, value in drawn.items() if key not in ("name", "children")}
    return queue(drawn["name"], *(built(child) for child in drawn["children"]), **keys)


def draw_tree(rng: random.Random, size: int) -> str:
    """Three leaves, two of them below a parent; a smaller ``size`` has smaller quotas."""
    bound = dict.fromkeys(TYPES, size)
    a, b, c = (draw_queue(rng, name, bound) for name in "abc")
    p = draw_queue(rng, "p", bound, a, b)
    return tree(built(p), built(c), preemption={"quotapreemptionenabled": rng.random() < 0.9})


def draw_step(rng: random.Random, number: int) -> Submission:
    name = f"app-{rng.randrange(len(LEAVES))}"
    match rng.randint(0, 9):
        case 0 | 1:
            return configure(draw_tree(rng, rng.choice((10, 20, 40, 80))))
        case 2:
            return release(f"t{rng.randint(1, number)}", name)
        case 3:  # somebody else has placed it, or resizes it
            key = f"t{rng.randint(1, number)}"
            return ask(key, name, on="n1", vcore=rng.randint(1, 9), memory=rng.randint(1, 9))
    resource = {type_: rng.randint(1, 6) for type_ in TYPES if rng.random() < 0.8} or {"vcore": 1}
    return ask(f"t{number}", name, priority=rng.randint(-1, 1), created=rng.choice((0, 7200)), **resource)


class Watched(World):
    """A world that looks at everything that is given back, when it is decided."""

    seen = 0

    def _check(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        super()._check(core, scheduler)
        nodes, facts = scheduler.state.tree.nodes, self.facts[self.seen :]
        self.seen = len(self.facts)
        for fact in facts:
            if isinstance(fact, QuotaPreempted):
                account = nodes[fact.queue]
                for name, amount in fact.amount.items():
                    assert fact.claimed.get(name, 0) <= amount
                    assert left(account, name) >= fact.max[name], f"{fact}: gave too much"
            elif isinstance(fact, ReleaseStarted):
                for account in nodes[fact.queue].path_up:
                    for name in fact.ask.resource:
                        assert left(account, name) >= (account.config.guaranteed or {}).get(name, 0), f"{fact}: was guaranteed"


def left(queue: QueueNode, name: str) -> int:
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0)


@cache
def play(seed: int, placements_max: int) -> Watched:
    rng = random.Random(seed)
    world = Watched(draw_tree(rng, 80), placements_max=placements_max, confirms=False)
    world.send(node("n1", vcore=200, memory=200), *(app(f"app-{number}", path) for number, path in enumerate(LEAVES)))
    told = 0
    for number in range(1, 100):
        world.send(draw_step(rng, number), at=world.now_ns / S_NS + rng.choice((0, 0, 0, 1, 6)))
        started = [fact for fact in world.facts[told:] if isinstance(fact, ReleaseStarted)]
        told = len(world.facts)
        for fact in started:
            if rng.random() < 0.8:
                world.send(release(fact.ask.allocation_key, fact.ask.application_id, fact.termination_type))
    return world


@pytest.mark.parametrize("seed", seeds(60))
def test_never_too_much(seed: int) -> None:
    """PE-83, PE-87 and law 2, whatever is confirmed when; and the budget of a plan decides nothing."""
    assert decision_log(play(seed, 1).facts) == decision_log(play(seed, PLENTY).facts)


def test_the_histories_give_back() -> None:
    """Queues above and leaves give back in the histories above, often something and often nothing that fits."""
    entries = [fact for seed in seeds(60) for fact in play(seed, PLENTY).facts if isinstance(fact, QuotaPreempted)]
    assert sum(entry.victims > 0 for entry in entries) > scaled(400)
    assert sum(not entry.victims for entry in entries) > scaled(50)
    assert sum(entry.queue == "root.p" for entry in entries) > scaled(50)


def test_nothing_is_left_that_fits() -> None:
    """PE-87 in one leaf without guarantees: afterwards no task fits in what is still above the max."""
    for seed in seeds(40):
        rng = random.Random(seed)
        sizes = [rng.randint(1, 9) for _ in range(20)]
        limit = rng.randint(1, sum(sizes))
        properties: dict[str, Any] = {"p": {"quota.preemption.delay": "1s"}, "max": {"vcore": limit}}
        on = {"quotapreemptionenabled": True}
        world = make_world(tree(queue("a"), preemption=on), [node("n1", vcore=1000)])
        world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=size) for number, size in enumerate(sizes)))
        world.given(configure(tree(queue("a", **properties), preemption=on)))
        world.wait(1)
        application = world.direct.core.registry.leaf_of("app-1").applications["app-1"]  # type: ignore[index,arg-type]
        running = [task.resource["vcore"] for task, _ in application.tasks.allocations.values()]
        assert sum(running) >= limit
        assert not running or sum(running) == limit or sum(running) - min(running) < limit
