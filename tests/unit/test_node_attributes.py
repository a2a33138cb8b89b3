"""SC-159: an UPDATE with attributes replaces them, and selectors are compared again."""

from typing import Any

from world import World, answer, answering, app, ask, make_world, node, queue, tree

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import NodeAttributesChanged
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.submissions import Submission, UpdateNode

QUEUES = tree(queue("a"))


def update(node_id: str = "n1", **attributes: str) -> Submission:
    """Other attributes; no word about the capacity."""
    return UpdateNode(node_id, NodeAction.UPDATE, None, attributes)  # type: ignore[arg-type]


def selecting(key: str, selector: str, vcore: int = 1) -> Submission:
    """An ask with a selector."""
    return Ask(key, "app-1", {"vcore": vcore}, tags={"ykactor.io/node-selector": selector})  # type: ignore[arg-type]


def made(*asks: Submission, **attributes: str) -> World:
    """A node with these attributes, and what was decided about these asks."""
    created = UpdateNode("n1", NodeAction.CREATE, {"vcore": 2}, attributes)  # type: ignore[arg-type]
    world = make_world(QUEUES, [created, app("app-1", application__stateaware__disable="true")])
    world.given(*asks)
    return world


def attributes_of(world: World) -> dict[str, str]:
    return world.direct.core.registry.nodes["n1"].attributes  # type: ignore[index]


def test_asks_that_select_it_now_are_placed() -> None:
    """Also those that were tried and set aside; those that do not select it any more wait."""
    world = made(selecting("t1", "zone=b"), selecting("t2", "zone=a,disk"), zone="a")
    world.send(update(zone="b"))
    assert world.placed() == ["t1"]
    assert attributes_of(world) == {"zone": "b"}, "the others are gone"
    world.send(selecting("t3", "zone=a"))
    world.expect()
    assert world.why("t2") == "no node has the attributes that it selects"


def test_what_runs_goes_on() -> None:
    """A selector is about where an ask is placed."""
    world = made(selecting("t1", "zone=a"), zone="a")
    world.send(update(zone="b"))
    world.expect()
    assert world.node("n1")["allocated"] == {"vcore": 1}


def test_a_reservation_ends() -> None:
    """The ask could not run on the node; one that still selects it keeps the reservation (SC-151)."""
    world = made(ask("t1", "app-1", vcore=2, on="n1"), node("n2", vcore=4), selecting("t2", "zone", vcore=2), zone="a")
    world.run(3)
    world.expect("t2 reserves n1")
    world.send(update(zone="b"))
    world.expect()
    world.send(update(disk="ssd"))
    world.expect("t2 leaves n1")


def test_only_what_the_entry_has_is_replaced() -> None:
    """An entry without attributes, or with the same ones, changes nothing; the name of the partition alone is no change."""
    world = made(zone="a")
    same = UpdateNode("n1", NodeAction.UPDATE, {"vcore": 4}, {"si/node-partition": "default"})  # type: ignore[arg-type]
    world.send(node("n1", "UPDATE", vcore=3), update(), same, update(zone="a"))
    assert attributes_of(world) == {"zone": "a"}
    assert world.node("n1")["capacity"] == {"vcore": 4}
    assert not [fact for fact in world.facts if isinstance(fact, NodeAttributesChanged)]
    world.send(update("n9", zone="b"), update(zone="c"))
    assert [fact.attributes for fact in world.facts if isinstance(fact, NodeAttributesChanged)] == [{"zone": "c"}]


def test_answers_about_the_node_are_forgotten() -> None:
    """SC-156: they may depend on its attributes."""
    world = made(answering(True), ask("t1", "app-1", predicate="p", vcore=1), zone="a")
    world.send(*answer("p", "n1", no="zone a"))
    world.heard()
    world.send(update(zone="b"))
    world.expect("p on n1?")


def test_the_type_of_instance_counts_from_then_on() -> None:
    """AP-90: for tasks that end."""
    world = made(zone="a")
    of: Any = world.direct.core.registry.books.instance_type
    world.send(update(**{"si/instance-type": "large"}))
    assert of("n1") == "large"
    world.send(update(zone="a"))
    assert of("n1") == "UNKNOWN"
