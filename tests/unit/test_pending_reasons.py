"""What is said of those who wait: once, when it is over, and never so much at a time that somebody else waits for it."""

import pytest
from world import World, app, ask, configure, limit, node, queue, release, remove, tree, world

from ykactor.core.messages.facts import AskRemark, RunnableChanged
from ykactor.core.planner.planner import Budget, Planner
from ykactor.core.state import pending_reasons as module
from ykactor.core.state.pending_reasons import LOOKS_MAX, REMARKS_MAX
from ykactor.sim.direct import carry_out

ONE_NODE = [node("n1", vcore=4)]


def remarks(it: World, start: int = 0) -> list[str]:
    """What owners of asks and applications were told since the ``start``-th fact."""
    told = []
    for fact in it.facts[start:]:
        if isinstance(fact, AskRemark):
            told.append(fact.message)
        elif isinstance(fact, RunnableChanged):
            told.append(f"{fact.application_id} {'runnable' if fact.can_run else 'held'} {fact.gate}")
    return told


def test_told_once() -> None:
    """T2 of EV: an ask that is too large is told so once in ten passes, and once that it fits."""
    it = world(tree(queue("a", max={"vcore": 1})), ONE_NODE)
    it.send(app("app-1"), ask("t1", "app-1", vcore=2))
    for second in range(10):
        it.send(node(f"m{second}", vcore=1), at=second)
    assert remarks(it) == ["Request 't1' does not fit in queue 'root.a' (requested map[vcore:2], available map[vcore:1])"]
    it.send(configure(tree(queue("a", max={"vcore": 2}))))
    assert remarks(it)[1:] == ["Request 't1' has become schedulable in queue 'root.a'"]


def test_everybody_in_line_is_told() -> None:
    """Each ask of a line that fails is told, those that join it later as well, and those that leave it unplaced are not again."""
    it = world(tree(queue("a")), ONE_NODE)
    it.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=4) for n in range(3)), app("app-2"), ask("u1", "app-2", vcore=4))
    assert [message.split("'")[1] for message in remarks(it)] == ["t1", "t2", "u1"]
    told = len(it.facts)
    it.send(ask("u2", "app-2", vcore=4), release("u1", "app-2"))
    assert [message.split("'")[1] for message in remarks(it, told)] == ["u2"]


def test_fits_but_finds_no_node() -> None:
    """Enough in total, on no node alone: everybody in line is told that it fits the quota, which is no longer why it waits."""
    it = world(tree(queue("a")), ONE_NODE)
    it.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=3) for n in range(3)))
    told = len(it.facts)
    it.send(node("n2", vcore=2))
    assert [message.split(" ")[1:4] for message in remarks(it, told)] == [["'t1'", "has", "become"], ["'t2'", "has", "become"]]


def test_others_take_what_it_waited_for() -> None:
    """Who waits for a node is told that it does not fit any more when others have used what was left, also outside the walk."""
    it = world(tree(queue("a")), [node("n1", vcore=2), node("n2", vcore=2)])
    it.send(app("app-1"), ask("t1", "app-1", vcore=3), app("app-2"))
    assert remarks(it) == []
    it.send(ask("u1", "app-2", vcore=1))
    assert remarks(it) == []
    it.send(ask("u2", "app-2", vcore=1))
    assert remarks(it) == ["Request 't1' does not fit in queue 'root.a' (requested map[vcore:3], available map[vcore:2])"]
    assert it.why("t1") == "not enough vcore in the cluster: wants 3, has 2 of 4"
    it.send(release("u1", "app-2"))
    it.send(ask("u3", "app-2", on="n1", vcore=1))
    assert [message.split(" ")[2] for message in remarks(it)] == ["does", "has", "does"]


def test_limit_before_queue() -> None:
    """An ask over a limit is not measured against its queue; what it was told of the queue stays (rows 4 and 6 of SC, QU-39)."""
    it = world(tree(queue("a", max={"vcore": 1})), ONE_NODE)
    it.send(app("app-1"), ask("t1", "app-1", vcore=2))
    it.send(configure(tree(queue("a", max={"vcore": 1}, limits=[limit("alice", vcore=1)]))))
    it.send(configure(tree(queue("a", max={"vcore": 2}, limits=[limit("alice", vcore=2)]))))
    assert [message[13:] for message in remarks(it)] == [
        "does not fit in queue 'root.a' (requested map[vcore:2], available map[vcore:1])",
        "exceeds the available user quota (requested map[vcore:2], available map[vcore:1])",
        "fits in the available user quota",
        "has become schedulable in queue 'root.a'",
    ]


def test_first_answer() -> None:
    """EV-12: the first answer is told only when it is "cannot run"; the two gates answer for themselves."""
    it = world(tree(queue("a", maxapplications=1, limits=[limit("alice", applications=1)])), ONE_NODE)
    it.send(app("app-1"), ask("t1", "app-1", vcore=1), app("app-2"), ask("u1", "app-2", vcore=1))
    assert remarks(it) == ["app-2 held QUEUE", "app-2 held QUOTA"]
    it.send(release("t1"))
    assert remarks(it)[2:] == ["app-2 runnable QUEUE", "app-2 runnable QUOTA"]


