"""The reasons why asks are pending, by class; the sentences are in ``test_pending_texts``."""

from typing import Any

from gangs import gang, real, room, three
from world import World, answer, answering, app, ask, hold, limit, make_world, node, queue, tree

from ykactor.core.inspection.pending_asks import waiting_asks
from ykactor.core.values.parts import finished
from ykactor.surfaces.metrics.reading import REASONS, by_reason, read


def reasons_of(world: World) -> dict[str, int]:
    found = {reason: count for reason, count in finished(by_reason(world.direct.scheduler.state)).items() if count}
    assert found.keys() <= REASONS.keys()
    assert sum(found.values()) == len(waiting_asks(world.direct.scheduler.state))
    return found


def world_of(*queues: dict[str, Any], nodes: int = 1) -> World:
    return make_world(tree(*queues), [node(f"n{number}", vcore=4) for number in range(nodes)])


def test_quotas_of_queues_and_users() -> None:
    """The maximum of a queue above counts as that of the queue; what users may use comes first."""
    world = world_of(
        queue("p", queue("a"), max={"vcore": 1}, parent=True), queue("b", limits=[limit("bob", vcore=1)], max={"vcore": 1})
    )
    world.given(app("one", "root.p.a"), app("two", "root.b", user="bob"), app("three", "root.b", user="carol"))
    world.given(*(ask(f"a{number}", "one", vcore=1) for number in range(3)))
    world.given(*(ask(f"b{number}", "two", vcore=1) for number in range(4)))
    world.given(ask("c1", "three", vcore=1))
    assert reasons_of(world) == {"queue": 2 + 1, "user": 3}


def test_running_applications() -> None:
    world = world_of(queue("a", maxapplications=1))
    world.given(app("one"), app("two"), ask("t1", "one", vcore=1), ask("t2", "two", vcore=1), ask("t3", "two", vcore=1))
    assert reasons_of(world) == {"maxapps": 2}


def test_nodes_and_the_whole_cluster() -> None:
    """Nodes are what is missing, whether all nodes together have too little or each of them."""
    world = world_of(queue("a"), nodes=2)
    world.given(app("one"), ask("t1", "one", vcore=3), ask("t2", "one", vcore=3))
    world.given(ask("t3", "one", vcore=2), ask("t4", "one", vcore=9))
    assert reasons_of(world) == {"nodes": 2}


def test_a_reserved_node() -> None:
    """A node is reserved from 2 s on for an ask that fits nowhere."""
    world = world_of(queue("a"), nodes=2)
    world.given(app("one"), ask("t1", "one", vcore=3), ask("t2", "one", vcore=3), ask("t3", "one", vcore=2))
    world.run(3)
    assert reasons_of(world) == {"reserved": 1}


def test_predicates() -> None:
    """A node is there that the resource manager refuses."""
    world = world_of(queue("a"))
    world.given(answering(True), app("one"), ask("t1", "one", predicate="gpu", vcore=1), *answer("gpu", "n0", no="no gpu"))
    assert reasons_of(world) == {"predicate": 1}


def test_gangs() -> None:
    """A real ask that replaces a placeholder is not pending any more; the fourth waits for its turn."""
    world = room(confirms=False)
    world.given(gang(), *three(), real("t1"), real("t2"), real("t3"), real("t4"))
    assert reasons_of(world) == {"placeholder": 1}


def test_what_is_held() -> None:
    """OP-7: a hold comes first, of the application as of a queue above it, also for what waits for a placeholder."""
    world = room(confirms=False)
    world.given(
        gang(), *three(), *(real(f"t{number}") for number in range(1, 5)), app("two", "root.g"), ask("u1", "two", vcore=99)
    )
    world.administer(hold("gang"))
    assert reasons_of(world) == {"held": 1, "nodes": 1}
    world.administer(hold("root"))
    assert reasons_of(world) == {"held": 2}
    world.administer(hold("gang", ends=True))
    world.administer(hold("root", ends=True))
    assert reasons_of(world) == {"placeholder": 1, "nodes": 1}


def test_back_off() -> None:
    world = world_of(queue("a", p={"application.unschedasks.backoff": 2}), nodes=2)
    world.given(app("filler"), ask("f1", "filler", vcore=2, on="n0"), ask("f2", "filler", vcore=2, on="n1"), app("one"))
    world.given(*(ask(f"t{number}", "one", vcore=3) for number in range(3)))
    assert reasons_of(world) == {"backoff": 3}


def test_what_has_just_come_is_untried() -> None:
    """Before the next cycle nobody knows what it waits for."""
    world = world_of(queue("a"))
    world.direct.ingest(0, [app("one"), ask("t1", "one", vcore=1), ask("t2", "one", vcore=2)])
    assert reasons_of(world) == {"untried": 2}


def test_nodes_by_how_much_is_allocated() -> None:
    """A bound belongs to the lower band; a drained node counts; what was there before and is more than all counts as all."""
    world = make_world(tree(queue("a")), [node(f"n{number}", vcore=100) for number in range(5)])
    world.given(
        app("one"), *(ask(f"t{number}", "one", on=f"n{number}", vcore=used) for number, used in enumerate((10, 11, 90, 91)))
    )
    world.given(node("n3", "UPDATE", vcore=50), node("n4", "DRAIN_NODE"))
    figures = finished(read(world.direct.core, world.direct.scheduler.state))
    assert figures.bands == {"vcore": [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]}
    assert (figures.nodes, figures.draining) == (5, 1)
