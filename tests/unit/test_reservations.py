"""A node reserved for an ask that fits on none, and for one that requires the node."""

from typing import Any

from world import World, app, ask, configure, foreign, make_world, move, node, queue, release, remove, reset, tree

from ykactor.core.planner.plan import TRY_WORK
from ykactor.core.values.times import NEVER
from ykactor.sim.simulator import to_ns
from ykactor.surfaces.cli.options import reserves_nodes

LEAF = tree(queue("a"))
HOUR = 3600


def expect(world: World, *lines: str) -> None:
    """Exactly this was decided of nodes and asks since the last time; states aside."""
    assert [line for line in world.heard() if any(word in line for word in (" on ", " reserves ", " leaves "))] == list(lines)


def fragmented(text: str = LEAF, **options: Any) -> World:
    """Nodes of {vcore 10, memory 10}; n1 has {4, 1} free, n2 {7, 10}."""
    world = make_world(text, [node("n1", vcore=10, memory=10), node("n2", vcore=10, memory=10)], **options)
    world.given(
        app("filler"),
        ask("f1", "filler", vcore=6, memory=9, on="n1"),
        ask("f2", "filler", vcore=2, on="n2"),
        ask("f3", "filler", vcore=1, on="n2"),
    )
    return world


def big(key: str = "big", application_id: str = "app-1", *, priority: int = 0, **resource: int) -> Any:
    return ask(key, application_id, priority=priority, **resource or {"vcore": 8, "memory": 1})


def reserved(**options: Any) -> World:
    """``big`` has n2 of a fragmented cluster, at +2 s."""
    world = fragmented(**options)
    world.given(app("app-1"), big())
    world.wait(2)
    expect(world, "big reserves n2")
    return world


# ---- making one


def test_t2_the_node_that_lacks_least() -> None:
    """1/8 is missing on n2, 4/8 on n1 (SC-51, SC-52); before 2 s nothing is reserved (SC-50)."""
    world = fragmented()
    world.given(app("app-1"), big())
    world.wait(1.999)
    expect(world)
    world.wait(2)
    expect(world, "big reserves n2")
    assert world.why("big") == "node n2 is reserved for it; wants 0.008, has 0.007 of 0.01 vcore there"
    assert world.node("n2")["reservations"] == ["big"]


def test_no_amount_changes() -> None:
    """SC-55: a reservation is not usage; the ask is still pending."""
    world = fragmented()
    world.given(app("app-1"), big())
    before = world.queue("root.a"), world.node("n2")["available"]
    world.given(at=2)
    assert (world.queue("root.a"), world.node("n2")["available"]) == before


def test_an_old_ask_reserves_at_once() -> None:
    """AP-56: the age counts from the creation, where that is earlier than the arrival."""
    world = fragmented()
    world.given(app("app-1"), at=100)
    world.send(ask("big", "app-1", vcore=8, memory=1, created=98))
    expect(world, "big reserves n2")


def test_equals_go_by_node_order() -> None:
    """SC-51: of two nodes that lack the same the first in order is taken (fair: the one with less use, then by name)."""
    world = make_world(LEAF, [node("n2", vcore=10), node("n1", vcore=10), node("n3", vcore=10)])
    world.given(app("filler"), *(ask(f"f{n}", "filler", vcore=5, on=f"n{n}") for n in (1, 2, 3)))
    world.given(app("app-1"), big(vcore=8))
    world.wait(2)
    expect(world, "big reserves n1")


def test_t17_a_type_no_node_has() -> None:
    """SC-149: pending for ever, no error, not reserved: the capacity does not fit. The same for more than any node is."""
    world = fragmented()
    world.given(app("app-1"), big("gpu", vcore=1, gpu=1), big("huge", vcore=11))
    world.wait(10)
    expect(world)


def test_disabled() -> None:
    """``DISABLE_RESERVATION=true``: never, but for asks that require their node (SC-50)."""
    values = [reserves_nodes({"DISABLE_RESERVATION": value}) for value in ("true", "TRUE", "false", "")]
    assert values == [False, False, True, True]
    world = fragmented(reserves=False)
    world.given(app("app-1"), big(), at=5)
    world.wait(10)
    expect(world)
    world.send(ask("pinned", "app-1", vcore=8, requires="n2", priority=-1))
    expect(world, "pinned reserves n2")


