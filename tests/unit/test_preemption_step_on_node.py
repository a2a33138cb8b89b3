"""Others go for an ask that requires their node (section 10 of PE): a node of 10, and an ask of 5 with priority 10."""

from typing import Any

import pytest
from world import World, app, ask, configure, node, queue, release, tree, world

from ykactor.core.messages.facts import Preempted
from ykactor.core.messages.submissions import Submission

PREEMPTED = "PREEMPTED_BY_SCHEDULER"
NOBODY = "Unschedulable request 'd' with required node 'n1', no preemption victim found"


def daemon(key: str = "d", vcore: int = 5, **keys: Any) -> Submission:
    return ask(key, "system", requires="n1", vcore=vcore, **{"priority": 10} | keys)


def full(*tasks: Submission, text: str = "", confirms: bool = False) -> World:
    """These tasks of ``app-1`` in root.a run, oldest first; n2 has room for all."""
    it = world(text or tree(queue("a"), queue("sys")), [node("n1", vcore=10), node("n2", vcore=100)], confirms=confirms)
    it.given(app("app-1", "root.a"), app("system", "root.sys"))
    for number, submission in enumerate(tasks):
        it.given(submission, at=number / 10)
    it.heard()
    return it


def task(key: str, vcore: int = 2, application_id: str = "app-1", **keys: Any) -> Submission:
    return ask(key, application_id, on="n1", vcore=vcore, **keys)


def victims(it: World) -> list[str]:
    return [key for fact in it.facts if isinstance(fact, Preempted) for _, _, key in fact.victims]


def gone(it: World, *submissions: Submission) -> list[str]:
    it.given(*submissions or (daemon(),), at=5)
    return sorted(victims(it))


def test_d1_the_newest() -> None:
    """D1; at once, without the delay of other asks, and reserved first (SC-78)."""
    it = full(*(task(f"t{n}") for n in range(5)))
    it.send(daemon(), at=5)
    message = "preempting allocations to free up resources to run daemon set ask: d"
    it.expect("system Accepted", "d reserves n1", *(f"t{n} releasing {PREEMPTED} ({message})" for n in (4, 3, 2)))
    assert victims(it) == ["t4", "t3", "t2"]
    it.send(*(release(f"t{n}", "app-1", PREEMPTED) for n in (2, 3, 4)))
    assert "d on n1" in it.heard()


def test_d2_free_space_counts() -> None:
    """D2: 4 are free."""
    assert gone(full(*(task(f"t{n}") for n in range(3)))) == ["t2"]


def test_d3_nobody() -> None:
    """D3, PE-63: none, the owner is told, no more often than every 15 s; the node stays reserved."""
    it = full(task("t", 6, priority=11))
    assert gone(it) == []
    assert it.node("n1")["reservations"] == ["d"]
    assert it.remarks() == [NOBODY]
    for second in (10, 19, 20, 34):
        it.given(task(f"s{second}", 1, priority=11), at=second)
        it.given(release(f"s{second}", "app-1"))
    assert it.remarks() == [NOBODY, NOBODY]


def test_everybody_is_told() -> None:
    """PE-63: of several asks for which nobody may go each owner hears it."""
    it = full(task("t", 6, priority=11), ask("u", "app-1", on="n2", vcore=96, priority=11))
    it.given(app("other", "root.sys"))
    it.given(daemon("d"), ask("e", "other", requires="n2", vcore=5), at=5)
    it.given(*(ask(f"more-{name}", "app-1", on=name, vcore=1, priority=11) for name in ("n1", "n2")), at=25)
    assert sorted(it.remarks()) == 2 * [NOBODY] + 2 * [NOBODY.replace("'d'", "'e'").replace("n1", "n2")]


def test_d4_opted_out() -> None:
    """D4: law 1."""
    assert gone(full(*(task(f"t{n}", preempt_self=False) for n in range(5)))) == ["t2", "t3", "t4"]


def test_d5_not_others_that_require_it() -> None:
    """D5."""
    it = full()
    it.given(app("other", "root.sys"), ask("o", "other", requires="n1", vcore=8))
    assert gone(it) == []


