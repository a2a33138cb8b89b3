"""The moment at which an ask preempts, what is reported, and what follows from it.

``full`` is one node of 10 that tasks of 2 of root.b fill; root.a is guaranteed 10 and its asks may preempt after 30 s.
"""

from typing import Any

import pytest
from world import World, app, ask, configure, foreign, limit, make_world, move, node, queue, release, remove, tree

from ykactor.core.messages.facts import AskCondition, Preempted

PREEMPTED = "PREEMPTED_BY_SCHEDULER"
HOUR = 3600.0


def text(b: dict[str, Any] | None = None, *more: dict[str, Any], **root: Any) -> str:
    return tree(queue("a", guaranteed={"vcore": 10}), queue("b", **b or {}), *more, **root)


def full(configuration: str = "", *, tasks: int = 5, confirms: bool = False, nodes: int = 1, **flags: Any) -> World:
    world = make_world(configuration or text(), [node(f"n{n}", vcore=10) for n in range(1, nodes + 1)], confirms=confirms)
    world.given(app("app-a", "root.a"), app("app-b", "root.b"))
    for n in range(tasks):
        world.given(ask(f"t{n}", "app-b", vcore=2, on=f"n{1 + n // 5}", **flags), at=n / 100)
    return world


def wants(key: str = "w", application_id: str = "app-a", vcore: int = 2, **keys: Any) -> Any:
    return ask(key, application_id, vcore=vcore, preempt_other=True, **keys)


def preemptions(world: World) -> list[tuple[float, str, list[str]]]:
    """(second, ask, victims) of each."""
    found = [fact for fact in world.facts if isinstance(fact, Preempted)]
    return [(fact.at_ns / 1e9, fact.ask.allocation_key, [key for _, _, key in fact.victims]) for fact in found]


def counts(world: World) -> tuple[dict[str, int], dict[str, int]]:
    """The preempting resources below root, and those that asks claim there."""
    root = world.direct.scheduler.state.tree.root
    return ({name: n for name, n in root.preempting.items() if n}, {name: n for name, n in root.claims.items() if n})


def begun(**setup: Any) -> World:
    """t4 was preempted for w at second 31; its release is not confirmed."""
    world = full(**setup)
    world.given(wants(), at=1)
    world.run(31.05)
    assert counts(world) == ({"vcore": 2}, {"vcore": 2})
    world.heard()
    return world


# ---- when


def test_not_before_the_delay() -> None:
    """PE-14, PE-16: from 30 s on, unless the leaf says otherwise."""
    world = full()
    world.given(wants(), at=1)
    world.run(30.9)
    assert preemptions(world) == []
    world.run(31.1)
    assert preemptions(world) == [(31, "w", ["t4"])]


def test_the_age_counts_from_the_creation() -> None:
    """AP-56: where that is earlier than the arrival."""
    world = full()
    world.given(wants(created=80), at=100)
    world.run(130)
    assert preemptions(world) == [(110, "w", ["t4"])]


def test_delay_of_the_leaf() -> None:
    """PE-14: ``preemption.delay``; it does not help on a parent."""
    inner = queue("a", guaranteed={"vcore": 10}, p={"preemption.delay": "5s"})
    world = make_world(tree(queue("a", inner, p={"preemption.delay": "1s"}), queue("b")), [node("n1", vcore=2)])
    world.given(app("app-i", "root.a.a"), app("app-b", "root.b"), ask("t4", "app-b", vcore=2, on="n1"))
    world.given(wants("w", "app-i"), at=10)
    world.run(20)
    assert preemptions(world) == [(15, "w", ["t4"])]


def test_again_after_15_s() -> None:
    """PE-15, PE-46: the first attempt is in vain at 31, the next one 15 s later finds the tasks that came between them."""
    world = full(priority=5)
    world.given(wants(vcore=4), at=1)
    world.run(31.1)
    assert "Preemption does not help" in world.why("w")
    world.given(release("t0", "app-b"), ask("low", "app-b", vcore=2, on="n1"), at=31.5)
    world.given(release("t1", "app-b"), ask("low2", "app-b", vcore=2, on="n1"), at=31.6)
    world.run(45.9)
    assert preemptions(world) == []
    world.run(46.1)
    assert preemptions(world) == [(46, "w", ["low2", "low"])]