def test_each_at_its_own_turn() -> None:
    """SC-30, SC-50: the young ask in front is passed over, and what comes behind the reservation does not wait for it."""
    world = fragmented()
    world.given(app("app-1"), app("app-2"), big("old", "app-2"))
    world.given(big("young", "app-1", priority=5), at=1)
    world.wait(2)
    expect(world, "old reserves n2")
    world.wait(3)  # n1 is large enough, and the only one left
    expect(world, "young reserves n1")


def test_old_ask_behind_young_ones_of_its_application() -> None:
    """SC-50: within one application and shape, too; the second of two old ones takes what is left."""
    world = fragmented()
    world.given(app("app-1"), big("old"), big("older"))
    world.given(big("young", priority=5), big("small", vcore=1, memory=1), at=1.5)
    world.wait(2)
    expect(world, "old reserves n2", "older reserves n1")


def test_old_ask_of_an_application_that_starts() -> None:
    """An ask in a stateaware leaf counts from the start of its application on, with its full age, also when young ones have
    just failed: it reserves when it is 2 s old (SC-50).
    """
    world = make_world(tree(queue("a", p={"application.sort.policy": "stateaware"})), [node("n1", vcore=4), node("n2", vcore=3)])
    world.given(
        app("app-1", application__stateaware__disable="true"),
        ask("t1", "app-1", vcore=2),
        app("app-2"),
        ask("t2", "app-2", vcore=1),
        app("app-3"),
    )
    world.given(ask("old", "app-3", vcore=4), ask("small", "app-3", priority=1, vcore=1), at=2.5)
    world.send(ask("young", "app-1", priority=5, vcore=4), remove("app-2"), at=3.5)
    expect(world, "small on n2")
    world.run(4.6)
    expect(world, "old reserves n1")


def test_what_fits_comes_before_what_is_behind_it() -> None:
    """SC-10, SC-20: one order for reserving and placing: the large one reserves n2 before the small one, behind it, is placed."""
    world = fragmented()
    world.given(app("app-1"), big(priority=1), ask("f4", "filler", vcore=1, memory=1, on="n2"), at=0)
    world.send(ask("small", "app-1", vcore=1, memory=1), at=2)
    expect(world, "big reserves n2", "small on n1")


# ---- using it


def test_t3_the_node_becomes_free() -> None:
    """SC-150: allocated there from the reservation; another application's ask of 1 did not get in between."""
    world = reserved()
    world.given(app("app-2"), at=3)
    world.send(ask("one", "app-2", vcore=1, memory=5), at=3)
    expect(world)  # n1 has no memory for it, and n2 is kept
    world.send(release("f3", "filler"), at=3.5)
    expect(world, "big on n2", "big leaves n2")


def test_t4_another_node_comes() -> None:
    """Allocated on it, the reservation is gone (SC-44)."""
    world = reserved()
    world.send(node("n3", vcore=10, memory=10))
    expect(world, "big on n3", "big leaves n2")
    assert world.node("n2")["reservations"] == []


def test_reserved_asks_come_first() -> None:
    """SC-10: step 1 comes before step 3, whatever the priority."""
    world = reserved()
    world.given(app("app-2"), ask("urgent", "app-2", vcore=8, memory=1, priority=100), at=3)
    world.send(release("f3", "filler"))
    expect(world, "big on n2", "big leaves n2")


def test_reserved_asks_in_the_order_of_their_applications() -> None:
    """SC-150, PR-30: queues and applications in their order; here a node that suits both goes to the more important one."""
    world = fragmented()
    world.given(app("app-1"), big("first", "app-1"), at=1)
    world.given(app("app-2"), big("second", "app-2", priority=9), at=4)
    assert world.node("n2")["reservations"] == ["first"]
    world.given(at=6)
    assert world.node("n1")["reservations"] == ["second"]
    world.send(node("n3", vcore=8, memory=8))
    expect(world, "second on n3", "second leaves n1")


def test_own_node_before_others() -> None:
    """SC-150: a node that is reserved for one of the application's asks before any other node."""
    world = reserved()
    world.send(node("n3", vcore=10, memory=10), release("f3", "filler"))
    assert "big on n2" in world.heard()


# ---- losing it


def test_t5_without_quota_for_an_hour() -> None:
    """The queue's max is lowered below the ask; cancelled at +60 min, not before (SC-60)."""
    world = reserved()
    world.given(configure(tree(queue("a", max={"vcore": 12}))), at=10)
    world.wait(2 + HOUR - 0.001)
    expect(world)
    world.wait(2 + HOUR)
    expect(world, "big leaves n2")