@pytest.mark.parametrize("a", [{"guaranteed": {"vcore": 50}}, {"p": {"preemption.policy": "disabled"}}])
@pytest.mark.parametrize("sys", [{}, {"p": {"preemption.policy": "fence"}}])
def test_d6_guarantees_and_fences_play_no_part(a: dict[str, Any], sys: dict[str, Any]) -> None:
    """D6."""
    it = full(*(task(f"t{n}") for n in range(5)), text=tree(queue("a", **a), queue("sys", **sys)))
    assert gone(it) == ["t2", "t3", "t4"]
    assert it.direct.scheduler.indexes.ledger.root.claims == {}


def test_d7_as_few_as_possible() -> None:
    """D7: the task of 1 is newer but does not help."""
    assert gone(full(task("large", 9), task("small", 1))) == ["large"]


def test_not_its_own_application() -> None:
    """PE-60: law 3 holds here, too."""
    assert gone(full(task("mine", 9, application_id="system"))) == []


def test_equal_priority_goes_and_a_higher_does_not() -> None:
    """PE-60."""
    assert gone(full(task("t0", priority=10), task("t1", 8, priority=11))) == []
    assert gone(full(task("t0", 5, priority=10), task("t1", 5, priority=11))) == ["t0"]


def test_the_order() -> None:
    """PE-61, the table of section 10: one after the other, all ten, each for an ask of its own size."""
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
    it = world(tree(queue("a"), queue("sys")), [node("n1", vcore=81)])
    it.given(app("app-1", "root.a"), app("system", "root.sys"))
    for key, priority, rank, size, is_out, is_owner in table:
        flags = {"priority": priority, "created": rank, "preempt_self": not is_out, "originator": is_owner}
        it.given(task(key, size, **flags), at=50)
    # each takes what was freed: nothing but one more task of this size or less can make room
    order = ["a5", "a4", "a2", "a1", "a3", "a10", "a6", "a7", "a8", "a9"]
    sizes = {key: size for key, _, _, size, _, _ in table}
    it.given(task("rest", 81 - sum(sizes.values()), priority=99))
    for number, key in enumerate(order):
        it.given(daemon(f"d{number}", sizes[key], priority=20), at=60 + number)
    assert victims(it) == order


def test_cordoned_node() -> None:
    """PE-66: the same on a node that is not schedulable."""
    it = full(*(task(f"t{n}") for n in range(5)))
    it.given(node("n1", "DRAIN_NODE"))
    assert gone(it) == ["t2", "t3", "t4"]


def test_capacity_too_small() -> None:
    """SC section 6.2: nobody goes for an ask that the node could never hold."""
    assert gone(full(*(task(f"t{n}") for n in range(5))), daemon(vcore=11)) == []


def test_a_limit_of_its_queue() -> None:
    """Section 10: the headroom of its own queue comes first."""
    it = full(*(task(f"t{n}") for n in range(5)), text=tree(queue("a"), queue("sys", max={"vcore": 4})))
    assert gone(it) == []


def test_two_on_one_node() -> None:
    """SC-77, PE-65: each has others go for it, none of them twice."""
    it = full(*(task(f"t{n}") for n in range(5)), confirms=True)
    assert gone(it, daemon("d1", 4), daemon("d2", 4)) == ["t1", "t2", "t3", "t4"]
    assert it.waiting() == []


def test_the_node_is_lost() -> None:
    """PE-55: decommissioned while the victims have not gone; when it comes back all begins anew."""
    it = full(*(task(f"t{n}") for n in range(5)))
    gone(it)
    it.given(node("n1", "DECOMISSION"))
    books = it.direct.scheduler.indexes.preemptions
    assert (books.by_ask, books.victims) == ({}, {})
    it.send(node("n1", vcore=10))
    assert "d on n1" in it.heard()


def test_victims_in_vain() -> None:
    """PE-55, PE-64: somebody else's task grows into the room; 15 s later others go."""
    it = full(*(task(f"t{n}") for n in range(5)))
    assert gone(it) == ["t2", "t3", "t4"]
    it.given(ask("t0", "app-1", vcore=8))
    it.given(*(release(f"t{n}", "app-1", PREEMPTED) for n in (2, 3, 4)))
    it.run(19.9)
    assert len(victims(it)) == 3
    it.run(20.1)
    assert victims(it)[3:] == ["t0"]


def test_another_configuration() -> None:
    it = full(*(task(f"t{n}") for n in range(5)))
    gone(it)
    it.given(configure(tree(queue("a"), queue("sys"), queue("new"))))
    it.send(*(release(f"t{n}", "app-1", PREEMPTED) for n in (2, 3, 4)))
    assert "d on n1" in it.heard()