def test_ten_attempts_of_a_leaf_in_a_pass() -> None:
    """PE-10, PE-16: twelve asks that attempt in vain, two of them in the next pass."""
    world = full(priority=5)
    world.given(*(wants(f"w{n}", vcore=2 + n % 5) for n in range(12)))
    world.run(30.05)
    tried = world.direct.scheduler.state.preemptions.last_attempts
    assert len(tried) == 10
    world.run(30.2)
    assert len(tried) == 12


def test_partition_that_does_not_preempt() -> None:
    """PE-90: ``preemption.enabled: false``; asks that require their node preempt all the same."""
    world = full(text(preemption={"enabled": False}), nodes=1)
    world.given(wants(), at=1)
    world.run(100)
    assert preemptions(world) == []
    world.send(ask("pinned", "app-a", vcore=2, requires="n1"))
    assert [key for _, key, _ in preemptions(world)] == ["pinned"]


def test_limits_of_users_are_no_reason() -> None:
    """PE-73: nothing is preempted for a user who may not use more."""
    world = full(text(limits=[limit("alice", vcore=10)]))
    world.given(wants(), at=1)
    world.run(100)
    assert preemptions(world) == []


def test_nobody_goes_elsewhere_for_an_ask_that_requires_its_node() -> None:
    """PE-13: its node is full of more important tasks; that others could go on n2 does not help it."""
    world = full(tasks=0, nodes=2)
    world.given(ask("x", "app-b", vcore=10, on="n1", priority=9), ask("t", "app-b", vcore=10, on="n2"))
    world.given(wants(requires="n1"), at=1)
    world.run(100)
    assert preemptions(world) == []


def test_a_leaf_at_its_max() -> None:
    """PE-21: room has to be made in the leaf itself, where nothing may be preempted; tasks of other queues would not help."""
    leaf = queue("a", guaranteed={"vcore": 10}, max={"memory": 1})
    world = make_world(tree(leaf, queue("b")), [node("n1", vcore=10, memory=10)])
    world.given(app("app-a", "root.a"), app("app-b", "root.b"), ask("own", "app-a", memory=1, on="n1"))
    world.given(ask("t", "app-b", vcore=10, memory=1, on="n1"), ask("w", "app-a", vcore=1, memory=1, preempt_other=True), at=1)
    world.run(100)
    assert preemptions(world) == []
    assert "Preemption does not help" in world.why("w")


def test_foreign_tasks_stay() -> None:
    """PE-31, SC-85: neither an ask of a starving queue nor one that requires the node ends what somebody else placed."""
    world = full(tasks=0)
    world.given(foreign("f", "n1", vcore=10), wants(), ask("pinned", "app-a", vcore=2, requires="n1", priority=9), at=1)
    world.run(100)
    assert preemptions(world) == []


# ---- what is reported


def test_what_is_told() -> None:
    """PE-93: the release with its reason, the reservation, and a sentence to the victim."""
    world = full()
    world.given(wants(), at=1)
    world.run(31.1)
    reason = "preempting allocations to free up resources to run ask: w"
    world.expect(f"t4 releasing {PREEMPTED} ({reason})", "w reserves n1")
    assert "Preempted by w from application app-a in root.a" in world.remarks()
    remark = next(fact for fact in world.facts if isinstance(fact, AskCondition) and fact.message.startswith("Preempted by"))
    assert (remark.ask.allocation_key, remark.queue) == ("t4", "root.b")


def test_the_entry_in_the_ledger() -> None:
    """PE-95: the decision says what allows it, what it does to guarantees, and what work is lost."""
    world = begun()
    (entry,) = [fact for fact in world.facts if isinstance(fact, Preempted)]
    assert (entry.why, entry.node_id) == ("its queue is 0.01 vcore below its guarantee (law 4)", "n1")
    assert (entry.shares_before, entry.shares_after) == ({"root.a": 0.0}, {"root.a": 0.2})
    assert entry.work_lost == {"vcore": 60}


def test_victims_count_until_they_have_gone() -> None:
    """PE-53, SC-130: usage and the node's room stay as they are; then the ask runs (PE-71)."""
    world = begun()
    assert world.queue("root.b")["allocated"] == {"vcore": 10}
    world.run(40)
    world.expect()
    world.send(release("t4", "app-b", PREEMPTED))
    world.expect("app-a Starting", "w on n1", "w leaves n1")
    assert counts(world) == ({}, {})


