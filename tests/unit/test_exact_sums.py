"""Sums of amounts are exact inside, whatever their size; only what leaves the core is cut to 64 bits (QU-1)."""

from world import app, ask, make_world, node, queue, release, tree

HUGE = 2**63 - 1


def test_what_was_cut_off_comes_back() -> None:
    """Two pending asks of 2^63 - 1 go in the message in which a small one comes: the small one is still pending (QU-1, QU-43)."""
    world = make_world(tree(queue("g")), [node("n1", vcore=1)])
    world.given(app("gang", "root.g", placeholders={"vcore": 1}), ask("p", "gang", group="h", placeholder=True, vcore=1))
    world.given(ask("huge-1", "gang", vcore=HUGE), ask("huge-2", "gang", vcore=HUGE))
    assert world.queue("root.g")["pending"] == {"vcore": HUGE}
    world.send(ask("real", "gang", group="h", vcore=1), release("huge-1", "gang"), release("huge-2", "gang"))
    assert world.placed() == ["real"]
    assert world.queue("root.g")["pending"] == {}


def test_a_cluster_of_more_than_64_bits() -> None:
    """Two nodes of 2^63 - 1 are worth two, although a message can only say one; when one of them leaves the other is left."""
    world = make_world(tree(queue("a")), [node("n1", vcore=HUGE), node("n2", vcore=HUGE)])
    world.send(app("app-1"), ask("t1", "app-1", vcore=HUGE), ask("t2", "app-1", vcore=HUGE))
    assert world.placed() == ["t1", "t2"]
    assert world.state()["queues"]["root"]["max"] == {"vcore": HUGE}
    world.given(release(None, "app-1"), node("n1", "DECOMISSION"))
    world.send(app("app-2"), ask("u1", "app-2", vcore=HUGE))
    assert world.placed() == ["u1"]
