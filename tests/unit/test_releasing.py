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
    """The task counts as going for the guarantees of its queues, as a victim; any release ends that (AP-121)."""
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
    """A task that is ending does not count: a queue at its guarantee without it gives nothing more."""
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


def test_a_known_allocation_is_reported_as_ending() -> None:
    """An ending task is not preempted again, and its queues count without it until any release; repeating it changes nothing."""
    world = filled()
    for at in (0.1, 0.2):
        world.given(ask("t4", "app-b", vcore=2, on="n1", releasing=True), at=at)
    assert counts(world) == ({"vcore": 2}, {})
    world.given(wants(), at=1)
    world.run(31.05)
    assert [victims for _, _, victims in preemptions(world)] == [["t3"]]
    world.send(release("t4", "app-b"), at=32)
    assert world.queue("root.b")["allocated"].get("vcore", 0) < 10


def test_what_the_scheduler_releases_already_stays_a_victim() -> None:
    """The resource manager says of a victim that it is ending."""
    world = full(tasks=5)
    world.given(wants(), at=1)
    world.run(31.05)
    before = counts(world)
    world.given(ask("t4", "app-b", vcore=2, on="n1", releasing=True), at=31.1)
    assert counts(world) == before


def test_a_known_placeholder_that_is_ending_is_not_replaced() -> None:
    """The real task waits for another one."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4), app("app-1", placeholders={"vcore": 2})])
    for key in ("p1", "p2"):
        world.given(ask(key, "app-1", group="g", placeholder=True, vcore=1, on="n1"))
    world.given(ask("p1", "app-1", group="g", placeholder=True, vcore=1, on="n1", releasing=True), at=1)
    world.send(ask("t1", "app-1", group="g", vcore=1), at=2)
    assert [line.split()[0] for line in world.heard() if "PLACEHOLDER_REPLACED" in line] == ["p2"]


def test_a_pending_ask_that_is_reported_running_and_ending() -> None:
    """AP-112, AP-145."""
    world = full(tasks=4)
    world.given(ask("big", "app-b", vcore=99), at=0.1)
    world.given(ask("big", "app-b", vcore=99, on="n1", releasing=True), at=0.2)
    assert counts(world) == ({"vcore": 99}, {})


def test_the_last_resort_follows_the_resource_manager() -> None:
    """AP-116: of a running allocation, and of an ask before it runs."""
    world = filled()
    world.given(ask("t4", "app-b", vcore=2, on="n1", preempt_self=False), at=0.1)
    world.given(wants(), at=1)
    world.run(31.05)
    assert [victims for _, _, victims in preemptions(world)] == [["t3"]]


def test_a_pending_ask_keeps_its_turn_when_its_policy_changes() -> None:
    """AP-116: it is older than the other one, and runs first."""
    world = make_world(tree(queue("a")), [node("n1", vcore=1), app("app-1")])
    world.given(ask("t0", "app-1", vcore=1, on="n1"), at=0.1)
    world.given(ask("t1", "app-1", vcore=1), ask("t2", "app-1", vcore=1), at=0.2)
    world.given(ask("t1", "app-1", vcore=1, preempt_self=False), at=0.3)
    world.send(release("t0"), at=1)
    assert world.placed()[-1] == "t1"
    registry = world.direct.core.registry
    ((task, _),) = registry.leaf("root.a").applications["app-1"].tasks.allocations.values()
    assert not task.allow_preempt_self
