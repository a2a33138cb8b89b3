"""The walk, its budget, and what it says about asks that wait."""

import pytest
from world import World, app, ask, make_world, node, queue, release, tree

from ykactor.core.messages.facts import Allocated
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.planner.planner import TRY_WORK, Budget
from ykactor.core.turn.scheduler import Cycle, Observe, SchedulerCore
from ykactor.core.turn.turn import CycleDue
from ykactor.sim.direct import carry_out

TWO = tree(queue("a"), queue("b"))


def submitted(count: int) -> list[object]:
    names = [("a", "root.a"), ("b", "root.b")]
    asks = [ask(f"{name}{n}", name, priority=n % 3, vcore=1 + n % 2) for n in range(count) for name, _ in names]
    return [*(app(name, path) for name, path in names), *asks]


def test_one_allocation_a_step() -> None:
    """Two asks, one node for both: two steps, one allocation each (PR-25, SC-10)."""
    running: list[int] = []

    def look(core: PartitionCore, _: SchedulerCore) -> None:
        running.append(sum(len(node_core.allocations) for node_core in core.registry.nodes.values()))

    world = make_world(tree(queue("a")), placements_max=1, after_step=look)
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1))
    running.clear()
    world.send(node("n1", vcore=9))
    assert running == [1, 2, 2]


@pytest.mark.parametrize("placements_max", [1, 2, 7, 1000])
def test_the_budget_decides_nothing(placements_max: int) -> None:
    """However many placements share a cycle, they are the same in the same order."""
    found = []
    for budget in (placements_max, 10**6):
        world = make_world(TWO, placements_max=budget)
        world.given(*submitted(20))  # type: ignore[arg-type]
        world.send(node("n1", vcore=17), node("n2", vcore=18))
        found.append(world.heard())
    assert found[0] == found[1]
    assert sum(" on " in line for line in found[0]) > 20


def cycle(world: World, budget: Budget) -> Cycle:
    """One cycle by hand, in a world that is at rest."""
    result = world.direct.run_turn(world.now_ns, CycleDue(budget)).cycle
    assert result is not None
    return result


def ingest(world: World, *submissions: object) -> None:
    """Hand in submissions; the scheduler learns of them and plans nothing yet."""
    facts = carry_out(world.direct.core.ingest(world.now_ns, submissions))  # type: ignore[arg-type]
    carry_out(world.direct.scheduler.handle(Observe(facts)))


def test_placements_are_bounded() -> None:
    """A plan ends at ``placements_max``, says so, and the next one goes on where it ended."""
    world = make_world(tree(queue("a")), [node("n1", vcore=99)])
    ingest(world, app("app-1"), *(ask(f"t{n}", "app-1", vcore=1) for n in range(5)))
    found = []
    for _ in range(3):
        result = cycle(world, Budget(2, 10**6))
        found.append((sum(isinstance(fact, Allocated) for fact in result.facts), result.at_rest))
    assert found == [(2, False), (2, False), (1, True)]


def test_work_is_bounded() -> None:
    """A plan ends when its units of work are spent; what it could not look at is looked at by the next ones."""
    world = make_world(tree(queue("a")), [node("n1", vcore=9)])
    ingest(
        world, app("app-1"), *(ask(f"big{n}", "app-1", priority=9, vcore=10 + n) for n in range(50)), ask("t1", "app-1", vcore=1)
    )
    cycles, placed = 0, 0
    while True:
        cycles += 1
        result = cycle(world, Budget(10, 8 * TRY_WORK))
        assert result.work <= 9 * TRY_WORK + 2  # it is looked at between two candidates
        placed += sum(isinstance(fact, Allocated) for fact in result.facts)
        if result.at_rest:
            break
        assert cycles < 100
    assert placed == 1
    assert cycles > 3


def test_a_full_cluster_costs_nothing() -> None:
    """An ask that could not be placed is parked: the next plan spends no work on it until something grows."""
    world = make_world(TWO, [node("n1", vcore=1)])
    world.given(*submitted(50))  # type: ignore[arg-type]
    assert cycle(world, Budget(10, 10**6)).work == 0


def test_nothing_without_nodes() -> None:
    """Nothing is done without any node resources (PR-26)."""
    world = make_world(TWO)
    world.send(*submitted(2))  # type: ignore[arg-type]
    assert world.placed() == []
    world.send(node("n1"))  # without a capacity
    assert world.placed() == []


def test_why_it_waits() -> None:
    """Each reason names the level, the type, what is wanted and what is there."""
    world = make_world(
        tree(queue("a", max={"vcore": 5}), queue("b", maxapplications=1), queue("c")),
        [node("n1", vcore=4, memory=9), node("n2", vcore=4)],
    )
    world.given(
        app("app-a", "root.a"), ask("quota", "app-a", vcore=6),
        app("app-b", "root.b"), ask("first", "app-b", vcore=1), app("app-c", "root.b"), ask("slot", "app-c", vcore=1),
        app("app-d", "root.c"), ask("cluster", "app-d", vcore=9), ask("scattered", "app-d", vcore=5),
        ask("pinned", "app-d", requires="n3", vcore=1),
    )  # fmt: skip
    never = "can never fit: the largest node has 0.004 vcore, it wants"
    assert {key: world.why(key) for key in ("quota", "slot", "cluster", "scattered", "pinned")} == {
        "quota": f"can never fit: wants 0.006, may have at most 0.005 vcore in queue root.a; {never} 0.006",
        "slot": "queue root.b runs 1 of at most 1 application",
        "cluster": f"{never} 0.009; wants 0.009, has 0.007 of 0.008 vcore in the cluster",
        "scattered": f"{never} 0.005",
        "pinned": "its required node n3 is not registered",
    }


def test_why_follows_the_present() -> None:
    """The numbers are those of now, and the reason goes when the ask does."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=3), ask("t2", "app-1", vcore=2))
    assert world.why("t2") == "wants 0.002, has 0.001 of 0.004 vcore in the cluster"
    world.given(release("t1"))
    assert world.queue("root")["pending"] == {}