def test_with_quota_it_stays() -> None:
    """SC-60: age alone cancels nothing."""
    world = reserved()
    world.wait(10 * HOUR)
    expect(world)
    assert world.node("n2")["reservations"] == ["big"]


def test_t6_an_ask_that_requires_the_node() -> None:
    """The normal reservation is cancelled, the node reserved for the new ask; the old one reserves another (SC-74, SC-76)."""
    world = reserved()
    world.given(app("app-2"))
    world.send(ask("pinned", "app-2", vcore=9, requires="n2", priority=-1), at=3)
    expect(world, "big leaves n2", "pinned reserves n2", "big reserves n1")


def test_t15_drained() -> None:
    """A node that becomes unschedulable stays reserved only for asks that require it (SC-61)."""
    world = reserved()
    world.given(app("app-2"), ask("pinned", "app-2", vcore=8, requires="n1", priority=-1))  # nothing is preempted for it
    world.send(node("n2", "DRAIN_NODE"))
    expect(world, "big leaves n2")
    world.send(node("n1", "DRAIN_NODE"))
    expect(world)
    assert world.node("n1")["reservations"] == ["pinned"]


def test_decommissioned() -> None:
    """SC-112: the reservations are gone before the node is."""
    world = reserved()
    world.given(app("app-2"), ask("pinned", "app-2", vcore=8, requires="n1", priority=-1))
    world.send(node("n2", "DECOMISSION"), node("n1", "DECOMISSION"))
    heard = world.heard()
    assert [line for line in heard if "leaves" in line] == ["big leaves n2", "pinned leaves n1"]


def test_capacity_below_the_ask() -> None:
    """SC-104: cancelled at once; a smaller one that is still large enough keeps it."""
    world = reserved()
    world.send(node("n2", "UPDATE", vcore=8, memory=10))
    expect(world)
    world.send(node("n2", "UPDATE", vcore=7, memory=10))
    expect(world, "big leaves n2", "big reserves n1")


def test_when_the_next_one_is_old() -> None:
    """SC-60: the first that is not old yet, also after it was asked before: others are made, and end."""
    world = reserved()
    found = world.direct.scheduler.state.reservations
    old_ns = to_ns(2 + HOUR)
    assert (found.next_old_ns(0), found.next_old_ns(old_ns - 1), found.next_old_ns(old_ns)) == (old_ns, old_ns, NEVER)
    assert found.next_old_ns(0) == old_ns
    world.send(release("big"))
    assert found.next_old_ns(0) == NEVER


def test_gone_with_the_ask() -> None:
    """AP-120: cancelled, removed with its application, or placed by the resource manager (AP-112)."""
    for ending in (release("big"), remove("app-1"), reset(), ask("big", "app-1", vcore=8, memory=1, on="n1")):
        world = reserved()
        world.send(ending)
        assert "big leaves n2" in world.heard()


def test_resized() -> None:
    """AP-110, SC-151: the node stays, unless it is too small; what fits now is placed."""
    world = reserved()
    world.send(big(vcore=9, memory=2))
    expect(world)
    assert world.node("n2")["reservations"] == ["big"]
    world.send(big(vcore=11, memory=2))
    expect(world, "big leaves n2")
    world = reserved()
    world.send(big(vcore=7, memory=2))
    expect(world, "big on n2", "big leaves n2")


def test_a_move_keeps_it() -> None:
    """A moved application keeps its asks and their reservations."""
    world = fragmented(tree(queue("a"), queue("b")))
    world.given(app("app-1"), big())
    world.given(at=2)
    assert world.administer(move("app-1", "root.b")) == ""
    assert world.node("n2")["reservations"] == ["big"]
    world.send(release("f3", "filler"))
    assert "big on n2" in world.heard()


def test_reload_keeps_it() -> None:
    """A new configuration changes no reservation (SC-151)."""
    world = reserved()
    world.send(configure(tree(queue("a", p={"application.sort.policy": "fair"}))))
    assert world.node("n2")["reservations"] == ["big"]


def test_accepted_application_with_a_reservation_holds_a_slot() -> None:
    """SC-24, QU-54: an application with a reservation has started; no other application takes its slot."""
    world = fragmented(tree(queue("a"), queue("b", maxapplications=1)))
    world.given(app("app-1", "root.b"), big(), at=0)
    world.given(at=2)
    world.given(app("app-2", "root.b"))
    world.send(ask("one", "app-2", vcore=1, memory=1))
    expect(world)
    assert world.why("one") == "queue root.b runs 1 of at most 1 application"


