"""The reasons why asks are pending, in words and present numbers (``waiting.causes``, ``waiting.reasons``)."""

import pytest
from world import World, app, ask, make_world, node, queue, release, tree

from ykactor.core.messages.submissions import Submission
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource
from ykactor.core.waiting import reasons
from ykactor.core.waiting.reasons import Place

GIB = 2**30


def world_of(*nodes: Submission, text: str = tree(queue("a"), queue("b"))) -> World:
    made = make_world(text, nodes)
    made.given(app("app-1"), app("app-2", "root.b"))
    return made


# ---- numbers


def test_one_unit_as_people_write_it() -> None:
    """Cores with a decimal point; memory in the unit of what is wanted, all three numbers alike; other types as they are."""
    assert reasons.quota("vcore", 500, 3900, 4000, "there") == "wants 0.5, has 0.1 of 4 vcore there"
    assert reasons.quota("vcore", 100_000, 1000, 4000, "there") == "wants 100, has 3 of 4 vcore there"
    assert reasons.quota("memory", 3 * GIB // 2, 2 * GIB, 3 * GIB, "there") == "wants 1.5, has 1 of 3 GiB memory there"
    assert reasons.quota("memory", GIB // 2, 3 * GIB, 3 * GIB, "there") == "wants 512, has 0 of 3072 MiB memory there"
    assert reasons.quota("nvidia.com/gpu", 2, 7, 8, "there") == "wants 2, has 1 of 8 nvidia.com/gpu there"


def test_every_shortage_can_be_seen() -> None:
    """Wanted amounts are rounded up, present ones down: one byte too little does not read as enough."""
    assert reasons.quota("memory", GIB, 1, GIB, "there") == "wants 1, has 0.999 of 1 GiB memory there"
    assert reasons.quota("memory", GIB + 1, 0, GIB, "there") == "wants 1.001, has 1 of 1 GiB memory there"


def test_nothing_is_below_zero() -> None:
    """A quota that is exceeded has nothing left; an ask that wants nothing of the type does not fit either (QU-40)."""
    assert reasons.quota("vcore", 1000, 9000, 4000, "there") == "wants 1, has 0 of 4 vcore there"
    assert reasons.quota("gpu", 0, 3, 1, "there") == "3 of 1 gpu are in use there"


def test_three_names_and_how_many_more() -> None:
    """Long lists are cut."""
    assert reasons.some(["n1", "n2", "n3"]) == "n1, n2, n3"
    assert reasons.some([f"n{number}" for number in range(1, 8)]) == "n1, n2, n3 and 4 more"


# ---- can never fit, not now


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place(QueuePath("root.a"), "", "vcore", 0, 1000), "can never fit: wants 2, may have at most 1 vcore in queue root.a"),
        (
            Place(QueuePath("root"), "user bob", "vcore", 0, 1000),
            "can never fit: wants 2, may have at most 1 vcore in the limit of user bob in queue root",
        ),
        (Place(QueuePath("root"), "", "vcore", 0, 1000), "wants 2, has 1 of 1 vcore in the cluster"),
    ],
)
def test_what_is_above_a_quota_can_never_fit(place: Place, text: str) -> None:
    """The cluster is no quota: a larger node may come."""
    assert reasons.no_room(place, Resource({"vcore": 2000})) == text


def test_what_can_never_fit_is_told_from_what_does_not_fit_now() -> None:
    """The capacity of nodes counts, not what is free: also on a node that is full or drained."""
    world = world_of(node("n1", vcore=4000), node("n2", vcore=4000))
    world.given(ask("big", "app-1", vcore=6000), ask("t1", "app-1", vcore=3000), ask("t2", "app-1", vcore=3000))
    world.given(ask("t3", "app-2", vcore=2000))
    assert world.why("big").startswith("can never fit: the largest node has 4 vcore, it wants 6; ")
    assert world.why("t3") == "wants 2, has 1 of 4 vcore on the freest node, n1"
    world.given(release("t1"))
    world.given(ask("huge", "app-2", vcore=100_000))
    assert world.why("huge").startswith("can never fit: the largest node has 4 vcore, it wants 100; wants 100, has ")
    world.given(node("n3", "CREATE_DRAIN", vcore=100_000))
    assert "can never fit" not in world.why("huge")
    assert "every node that is large enough is drained: n3" in world.why("huge")


