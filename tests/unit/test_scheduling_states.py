"""The reports to the resource manager about waiting asks: when, how often, and what each entry says."""

from collections import Counter
from itertools import pairwise
from typing import Any

from gangs import gang, real, room, three
from kept_rows import all_rows
from world import (
    World,
    answer,
    answering,
    app,
    ask,
    hand_back,
    hold,
    limit,
    make_world,
    move,
    node,
    queue,
    release,
    tree,
)

from ykactor.core.messages.facts import RecheckDue, SchedulingStateChanged
from ykactor.core.messages.submissions import Submission, WantSchedulingStates
from ykactor.core.records.base import made_from
from ykactor.core.values.parts import PART_MAX, finished
from ykactor.core.waiting import reasons
from ykactor.core.waiting.causes import REASONS_MAX
from ykactor.core.waiting.scheduling_states import ASKS_MAX, REASON_MAX

WANTED = WantSchedulingStates(True)


def changes(world: World) -> list[SchedulingStateChanged]:
    return [fact for fact in world.facts if isinstance(fact, SchedulingStateChanged)]


def told(world: World, key: str) -> list[tuple[float, str, str]]:
    """The second, state and cause of each notice about an ask."""
    return [(fact.at_ns / 1e9, str(fact.state), str(fact.cause)) for fact in changes(world) if key in fact.allocation_keys]


def last(world: World, key: str) -> SchedulingStateChanged:
    return next(fact for fact in reversed(changes(world)) if key in fact.allocation_keys)


def world_of(*queues: dict[str, Any], nodes: int = 2, wanted: bool = True) -> World:
    """Nodes of 4 vcore, and two applications in root.a."""
    world = make_world(tree(*queues or [queue("a")]), [node(f"n{number}", vcore=4) for number in range(nodes)])
    world.given(*[WANTED] * wanted, app("one"), app("two"))
    return world


def full(**options: Any) -> World:
    """Two nodes of 4 vcore with 3 in use, and an ask that fits on none of them."""
    world = world_of(**options)
    world.given(ask("f0", "one", vcore=3, on="n0"), ask("f1", "one", vcore=3, on="n1"), ask("t1", "two", vcore=2))
    return world


# ---- the causes


def test_a_queue_and_a_running_application() -> None:
    """AP-147: what a queue lacks was not tried on nodes; the queue that has too little left is told, and how much it has."""
    world = world_of(queue("a", queue("b"), max={"vcore": 3}, parent=True), queue("c", maxapplications=1))
    world.given(app("three", "root.a.b"), app("four", "root.c"), app("five", "root.c"))
    world.given(ask("t1", "three", vcore=2), ask("t2", "three", vcore=2), ask("u1", "four", vcore=1), ask("v1", "five", vcore=1))
    world.run(2)
    assert told(world, "t2") == [(1.0, "SKIPPED", "queue")]
    assert told(world, "v1") == [(1.0, "SKIPPED", "maxapps")]
    found = last(world, "t2")
    assert (found.application_id, found.queue, found.requested, found.available) == (
        "three",
        "root.a",
        {"vcore": 2},
        {"vcore": 1},
    )
    assert found.reason == world.why("t2")
    assert (last(world, "v1").queue, last(world, "v1").available) == ("root.c", None)
    assert told(world, "t1") == told(world, "u1") == []


def test_a_limit_of_a_user() -> None:
    """AP-147: the queue is that of the limit, of the types that it wants what the limit leaves is told."""
    world = world_of(queue("a", limits=[limit("alice", vcore=3, memory=9)]))
    world.given(ask("t1", "one", vcore=2), ask("t2", "one", vcore=2))
    world.run(2)
    assert told(world, "t2") == [(1.0, "SKIPPED", "user")]
    assert (last(world, "t2").queue, last(world, "t2").available) == ("root.a", {"vcore": 1})


def test_nodes_then_a_reserved_node() -> None:
    """AP-147: all nodes were tried; each counts once, for why it cannot take the ask. Its reservation is told 15 s later."""
    world = full()
    world.given(node("n2", "CREATE_DRAIN", vcore=4), node("n3", vcore=1))
    world.run(30)
    assert told(world, "t1") == [(1.0, "FAILED", "nodes"), (16.0, "FAILED", "reserved")]
    first = changes(world)[0]
    assert first.nodes == {"too little vcore free": 2, "drained": 1, "too little vcore, even if empty": 1}
    assert first.available == {"vcore": 1}
    assert first.reason.startswith("wants 0.002, has 0.001")
    assert (last(world, "t1").nodes, last(world, "t1").available) == ({}, {"vcore": 1})
    assert last(world, "t1").reason.startswith("node n0 is reserved for it")