# ---- asks that require their node


def test_t7_the_node_comes_later() -> None:
    """SC-71: pending while the node is unknown, then allocated."""
    world = make_world(LEAF, [node("n1", vcore=10)])
    world.send(app("app-1"), ask("pinned", "app-1", vcore=1, requires="n2"))
    expect(world)
    world.send(node("n2", vcore=1))
    expect(world, "pinned on n2")


def test_t8_on_a_drained_node() -> None:
    """SC-72: such asks run on drained nodes."""
    world = make_world(LEAF, [node("n1", "CREATE_DRAIN", vcore=10)])
    world.given(app("app-1"))
    world.send(ask("pinned", "app-1", vcore=1, requires="n1"))
    expect(world, "pinned on n1")


def test_t9_a_full_cluster() -> None:
    """SC-73: root's headroom does not count: reserved at once on the only node, which is full."""
    world = make_world(LEAF, [node("n1", vcore=10)])
    world.given(app("filler"), ask("f1", "filler", vcore=8, on="n1"), app("app-1"))
    world.send(ask("pinned", "app-1", vcore=8, requires="n1", priority=-1))
    expect(world, "pinned reserves n1")
    world.send(release("f1", "filler"))
    expect(world, "pinned on n1", "pinned leaves n1")


def test_configured_max_counts() -> None:
    """SC-73: what queues are configured to use at most counts for them too; nothing is reserved."""
    world = make_world(tree(queue("a", max={"vcore": 3})), [node("n1", vcore=10)])
    world.given(app("app-1"))
    world.send(ask("pinned", "app-1", vcore=4, requires="n1"))
    expect(world)


def test_several_reserve_one_node() -> None:
    """SC-77: the small ask would fit now, but has to reserve behind the first; both are placed in order when there is room."""
    world = make_world(LEAF, [node("n1", vcore=10)])
    world.given(app("filler"), ask("f1", "filler", vcore=8, on="n1"), ask("f2", "filler", vcore=1, on="n1"))
    world.given(app("app-1"), app("app-2"))
    keys: dict[str, Any] = {"requires": "n1", "priority": -1}  # nothing is preempted for them
    world.send(ask("large", "app-1", vcore=7, **keys), ask("small", "app-2", vcore=1, **keys))
    expect(world, "large reserves n1", "small reserves n1", "small on n1", "small leaves n1")
    world.send(release("f1", "filler"))
    expect(world, "large on n1", "large leaves n1")


def test_too_large_for_its_node() -> None:
    """SC-149: the ask has to fit the node's capacity; nobody loses the node for one that never will."""
    world = reserved()
    world.given(app("app-2"))
    world.send(ask("pinned", "app-2", vcore=11, requires="n2"), at=3)
    expect(world)


def test_foreign_use_makes_room() -> None:
    """Whatever ends on the node: the reservation is used."""
    world = make_world(LEAF, [node("n1", vcore=10), node("n2", vcore=10)])
    world.given(foreign("x1", "n1", vcore=5), foreign("x2", "n2", vcore=6), app("app-1"), big(vcore=8))
    world.wait(2)
    expect(world, "big reserves n1")
    world.send(foreign("x1", "n1", vcore=2))
    expect(world, "big on n1", "big leaves n1")


def test_thousands_that_fit_nowhere_reserve_each_node_once() -> None:
    """One node for an ask: with all nodes kept nobody else reserves, and looking for one more costs nothing."""
    nodes = [node(f"n{number:03}", vcore=10) for number in range(50)]
    world = make_world(LEAF, nodes, checked=False)
    world.given(app("filler"), *(ask(f"f{number}", "filler", vcore=6, on=f"n{number:03}") for number in range(50)))
    world.given(app("app-1"), *(ask(f"b{number}", "app-1", vcore=5) for number in range(2000)))
    world.given(at=2)
    kept = [key for number in range(50) for key in world.node(f"n{number:03}")["reservations"]]
    assert sorted(kept) == sorted(f"b{number}" for number in range(50))
    effort = world.direct.scheduler.state.tree.effort
    world.given(ask("b2000", "app-1", vcore=5, created=0))
    assert effort.spent < 100 + TRY_WORK
