"""Tasks are preempted for an ask that requires their node (PE-60): a node of 10, and an ask of 5 with priority 10."""

from typing import Any

import pytest
from world import World, app, ask, configure, make_world, node, queue, release, tree

from ykactor.core.messages.facts import Preempted
from ykactor.core.messages.submissions import Submission

PREEMPTED = "PREEMPTED_BY_SCHEDULER"
NOBODY = "Unschedulable request 'd' with required node 'n1', no preemption victim found"


def daemon(key: str = "d", vcore: int = 5, **keys: Any) -> Submission:
    return ask(key, "system", requires="n1", vcore=vcore, **{"priority": 10} | keys)


def full(*tasks: Submission, text: str = "", confirms: bool = False) -> World:
    """These tasks of ``app-1`` in root.a run, oldest first; n2 has room for all."""
    world = make_world(text or tree(queue("a"), queue("sys")), [node("n1", vcore=10), node("n2", vcore=100)], confirms=confirms)
    world.given(app("app-1", "root.a"), app("system", "root.sys"))
    for number, submission in enumerate(tasks):
        world.given(submission, at=number / 10)
    world.heard()
    return world


def task(key: str, vcore: int = 2, application_id: str = "app-1", **keys: Any) -> Submission:
    return ask(key, application_id, on="n1", vcore=vcore, **keys)


def victims(world: World) -> list[str]:
    return [key for fact in world.facts if isinstance(fact, Preempted) for _, _, key in fact.victims]


def gone(world: World, *submissions: Submission) -> list[str]:
    world.given(*submissions or (daemon(),), at=5)
    return sorted(victims(world))


def test_d1_the_newest() -> None:
    """The ask preempts at once, without the delay of other asks, and reserves first (SC-78, PE-64)."""
    world = full(*(task(f"t{n}") for n in range(5)))
    world.send(daemon(), at=5)
    message = "preempting allocations to free up resources to run daemon set ask: d"
    world.expect("system Accepted", "d reserves n1", *(f"t{n} releasing {PREEMPTED} ({message})" for n in (4, 3, 2)))
    assert victims(world) == ["t4", "t3", "t2"]
    world.send(*(release(f"t{n}", "app-1", PREEMPTED) for n in (2, 3, 4)))
    assert "d on n1" in world.heard()


def test_d2_free_space_counts() -> None:
    """4 are free, so one victim is enough (PE-62)."""
    assert gone(full(*(task(f"t{n}") for n in range(3)))) == ["t2"]


def test_d3_nobody() -> None:
    """PE-63: no victim; an event says so, no more often than every 15 s; the node stays reserved."""
    world = full(task("t", 6, priority=11))
    assert gone(world) == []
    assert world.node("n1")["reservations"] == ["d"]
    assert world.remarks() == [NOBODY]
    for second in (10, 19, 20, 34):
        world.given(task(f"s{second}", 1, priority=11), at=second)
        world.given(release(f"s{second}", "app-1"))
    assert world.remarks() == [NOBODY, NOBODY]


def test_everybody_is_told() -> None:
    """PE-63: of several asks for which nothing may be preempted each has an event."""
    world = full(task("t", 6, priority=11), ask("u", "app-1", on="n2", vcore=96, priority=11))
    world.given(app("other", "root.sys"))
    world.given(daemon("d"), ask("e", "other", requires="n2", vcore=5), at=5)
    world.given(*(ask(f"more-{name}", "app-1", on=name, vcore=1, priority=11) for name in ("n1", "n2")), at=25)
    assert sorted(world.remarks()) == 2 * [NOBODY] + 2 * [NOBODY.replace("'d'", "'e'").replace("n1", "n2")]


def test_d4_opted_out() -> None:
    """Tasks that opted out are preempted if there are no others (law 1, PE-61, PE-91)."""
    assert gone(full(*(task(f"t{n}", preempt_self=False) for n in range(5)))) == ["t2", "t3", "t4"]


def test_d5_not_others_that_require_it() -> None:
    """A task that requires the node is no victim (PE-60, SC-79)."""
    world = full()
    world.given(app("other", "root.sys"), ask("o", "other", requires="n1", vcore=8))
    assert gone(world) == []


@pytest.mark.parametrize("a", [{"guaranteed": {"vcore": 50}}, {"p": {"preemption.policy": "disabled"}}])
@pytest.mark.parametrize("sys", [{}, {"p": {"preemption.policy": "fence"}}])
def test_d6_guarantees_and_fences_play_no_part(a: dict[str, Any], sys: dict[str, Any]) -> None:
    """Guarantees, fences and ``disabled`` play no part, and nothing is claimed (PE-60, PE-64)."""
    world = full(*(task(f"t{n}") for n in range(5)), text=tree(queue("a", **a), queue("sys", **sys)))
    assert gone(world) == ["t2", "t3", "t4"]
    assert world.direct.scheduler.state.tree.root.claims == {}


