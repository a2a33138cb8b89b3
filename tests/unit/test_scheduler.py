"""Commit and settle: when nodes are sent what is placed there, and what happens when one refuses."""

from collections.abc import Sequence
from typing import Any

import pytest
from world import World, app, ask, foreign, limit, make_world, node, queue, release, remove, tree

from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import Allocated, AskCondition
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Submission
from ykactor.core.objects.commands import Command
from ykactor.core.objects.node import InvariantViolation, NodeCore
from ykactor.core.state.observer import PAUSE_EVERY
from ykactor.core.turn import scheduler as scheduler_module
from ykactor.core.turn.scheduler import Cycle, Observe
from ykactor.core.turn.turn import CycleDue, Input
from ykactor.core.values.ids import NodeID
from ykactor.sim import direct
from ykactor.sim.direct import carry_out

EVERYTHING = Budget(1000, 10**6)


def waiting(*asks: int) -> World:
    """app-1 waits for asks of these sizes; nodes n1 and n2 of 4 come before the next cycle."""
    world = make_world(tree(queue("a", p={"application.sort.policy": "fifo"})))
    world.given(app("app-1"), *(ask(f"t{n}", "app-1", vcore=size) for n, size in enumerate(asks)))
    scheduler = world.direct.scheduler
    nodes = [node("n1", vcore=4), node("n2", vcore=4)]
    carry_out(scheduler.handle(Observe(carry_out(world.direct.core.ingest(0, nodes)))))
    return world


def core(world: World, name: str) -> NodeCore:
    return world.direct.core.registry.nodes[NodeID(name)]


def cycle(world: World) -> Cycle:
    result = world.direct.run_turn(0, CycleDue(EVERYTHING)).cycle
    assert result is not None
    return result


def placed(result: Cycle) -> list[str]:
    return [
        f"{decision.ask.allocation_key} on {decision.node_id}" for decision in result.facts if isinstance(decision, Allocated)
    ]


def test_one_batch_for_each_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit sends one batch to each node touched, settle one to each leaf."""
    world = waiting(3, 3)
    sent: list[str] = []

    def replies(sends: Sequence[tuple[Any, Command[Any]]]) -> list[Any]:
        for owner, command in sends:
            sent.append(f"{type(command).__name__} to {owner.node_id if isinstance(owner, NodeCore) else owner.path}")
        return [owner.handle(command) for owner, command in sends]

    monkeypatch.setattr(direct, "_replies", replies)
    result = cycle(world)
    assert sent == ["PlaceBatch to n1", "PlaceBatch to n2", "SettleBatch to root.a"]
    assert placed(result) == ["t0 on n1", "t1 on n2"]
    assert violations(world.direct.core, world.direct.scheduler) == []


def test_a_burst_is_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full plans are only noted; nodes are sent all of them, in order, when the plan is not full or many are noted."""
    world = waiting(1, 1, 1, 1, 1)
    partition, scheduler, one = world.direct.core, world.direct.scheduler, Budget(1, 10**6)
    sizes = []
    for _ in range(4):
        direct.run_turn((partition, scheduler), 0, CycleDue(one), lambda _: None)
        sizes.append((partition.registry.unsent.count, len(core(world, "n1").allocations) + len(core(world, "n2").allocations)))
    assert sizes == [(1, 0), (2, 0), (3, 0), (4, 0)]
    monkeypatch.setattr(scheduler_module, "UNSENT_MAX", 5)
    direct.run_turn((partition, scheduler), 0, CycleDue(one), lambda _: None)
    assert partition.registry.unsent.count == 0
    assert [len(core(world, name).allocations) for name in ("n1", "n2")] == [3, 2]
    assert violations(partition, scheduler) == []


@pytest.mark.parametrize(
    "change",
    [
        node("n1", "UPDATE", vcore=9),
        node("n1", "DRAIN_NODE"),
        node("n1", "DECOMISSION"),
        release("t0", "app-1"),
        remove("app-1"),
        ask("t0", "app-1", vcore=2),
        ask("r1", "app-1", on="n1", vcore=1),
        foreign("f1", on="n1", vcore=1),
    ],
    ids=["capacity", "drained", "gone", "release", "removal", "resize", "recovered", "foreign"],
)
def test_nodes_are_sent_a_burst_before_they_change(change: Submission) -> None:
    """Whatever reads or changes a node in the middle of a burst finds there what the scheduler has placed."""
    world = waiting(1, 1, 1, 1)
    partition, scheduler = world.direct.core, world.direct.scheduler
    for _ in range(3):
        direct.run_turn((partition, scheduler), 0, CycleDue(Budget(1, 10**6)), lambda _: None)
    assert partition.registry.unsent.count == 3
    direct.run_turn((partition, scheduler), 0, Input([change]), lambda _: None)
    assert partition.registry.unsent.count == 0
    assert violations(partition, scheduler) == []


def test_refused_without_a_reason_is_our_mistake() -> None:
    """A node that refuses although it is as the index has it: the index is wrong, and that is said loudly."""
    world = waiting(3)

    core(world, "n1").revision += 1
    with pytest.raises(InvariantViolation, match="node n1: at revision 1, expected 0"):
        cycle(world)


def test_nothing_to_do() -> None:
    """A cycle without placements sends nothing and is at rest; what it has to say of an ask that waits, it says once."""
    world = waiting(9)
    result = cycle(world)
    assert ([type(fact) for fact in result.facts], result.at_rest) == ([AskCondition], True)
    result = cycle(world)
    assert (result.facts, result.at_rest) == ([], True)
    assert cycle(world).work == 0


def test_observation_of_many_queues_lets_other_tasks_run() -> None:
    """An observation of many applications and queues yields after each ``PAUSE_EVERY`` facts, applications and queues."""
    count = 2 * PAUSE_EVERY + 50
    world = make_world(tree(*(queue(f"q{number}") for number in range(count))))
    applications = [app(f"app-{number}", f"root.q{number}") for number in range(count)]
    asks = [ask("t", f"app-{number}", vcore=1) for number in range(count)]
    facts = carry_out(world.direct.core.ingest(0, [*applications, *asks]))
    pauses = sum(1 for _ in world.direct.scheduler.handle(Observe(facts)))
    assert pauses >= len(facts) // PAUSE_EVERY + count // PAUSE_EVERY


def test_observation_of_users_with_many_groups_lets_other_tasks_run() -> None:
    """Applications of users with many groups count as more items: the groups are compared with the limits of each queue."""

    def pauses(groups: int) -> int:
        world = make_world(tree(queue("a"), limits=[limit(groups=("ops",), vcore=1)]))
        names = tuple(f"g{number}" for number in range(groups))
        applications = [app(f"app-{number}", groups=names) for number in range(100)]
        asks = [ask("t", f"app-{number}", vcore=1) for number in range(100)]
        facts = carry_out(world.direct.core.ingest(0, [*applications, *asks]))
        return sum(1 for _ in world.direct.scheduler.handle(Observe(facts)))

    assert pauses(1000) > pauses(1) + 3
