"""A node: its capacity, what runs on it, and batches that are taken whole or not at all."""

import pytest
from world import app, ask, foreign, node, queue, release, tree, world

from ykactor.core.messages.asks import AllocationSpec, Ask
from ykactor.core.messages.facts import Decision, ForeignChanged, NodeAdded, NodeCapacityChanged, NodeSchedulable
from ykactor.core.objects.commands import (
    ChangeAllocations,
    Decommission,
    PlaceBatch,
    Placed,
    PlaceForeign,
    Refused,
    Register,
    ReleaseForeign,
    SetCapacity,
    SetSchedulable,
)
from ykactor.core.objects.node import NodeCore
from ykactor.core.values.ids import AllocationKey, NodeID


def core(**capacity: int) -> NodeCore:
    return NodeCore(NodeID("n1"), capacity or {"vcore": 10, "memory": 10}, True, {"zone": "z"})


def wants(key: str, application_id: str = "app-1", **resource: int) -> Ask:
    return Ask(AllocationSpec(key, application_id, resource or {"vcore": 1}), 0, 1)  # type: ignore[arg-type]


def placed_by_others(key: str, **resource: int) -> PlaceForeign:
    return PlaceForeign(5, AllocationSpec(key, "", resource, tags={"foreign": "static"}))  # type: ignore[arg-type]


def record(it: NodeCore) -> tuple[object, ...]:
    """All that a command may change."""
    return (
        dict(it.capacity), it.schedulable, dict(it.allocated), dict(it.occupied), dict(it.available),
        dict(it.allocations), dict(it.foreign), it.revision,
    )  # fmt: skip


def test_a_batch_is_placed() -> None:
    """What was asked for is allocated and no longer available; the revision moves on."""
    it = core()
    assert it.handle(PlaceBatch(0, [wants("t1", vcore=4), wants("t2", vcore=6, memory=1)])) == Placed(1)
    assert it.allocated == {"vcore": 10, "memory": 1}
    assert it.available == {"vcore": 0, "memory": 9}
    assert list(it.allocations) == [("app-1", "t1"), ("app-1", "t2")]


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
    it = core()
    it.handle(PlaceBatch(0, [wants("t1", vcore=2)]))
    before = record(it)
    assert it.handle(batch) == Refused(1, reason)
    assert record(it) == before
    assert isinstance(it.handle(PlaceBatch(1, [wants("t1", "app-2")])), Placed)


def test_zero_types_are_no_capacity() -> None:
    """Zero types are removed from the capacity (section 9.1 of SC)."""
    assert core(vcore=5, memory=0).capacity == {"vcore": 5}


def test_registration_tells_the_flag_first() -> None:
    """The flag, then the node itself (EV-22)."""
    it = core(vcore=5)
    assert it.handle(Register(3)) == [
        NodeSchedulable(3, "n1", True),  # type: ignore[arg-type]
        NodeAdded(3, "n1", {"vcore": 5}, True, {"zone": "z"}),  # type: ignore[arg-type]
    ]


def test_capacity_may_shrink_below_usage() -> None:
    """T11 of SC: available goes negative, nothing is released (SC-104); the same capacity again is nothing (SC-103)."""
    it = core(vcore=10)
    it.handle(PlaceBatch(0, [wants("t1", vcore=8)]))
    assert it.handle(SetCapacity(3, {"vcore": 4, "memory": 0})) == [NodeCapacityChanged(3, "n1", {"vcore": 4})]  # type: ignore[arg-type]
    assert it.available == {"vcore": -4}
    before = record(it)
    assert it.handle(SetCapacity(4, {"vcore": 4})) == []
    assert record(it) == before


def test_repeating_the_flag_is_nothing() -> None:
    """SC-111: no event, no new revision."""
    it = core()
    assert it.handle(SetSchedulable(3, True)) == []
    assert it.handle(SetSchedulable(4, False)) == [NodeSchedulable(4, "n1", False)]  # type: ignore[arg-type]
    assert it.revision == 1


def test_reported_facts_are_never_refused() -> None:
    """Recovered allocations may lead above the capacity; what ended makes room again (QU-41)."""
    it = core(vcore=4)
    big = wants("t1", vcore=9)
    it.handle(ChangeAllocations([(True, big)]))
    assert it.available == {"vcore": -5}
    assert it.handle(Decommission()) == [big]
    it.handle(ChangeAllocations([(False, big)]))
    assert (it.allocated, it.available) == ({}, {"vcore": 4})


