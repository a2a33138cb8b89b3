"""PE-15: who found no victims because others had preempted tries again when one of these is placed, not 15 s later."""

import pytest
from world import World, app, ask, make_world, node, queue, release, tree

from ykactor.core.messages.facts import Allocated, Preempted

QUEUES = tree(queue("a", guaranteed={"vcore": 12}), queue("b"), preemption={"enabled": True})


def crowded(preemptors: int) -> World:
    """Two nodes full of small tasks of root.b, and asks of root.a that preempt two each from second 31 on."""
    world = make_world(
        QUEUES,
        [node("n1", vcore=6), node("n2", vcore=6), app("app-a", "root.a"), app("app-b", "root.b")],
        confirms=False,
    )
    world.given(*(ask(f"t{number}", "app-b", vcore=1, on=f"n{1 + number % 2}") for number in range(12)))
    world.given(*(ask(f"p{number}", "app-a", vcore=2, preempt_other=True) for number in range(preemptors)), at=1)
    return world


def preempted(world: World) -> dict[str, float]:
    """The times at which each ask preempted."""
    return {fact.ask.allocation_key: fact.at_ns / 1e9 for fact in world.facts if isinstance(fact, Preempted)}


def confirm(world: World, at: float, *preemptors: str) -> None:
    """The victims of these asks have ended."""
    facts = [fact for fact in world.facts if isinstance(fact, Preempted) and fact.ask.allocation_key in preemptors]
    world.send(*(release(key, name) for fact in facts for _, name, key in fact.victims), at=at)


def test_six_asks_on_two_nodes() -> None:
    """Each pair follows at once when the one before it has been placed."""
    world = crowded(6)
    for second in range(3):
        first, other = f"p{2 * second}", f"p{2 * second + 1}"
        world.run(31.2 + second)
        confirm(world, 31.5 + second, first, other)
    assert preempted(world) == {"p0": 31.0, "p1": 31.0, "p2": 31.5, "p3": 31.5, "p4": 32.5, "p5": 32.5}
    assert sum(isinstance(fact, Allocated) and not fact.recovered for fact in world.facts) == 6


def test_one_place_one_attempt() -> None:
    """Other asks are not placed, so the rest wait for their 15 seconds."""
    world = crowded(4)
    world.run(32)
    confirm(world, 32, "p0")
    assert set(preempted(world)) == {"p0", "p1", "p2"}
    world.run(45)
    assert set(preempted(world)) == {"p0", "p1", "p2"}


@pytest.mark.parametrize("second", [40, 46])
def test_without_others_it_is_fifteen_seconds(second: float) -> None:
    """An ask that finds no victims for another reason is not helped by anybody's placement."""
    world = make_world(QUEUES, [node("n1", vcore=2), app("app-a", "root.a"), app("app-b", "root.b")])
    world.given(ask("t1", "app-b", vcore=2, on="n1", priority=9), ask("p", "app-a", vcore=2, preempt_other=True), at=0)
    world.run(second)
    (attempt,) = world.direct.scheduler.state.preemptions.last_attempts.values()
    assert attempt.at_ns == (30 if second < 45 else 45) * 10**9
