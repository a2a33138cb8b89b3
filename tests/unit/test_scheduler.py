"""Commit and settle: what happens when a node says no, and that nothing stays unconfirmed."""

from collections.abc import Sequence
from typing import Any

import pytest
from world import World, app, ask, limit, make_world, node, queue, tree

from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import Allocated, AskCondition
from ykactor.core.objects.commands import Command, PlaceBatch, Placed, Refused, SetCapacity
from ykactor.core.objects.node import NodeCore
from ykactor.core.planner.commit import InvariantViolation
from ykactor.core.planner.plan import Budget
from ykactor.core.state.observer import PAUSE_EVERY
from ykactor.core.turn.causes import CycleDue
from ykactor.core.turn.phases import Observe
from ykactor.core.turn.turn import Cycle
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
        f"{decision.ask.spec.allocation_key} on {decision.node_id}"
        for decision in result.facts
        if isinstance(decision, Allocated)
    ]


def test_one_batch_for_each_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit sends one batch to each node touched, settle one to each leaf; then nothing is unconfirmed."""
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
    assert world.direct.scheduler.state.ledger.unconfirmed == []
    assert violations(world.direct.core, world.direct.scheduler) == []


def test_a_refusal_is_taken_back() -> None:
    """n1 changed behind the scheduler's back: its batch is refunded and waits again, n2's stands, the next cycle knows better."""
    world = waiting(3, 3)
    core(world, "n1").handle(SetCapacity(0, {"vcore": 2}))
    result = cycle(world)
    assert placed(result) == ["t1 on n2"]
    assert not result.at_rest
    assert world.direct.scheduler.state.ledger.unconfirmed == []
    assert world.queue("root.a") | {"allocated": {"vcore": 3}, "pending": {"vcore": 3}} == world.queue("root.a")
    again = cycle(world)
    assert (placed(again), again.at_rest) == ([], True)
    assert world.why("t0") == "wants 0.003, has 0.002 of 0.002 vcore on the freest node, n1"


def test_a_refused_batch_may_still_fit() -> None:
    """The node only moved on (another revision): the ask is placed there by the next cycle."""
    world = waiting(4)
    core(world, "n1").handle(SetCapacity(0, {"vcore": 5}))
    assert placed(cycle(world)) == []
    assert world.state_of("app-1") == "Accepted"
    assert world.queue("root.a")["runningApplications"] == 0
    assert placed(cycle(world)) == ["t0 on n1"]
    assert world.state_of("app-1") == "Starting"


def test_states_follow_the_leaf() -> None:
    """The first of two placements is refused: the second one is the first real allocation, so Starting and not Running."""
    world = waiting(3, 3)
    core(world, "n1").handle(SetCapacity(0, {"vcore": 2}))
    cycle(world)
    assert world.state_of("app-1") == "Starting"
    assert world.direct.core.registry.leaf_of("app-1").applications["app-1"].state == "Starting"  # type: ignore[arg-type,index]
    assert world.queue("root.a")["runningApplications"] == 1


@pytest.mark.parametrize("in_one_plan", [False, True])
def test_a_refusal_leaves_the_slot_that_was_held(in_one_plan: bool) -> None:
    """QU-54: an Accepted gang with one placeholder keeps its running slot when a node refuses another placeholder."""
    world = make_world(tree(queue("a", maxapplications=1)))
    p1, p2 = (ask(key, "gang", group="g", placeholder=True, vcore=4) for key in ("p1", "p2"))
    world.given(app("gang", placeholders={"vcore": 8}), app("other"), p1, at=0)
    scheduler = world.direct.scheduler
    if not in_one_plan:
        world.given(node("n1", vcore=4))
    late = [p2, ask("t1", "other", vcore=1), node("n2", vcore=4)] + ([node("n1", vcore=4)] if in_one_plan else [])
    carry_out(scheduler.handle(Observe(carry_out(world.direct.core.ingest(0, late)))))
    core(world, "n2").handle(SetCapacity(0, {"vcore": 3}))
    assert placed(cycle(world)) == (["p1 on n1"] if in_one_plan else [])
    assert [placed(cycle(world)) for _ in range(2)] == [[], []]
    assert world.why("t1") == "queue root.a runs 1 of at most 1 application"


def test_refused_without_a_reason_is_our_mistake() -> None:
    """A node that refuses although it is as the index has it: the index is wrong, and that is said loudly."""
    world = waiting(3)

    def refuse(command: PlaceBatch) -> Placed | Refused:
        return Refused(command.revision, "because")

    core(world, "n1").on_place_batch = refuse  # type: ignore[method-assign]
    with pytest.raises(InvariantViolation, match="because"):
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
