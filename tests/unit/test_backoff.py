"""Applications whose asks fit nowhere are left alone for a while (SC-23, SC-38, PR-54)."""

from typing import Any

from world import World, app, ask, configure, make_world, node, queue, release, tree

LEAF = tree(queue("a", p={"application.unschedasks.backoff": 2}))


def crowded(text: str = LEAF, **options: Any) -> World:
    """A world in which no node has room for 8, but the cluster has."""
    world = make_world(text, [node("n1", vcore=10), node("n2", vcore=10)], **options)
    world.given(app("filler"), ask("f1", "filler", vcore=5, on="n1"), ask("f2", "filler", vcore=5, on="n2"), app("app-1"))
    return world


def large(key: str) -> Any:
    return ask(key, "app-1", vcore=8)


def small(key: str, application_id: str = "app-1") -> Any:
    return ask(key, application_id, vcore=1)


def test_t10_the_others_are_not_looked_at() -> None:
    """SC-23: a1 and a2 fit nowhere, so a3 and a4 are not looked at for 30 s, although a4 would fit; then it begins anew."""
    world = crowded()
    world.send(large("a1"), large("a2"), large("a3"), small("a4"))
    assert world.placed() == []
    assert world.why("a4").startswith("its application is in back-off")
    world.given(release("f1", "filler"), at=1)
    assert world.why("a1").startswith("its application is in back-off")
    world.wait(29.999)
    assert world.placed() == []
    world.wait(30)
    assert world.placed() == ["a1", "a4"]  # the cluster is too full for the others, which is another reason to wait


def test_t10_order() -> None:
    """SC-38: of a1 a4 a2 a3 a4 is placed, it comes before the second that fits nowhere."""
    world = crowded()
    world.send(large("a1"), small("a4"), large("a2"), large("a3"))
    assert world.placed() == ["a4"]


def test_exactly_as_many_asks() -> None:
    """SC-38: with exactly n asks there is no other one to leave alone; a third sets the deadline."""
    world = crowded()
    world.given(large("a1"), large("a2"))
    assert world.why("a1") == "wants 0.008, has 0.005 of 0.01 vcore on the freest node, n1"
    world.send(small("a3"), at=1)
    assert world.placed() == []
    world.wait(31)
    assert "a3" not in world.placed()  # it is behind two that still fit nowhere


def test_only_the_application_itself() -> None:
    """Others of the queue, with asks of the same size, are looked at for themselves."""
    world = crowded()
    world.given(large("a1"), large("a2"), large("a3"), app("app-2"))
    world.send(small("b1", "app-2"), ask("b2", "app-2", vcore=8))
    assert world.placed() == ["b1"]
    world.send(release("f1", "filler"), at=1)
    assert world.placed() == ["b2"]


def test_quota_does_not_count() -> None:
    """SC-38: asks that lack quota, or require their node, are no reason to leave an application alone."""
    world = crowded(tree(queue("a", max={"vcore": 14}, p={"application.unschedasks.backoff": 2})))
    world.send(large("a1"), large("a2"), large("a3"), small("a4"))
    assert world.placed() == ["a4"]


def test_the_end_of_a_reload_and_of_the_application() -> None:
    """Switched off while it lasts the deadline still ends by time only; an application that goes takes it along."""
    world = crowded(reserves=False)
    world.given(large("a1"), large("a2"), large("a3"), small("a4"))
    world.send(configure(tree(queue("a"))), at=1)
    assert world.placed() == []
    world.wait(30)
    assert world.placed() == ["a4"]
    world = crowded(reserves=False)
    world.given(large("a1"), large("a2"), large("a3"))
    world.given(release(None, "app-1"))
    world.wait(100)
