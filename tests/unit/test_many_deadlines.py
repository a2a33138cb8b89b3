"""Deadlines that fall due together: a process that was suspended, or timers that were set a while apart, fire in one step."""

import pytest
from world import World, app, ask, configure, make_world, node, queue, release, tree

from ykactor.core.values.times import S_NS

WITH_CHILDREN = tree(queue("c", queue("c0"), queue("c1")), queue("d"))
AS_LEAF = tree(queue("c"), queue("d"))


def two_leaves_that_go() -> World:
    """x0 in c0 and x1 in c1 have run a task, and have an ask that fits nowhere; then ``c`` is to become a leaf."""
    world = make_world(WITH_CHILDREN, [node("n1", vcore=2)])
    world.given(app("x0", "root.c.c0", timeout_ms=3000), app("x1", "root.c.c1", timeout_ms=13_000))
    world.given(ask("t0", "x0", vcore=1), ask("t1", "x1", vcore=1))
    world.given(ask("p0", "x0", vcore=9), ask("p1", "x1", vcore=9), release("t0", "x0"), release("t1", "x1"))
    world.given(configure(AS_LEAF))
    return world


@pytest.mark.parametrize("after_s", [12, 13, 14, 100, 10_000])
def test_timeouts_and_the_cleaning_of_queues_at_once(after_s: int) -> None:
    """Execution timeouts and the removal of their leaves in one step: the leaves go, and their parent becomes a leaf (CF-60)."""
    world = two_leaves_that_go()
    world.now_ns = after_s * S_NS
    world.direct.wake_at(world.now_ns)
    world.wait(after_s + 60)
    world.placed()
    assert sorted(world.final()["queues"]) == ["root", "root.c", "root.d"]
    world.send(app("later", "root.c"), ask("t9", "later", vcore=1))
    assert world.placed() == ["t9"]


def test_timeout_while_the_queues_are_cleaned() -> None:
    """The same when the clock runs normally: x0 ends and its leaf goes, then both fall due for x1 in the same second."""
    world = two_leaves_that_go()
    for second in range(1, 40):
        world.direct.wake_at(second * S_NS)
    assert sorted(world.final()["queues"]) == ["root", "root.c", "root.d"]