def test_bounded() -> None:
    """One plan tells no more than ``REMARKS_MAX``, in the order of the asks; placements come first, in the end all were told."""
    count = 2 * REMARKS_MAX + 10
    it = world(tree(queue("a")), ONE_NODE)
    chunks: list[int] = []
    core = it.direct.scheduler
    unwatched = core.cycle

    def watched(now_ns: int, budget: Budget):  # type: ignore[no-untyped-def]
        result = yield from unwatched(now_ns, budget)
        chunks.append(sum(isinstance(fact, AskRemark) for fact in result.facts))
        return result

    core.cycle = watched  # type: ignore[method-assign]
    it.send(app("app-1"), ask("t", "app-1", vcore=4), *(ask(f"t{n}", "app-1", vcore=4) for n in range(count)))
    assert [message.split("'")[1] for message in remarks(it)] == [f"t{n}" for n in range(count)]
    assert chunks == [REMARKS_MAX, REMARKS_MAX, 10]
    assert carry_out(unwatched(0, Budget(256, 10**6))).facts == []


def test_what_was_true_for_a_moment_is_not_told() -> None:
    """Room that comes and is gone before everybody in line was looked at is told to those who got it, and to nobody else."""
    it = world(tree(queue("a")), ONE_NODE)
    it.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=4) for n in range(5)))
    told = len(it.facts)
    it.send(release("t0"))
    assert remarks(it, told) == ["Request 't1' has become schedulable in queue 'root.a'"]


def test_lines_that_are_over_are_not_looked_at() -> None:
    """Whatever makes the lines of a leaf anew, as many are watched as there are; none when nobody waits any more."""
    texts = [tree(queue("a", p={"priority.offset": offset}), queue("b")) for offset in (0, 1)]
    it = world(texts[0], [node("n1", vcore=10), node("n2", vcore=10)])
    it.send(app("big", "root.b"), ask("b1", "big", vcore=6, requires="n1"), ask("b2", "big", vcore=6, requires="n2"))
    it.send(app("app-1"), ask("t1", "app-1", vcore=5), ask("t2", "app-1", vcore=7))
    indexes = it.direct.scheduler.indexes
    for text in [*texts[::-1], *texts[::-1]]:
        it.send(configure(text))
        assert len(indexes.remarks.watched()) == 2
    it.send(remove("app-1"), ask("b3", "big", vcore=1))
    assert indexes.remarks.watched() == []


def test_lines_of_a_dynamic_leaf_are_over_with_its_quotas() -> None:
    """QU-100: an application that brings other quotas for its leaf makes the lines of the leaf anew."""
    by_user = [{"name": "user", "create": True}]
    it = world(tree(queue("b"), placementrules=by_user), [node("n1", vcore=10), node("n2", vcore=10)])
    it.send(app("app-1", ""), ask("t0", "app-1", vcore=6), ask("t1", "app-1", vcore=6), ask("t2", "app-1", vcore=7))
    tags = {"namespace__resourcequota": '{"resources": {"vcore": {"value": 20}}}'}
    it.send(app("app-2", "", **tags), ask("u1", "app-2", vcore=8))
    watched = it.direct.scheduler.indexes.remarks.watched()
    assert len(watched) == len({line.key for line, _ in watched})


def crowded(count: int, **keys: int) -> World:
    """Two half full nodes, and ``count`` asks of one application and of as many shapes that wait for one with more room."""
    it = world(tree(queue("a", **keys), queue("b")), [node("n1", vcore=5000), node("n2", vcore=5000)])
    it.send(app("big", "root.b"), ask("b1", "big", vcore=2500, requires="n1"), ask("b2", "big", vcore=2500, requires="n2"))
    it.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=2600 + n) for n in range(count)))
    return it


def test_looking_is_bounded() -> None:
    """One plan looks at no more than ``LOOKS_MAX`` lines, counts that as work, and is at rest when all were looked at."""
    count = 2 * LOOKS_MAX + 10
    it = crowded(count)
    indexes, planner = it.direct.scheduler.indexes, Planner(it.direct.scheduler.indexes)
    assert remarks(it) == []
    assert planner.plan(0, Budget(256, 10**6)).work == 0
    indexes.remarks.is_stale = True
    plans = [planner.plan(0, Budget(256, 10**6)) for _ in range(4)]
    assert [plan.at_rest for plan in plans] == [False, False, True, True]
    assert [plan.work for plan in plans] == [5 * LOOKS_MAX, 5 * LOOKS_MAX, 50, 0]
    it.send(ask("b3", "big", vcore=2401))
    assert len(remarks(it)) == count


def test_an_application_is_told_once_what_holds_for_all_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few lines a plan looks at, nothing is told and taken back in between."""
    monkeypatch.setattr(module, "LOOKS_MAX", 1)
    it = crowded(3, maxapplications=1)
    it.send(app("app-2"), ask("u1", "app-2", vcore=1))
    assert remarks(it) == ["app-1 held QUEUE"]
