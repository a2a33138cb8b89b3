"""Asks that wait for a node are tried again only when a node opened for them."""

from typing import Any

from world import World, app, ask, make_world, node, queue, release, tree

from ykactor.core.planner.plan import TRY_WORK
from ykactor.core.queueing.waiting_classes import OPENED_MAX
from ykactor.core.turn.scheduler import Cycle
from ykactor.core.values.ids import QueuePath

LEAF = tree(queue("a"))


def full(asks: int = 10, **options: Any) -> World:
    """Two nodes of 100 with 20 free each, a full one, and asks of 30, 31, ... that are old enough; the first three have these."""
    world = make_world(LEAF, [node("n1", vcore=100), node("n2", vcore=100), node("big", vcore=1000)], **options)
    for name in ("n1", "n2"):
        world.given(app(name), *(ask(f"{name}-{i}", name, vcore=20, on=name) for i in range(4)))
    world.given(ask("all", "n1", vcore=990, on="big"), app("app-1"), ask("runs", "app-1", vcore=10, on="big"))
    world.given(*(ask(f"w{i:02}", "app-1", vcore=30 + i) for i in range(asks)))
    world.wait(5)
    return world


def tried(world: World, *submissions: Any) -> int:
    """The number of candidates tried because of the submissions, by the work that plans have counted."""
    cycle, work = world.direct.cycle, 0

    def counted(now_ns: int) -> tuple[Cycle, bool]:
        nonlocal work
        result, has_confirmed = cycle(now_ns)
        work += result.work
        return result, has_confirmed

    world.direct.cycle = counted  # type: ignore[method-assign]
    world.send(*submissions)
    return work // TRY_WORK


def test_a_node_that_is_too_small_wakes_nobody() -> None:
    """Asks that a node could not take if it were empty are not tried when it opens."""
    assert tried(full(), node("small", vcore=29)) == 0


def test_one_ask_after_the_other_is_woken() -> None:
    """The first ask that takes or reserves the node that opened keeps the others asleep."""
    world = full()
    world.heard()
    assert tried(world, node("n3", vcore=33)) == 4
    assert [line for line in world.heard() if "reserves" in line] == ["w03 reserves n1"]


def test_all_are_tried_when_very_many_nodes_open() -> None:
    """A look at what fits on each of very many nodes would cost more."""
    names = [f"small{i:03}" for i in range(OPENED_MAX + 1)]
    assert tried(full(), *(node(name, vcore=1) for name in names)) >= 7


def test_without_reservations_only_room_wakes() -> None:
    """A node that has less available than an ask needs does not wake it, however large the node is."""
    world = full(reserves=False)
    assert tried(world, release("n1-0", "n1")) == 1
    assert world.placed() == ["w00"]


def test_what_a_quota_holds_back_does_not_wait_for_a_node() -> None:
    """An ask that waits for a node, and for which the cluster becomes too full, is tried again when something was released."""
    world = full(4)
    waiting = world.direct.scheduler.state.tree.nodes[QueuePath("root.a")].applications.waiting
    assert [len(group) for group in waiting.groups.values()] == [1]
    world.given(ask("more", "n1", vcore=15, on="n1"))
    assert "in the cluster" in world.why("w03")
    assert [len(group) for group in waiting.groups.values()] == []
    world.send(release("more", "n1"))
    assert [len(group) for group in waiting.groups.values()] == [1]
