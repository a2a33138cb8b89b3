"""Long work is done in parts of so many items, never of so much time, and what it brings about does not depend on the parts."""

from itertools import pairwise

import pytest
from world import PLENTY, app, ask, configure, limit, make_world, node, queue, release, remove, tree

from ykactor.core.config.model import Limit
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import LimitChanged
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.planned import Budget
from ykactor.core.objects.commands import SubmitBatch
from ykactor.core.planner import plan
from ykactor.core.planner.plan import TRY_WORK
from ykactor.core.preemption.victims import RunningTasks
from ykactor.core.quota.limits import QueueLimits, Trackers, in_force
from ykactor.core.values import parts, selector
from ykactor.core.values.parts import PART_MAX, finished, in_parts, paced, sorted_in_parts


def test_parts_have_the_same_number_of_items(monkeypatch):
    monkeypatch.setattr(parts, "PART_MAX", 3)
    assert list(in_parts(range(8))) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert list(in_parts([])) == []


def test_parts_are_sorted_one_by_one(monkeypatch):
    """A pause between them; the order is that of all items, and equal ones keep theirs."""
    monkeypatch.setattr(parts, "PART_MAX", 3)
    items = [5, 1, 4, 1.0, 9, True, 0, 7]
    sorting = paced(sorted_in_parts(items))
    assert [next(sorting) for _ in range(2)] == [()] * 2
    with pytest.raises(StopIteration) as end:
        next(sorting)
    assert [*map(repr, end.value.value)] == [*map(repr, sorted(items))]
    assert list(finished(sorted_in_parts([]))) == []


def test_a_pause_comes_after_as_many_items(monkeypatch):
    """Whatever functions the steps are in: what they took is added up."""
    monkeypatch.setattr(parts, "PART_MAX", 3)
    done = []

    def some(*sizes):
        for size in sizes:
            done.append(size)
            yield size

    def work():
        yield from some(1, 1)
        yield from some(1, 2)
        yield from some(2, 7, 1)
        return "all"

    paused = paced(work())
    assert [sum(done) for _ in paused] == [3, 7, 14]
    assert (sum(done), finished(work())) == (15, "all")