@pytest.mark.parametrize("termination_type", ["STOPPED_BY_RM", "TIMEOUT", "UNKNOWN_TERMINATION_TYPE"])
def test_any_end_will_do(termination_type: str) -> None:
    """PE-54, AP-121: the resource manager may end the victim for another reason."""
    world = begun()
    world.send(release("t4", "app-b", termination_type), at=40)
    assert world.placed() == ["w"]
    assert counts(world) == ({}, {})


def test_nothing_follows_while_the_victim_stays() -> None:
    """PE-12: an ask with victims under way does not try again, however long they take."""
    world = begun()
    world.run(HOUR)
    assert len(preemptions(world)) == 1


def test_an_hour_is_enough() -> None:
    """SC-60: on a full cluster the ask loses its node after 60 min, and with it the flag: it may preempt another task."""
    world = begun()
    world.run(HOUR + 31.1)
    assert [victims for _, _, victims in preemptions(world)] == [["t4"], ["t3"]]
    world.send(release("t4", "app-b", PREEMPTED))
    assert world.placed() == ["w"]
    assert counts(world) == ({"vcore": 2}, {})
    world.send(release("t3", "app-b", PREEMPTED))
    assert counts(world) == ({}, {})


def test_others_go_at_once() -> None:
    """``confirms``: with a resource manager that answers at once the ask runs in the same instant."""
    world = full(confirms=True)
    world.given(wants(), at=1)
    world.run(31.1)
    assert world.placed() == ["w"]


# ---- reservations


def test_a_reserved_ask_goes_on_trying() -> None:
    """PE-70, SC-56: n1 is reserved for w for want of a better node; w moves to n2, where a task may be preempted."""
    world = make_world(text(), [node("n1", vcore=10), node("n2", vcore=10)], confirms=False)
    world.given(app("app-a", "root.a"), app("app-b", "root.b"))
    world.given(ask("x", "app-b", vcore=7, on="n1", priority=9), ask("t", "app-b", vcore=8, on="n2"))
    world.given(wants(vcore=4), at=1)
    world.run(3.1)
    world.expect("w reserves n1")
    world.run(31.1)
    assert [line.split(" (")[0] for line in world.heard()] == [f"t releasing {PREEMPTED}", "w leaves n1", "w reserves n2"]
    assert world.why("w") == "node n2 is reserved for it; 0 of 1 victims have been released, waiting for t of app-b"


def test_each_on_its_own_node() -> None:
    """PE-38: of two equal asks that have a node only the one may preempt on whose node a task may be preempted."""
    world = make_world(text(), [node("n1", vcore=10), node("n2", vcore=10)], confirms=False)
    world.given(app("app-a", "root.a"), app("app-b", "root.b"))
    world.given(ask("x", "app-b", vcore=8, on="n1", priority=9), ask("t", "app-b", vcore=8, on="n2"))
    world.given(wants("u", vcore=4), wants("w", vcore=4), at=1)
    world.run(3.1)
    world.expect("u reserves n1", "w reserves n2")
    world.run(31.1)
    assert preemptions(world) == [(31, "w", ["t"])]


def test_the_node_stays_its_own() -> None:
    """PE-93: where it was reserved n1 already nothing moves."""
    world = make_world(text(), [node("n1", vcore=10)], confirms=False)
    world.given(app("app-a", "root.a"), app("app-b", "root.b"), ask("t", "app-b", vcore=8, on="n1"))
    world.given(node("n2", vcore=3), wants(vcore=4))
    world.run(3.1)
    world.expect("w reserves n1")
    world.run(31.1)
    world.expect(f"t releasing {PREEMPTED} (preempting allocations to free up resources to run ask: w)")


def taken() -> World:
    """n1 is kept for ``other`` of priority 0, since second 2, of a queue that may not preempt."""
    world = make_world(text(), [node("n1", vcore=10), node("n2", vcore=3)], confirms=False)
    world.given(app("app-a", "root.a"), app("app-b", "root.b"))
    world.given(ask("t", "app-b", vcore=8, on="n1"), ask("u", "app-b", vcore=1, on="n2"))
    world.given(ask("other", "app-b", vcore=4))
    world.run(3.1)
    world.expect("other reserves n1")
    return world


def test_a_node_that_is_kept_for_somebody_else() -> None:
    """PE-38: it is not considered before the other reservation is 60 min old."""
    world = taken()
    world.given(wants(vcore=4, priority=1), at=10)
    world.run(HOUR)
    assert preemptions(world) == []
    world.run(HOUR + 20)
    assert [key for _, key, _ in preemptions(world)] == ["w"]
    assert [line for line in world.heard() if "releasing" not in line] == ["other leaves n1", "w reserves n1"]


