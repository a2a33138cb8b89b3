"""A node: its capacity, what runs on it, and batches that are taken whole or not at all."""

import re

import pytest
from world import app, ask, foreign, make_world, node, queue, release, tree

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import Fact, ForeignChanged, NodeAdded, NodeCapacityChanged, NodeSchedulable
from ykactor.core.objects.commands import (
    ChangeAllocations,
    Decommission,
    PlaceBatch,
    PlaceForeign,
    Register,
    ReleaseForeign,
    SetCapacity,
    SetSchedulable,
)
from ykactor.core.objects.node import InvariantViolation, NodeCore
from ykactor.core.values.ids import AllocationKey, NodeID


def core(**capacity: int) -> NodeCore:
    return NodeCore(NodeID("n1"), capacity or {"vcore": 10, "memory": 10}, True, {"zone": "z"}, Changed())


def wants(key: str, application_id: str = "app-1", **resource: int) -> Ask:
    return Ask(key, application_id, resource or {"vcore": 1}, created_ns=0, arrival=1)  # type: ignore[arg-type]


def placed_by_others(key: str, **resource: int) -> PlaceForeign:
    return PlaceForeign(5, Ask(key, "", resource, tags={"foreign": "static"}))  # type: ignore[arg-type]


def record(core: NodeCore) -> tuple[object, ...]:
    """All that a command may change."""
    return (
        dict(core.capacity), core.schedulable, dict(core.allocated), dict(core.occupied), dict(core.available),
        dict(core.allocations), dict(core.foreign), core.revision,
    )  # fmt: skip


def test_a_batch_is_placed() -> None:
    """The batch is allocated and no longer available; the revision moves on."""
    node_core = core()
    assert node_core.handle(PlaceBatch(0, [wants("t1", vcore=4), wants("t2", vcore=6, memory=1)])) == 1
    assert node_core.allocated == {"vcore": 10, "memory": 1}
    assert node_core.available == {"vcore": 0, "memory": 9}
    assert list(node_core.allocations) == [("app-1", "t1"), ("app-1", "t2")]


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (PlaceBatch(7, [wants("t2")]), "node n1: at revision 1, expected 7"),
        (PlaceBatch(1, [wants("t2"), wants("t1")]), "node n1: already runs t1"),
        (PlaceBatch(1, [wants("t2", vcore=9)]), "node n1: has map[memory:10 vcore:8] left, wants map[vcore:9]"),
        (
            PlaceBatch(1, [wants("t2", vcore=5), wants("t3", vcore=5)]),
            "node n1: has map[memory:10 vcore:3] left, wants map[vcore:5]",
        ),
        (PlaceBatch(1, [wants("t2", gpu=1)]), "node n1: has map[memory:10 vcore:8] left, wants map[gpu:1]"),
    ],
    ids=["revision", "known key", "too large", "too large together", "unknown type"],
)
def test_a_refused_batch_changes_nothing(batch: PlaceBatch, reason: str) -> None:
    """All or nothing, by the first entry that does not go; keys are unique within an application only."""
    node_core = core()
    node_core.handle(PlaceBatch(0, [wants("t1", vcore=2)]))
    before = record(node_core)
    with pytest.raises(InvariantViolation, match=re.escape(f"refused although the index was up to date: {reason}")):
        node_core.handle(batch)
    assert record(node_core) == before
    assert node_core.handle(PlaceBatch(1, [wants("t1", "app-2")])) == 2


def test_zero_types_are_no_capacity() -> None:
    """Zero types are removed from the capacity (SC-152)."""
    assert core(vcore=5, memory=0).capacity == {"vcore": 5}


def test_registration_tells_the_flag_first() -> None:
    """The flag, then the node itself (EV-22)."""
    node_core = core(vcore=5)
    assert node_core.handle(Register(3)) == [
        NodeSchedulable(3, "n1", True),  # type: ignore[arg-type]
        NodeAdded(3, "n1", {"vcore": 5}, True, {"zone": "z"}),  # type: ignore[arg-type]
    ]


def test_capacity_may_shrink_below_usage() -> None:
    """Available goes negative, nothing is released (SC-104); the same capacity again is nothing (SC-103)."""
    node_core = core(vcore=10)
    node_core.handle(PlaceBatch(0, [wants("t1", vcore=8)]))
    assert node_core.handle(SetCapacity(3, {"vcore": 4, "memory": 0})) == [NodeCapacityChanged(3, "n1", {"vcore": 4})]  # type: ignore[arg-type]
    assert node_core.available == {"vcore": -4}
    before = record(node_core)
    assert node_core.handle(SetCapacity(4, {"vcore": 4})) == []
    assert record(node_core) == before


def test_repeating_the_flag_is_nothing() -> None:
    """SC-111: no event, no new revision."""
    node_core = core()
    assert node_core.handle(SetSchedulable(3, True)) == []
    assert node_core.handle(SetSchedulable(4, False)) == [NodeSchedulable(4, "n1", False)]  # type: ignore[arg-type]
    assert node_core.revision == 1


