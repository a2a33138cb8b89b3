"""The nodes where preemption could make room, ranked once and then only when they change."""

from typing import Any

import pytest
from world import World, app, ask, make_world, node, queue, tree

from ykactor.core.messages.facts import Preempted
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.planner.preemption_step import Preemptor
from ykactor.core.preemption.victims import Search
from ykactor.core.queueing.waiting_classes import NodeLog
from ykactor.core.values.ids import NodeID

NODES = 20


def full(*, confirms: bool = True, **b: Any) -> World:
    """Nodes of 10 with five tasks of 2 each of root.b; root.a is guaranteed them all."""
    configuration = tree(queue("a", guaranteed={"vcore": 10 * NODES}), queue("b", **b))
    world = make_world(configuration, [node(f"n{n:02}", vcore=10) for n in range(NODES)], confirms=confirms)
    world.given(app("app-a", "root.a"), app("app-b", "root.b"))
    world.given(*(ask(f"t{n}-{i}", "app-b", vcore=2, on=f"n{n:02}") for n in range(NODES) for i in range(5)))
    return world


def ranked(world: World, monkeypatch: pytest.MonkeyPatch, until: float, *keys: str) -> list[str]:
    """Let asks preempt; the nodes that were ranked for this."""
    found: list[str] = []
    rank = Search.rank

    def noted(self: Search, node: IndexedNode, tasks: Any) -> Any:
        found.append(node.node_id)
        return rank(self, node, tasks)

    with monkeypatch.context() as patched:
        patched.setattr(Search, "rank", noted)
        world.given(*(ask(key, "app-a", vcore=2, preempt_other=True) for key in keys))
        world.run(until)
    return found


def test_a_node_is_ranked_again_only_when_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """PE-38: the searches for equal asks rank all nodes once, and then those with victims."""
    world = full()
    assert len(set(ranked(world, monkeypatch, 40, "w0"))) == NODES
    again = ranked(world, monkeypatch, 80, "w1", "w2")
    assert len(again) < NODES // 2
    victims = [fact.node_id for fact in world.facts if isinstance(fact, Preempted)]
    assert victims == ["n00", "n00", "n00"]


def test_recent_reservations_of_others_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """PE-52: only reservations that are old give way, so a search does not look at the others one by one."""
    world = full(confirms=False)
    ranked(world, monkeypatch, 40, "w0", "w1", "w2")
    looks = []
    gives_way = Preemptor._gives_way
    monkeypatch.setattr(Preemptor, "_gives_way", lambda *args: looks.append(args) or gives_way(*args))
    ranked(world, monkeypatch, 80, "w3")
    assert [fact.node_id for fact in world.facts if isinstance(fact, Preempted)] == ["n00", "n01", "n02", "n03"]
    assert looks == []


def test_a_search_in_vain_ends_when_no_kind_of_task_can_be_preempted(monkeypatch: pytest.MonkeyPatch) -> None:
    """PE-91: where the laws protect all tasks of one kind, the other nodes with such tasks are not solved one by one."""
    world, solved = full(p={"preemption.policy": "disabled"}), []
    solve = Search._solve
    monkeypatch.setattr(Search, "_solve", lambda *args: solved.append(args) or solve(*args))
    assert len(ranked(world, monkeypatch, 40, "w0")) == NODES
    assert len(solved) == 1
    assert [fact for fact in world.facts if isinstance(fact, Preempted)] == []


def test_a_reader_that_is_far_behind_starts_again() -> None:
    """The log is bounded; who has missed entries learns that, and who has not gets each node once."""
    log, one, two = NodeLog[IndexedNode](4), IndexedNode(NodeID("n1")), IndexedNode(NodeID("n2"))
    for changed in (one, two, two, one):
        log.note(changed)
    assert log.since(0) == [one, two]
    assert log.since(1) == [two, one]
    assert log.since(log.count) == []
    log.note(two)
    assert log.since(0) is None
    assert log.since(3) == [one, two]
