"""AP-145: a task that is reported while it is ending counts as going, and is not preempted again."""

from test_preemption_step import counts, full, preemptions, wants
from world import World, app, ask, make_world, node, queue, release, tree


def filled(**last: bool) -> World:
    """A node of 10 with five tasks of 2 of root.b, of which t4, the first choice as a victim, is reported so."""
    world = full(tasks=4)
    world.given(ask("t4", "app-b", vcore=2, on="n1", **last), at=0.04)
    return world


def test_it_is_not_preempted_again() -> None:
    """The next choice is."""
    for last, victim in (({}, "t4"), ({"releasing": True}, "t3")):
        world = filled(**last)
        world.given(wants(), at=1)
        world.run(31.05)
        assert [victims for _, _, victims in preemptions(world)] == [[victim]]


def test_it_counts_as_going_until_it_ends() -> None:
    """For the guarantees of its queues as a victim that is not confirmed yet; any release ends it (AP-121)."""
    world = filled(releasing=True)
    assert counts(world) == ({"vcore": 2}, {})
    assert world.queue("root.b")["allocated"] == {"vcore": 10}
    world.given(wants(), at=1)
    world.send(release("t4", "app-b", "TIMEOUT"), at=2)
    assert world.placed() == ["w"]
    assert counts(world) == ({}, {})
    world.run(40)
    assert preemptions(world) == []


def test_law_2_sees_what_is_left() -> None:
    """What is going is not there: a queue at its guarantee without it gives nothing more."""
    world = make_world(
        tree(queue("a", guaranteed={"vcore": 4}), queue("b", guaranteed={"vcore": 2}), preemption={"enabled": True}),
        [node("n1", vcore=4), app("app-a", "root.a"), app("app-b", "root.b")],
        confirms=False,
    )
    world.given(*(ask(key, "app-b", vcore=2, on="n1", releasing=key == "t2") for key in ("t1", "t2")))
    world.given(wants(), at=1)
    world.run(60)
    assert preemptions(world) == []


def test_its_own_end_counts_in_no_statistics_of_preemption() -> None:
    """The scheduler has evicted nobody."""
    assert filled(releasing=True).direct.scheduler.state.preemptions.counts.evictions == 0


def test_a_placeholder_that_is_ending_is_not_replaced() -> None:
    """The real task waits for another one."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4), app("app-1", placeholders={"vcore": 2})])
    for key in ("p1", "p2"):
        world.given(ask(key, "app-1", group="g", placeholder=True, vcore=1, on="n1", releasing=key == "p1"))
    world.send(ask("t1", "app-1", group="g", vcore=1))
    assert [line.split()[0] for line in world.heard() if "PLACEHOLDER_REPLACED" in line] == ["p2"]


def test_a_known_task_stays_as_it_is() -> None:
    """AP-113."""
    world = full(tasks=1)
    world.given(ask("t0", "app-b", vcore=2, on="n1", releasing=True))
    assert counts(world) == ({}, {})