def test_only_lower_priorities_give_way() -> None:
    """PE-52: an equal one keeps its node."""
    world = taken()
    world.given(wants(vcore=4), at=10)
    world.run(2 * HOUR)
    assert preemptions(world) == []


def test_a_node_that_is_cordoned() -> None:
    """SC-61: a node that was preempted for is not given up; the ask does not run there before the node is schedulable again."""
    world = begun()
    world.given(node("n1", "DRAIN_NODE"), at=32)
    assert world.node("n1")["reservations"] == ["w"]
    world.send(release("t4", "app-b", PREEMPTED), at=33)
    assert world.placed() == []
    world.run(120)
    assert (world.placed(), len(preemptions(world))) == ([], 1)  # PE-75: nor does it preempt there
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    assert world.placed() == ["w"]


def test_a_cordoned_node_does_not_hold_it_back() -> None:
    """SC-61: it runs elsewhere as soon as there is room."""
    world = begun()
    world.given(node("n1", "DRAIN_NODE"), at=32)
    world.given(release("t4", "app-b", PREEMPTED), at=33)
    world.send(node("n2", vcore=10))
    assert "w on n2" in world.heard()


def test_another_node_of_the_same_name() -> None:
    """PE-30: what ran on the node that is gone is nobody's victim, whatever revision its successor has."""
    world = full(priority=5)
    world.given(wants(), at=1)
    world.run(31.1)
    world.given(release("w", "app-a"), node("n1", "DECOMISSION"), remove("app-b"), at=32)
    world.given(node("n1", vcore=10), app("app-b", "root.b"))
    for n in range(5):  # as often changed as the first one was
        world.given(ask(f"s{n}", "app-b", vcore=2, on="n1"))
    world.given(wants("v"))
    world.run(70)
    assert preemptions(world) == [(62, "v", ["s4"])]


# ---- PE-55


@pytest.mark.parametrize("how", ["cancel", "remove", "decommission", "shrink", "required"])
def test_the_reservation_is_lost(how: str) -> None:
    """PE-55: whatever the reason, nothing is claimed any more; the victim goes all the same."""
    world = begun(nodes=2, tasks=10)
    said = {
        "cancel": release("w", "app-a"),
        "remove": remove("app-a"),
        "decommission": node("n1", "DECOMISSION"),
        "shrink": node("n1", "UPDATE", vcore=1),
        "required": ask("pinned", "app-b", vcore=2, requires="n1"),
    }[how]
    world.send(said, at=32)
    preempting, claims = counts(world)
    assert (preempting.get("vcore", 0) >= (0 if how == "decommission" else 2), claims) == (True, {})


def test_a_lost_reservation_does_not_shorten_the_wait() -> None:
    """PE-15, PE-55: the next attempt comes 15 s after the last one."""
    world = begun(nodes=2, tasks=10)
    world.given(node("n1", "DECOMISSION"), at=32)
    (first, _, _) = preemptions(world)[0]
    world.run(first + 14.9)
    assert len(preemptions(world)) == 1
    world.run(first + 15.2)
    assert [round(at - first, 1) for at, _, _ in preemptions(world)] == [0, 15.0]


def test_won_for_nothing() -> None:
    """PE-55, PE-72: somebody else took the room; 15 s after the last victim went the ask tries again."""
    world = begun()
    world.given(foreign("f", "n1", vcore=2), at=40)
    world.given(release("t4", "app-b", PREEMPTED), at=50)
    assert counts(world) == ({}, {"vcore": 2})
    world.run(64.9)
    assert len(preemptions(world)) == 1
    world.run(65.2)
    assert preemptions(world)[1:] == [(65, "w", ["t3"])]


def test_elsewhere_in_the_meantime() -> None:
    """PE-50: room turns up on another node; the ask takes it, the victim goes in vain."""
    world = begun()
    world.send(node("n2", vcore=10), at=32)
    assert "w on n2" in world.heard()
    assert counts(world) == ({"vcore": 2}, {})
    world.send(release("t4", "app-b", PREEMPTED))
    assert counts(world) == ({}, {})


# ---- things that change on the way