def test_the_whole_cluster_and_no_node_at_all() -> None:
    """AP-147: more nodes would help, also if there is none, and nothing is tried."""
    world = world_of(nodes=0)
    world.given(ask("t1", "one", vcore=2), ask("t2", "two", requires="n9", vcore=1))
    world.run(2)
    assert told(world, "t1") == [(1.0, "FAILED", "nodes")]
    assert (last(world, "t1").nodes, last(world, "t1").available) == ({}, {"vcore": 0})
    assert last(world, "t1").reason == reasons.NO_NODE
    world.given(node("n1", vcore=1))
    world.run(4)
    assert told(world, "t1") == [(1.0, "FAILED", "nodes")]  # only numbers are others: AP-146


def test_an_ask_that_requires_its_node_never_fails() -> None:
    """AP-147: no other node would help it."""
    world = world_of()
    world.given(
        ask("t1", "one", requires="n9", vcore=1), ask("f1", "one", vcore=4, on="n0"), ask("t2", "one", requires="n0", vcore=1)
    )
    world.run(2)
    assert (told(world, "t1"), told(world, "t2")) == ([(1.0, "SKIPPED", "nodes")], [(1.0, "SKIPPED", "reserved")])


def test_predicates() -> None:
    """AP-147: while the answer is awaited it was not tried; then the refusals are counted."""
    world = world_of()
    world.given(answering(True), ask("t1", "one", predicate="gpu", vcore=1))
    world.run(2)
    assert told(world, "t1") == [(1.0, "SKIPPED", "predicate")]
    assert last(world, "t1").nodes == {reasons.PREDICATE_UNKNOWN: 2}
    world.given(*answer("gpu", "n0", "n1", no="no gpu"), at=3)
    world.run(20)
    assert told(world, "t1")[1:] == [(16.0, "FAILED", "predicate")]
    assert last(world, "t1").nodes == {"no gpu": 2}


def test_back_off() -> None:
    """AP-147: its asks are not tried, so what time ends is what they wait for."""
    world = world_of(queue("a", p={"application.unschedasks.backoff": 2}))
    world.given(ask("f0", "one", vcore=2, on="n0"), ask("f1", "one", vcore=2, on="n1"))
    world.given(*(ask(f"t{number}", "two", vcore=3) for number in range(3)))
    world.run(2)
    assert told(world, "t0") == told(world, "t2") == [(1.0, "SKIPPED", "backoff")]


def test_placeholders_and_holds() -> None:
    """AP-147: what waits for a placeholder, and what an operator holds."""
    world = room(confirms=False)
    world.given(WANTED, gang(), *three(), real("t1"), real("t2"), real("t3"), real("t4"))
    world.run(2)
    assert told(world, "t4") == [(0.0, "SKIPPED", "placeholder")]
    world.administer(hold("gang"))
    world.run(20)
    assert told(world, "t4")[1:] == [(15.0, "SKIPPED", "held")]


def test_an_application_that_has_to_wait_for_another_one() -> None:
    """AP-147: ``stateaware`` starts one after the other."""
    world = world_of(queue("a", p={"application.sort.policy": "stateaware"}))
    world.given(ask("t1", "one", vcore=9), ask("t2", "two", vcore=1))
    world.run(2)
    assert (told(world, "t1"), told(world, "t2")) == ([(1.0, "FAILED", "nodes")], [(1.0, "SKIPPED", "application")])


def test_counted_reasons_are_bounded() -> None:
    """AP-148: the most frequent refusals are told on their own, the others together; a long sentence is cut."""
    world = world_of(nodes=20)
    refusals = [answer("gpu", f"n{number}", no=f"reason {number} {'x' * 150}") for number in range(20)]
    world.given(answering(True), *(said for some in refusals for said in some), *answer("gpu", "n1", no="reason 0"))
    world.given(*answer("gpu", "n2", no="reason 0"), ask("t1", "one", predicate="gpu", vcore=1))
    world.run(2)
    found = last(world, "t1")
    assert len(found.nodes) == REASONS_MAX + 1
    assert next(iter(found.nodes.items())) == ("reason 0", 2)
    assert found.nodes[reasons.OTHERS] == 20 - 2 - (REASONS_MAX - 1)
    assert len(found.reason) == REASON_MAX


# ---- when, and how often


def test_nothing_is_told_to_whom_does_not_want_it() -> None:
    """AP-146: and there is no timer for it."""
    world = full(wanted=False)
    world.run(5)
    world.given(WANTED, WantSchedulingStates(False))
    world.run(40)
    assert changes(world) == []
    assert not [fact for fact in world.facts if isinstance(fact, RecheckDue)]