def test_foreign_allocations() -> None:
    """They take room and nothing else; the same key again changes it by the difference (SC-81, SC-82)."""
    it = core(vcore=10)
    told: list[Decision] = []
    for command in (
        placed_by_others("f1", vcore=6),
        placed_by_others("f1", vcore=6),
        placed_by_others("f2", vcore=6),
        placed_by_others("f1", vcore=2),
        ReleaseForeign(5, AllocationKey("f2")),
    ):
        told += it.handle(command)  # type: ignore[arg-type]
    changes = [(fact.allocation_key, fact.change, fact.occupied) for fact in told if isinstance(fact, ForeignChanged)]
    assert changes == [
        ("f1", "ADD", {"vcore": 6}),
        ("f2", "ADD", {"vcore": 12}),
        ("f1", "SET", {"vcore": 8}),
        ("f2", "REMOVE", {"vcore": 2}),
    ]
    assert it.available == {"vcore": 8}


# ---- in a world: section 8, 9 and 16 of SC


def test_overcommitted_node_waits() -> None:
    """T11: capacity 10 to 4 with 8 used: available -4, a new ask waits; a release of 6 leaves 2, and it goes."""
    it = world(tree(queue("a")), [node("n1", vcore=10)])
    it.given(app("app-1"), ask("t6", "app-1", vcore=6), ask("t2", "app-1", vcore=2))
    it.send(node("n1", "UPDATE", vcore=4), ask("new", "app-1", vcore=1))
    it.expect()
    assert it.node("n1")["available"] == {"vcore": -4}
    it.send(release("t6"))
    it.expect("t6 released STOPPED_BY_RM (allocation remove as per RM request)", "new on n1")


def test_foreign_task_makes_others_wait() -> None:
    """T12: foreign 6 on a node of 10, ask 5 waits until the foreign release."""
    it = world(tree(queue("a")), [node("n1", vcore=10)])
    it.send(foreign("f1", "n1", vcore=6), app("app-1"), ask("t1", "app-1", vcore=5))
    it.expect("app-1 New", "app-1 Accepted")
    assert it.why("t1") == "no schedulable node has room for it that is not kept for another ask"
    assert it.queue("root")["allocated"] == {}
    it.send(release("f1", ""))
    it.expect("app-1 Starting", "t1 on n1")


def test_foreign_task_moves() -> None:
    """Another node in the update: the old one gets its room back (SC-82)."""
    it = world(tree(queue("a")), [node("n1", vcore=10), node("n2", vcore=10)])
    it.send(foreign("f1", "n1", vcore=6), foreign("f1", "n2", vcore=7))
    assert [it.node(name)["occupied"] for name in ("n1", "n2")] == [{}, {"vcore": 7}]
    assert [it.node(name)["allocations"] for name in ("n1", "n2")] == [[], ["f1"]]


def test_foreign_refusals() -> None:
    """SC-80: without a node, and with an unknown one; SC-83: releases of unknown keys are ignored."""
    it = world(tree(queue("a")), [node("n1", vcore=10)])
    it.send(foreign("f1", None, vcore=1), foreign("f2", "n9", vcore=1), release("f3", ""))
    it.expect(
        "f1 rejected: trying to add a foreign request (non-allocation) f1",
        "f2 rejected: failed to find node n9 for allocation f2",
    )


def test_foreign_records_go_with_the_node() -> None:
    """Sent again after the node came back, the same key counts (SC-84)."""
    it = world(tree(queue("a")), [node("n1", vcore=10)])
    it.given(foreign("f1", "n1", vcore=6), node("n1", "DECOMISSION"), node("n1", vcore=10), foreign("f1", "n1", vcore=6))
    assert it.node("n1")["available"] == {"vcore": 4}
    it.given(release("f1", ""), release("f1", ""))
    assert it.node("n1")["available"] == {"vcore": 10}


def test_type_that_no_node_has() -> None:
    """T17: pending for ever, no error; it goes when a node brings the type (SC-41, SC-42)."""
    it = world(tree(queue("a")), [node("n1", vcore=10)])
    it.send(app("app-1"), ask("t1", "app-1", gpu=1))
    it.expect("app-1 New", "app-1 Accepted")
    assert it.why("t1") == "not enough gpu in the cluster: wants 1, has 0 of 0"
    it.send(node("n2", gpu=1))
    it.expect("n2 accepted", "app-1 Starting", "t1 on n2")


def test_negative_capacity_offers_nothing() -> None:
    """A node that reports a negative quantity is taken, as YuniKorn does, but takes nothing from what other nodes offer."""
    it = world(tree(queue("a")), [node("n1", vcore=10, memory=10)])
    it.send(node("n2", vcore=-5, memory=4))
    assert it.direct.scheduler.indexes.ledger.root_max == {"vcore": 10, "memory": 14}
    it.send(node("n2", "UPDATE", vcore=-7, memory=2))
    assert it.direct.scheduler.indexes.ledger.root_max == {"vcore": 10, "memory": 12}
