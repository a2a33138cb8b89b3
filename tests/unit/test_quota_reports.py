"""Reports about waiting asks: once, when the wait is over, and never so many at a time that somebody else waits for it."""

import pytest
from world import World, app, ask, configure, limit, make_world, node, queue, release, remove, tree

from ykactor.core.messages.facts import AskCondition, RunnableChanged
from ykactor.core.planner.planner import Budget, Planner
from ykactor.core.queueing.equivalence import AskQueue
from ykactor.core.turn.scheduler import Cycle
from ykactor.core.waiting import quota_reports as module
from ykactor.core.waiting.quota_reports import CONDITIONS_MAX, LOOKS_MAX
from ykactor.sim.direct import carry_out

ONE_NODE = [node("n1", vcore=4)]


def remarks(world: World, start: int = 0) -> list[str]:
    """The reports about asks and applications since the ``start``-th fact."""
    told = []
    for fact in world.facts[start:]:
        if isinstance(fact, AskCondition):
            told.append(fact.message)
        elif isinstance(fact, RunnableChanged):
            told.append(f"{fact.application_id} {'runnable' if fact.can_run else 'held'} {fact.gate}")
    return told


def test_told_once() -> None:
    """A report that an ask is too large comes once in ten passes, and later once that it fits (EV-71)."""
    world = make_world(tree(queue("a", max={"vcore": 1})), ONE_NODE)
    world.send(app("app-1"), ask("t1", "app-1", vcore=2))
    for second in range(10):
        world.send(node(f"m{second}", vcore=1), at=second)
    assert remarks(world) == ["Request 't1' does not fit in queue 'root.a' (requested map[vcore:2], available map[vcore:1])"]
    world.send(configure(tree(queue("a", max={"vcore": 2}))))
    assert remarks(world)[1:] == ["Request 't1' has become schedulable in queue 'root.a'"]


def test_everybody_in_line_is_told() -> None:
    """Each ask of a class that fails is reported, also if it joins the class later; one that leaves it unplaced is not again."""
    world = make_world(tree(queue("a")), ONE_NODE)
    world.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=4) for n in range(3)), app("app-2"), ask("u1", "app-2", vcore=4))
    assert [message.split("'")[1] for message in remarks(world)] == ["t1", "t2", "u1"]
    told = len(world.facts)
    world.send(ask("u2", "app-2", vcore=4), release("u1", "app-2"))
    assert [message.split("'")[1] for message in remarks(world, told)] == ["u2"]


def test_fits_but_finds_no_node() -> None:
    """Enough in total, on no node alone: each ask of the class is reported as fitting the quota, and now waits for a node."""
    world = make_world(tree(queue("a")), ONE_NODE)
    world.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=3) for n in range(3)))
    told = len(world.facts)
    world.send(node("n2", vcore=2))
    assert [message.split(" ")[1:4] for message in remarks(world, told)] == [["'t1'", "has", "become"], ["'t2'", "has", "become"]]


def test_others_take_what_it_waited_for() -> None:
    """An ask that waits for a node is reported as over quota when others have used what was left, also outside the walk."""
    world = make_world(tree(queue("a")), [node("n1", vcore=2), node("n2", vcore=2)])
    world.send(app("app-1"), ask("t1", "app-1", vcore=3), app("app-2"))
    assert remarks(world) == []
    world.send(ask("u1", "app-2", vcore=1))
    assert remarks(world) == []
    world.send(ask("u2", "app-2", vcore=1))
    assert remarks(world) == ["Request 't1' does not fit in queue 'root.a' (requested map[vcore:3], available map[vcore:2])"]
    assert (
        world.why("t1")
        == "can never fit: the largest node has 0.002 vcore, it wants 0.003; wants 0.003, has 0.002 of 0.004 vcore in the cluster"
    )
    world.send(release("u1", "app-2"))
    world.send(ask("u3", "app-2", on="n1", vcore=1))
    assert [message.split(" ")[2] for message in remarks(world)] == ["does", "has", "does"]