def test_d7_as_few_as_possible() -> None:
    """The task of 1 is newer but not needed (PE-62)."""
    assert gone(full(task("large", 9), task("small", 1))) == ["large"]


def test_not_its_own_application() -> None:
    """PE-60: law 3 holds here, too."""
    assert gone(full(task("mine", 9, application_id="system"))) == []


def test_equal_priority_goes_and_a_higher_does_not() -> None:
    """PE-60, PE-91: equal priority is enough."""
    assert gone(full(task("t0", priority=10), task("t1", 8, priority=11))) == []
    assert gone(full(task("t0", 5, priority=10), task("t1", 5, priority=11))) == ["t0"]


def test_the_order() -> None:
    """PE-61: one after the other, all ten, each for an ask of its own size."""
    table = [  # priority, age rank, size, opted out, originator
        ("a1", 10, 1, 10, False, False),
        ("a2", 10, 2, 8, False, False),
        ("a3", 15, 3, 10, False, False),
        ("a4", 10, 2, 5, False, False),
        ("a5", 5, 4, 5, False, False),
        ("a6", 10, 5, 10, True, False),
        ("a7", 10, 2, 8, True, False),
        ("a8", 15, 6, 10, True, False),
        ("a9", 10, 2, 5, True, True),
        ("a10", 5, 4, 5, False, True),
    ]
    world = make_world(tree(queue("a"), queue("sys")), [node("n1", vcore=81)])
    world.given(app("app-1", "root.a"), app("system", "root.sys"))
    for key, priority, rank, size, is_out, is_owner in table:
        flags = {"priority": priority, "created": rank, "preempt_self": not is_out, "originator": is_owner}
        world.given(task(key, size, **flags), at=50)
    # each takes what was freed: nothing but one more task of this size or less can make room
    order = ["a5", "a4", "a2", "a1", "a3", "a10", "a6", "a7", "a8", "a9"]
    sizes = {key: size for key, _, _, size, _, _ in table}
    world.given(task("rest", 81 - sum(sizes.values()), priority=99))
    for number, key in enumerate(order):
        world.given(daemon(f"d{number}", sizes[key], priority=20), at=60 + number)
    assert victims(world) == order


def test_cordoned_node() -> None:
    """PE-66: the same on a node that is not schedulable."""
    world = full(*(task(f"t{n}") for n in range(5)))
    world.given(node("n1", "DRAIN_NODE"))
    assert gone(world) == ["t2", "t3", "t4"]


def test_capacity_too_small() -> None:
    """SC-149: nothing is preempted for an ask that is too large for the node."""
    assert gone(full(*(task(f"t{n}") for n in range(5))), daemon(vcore=11)) == []


def test_a_limit_of_its_queue() -> None:
    """PE-60: the headroom of its own queue comes first."""
    world = full(*(task(f"t{n}") for n in range(5)), text=tree(queue("a"), queue("sys", max={"vcore": 4})))
    assert gone(world) == []


def test_two_on_one_node() -> None:
    """SC-77, PE-65: each preempts, and no task is preempted twice."""
    world = full(*(task(f"t{n}") for n in range(5)), confirms=True)
    assert gone(world, daemon("d1", 4), daemon("d2", 4)) == ["t1", "t2", "t3", "t4"]
    assert world.waiting() == []


def test_the_node_is_lost() -> None:
    """PE-55: decommissioned while the victims have not gone; when it comes back all begins anew."""
    world = full(*(task(f"t{n}") for n in range(5)))
    gone(world)
    world.given(node("n1", "DECOMISSION"))
    books = world.direct.scheduler.state.preemptions
    assert (books.by_ask, books.victims) == ({}, {})
    world.send(node("n1", vcore=10))
    assert "d on n1" in world.heard()


def test_victims_in_vain() -> None:
    """PE-55, PE-64: another task grows into the room; 15 s later others are preempted."""
    world = full(*(task(f"t{n}") for n in range(5)))
    assert gone(world) == ["t2", "t3", "t4"]
    world.given(ask("t0", "app-1", vcore=8))
    world.given(*(release(f"t{n}", "app-1", PREEMPTED) for n in (2, 3, 4)))
    world.run(19.9)
    assert len(victims(world)) == 3
    world.run(20.1)
    assert victims(world)[3:] == ["t0"]


def test_another_configuration() -> None:
    world = full(*(task(f"t{n}") for n in range(5)))
    gone(world)
    world.given(configure(tree(queue("a"), queue("sys"), queue("new"))))
    world.send(*(release(f"t{n}", "app-1", PREEMPTED) for n in (2, 3, 4)))
    assert "d on n1" in world.heard()
