"""The order of nodes (PR-62)."""

import random
from typing import Any

import pytest
from world import World, app, ask, configure, foreign, make_world, node, queue, release, tree

from ykactor.core.messages.submissions import Submission

#: Quantities as keyword arguments.
Resource = dict[str, Any]

#: A type that no weight counts: asks of it find out the order of nodes and do not change it.
PROBE: Resource = {"probe": 1}


def policy(kind: str, weights: dict[str, float] | None = None) -> dict[str, object]:
    return {"type": kind} | ({} if weights is None else {"resourceweights": weights})


def order_of_nodes(world: World, count: int) -> list[str]:
    """The nodes in order: each has room for one probe."""
    world.heard()
    world.send(app("probe"), *(ask(f"probe{n}", "probe", **PROBE) for n in range(count)))
    return [line.split()[-1] for line in world.heard() if " on " in line]


def with_usage(kind: str, nodes: dict[str, tuple[Resource, Resource]], weights: dict[str, float] | None = None) -> World:
    """Nodes with a capacity (and room for a probe) and what is allocated on them."""
    world = make_world(tree(queue("a"), nodesortpolicy=policy(kind, weights)))
    world.given(*(node(name, **capacity, **PROBE) for name, (capacity, _) in nodes.items()), app("used"))
    world.given(*(ask(name, "used", on=name, **used) for name, (_, used) in nodes.items() if used))
    return world


#: capacity, allocated, weights, utilisation.
TABLE: list[tuple[Resource, Resource, dict[str, float] | None, float]] = [
    ({"vcore": 1000, "memory": 1000}, {"vcore": 900, "memory": 500}, None, 0.7),
    ({"vcore": 1000, "memory": 1000}, {"vcore": 900, "memory": 500}, {"vcore": 4, "memory": 1}, 0.82),
    ({"vcore": 2000, "memory": 16000}, {"vcore": 500, "memory": 12000}, {"vcore": 4, "memory": 1}, 0.35),
    ({"vcore": 2000, "memory": 16000}, {"vcore": 1500, "memory": 4000}, {"vcore": 4, "memory": 1}, 0.65),
    ({"vcore": 2000, "memory": 16000}, {"vcore": 1500, "memory": 4000}, {"vcore": 1, "memory": 0.25}, 0.65),  # PR-63
    ({"vcore": 0, "memory": 16000}, {"memory": 12000}, {"vcore": 4, "memory": 0}, 0),
    ({"gpu": 8}, {"gpu": 8}, None, 0),
    ({"memory": 1000, "gpu": 8}, {"memory": 250, "gpu": 8}, None, 0.25),
    ({"memory": 1000, "gpu": 8}, {"memory": 250, "gpu": 8}, {"gpu": 1}, 1),  # weights replace the default (PR-63)
]


@pytest.mark.parametrize("kind", ["fair", "binpacking"])
@pytest.mark.parametrize(("capacity", "used", "weights", "utilisation"), TABLE)
def test_utilisation(capacity: Resource, used: Resource, weights: dict[str, float] | None, utilisation: float, kind: str) -> None:
    """The table of PR-61: the node is sorted between one that is used a little less and one that is used a little more."""
    counted = dict.fromkeys(weights or ("vcore", "memory"), 10**6)
    marks = {"less": utilisation - 0.001, "more": utilisation + 0.001}
    nodes = {name: (counted, dict.fromkeys(counted, round(entry * 10**6))) for name, entry in marks.items() if 0 <= entry <= 1}
    world = with_usage(kind, {"node": (capacity, used), **nodes}, weights)
    order = [name for name in ("less", "node", "more") if name == "node" or name in nodes]
    assert order_of_nodes(world, len(order)) == (order if kind == "fair" else order[::-1])


@pytest.mark.parametrize("kind", ["fair", "binpacking"])
def test_equal_scores_go_by_name(kind: str) -> None:
    """Node id ascending as plain text, whatever the policy and the order of registration (PR-62)."""
    world = make_world(
        tree(queue("a"), nodesortpolicy=policy(kind)), [node(name, vcore=9, **PROBE) for name in ("n2", "n10", "n1")]
    )
    assert order_of_nodes(world, 3) == ["n1", "n10", "n2"]


@pytest.mark.parametrize(("kind", "order"), [("fair", ["n1", "n2"]), ("binpacking", ["n2", "n1"])])
def test_half_used(kind: str, order: list[str]) -> None:
    """Half of n2 used: fair n1, n2; binpacking n2, n1 (PR-62)."""
    assert order_of_nodes(with_usage(kind, {"n1": ({"vcore": 10}, {}), "n2": ({"vcore": 10}, {"vcore": 5})}), 2) == order


@pytest.mark.parametrize(
    ("kind", "placed"),
    [("fair", ["n1", "n2", "n3", "n1", "n2", "n3"]), ("binpacking", ["n1", "n1", "n2", "n2", "n3", "n3"])],
)
def test_each_placement_moves_the_node(kind: str, placed: list[str]) -> None:
    """An allocation re-scores the node before the next step (PR-66)."""
    world = make_world(tree(queue("a"), nodesortpolicy=policy(kind)), [node(f"n{n}", vcore=2) for n in (1, 2, 3)])
    world.send(app("app-1"), *(ask(f"t{n}", "app-1", vcore=1) for n in range(6)))
    assert [line.split()[-1] for line in world.heard() if " on " in line] == placed


CHANGES: list[Submission] = [
    foreign("f1", "n1", vcore=5),
    ask("big", "app-1", on="n1", vcore=5),
    node("n1", "UPDATE", vcore=1),
]