def test_limit_before_queue() -> None:
    """An ask over a limit is not checked against its queue; what was reported of the queue stays (SC-148, QU-39)."""
    world = make_world(tree(queue("a", max={"vcore": 1})), ONE_NODE)
    world.send(app("app-1"), ask("t1", "app-1", vcore=2))
    world.send(configure(tree(queue("a", max={"vcore": 1}, limits=[limit("alice", vcore=1)]))))
    world.send(configure(tree(queue("a", max={"vcore": 2}, limits=[limit("alice", vcore=2)]))))
    assert [message[13:] for message in remarks(world)] == [
        "does not fit in queue 'root.a' (requested map[vcore:2], available map[vcore:1])",
        "exceeds the available user quota (requested map[vcore:2], available map[vcore:1])",
        "fits in the available user quota",
        "has become schedulable in queue 'root.a'",
    ]


def test_first_answer() -> None:
    """EV-12: the first result is reported only when it is "cannot run"; the two gates are reported separately."""
    world = make_world(tree(queue("a", maxapplications=1, limits=[limit("alice", applications=1)])), ONE_NODE)
    world.send(app("app-1"), ask("t1", "app-1", vcore=1), app("app-2"), ask("u1", "app-2", vcore=1))
    assert remarks(world) == ["app-2 held QUEUE", "app-2 held QUOTA"]
    world.send(release("t1"))
    assert remarks(world)[2:] == ["app-2 runnable QUEUE", "app-2 runnable QUOTA"]


def test_bounded() -> None:
    """One plan reports at most ``CONDITIONS_MAX``, in the order of the asks; placements come first."""
    count = 2 * CONDITIONS_MAX + 10
    world = make_world(tree(queue("a")), ONE_NODE)
    chunks: list[int] = []
    unwatched = world.direct.cycle

    def watched(now_ns: int) -> tuple[Cycle, bool]:
        cycle, has_confirmed = unwatched(now_ns)
        chunks.append(sum(isinstance(fact, AskCondition) for fact in cycle.facts))
        return cycle, has_confirmed

    world.direct.cycle = watched  # type: ignore[method-assign]
    world.send(app("app-1"), ask("t", "app-1", vcore=4), *(ask(f"t{n}", "app-1", vcore=4) for n in range(count)))
    assert [message.split("'")[1] for message in remarks(world)] == [f"t{n}" for n in range(count)]
    assert chunks == [CONDITIONS_MAX, CONDITIONS_MAX, 10]
    assert unwatched(0)[0].facts == []


def test_what_was_true_for_a_moment_is_not_told() -> None:
    """Room that is used up before all asks of the class were checked is reported only of the asks that got it."""
    world = make_world(tree(queue("a")), ONE_NODE)
    world.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=4) for n in range(5)))
    told = len(world.facts)
    world.send(release("t0"))
    assert remarks(world, told) == ["Request 't1' has become schedulable in queue 'root.a'"]


def test_lines_that_are_over_are_not_looked_at() -> None:
    """Whenever the classes of a leaf are rebuilt, only existing ones are watched; none when nothing is pending any more."""
    texts = [tree(queue("a", p={"priority.offset": offset}), queue("b")) for offset in (0, 1)]
    world = make_world(texts[0], [node("n1", vcore=10), node("n2", vcore=10)])
    world.send(app("big", "root.b"), ask("b1", "big", vcore=6, requires="n1"), ask("b2", "big", vcore=6, requires="n2"))
    world.send(app("app-1"), ask("t1", "app-1", vcore=5), ask("t2", "app-1", vcore=7))
    state = world.direct.scheduler.state
    for text in [*texts[::-1], *texts[::-1]]:
        world.send(configure(text))
        assert len(state.quota_reports.watched()) == 2
    world.send(remove("app-1"), ask("b3", "big", vcore=1))
    assert state.quota_reports.watched() == []