def above_quota(tasks):
    """A queue with so many tasks, whose quota is lowered to half of them."""

    def text(limit):
        leaf = queue("a", p={"quota.preemption.delay": "10s"}, max={"vcore": limit})
        return tree(leaf, preemption={"quotapreemptionenabled": True})

    world = make_world(text(tasks), [node("n1", vcore=tasks)], confirms=False)
    world.given(app("app-1"), *(ask(f"t{number:03}", "app-1", vcore=1, on="n1") for number in range(tasks)))
    world.direct.ingest(world.now_ns, [configure(text(tasks // 2))])
    return world


@pytest.mark.parametrize("tasks", [30, 60])
def test_quota_preemption_pauses(tasks, monkeypatch):
    """Between two pauses it looks at one part of the tasks; a plan without such work never pauses."""
    world = above_quota(tasks)
    planner, looks, counts = world.direct.scheduler.planner, 0, []
    look = RunningTasks.queue_of_victim

    def counted(self, task):
        nonlocal looks
        looks += 1
        return look(self, task)

    monkeypatch.setattr(RunningTasks, "queue_of_victim", counted)
    monkeypatch.setattr(parts, "PART_MAX", 10)
    for sends in planner.plan(world.now_ns + 10 * 10**9, Budget(1, PLENTY)):
        assert not sends
        counts.append(looks)
    assert looks == tasks
    assert all(after - before <= 10 for before, after in pairwise(counts))
    assert list(planner.plan(world.now_ns, Budget(1, PLENTY))) == []


def test_parts_change_no_victim(monkeypatch):
    """The order of victims goes over all parts."""
    told = []
    for size in (1000, 7):
        monkeypatch.setattr(parts, "PART_MAX", size)
        world = above_quota(60)
        world.wait(10)
        told.append(world.facts)
    assert told[0] == told[1]


def wide(room):
    """Thirty leaves with an ask each, of which so many fit."""
    leaves = [f"q{number:02}" for number in range(30)]
    world = make_world(tree(*map(queue, leaves)), reserves=False)
    asks = [ask(f"a-{leaf}", f"app-{leaf}", vcore=1) for leaf in leaves]
    world.given(*(app(f"app-{leaf}", f"root.{leaf}") for leaf in leaves), *asks)
    world.direct.ingest(world.now_ns, [node("n1", vcore=room)])
    return world


@pytest.mark.parametrize("room", [30, 1], ids=["all fit", "one fits"])
def test_a_plan_pauses_after_some_candidates(room, monkeypatch):
    """A plan pauses whether the candidates are placed or not: 30 of them, or one and again 30 that have no room."""
    monkeypatch.setattr(plan, "PAUSE_WORK", 10 * TRY_WORK)
    planner = wide(room).direct.scheduler.planner
    assert list(planner.plan(0, Budget(100, PLENTY))) == [[]] * 3


def test_a_plan_pauses_within_a_leaf(monkeypatch):
    """30 asks of 30 sizes in one queue, none of which fits."""
    monkeypatch.setattr(plan, "PAUSE_WORK", 10 * TRY_WORK)
    world = make_world(tree(queue("a")), [node("n1", vcore=1)], reserves=False)
    asks = [ask(f"t{size}", "app-1", vcore=size) for size in range(2, 32)]
    world.direct.ingest(world.now_ns, [app("app-1", "root.a"), *asks])
    assert list(world.direct.scheduler.planner.plan(0, Budget(100, PLENTY))) == [[]] * 3


def test_pauses_change_no_plan(monkeypatch):
    told = []
    for work in (PLENTY, TRY_WORK):
        monkeypatch.setattr(plan, "PAUSE_WORK", work)
        world = wide(20)
        world.direct.schedule(world.now_ns)
        told.append(world.facts)
    assert told[0] == told[1]


def test_reports_pause(monkeypatch):
    """After every part of the applications of which there may be something to report."""
    monkeypatch.setattr(parts, "PART_MAX", 10)
    world = wide(30)
    assert list(world.direct.scheduler.planner.plan(0, Budget(100, PLENTY))) == [()] * 3


@pytest.mark.parametrize("end", ["remove", "terminate", "release"])
def test_the_end_of_many_asks_pauses(end, monkeypatch):
    """Between two pauses the waits of one part of them are counted (AP-141)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=1)])
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=2) for number in range(60)))
    application = world.direct.core.registry.leaf_of("app-1").applications["app-1"]
    ends = {
        "remove": lambda now_ns: application.remove(now_ns),
        "terminate": lambda now_ns: application.terminate(now_ns),
        "release": lambda now_ns: application.release_all(now_ns, TerminationType.STOPPED_BY_RM),
    }
    monkeypatch.setattr(parts, "PART_MAX", 10)
    assert [waited_count(application) for _ in paced(ends[end](world.now_ns + 10**9))] == [10, 20, 30, 40, 50, 60]


def waited_count(application):
    """The number of asks of size 2 for which the wait of a second is counted."""
    return application.account.of_day.waited.get("vcore", 0) // 2


@pytest.mark.parametrize("end", ["remove", "release"])
def test_the_end_of_tasks_that_have_lasted_for_days_pauses_more_often(end, monkeypatch):
    """Each day is counted for itself (AP-141): 9 days of a task are as much as 9 more tasks."""
    world = make_world(tree(queue("a")), [node("n1", vcore=9)])
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=1, on="n1") for number in range(6)))
    application = world.direct.core.registry.leaf_of("app-1").applications["app-1"]
    ends = {
        "remove": lambda now_ns: application.remove(now_ns),
        "release": lambda now_ns: application.release_all(now_ns, TerminationType.STOPPED_BY_RM),
    }
    monkeypatch.setattr(parts, "PART_MAX", 10)
    assert sum(1 for _ in paced(ends[end](world.now_ns + 9 * 86_400 * 10**9 + 10**9))) == 6


# ---- a configuration with many queues


def test_limits_are_gathered_in_parts(monkeypatch):
    """Before and after a configuration changes: a pause after as many queues with limits."""
    monkeypatch.setattr(parts, "PART_MAX", 10)
    limits = [QueueLimits(f"root.q{number}", (Limit(("ann",)),)) for number in range(25)]
    gathering = paced(in_force(limits, Trackers()))
    assert [next(gathering), next(gathering)] == [(), ()]
    with pytest.raises(StopIteration) as end:
        next(gathering)
    assert len(end.value.value) == 25


def test_parts_change_no_configuration(monkeypatch):
    told = []
    for size in (1000, 3):
        monkeypatch.setattr(parts, "PART_MAX", size)
        world = make_world(tree(*(queue(f"q{number}", limits=[limit("ann", vcore=1)]) for number in range(10))))
        world.send(configure(tree(*(queue(f"q{number}", limits=[limit("ann", vcore=2)]) for number in range(5, 15)))))
        told.append(world.facts)
    assert told[0] == told[1]
    assert len([fact for fact in told[0] if isinstance(fact, LimitChanged)]) == 25


# ---- the end of many tasks

ENDS = {
    "release": lambda: release(None),
    "removal": lambda: remove("app-1"),
}


def crowded(running, pending):
    """An application with so many tasks and so many pending asks."""
    world = make_world(tree(queue("a")), [node("n1", vcore=running)], confirms=False)
    world.given(app("app-1", "root.a"), *(ask(f"t{number:03}", "app-1", vcore=1, on="n1") for number in range(running)))
    world.given(*(ask(f"a{number:03}", "app-1", vcore=1) for number in range(pending)))
    return world


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_leaf_pauses_when_many_tasks_end(end, monkeypatch):
    """After every part of the tasks and of the asks."""
    monkeypatch.setattr(parts, "PART_MAX", 10)
    leaf = crowded(30, 20).direct.core.registry.queues["root.a"]
    assert list(leaf.work(SubmitBatch(0, [(0, end(), 0, 0)]))) == [()] * 5


def test_a_leaf_pauses_when_many_selectors_are_read():
    """The longer the selectors are, the fewer asks are taken at a time."""
    leaf = crowded(1, 1).direct.core.registry.queues["root.a"]

    def pauses(length):
        texts = [",".join(f"k{length}.{ask}.{word}!=v" for word in range(length)) for ask in range(60)]
        asks = [Ask(f"s{n}", "app-1", {"vcore": 1}, tags={selector.TAG: text}) for n, text in enumerate(texts)]
        return len(list(leaf.work(SubmitBatch(0, [(0, each, 0, number) for number, each in enumerate(asks)]))))

    assert pauses(60) >= 5
    assert pauses(1) == 0


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_parts_change_nothing_that_ends(end, monkeypatch):
    told = []
    for size in (1000, 7):
        monkeypatch.setattr(parts, "PART_MAX", size)
        world = crowded(30, 20)
        world.send(end())
        told.append(world.facts)
    assert told[0] == told[1]


def test_the_changes_of_a_large_turn_are_forgotten_in_parts():
    """Not more than one part is left to the beginning of the next turn, or freed at once."""
    changed = Changed()
    for number in range(5 * PART_MAX + 7):
        changed.queue(f"root.q{number}")
    left = [len(changed.keys) for _ in changed.forget_most()]
    assert left == [number * PART_MAX + 7 for number in range(4, -1, -1)]
    assert len(changed.keys) == 7
    assert list(changed.forget_most()) == []