def test_preemptor_of_another_size() -> None:
    """The ask preempted for another size: the claim is gone; the victims are released all the same."""
    world = begun()
    world.send(ask("w", "app-a", vcore=4, preempt_other=True), at=32)
    assert counts(world) == ({"vcore": 2}, {})
    world.run(46)
    assert [(key, victims) for _, key, victims in preemptions(world)] == [("w", ["t4"]), ("w", ["t3", "t2"])]
    world.send(*(release(f"t{n}", "app-b", PREEMPTED) for n in range(5)))
    assert "w on n1" in world.heard()
    assert counts(world) == ({}, {})


def test_victim_of_another_size() -> None:
    world = begun()
    world.send(ask("t4", "app-b", vcore=3), at=32)
    assert counts(world) == ({"vcore": 3}, {"vcore": 2})
    world.send(release("t4", "app-b", PREEMPTED))
    assert world.placed() == ["w"]
    assert counts(world) == ({}, {})


@pytest.mark.parametrize("who", ["app-a", "app-b"])
def test_application_that_moves(who: str) -> None:
    """Amounts that count in the old path count in the new one; afterwards they are nothing everywhere."""
    world = begun(configuration=text(None, queue("other", queue("c", guaranteed={"vcore": 10}))))
    assert world.administer(move(who, "root.other.c"), at=32) == ""
    assert counts(world) == ({"vcore": 2}, {"vcore": 2})
    world.send(release("t4", "app-b", PREEMPTED))
    assert world.placed() == ["w"]
    assert counts(world) == ({}, {})


@pytest.mark.parametrize("who", ["app-a", "app-b"])
def test_application_that_goes(who: str) -> None:
    world = begun()
    world.send(remove(who), at=32)
    assert counts(world) == (({"vcore": 2}, {}) if who == "app-a" else ({}, {}))
    world.send(release("t4", "app-b", PREEMPTED))
    assert counts(world) == ({}, {})


def test_victim_whose_node_goes() -> None:
    world = begun(nodes=2, tasks=10)
    world.send(node("n1", "DECOMISSION"), node("n2", "DECOMISSION"), at=32)
    assert counts(world) == ({}, {})


def test_another_configuration() -> None:
    """All accounts are made anew; victims and claims go on counting."""
    world = begun()
    world.send(configure(text({"max": {"vcore": 50}}, queue("c"))), at=32)
    assert counts(world) == ({"vcore": 2}, {"vcore": 2})
    world.send(release("t4", "app-b", PREEMPTED))
    assert world.placed() == ["w"]
    assert counts(world) == ({}, {})


# ---- gangs


def gang() -> World:
    """n1 is full of two placeholders of app-g; the newer one was preempted for w."""
    world = make_world(text(), [node("n1", vcore=4)], confirms=False)
    world.given(app("app-a", "root.a"), app("app-g", "root.b", placeholders={"vcore": 4}, timeout_ms=60_000))
    for n in (1, 2):
        world.given(ask(f"p{n}", "app-g", vcore=2, group="x", placeholder=True), at=n)
    world.given(wants(), at=5)
    world.run(35.1)
    assert [(key, victims) for _, key, victims in preemptions(world)] == [("w", ["p2"])]
    world.heard()
    return world


def test_a_preempted_placeholder_is_not_replaced() -> None:
    """PE-74: the real task waits for the other one; the second waits on."""
    world = gang()
    world.send(ask("r1", "app-g", vcore=2, group="x"), ask("r2", "app-g", vcore=2, group="x"), at=40)
    world.expect("p1 releasing PLACEHOLDER_REPLACED (replacing allocationKey: r1)")
    world.send(release("p2", "app-g", PREEMPTED))
    assert "w on n1" in world.heard()


def test_a_preempted_placeholder_does_not_time_out() -> None:
    """PE-74, AP-129: it is reported once."""
    world = gang()
    world.run(100)
    assert [line.split(" (")[0] for line in world.heard() if "releasing" in line] == ["p1 releasing TIMEOUT"]
    world.send(release("p2", "app-g", PREEMPTED))
    assert "w on n1" in world.heard()


def test_placeholders_preempt() -> None:
    """PE-56: a placeholder ask may preempt."""
    world = full()
    world.given(app("app-g", "root.a", placeholders={"vcore": 2}), wants("p", "app-g", group="x", placeholder=True), at=1)
    world.run(31.1)
    assert preemptions(world) == [(31, "p", ["t4"])]