def test_a_type_that_no_node_has() -> None:
    """The reason names the type."""
    world = world_of(node("n1", vcore=4000))
    world.given(ask("t1", "app-1", gpu=1))
    assert world.why("t1").startswith("can never fit: the largest node has no gpu, it wants 1; ")


def test_types_that_no_node_has_together() -> None:
    """Each is there, on different nodes: for ever if by capacity, else for now."""
    world = world_of(node("n1", vcore=4000, gpu=2), node("n2", vcore=8000, gpu=1))
    world.given(ask("never", "app-1", vcore=5000, gpu=2))
    assert world.why("never") == "can never fit: no node is large enough in gpu and vcore at the same time"
    world.given(ask("fills", "app-1", vcore=3000, requires="n1"), ask("other", "app-1", gpu=1, requires="n2"))
    world.given(ask("now", "app-1", vcore=2000, gpu=1))
    assert world.why("now") == "no node has enough free gpu and vcore at the same time"


def test_no_node_and_drained_nodes() -> None:
    """Told apart from nodes without room, whatever the quota of the cluster says."""
    world = world_of()
    world.send(ask("t1", "app-1", vcore=1000))
    assert world.why("t1") == "there is no node"
    world.send(node("n1", "CREATE_DRAIN", vcore=4000))
    assert world.why("t1") == "every node is drained"
    world.send(ask("t2", "app-1", vcore=4000, requires="n1"), ask("t3", "app-1", vcore=3000))
    assert world.why("t3") == "every node is drained"


# ---- required nodes


@pytest.mark.parametrize(
    ("required", "vcore", "reason"),
    [
        ("n9", 1000, "its required node n9 is not registered"),
        ("n1", 9000, "can never fit: its required node n1 has 4 vcore, it wants 9"),
    ],
)
def test_required_nodes_that_are_no_help(required: str, vcore: int, reason: str) -> None:
    """SC-71: nothing is reserved, and preemption would not help."""
    world = world_of(node("n1", vcore=4000), node("n2", vcore=9000))
    world.given(ask("t1", "app-1", requires=required, vcore=vcore))
    assert world.why("t1") == reason


# ---- reservations


def test_nodes_that_are_reserved_for_others_are_named() -> None:
    """Three are named at most, and how many more; a reservation shows its own node with present numbers."""
    world = world_of(*(node(f"n{number}", vcore=4000) for number in range(1, 6)))
    world.given(*(ask(f"t{number}", "app-1", requires=f"n{number}", vcore=2000) for number in range(1, 6)))
    world.given(*(ask(f"w{number}", "app-1", requires=f"n{number}", vcore=3000) for number in range(1, 6)))
    failed = "too little can be preempted for it on its node"
    assert world.why("w1") == f"node n1 is reserved for it; wants 3, has 2 of 4 vcore there; {failed}"
    world.given(ask("small", "app-2", vcore=1000), ask("large", "app-2", vcore=4000))
    assert world.why("small") == "the nodes with room are reserved for others: n1, n2, n3 and 2 more"
    assert world.why("large") == "wants 4, has 2 of 4 vcore on the freest node, n1; reserved for others: n1, n2, n3 and 2 more"
    world.given(release("t2"))
    assert world.why("large") == "wants 4, has 2 of 4 vcore on the freest node, n1; reserved for others: n1, n3, n4 and 1 more"


# ---- never outdated


def test_numbers_are_those_of_now() -> None:
    """The walk does not try a parked ask again when others use more, but its numbers follow."""
    world = world_of(node("n1", vcore=9000), text=tree(queue("a", max={"vcore": 4000}), queue("b")))
    world.given(ask("t1", "app-1", vcore=2000), ask("t2", "app-1", vcore=3000))
    assert world.why("t2") == "wants 3, has 2 of 4 vcore in queue root.a"
    world.given(ask("t3", "app-1", vcore=1000))
    assert world.why("t2") == "wants 3, has 1 of 4 vcore in queue root.a"