def test_one_entry_in_15_seconds() -> None:
    """AP-148: what changes to and fro is told every 15 s, and in the end what holds; then nothing is due any more."""
    world = world_of(queue("a"), queue("b", max={"vcore": 2}))
    world.given(app("three", "root.b"), ask("f1", "one", vcore=4, on="n0"), ask("t1", "two", vcore=5))
    for second in range(1, 60):
        world.administer(move("two", "root.b" if second % 2 else "root.a"), at=second)
        world.run(second + 0.9)
    world.run(90)
    times = [at_s for at_s, _, _ in told(world, "t1")]
    assert all(after - before >= 15 for before, after in pairwise(times))
    assert len(times) >= 3
    assert told(world, "t1")[-1][1:] == ("SKIPPED", "queue")
    count = len(world.facts)
    world.run(200)
    assert len(world.facts) == count


def test_a_session_is_told_everything() -> None:
    """AP-148: whoever connects is told all that waits, also what was told before."""
    world = full()
    world.run(30)
    world.given(WantSchedulingStates(False), at=31)
    world.run(50)
    world.given(WANTED, at=51)
    world.run(55)
    assert [at_s for at_s, _, _ in told(world, "t1")] == [1.0, 16.0, 51.0]


def test_an_ask_that_was_placed_begins_anew() -> None:
    """AP-148: what was told ends with its allocation; handed back, it is told again although the same holds."""
    world = world_of(nodes=1)
    world.given(ask("t1", "one", vcore=3), ask("t2", "one", vcore=3))
    world.run(2)
    world.given(release("t1", "one"), at=3)  # t2 runs
    world.given(ask("t3", "one", vcore=3), hand_back("t2", application_id="one"), at=4)
    world.run(10)
    assert [at_s for at_s, _, _ in told(world, "t2")] == [1.0, 4.0]


def test_a_partition_that_is_made_anew_tells_everything() -> None:
    """AP-148, DU-15: what was told is not kept, only that somebody wants to know it; so it comes not before 15 s are over."""
    world = full()
    world.run(2)
    rows = all_rows(world.direct.core, world.direct.scheduler)
    core, scheduler, _ = finished(made_from(rows.items(), reserves=True))
    world.direct.restore(core, scheduler)
    world.given()
    world.run(60)
    assert [at_s for at_s, _, _ in told(world, "t1")] == [1.0, 17.0]


def test_a_round_that_finds_nothing_new_tells_nothing() -> None:
    """AP-146: what is the same is not told again, however often something else changes."""
    world = full()
    world.run(20)
    count = len(told(world, "t1"))
    for second in range(20, 60):
        world.given(ask(f"x{second}", "one", vcore=1, on="n0"), release(f"x{second}", "one"), at=second)
    world.run(80)
    assert len(told(world, "t1")) == count


def test_many_asks_are_told_in_parts() -> None:
    """AP-148: once each, in facts and plans of bounded size; a decision that becomes possible does not wait for the rest."""
    count, at_once = 5000, Counter[int]()
    world = make_world(tree(queue("a")), [node("n1", vcore=4)], checked=False)
    world.given(app("one"), app("two"), *(ask(f"t{number}", "one", vcore=9) for number in range(count)))
    world.given(*(ask(f"u{number}", "two", vcore=9 + number) for number in range(10)))
    run_turn = world.direct.run_turn

    def counting(now_ns: int, cause: Any) -> Any:
        start = len(world.facts)
        result = run_turn(now_ns, cause)
        told_count = sum(len(fact.allocation_keys) for fact in world.facts[start:] if isinstance(fact, SchedulingStateChanged))
        at_once[told_count] += 1
        return result

    world.direct.run_turn = counting  # type: ignore[method-assign]
    world.given(WANTED)
    found = changes(world)
    assert sorted(key for fact in found for key in fact.allocation_keys) == sorted(
        [f"t{number}" for number in range(count)] + [f"u{number}" for number in range(10)]
    )
    assert max(len(fact.allocation_keys) for fact in found) <= PART_MAX
    assert max(at_once) < ASKS_MAX + PART_MAX


def test_rounds_of_much_are_far_apart() -> None:
    """AP-148: the next round begins later the more the last one has looked at, at most after 15 s."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)], checked=False)
    asks: list[Submission] = [ask(f"t{number}", "one", vcore=9) for number in range(5_000)]
    world.given(app("one"), *asks, *(ask(f"u{number}", "one", vcore=10 + number) for number in range(1_000)))
    world.given(WANTED, at=1)
    world.given(ask("late", "one", vcore=9), at=2)
    world.run(30)
    assert told(world, "late")[0][0] == 2.0