def test_reported_facts_are_never_refused() -> None:
    """Recovered allocations may lead above the capacity; what ended makes room again (QU-41)."""
    node_core = core(vcore=4)
    big = wants("t1", vcore=9)
    node_core.handle(ChangeAllocations([(True, big)]))
    assert node_core.available == {"vcore": -5}
    assert node_core.handle(Decommission()) == [big]
    node_core.handle(ChangeAllocations([(False, big)]))
    assert (node_core.allocated, node_core.available) == ({}, {"vcore": 4})


def test_foreign_allocations() -> None:
    """They take room and nothing else; the same key again changes it by the difference (SC-81, SC-82, SC-86)."""
    node_core = core(vcore=10)
    told: list[Fact] = []
    for command in (
        placed_by_others("f1", vcore=6),
        placed_by_others("f1", vcore=6),
        placed_by_others("f2", vcore=6),
        placed_by_others("f1", vcore=2),
        ReleaseForeign(5, AllocationKey("f2")),
    ):
        told += node_core.handle(command)  # type: ignore[arg-type]
    changes = [(fact.allocation_key, fact.change, fact.occupied) for fact in told if isinstance(fact, ForeignChanged)]
    assert changes == [
        ("f1", "ADD", {"vcore": 6}),
        ("f2", "ADD", {"vcore": 12}),
        ("f1", "SET", {"vcore": 8}),
        ("f2", "REMOVE", {"vcore": 2}),
    ]
    assert node_core.available == {"vcore": 8}


# ---- in a world


def test_overcommitted_node_waits() -> None:
    """SC-104, SC-105: capacity 10 to 4 with 8 used: available -4, nothing ends, a new ask waits; a release makes room."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)])
    world.given(app("app-1"), ask("t6", "app-1", vcore=6), ask("t2", "app-1", vcore=2))
    world.send(node("n1", "UPDATE", vcore=4), ask("new", "app-1", vcore=1))
    world.expect()
    assert world.node("n1")["available"] == {"vcore": -4}
    world.send(release("t6"))
    world.expect("t6 released STOPPED_BY_RM (allocation remove as per RM request)", "new on n1")


def test_foreign_task_makes_others_wait() -> None:
    """SC-81: foreign 6 on a node of 10, ask 5 waits until the foreign release."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)])
    world.send(foreign("f1", "n1", vcore=6), app("app-1"), ask("t1", "app-1", vcore=5))
    world.expect("app-1 New", "app-1 Accepted")
    assert world.why("t1") == "wants 0.005, has 0.004 of 0.01 vcore on the freest node, n1"
    assert world.queue("root")["allocated"] == {}
    world.send(release("f1", ""))
    world.expect("app-1 Starting", "t1 on n1")


def test_foreign_task_moves() -> None:
    """Another node in the update: the old one gets its room back (SC-82)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10), node("n2", vcore=10)])
    world.send(foreign("f1", "n1", vcore=6), foreign("f1", "n2", vcore=7))
    assert [world.node(name)["occupied"] for name in ("n1", "n2")] == [{}, {"vcore": 7}]
    assert [world.node(name)["allocations"] for name in ("n1", "n2")] == [[], ["f1"]]


def test_foreign_refusals() -> None:
    """SC-80, AP-102: without a node, and with an unknown one; SC-83: releases of unknown keys are ignored."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)])
    world.send(foreign("f1", None, vcore=1), foreign("f2", "n9", vcore=1), release("f3", ""))
    world.expect(
        "f1 rejected: trying to add a foreign request (non-allocation) f1",
        "f2 rejected: failed to find node n9 for allocation f2",
    )


def test_foreign_records_go_with_the_node() -> None:
    """Sent again after the node came back, the same key counts (SC-84)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)])
    world.given(foreign("f1", "n1", vcore=6), node("n1", "DECOMISSION"), node("n1", vcore=10), foreign("f1", "n1", vcore=6))
    assert world.node("n1")["available"] == {"vcore": 4}
    world.given(release("f1", ""), release("f1", ""))
    assert world.node("n1")["available"] == {"vcore": 10}


def test_type_that_no_node_has() -> None:
    """Pending for ever, no error; it goes when a node brings the type (SC-41, SC-42)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)])
    world.send(app("app-1"), ask("t1", "app-1", gpu=1))
    world.expect("app-1 New", "app-1 Accepted")
    assert world.why("t1") == "can never fit: the largest node has no gpu, it wants 1; wants 1, has 0 of 0 gpu in the cluster"
    world.send(node("n2", gpu=1))
    world.expect("n2 accepted", "app-1 Starting", "t1 on n2")


def test_negative_capacity_offers_nothing() -> None:
    """A node that reports a negative quantity is taken, as YuniKorn does, but takes nothing from what other nodes offer."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10, memory=10)])
    world.send(node("n2", vcore=-5, memory=4))
    assert world.direct.scheduler.state.tree.root_max == {"vcore": 10, "memory": 14}
    world.send(node("n2", "UPDATE", vcore=-7, memory=2))
    assert world.direct.scheduler.state.tree.root_max == {"vcore": 10, "memory": 12}