def test_lines_of_a_dynamic_leaf_are_over_with_its_quotas() -> None:
    """QU-100: an application that brings other quotas for its leaf makes the lines of the leaf anew."""
    by_user = [{"name": "user", "create": True}]
    world = make_world(tree(queue("b"), placementrules=by_user), [node("n1", vcore=10), node("n2", vcore=10)])
    world.send(app("app-1", ""), ask("t0", "app-1", vcore=6), ask("t1", "app-1", vcore=6), ask("t2", "app-1", vcore=7))
    tags = {"namespace__resourcequota": '{"resources": {"vcore": {"value": 20}}}'}
    world.send(app("app-2", "", **tags), ask("u1", "app-2", vcore=8))
    watched = world.direct.scheduler.state.quota_reports.watched()
    assert len(watched) == len({line.key for line, _ in watched})


def crowded(count: int, **keys: int) -> World:
    """Two half full nodes, and ``count`` asks of one application and of as many shapes that wait for one with more room."""
    world = make_world(tree(queue("a", **keys), queue("b")), [node("n1", vcore=5000), node("n2", vcore=5000)])
    world.send(app("big", "root.b"), ask("b1", "big", vcore=2500, requires="n1"), ask("b2", "big", vcore=2500, requires="n2"))
    world.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=2600 + n) for n in range(count)))
    return world


def test_looking_is_bounded() -> None:
    """One plan checks at most ``LOOKS_MAX`` classes, counts that as work, and nothing is left to do when all were checked."""
    count = 2 * LOOKS_MAX + 10
    world = crowded(count)
    state, planner = world.direct.scheduler.state, Planner(world.direct.scheduler.state)
    assert remarks(world) == []
    assert carry_out(planner.plan(0, Budget(256, 10**6))).work == 0
    state.quota_reports.usage_grew()
    plans = [carry_out(planner.plan(0, Budget(256, 10**6))) for _ in range(4)]
    assert [plan.at_rest for plan in plans] == [False, False, True, True]
    assert [plan.work for plan in plans] == [5 * LOOKS_MAX, 5 * LOOKS_MAX, 50, 0]
    world.send(ask("b3", "big", vcore=2401))
    assert len(remarks(world)) == count


def test_an_application_is_told_once_what_holds_for_all_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few classes a plan checks, nothing is reported and taken back in between."""
    monkeypatch.setattr(module, "LOOKS_MAX", 1)
    world = crowded(3, maxapplications=1)
    world.send(app("app-2"), ask("u1", "app-2", vcore=1))
    assert remarks(world) == ["app-1 held QUEUE"]


@pytest.mark.skipif(not module.__file__.endswith(".py"), reason="a compiled module calls its functions directly")
def test_only_what_may_be_new_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more ask of an application that waits with asks of many shapes: only those of its shape are compared."""
    world = make_world(tree(queue("a", max={"vcore": 1})), ONE_NODE)
    world.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=2 + n) for n in range(50)))
    compared: list[int] = []
    report = module._Report.asks

    def noted(self: module._Report, queue: AskQueue, answer: int) -> None:
        compared.append(len(queue))
        report(self, queue, answer)

    monkeypatch.setattr(module._Report, "asks", noted)
    world.send(ask("t50", "app-1", vcore=2))
    assert compared == [2]
    assert remarks(world)[-1].startswith("Request 't50' does not fit")


def test_what_other_quotas_hold_back_is_found_in_the_same_moment() -> None:
    """Many classes wait for a node when others use what was left: all are reported, also if one was checked just now."""
    world = crowded(3)
    world.send(ask("b3", "big", vcore=2401), ask("t3", "app-1", vcore=2600))
    assert sorted(message.split("'")[1] for message in remarks(world)) == ["t0", "t1", "t2", "t3"]