@pytest.mark.parametrize("change", CHANGES, ids=["foreign", "recovered", "capacity"])
def test_every_change_moves_the_node(change: Submission) -> None:
    """Foreign changes, recovered allocations and capacities re-score a node like placements do (PR-60, PR-66)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10), node("n2", vcore=10)])
    world.given(app("app-1"), ask("t1", "app-1", on="n1", vcore=1), ask("t2", "app-1", on="n2", vcore=2))
    world.given(change)
    world.send(ask("t3", "app-1", vcore=1))
    world.expect("t3 on n2")


@pytest.mark.parametrize("count", [2, 200])
def test_changes_before_the_order_is_needed(count: int) -> None:
    """Nodes change any number of times, are drained and leave before the next ask: the order is that of their last state."""
    names = [f"n{i:03}" for i in range(count)]
    world = make_world(tree(queue("a")), [node(name, vcore=1000, probe=1) for name in ("quiet", *names)])
    world.given(app("used"), ask("q", "used", on="quiet", vcore=500))
    for loop in range(2):
        world.given(*(ask(f"{loop}{name}", "used", on=name, vcore=1 + i) for i, name in enumerate(names)))
    world.given(node(names[0], "DRAIN_NODE"))
    world.given(node(names[1], "DECOMISSION"))
    world.given(node(names[0], "DRAIN_TO_SCHEDULABLE"), node(names[1], vcore=1000, probe=1))
    assert order_of_nodes(world, count + 1) == [names[1], names[0], *names[2:], "quiet"]


def test_release_moves_the_node() -> None:
    """A release re-scores the node before the next step (PR-66)."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10), node("n2", vcore=10)])
    world.given(app("app-1"), ask("t1", "app-1", on="n1", vcore=5), ask("t2", "app-1", on="n2", vcore=4))
    world.given(release("t1"))
    world.send(ask("t3", "app-1", vcore=1))
    world.expect("t3 on n1")


def test_policy_changes_on_reload() -> None:
    """Another policy or other weights order the nodes at once (CF-78)."""
    both = {"vcore": 10, "memory": 10}
    world = with_usage("fair", {"n1": (both, {"vcore": 5}), "n2": (both, {"memory": 4})})
    for kind, weights, first in [("binpacking", None, "n1"), ("fair", None, "n2"), ("fair", {"memory": 1.0}, "n1")]:
        world.given(configure(tree(queue("a"), nodesortpolicy=policy(kind, weights))))
        world.send(ask("t", "used", **PROBE))
        assert world.heard()[-1] == f"t on {first}"
        world.given(release("t", "used"))


def test_unschedulable_nodes_are_left_out() -> None:
    """Normal allocation looks at schedulable nodes only (PR-65, SC-40, SC-41)."""
    world = make_world(tree(queue("a")), [node("n1", "CREATE_DRAIN", vcore=10), node("n2", vcore=10)])
    world.send(app("app-1"), ask("t1", "app-1", vcore=6), ask("t2", "app-1", vcore=6))
    assert world.placed() == ["t1"]
    world.send(node("n1", "DRAIN_TO_SCHEDULABLE"))
    world.expect("app-1 Running", "t2 on n1")


@pytest.mark.parametrize("kind", ["fair", "binpacking"])
@pytest.mark.parametrize("seed", range(3))
def test_many_nodes_against_sorting(kind: str, seed: int) -> None:
    """Each ask takes the node that sorting all of them anew would give, with more nodes than an ask cares to scan (PR-67).

    Three shapes, full nodes and free ones, releases, foreign tasks, nodes that leave, come back and are cordoned.
    """
    chance = random.Random(seed)
    names = [f"n{n:03}" for n in range(150)]
    capacity = {name: chance.choice([4, 8, 16]) for name in names}
    text = tree(queue("a"), nodesortpolicy=policy(kind))
    world = World(text, [node(name, vcore=size) for name, size in capacity.items()], checked=False)
    world.given(app("app-1"), ask("holds", "app-1", vcore=10**6))
    used = dict.fromkeys(names, 0)
    cordoned: set[str] = set()
    runs: dict[str, tuple[str, int]] = {}

    def expected(size: int) -> str | None:
        sign = 1 if kind == "fair" else -1
        fitting = [name for name in names if name not in cordoned and capacity[name] - used[name] >= size]
        return min(fitting, key=lambda name: (sign * used[name] / capacity[name], name), default=None)

    for number in range(600):
        key = f"t{number}"
        action = chance.random()
        if action < 0.75 or not runs:
            size = chance.choice([1, 3, 7])
            world.send(ask(key, "app-1", vcore=size))
            where = expected(size)
            assert [line for line in world.heard() if " on " in line] == ([] if where is None else [f"{key} on {where}"])
            if where is None:
                world.given(release(key))
            else:
                used[where] += size
                runs[key] = where, size
        elif action < 0.95:
            gone = chance.choice(sorted(runs))
            where, size = runs.pop(gone)
            used[where] -= size
            world.given(release(gone))
        else:
            name = chance.choice(names)
            world.given(node(name, "DRAIN_TO_SCHEDULABLE" if name in cordoned else "DRAIN_NODE"))
            cordoned ^= {name}


def test_scores_of_amounts_that_no_float_has() -> None:
    """AP-138: the invariants compute them to the last bit as the index does, also above 2**53 (they are checked at each step)."""
    rng = random.Random(1)
    capacities = {f"n{number}": rng.randrange(2**53, 2**63) for number in range(100)}
    nodes = {name: ({"memory": capacity}, {"memory": rng.randrange(capacity)}) for name, capacity in capacities.items()}
    assert len(order_of_nodes(with_usage("fair", nodes), 100)) == 100
