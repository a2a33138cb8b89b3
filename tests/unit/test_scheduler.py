"""Commit and settle: what happens when a node says no, and that nothing stays unconfirmed."""

from typing import Any

import pytest
from world import World, app, ask, node, queue, tree, world

from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import Allocated, AskCondition
from ykactor.core.objects.commands import PlaceBatch, Placed, Refused, SetCapacity
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.node import NodeCore
from ykactor.core.planner.commit import InvariantViolation
from ykactor.core.planner.plan import Budget
from ykactor.core.turn.phases import Observe
from ykactor.core.turn.turn import Cycle
from ykactor.core.values.ids import NodeID, QueuePath
from ykactor.sim.direct import carry_out

EVERYTHING = Budget(1000, 10**6)


def waiting(*asks: int) -> World:
    """app-1 waits for asks of these sizes; nodes n1 and n2 of 4 come before the next cycle."""
    it = world(tree(queue("a", p={"application.sort.policy": "fifo"})))
    it.given(app("app-1"), *(ask(f"t{n}", "app-1", vcore=size) for n, size in enumerate(asks)))
    scheduler = it.direct.scheduler
    nodes = [node("n1", vcore=4), node("n2", vcore=4)]
    carry_out(scheduler.handle(Observe(carry_out(it.direct.core.ingest(0, nodes)))))
    return it


def core(it: World, name: str) -> NodeCore:
    return it.direct.core.registry.nodes[NodeID(name)]


def cycle(it: World) -> Cycle:
    result = it.direct.run_turn(0, budget=EVERYTHING).cycle
    assert result is not None
    return result


def watch(owner: Any, sent: list[str]) -> None:
    """Note every command that ``owner`` gets."""
    handle = owner.handle
    name = owner.path if isinstance(owner, LeafCore) else owner.node_id

    def noted(command: object) -> object:
        sent.append(f"{type(command).__name__} to {name}")
        return handle(command)

    owner.handle = noted


def placed(result: Cycle) -> list[str]:
    return [f"{it.ask.spec.allocation_key} on {it.node_id}" for it in result.facts if isinstance(it, Allocated)]


def test_one_batch_for_each_owner() -> None:
    """Commit sends one batch to each node touched, settle one to each leaf; then nothing is unconfirmed."""
    it = waiting(3, 3)
    sent: list[str] = []
    for owner in (core(it, "n1"), core(it, "n2"), it.direct.core.registry.leaf(QueuePath("root.a"))):
        watch(owner, sent)
    result = cycle(it)
    assert sent == ["PlaceBatch to n1", "PlaceBatch to n2", "SettleBatch to root.a"]
    assert placed(result) == ["t0 on n1", "t1 on n2"]
    assert it.direct.scheduler.state.ledger.unconfirmed == []
    assert violations(it.direct.core, it.direct.scheduler) == []


def test_a_refusal_is_taken_back() -> None:
    """n1 changed behind the scheduler's back: its batch is refunded and waits again, n2's stands, the next cycle knows better."""
    it = waiting(3, 3)
    core(it, "n1").handle(SetCapacity(0, {"vcore": 2}))
    result = cycle(it)
    assert placed(result) == ["t1 on n2"]
    assert not result.at_rest
    assert it.direct.scheduler.state.ledger.unconfirmed == []
    assert it.queue("root.a") | {"allocated": {"vcore": 3}, "pending": {"vcore": 3}} == it.queue("root.a")
    again = cycle(it)
    assert (placed(again), again.at_rest) == ([], True)
    assert it.why("t0") == "no schedulable node has room for it that is not kept for another ask"


def test_a_refused_batch_may_still_fit() -> None:
    """The node only moved on (another revision): the ask is placed there by the next cycle."""
    it = waiting(4)
    core(it, "n1").handle(SetCapacity(0, {"vcore": 5}))
    assert placed(cycle(it)) == []
    assert it.state_of("app-1") == "Accepted"
    assert it.queue("root.a")["runningApplications"] == 0
    assert placed(cycle(it)) == ["t0 on n1"]
    assert it.state_of("app-1") == "Starting"


def test_states_follow_the_leaf() -> None:
    """The first of two placements is refused: the second one is the first real allocation, so Starting and not Running."""
    it = waiting(3, 3)
    core(it, "n1").handle(SetCapacity(0, {"vcore": 2}))
    cycle(it)
    assert it.state_of("app-1") == "Starting"
    assert it.direct.core.registry.leaf_of("app-1").applications["app-1"].state == "Starting"  # type: ignore[arg-type,index]
    assert it.queue("root.a")["runningApplications"] == 1


def test_refused_without_a_reason_is_our_mistake() -> None:
    """A node that refuses although it is as the index has it: the index is wrong, and that is said loudly."""
    it = waiting(3)

    def refuse(command: PlaceBatch) -> Placed | Refused:
        return Refused(command.revision, "because")

    core(it, "n1").on_place_batch = refuse  # type: ignore[method-assign]
    with pytest.raises(InvariantViolation, match="because"):
        cycle(it)


def test_nothing_to_do() -> None:
    """A cycle without placements sends nothing and is at rest; what it has to say of an ask that waits, it says once."""
    it = waiting(9)
    result = cycle(it)
    assert ([type(fact) for fact in result.facts], result.at_rest) == ([AskCondition], True)
    result = cycle(it)
    assert (result.facts, result.at_rest) == ([], True)
    assert cycle(it).work == 0
