"""AP-154: histories of codes, and what asks waited for in them."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from world import World, app, ask, hold, make_world, node, queue, release, remove, tree

from ykactor.core.messages.facts import Allocated, AskRemoved
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.queueing.waits import CHANGES_MAX, CodeHistory, Waited

NEXT, QUOTA, NODES, LIMIT = PendingCode.NEXT, PendingCode.QUOTA, PendingCode.NODES, PendingCode.LIMIT
CODES = (NEXT, QUOTA, NODES, LIMIT)


def history(*changes: tuple[int, PendingCode]) -> CodeHistory:
    found = CodeHistory()
    for at_ns, code in changes:
        found.change(at_ns, code)
    return found


def waited(found: CodeHistory, from_ns: int, until_ns: int) -> Waited:
    sums: Waited = {}
    found.add_to(sums, from_ns, until_ns)
    return sums


def test_each_code_lasts_until_the_next_one() -> None:
    """The time before the first change counts as well."""
    found = history((10, QUOTA), (30, NODES))
    assert waited(found, 5, 33) == {NEXT: 5, QUOTA: 20, NODES: 3}
    assert waited(found, 12, 13) == {QUOTA: 1}
    assert waited(found, 40, 40) == {}
    assert found.code is NODES


def test_what_lasts_no_time_leaves_nothing() -> None:
    """A code that ends when it begins was never waited for."""
    found = history((10, QUOTA), (20, NEXT), (20, QUOTA))
    assert found == history((10, QUOTA))
    assert history((10, QUOTA), (10, NEXT)) == CodeHistory()


def test_old_changes_are_merged() -> None:
    """Sixteen are kept. An ask that was there all the time has exact sums; one that came later has its part in proportion."""
    changes = [(10 * number, (QUOTA, NODES)[number % 2]) for number in range(1, 2 * CHANGES_MAX + 1)]
    found = history(*changes)
    assert len(found.changes) == CHANGES_MAX
    end_ns = 10 * (2 * CHANGES_MAX + 1)
    assert waited(found, 0, end_ns) == {NEXT: 10, QUOTA: 10 * CHANGES_MAX, NODES: 10 * CHANGES_MAX}
    merged_ns = 10 * CHANGES_MAX
    assert found.merged == {NODES: merged_ns / 2, QUOTA: merged_ns / 2}
    half = waited(found, 10 + merged_ns // 2, 10 + merged_ns)
    assert half == {NODES: merged_ns / 4, QUOTA: merged_ns / 4}
    assert sum(waited(found, 13, end_ns).values()) == end_ns - 13


@pytest.mark.parametrize("seed", range(200))
def test_parts_always_add_up(seed: int) -> None:
    """However many changes there were, and however histories were put together, the parts of any interval are its length."""
    rng = random.Random(seed)

    def drawn() -> CodeHistory:
        times = sorted(rng.choices(range(1000), k=rng.randint(0, 60)))
        return history(*((at_ns, rng.choice(CODES)) for at_ns in times))

    past = drawn().copy()
    joins = sorted({rng.randint(1000, 2000) for _ in range(rng.randint(0, 4))} | {1000})
    for from_ns, until_ns in pairwise(joins):
        later = CodeHistory()
        for at_ns, code in drawn().changes:
            later.change(900 + at_ns, code)
        expected = Counter(waited(past, 0, from_ns)) + Counter(waited(later, from_ns, until_ns))
        past.extend(later, from_ns, until_ns)
        assert Counter(waited(past, 0, until_ns)) == expected
    for _ in range(20):
        from_ns, until_ns = sorted(rng.choices(range(joins[-1]), k=2))
        assert sum(waited(past, from_ns, until_ns).values()) == until_ns - from_ns


def seconds(sums: Waited | None) -> dict[str, float]:
    return {code.value: ns / 10**9 for code, ns in (sums or {}).items()}


def of(world: World, key: str) -> dict[str, float]:
    """The seconds of each code for which an ask has waited, when its wait ended."""
    ends = [fact for fact in world.facts if isinstance(fact, Allocated | AskRemoved) and fact.ask.allocation_key == key]
    return seconds(ends[0].waited)


TEXT = tree(queue("a", max={"vcore": 2}), queue("b"))


def test_a_quota_and_then_nodes() -> None:
    """An ask is short of its queue, then of a node."""
    world = make_world(TEXT, [node("n1", vcore=3), app("app", "root.a"), app("other", "root.b")])
    world.send(ask("one", "app", vcore=2), ask("two", "app", vcore=2))
    world.send(ask("three", "other", vcore=1), at=2)
    world.send(ask("large", "other", vcore=2), release("one", "app"), at=5)
    assert of(world, "one") == of(world, "three") == {}
    assert of(world, "two") == {"QUOTA": 5}
    world.send(release("two", "app"), at=7.5)
    assert of(world, "large") == {"QUOTA": 2.5}


def test_a_hold() -> None:
    """OP-2: a held queue, whose asks are new meanwhile or were found short before."""
    world = make_world(TEXT, [node("n1", vcore=2), app("app", "root.a")])
    world.send(ask("one", "app", vcore=2), ask("two", "app", vcore=2))
    world.administer(hold("root.a"))
    world.send(ask("three", "app", vcore=1), at=3)
    world.send(release("one", "app"), at=4)
    world.administer(hold("root.a", ends=True), at=6)
    world.send(release("two", "app"), at=10)
    assert of(world, "two") == {"HELD": 6}
    assert of(world, "three") == {"HELD": 3, "QUOTA": 4}


def test_no_node() -> None:
    """Nothing is tried without a node (PR-26): asks wait for one."""
    world = make_world(TEXT, [app("app", "root.b"), ask("one", "app", vcore=1)])
    world.send(node("n1", vcore=1), at=9)
    assert of(world, "one") == {"NODES": 9}


def test_a_cancelled_ask() -> None:
    """The wait of a cancelled ask ends too; one that fits is not short of anything."""
    world = make_world(TEXT, [node("n1", vcore=1), app("app", "root.b"), ask("one", "app", vcore=1), ask("two", "app", vcore=1)])
    world.send(remove("app"), at=4)
    assert of(world, "two") == {"QUOTA": 4}


def test_one_starts_first() -> None:
    """PR-75: in a stateaware queue an application waits for another one to start."""
    text = tree(queue("a", p={"application.sort.policy": "stateaware"}))
    world = make_world(text, [node("n1", vcore=3), app("app-1", "root.a"), app("app-2", "root.a")])
    world.send(ask("one", "app-1", vcore=1), ask("two", "app-2", vcore=1))
    world.send(ask("three", "app-1", vcore=1), at=7)
    assert of(world, "two") == {"ORDER": 7}
