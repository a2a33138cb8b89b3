"""Random clusters of applications that submit again what is preempted: every preemption keeps the laws, and it ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import pytest
from msgspec import structs
from preemptionlaws import PREEMPTED, S_NS, State, Watch, check, requires
from replicasets import ReplicaSets
from seeds import scaled, seeds
from world import PLENTY, World, app, ask, configure, hand_back, load, move, node, queue, release, remove, terminate, tree

from ykactor.core.messages.asks import Ask, ask_id
from ykactor.core.messages.facts import Preempted
from ykactor.core.messages.submissions import Submission
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import Cycle, SchedulerCore
from ykactor.wire.queuefile.load import ConfigError

SEEDS = seeds(90)
#: All that is asked for comes before this second; what follows are resubmissions.
LAST_S = 60
END_S = 1200
#: As nothing changes by itself any more. A release that takes long may be followed by a retry after 15 s.
QUIET_S = 600
RETRY_NS = 15 * S_NS


# ---- what is drawn


def draw_text(rng: Random, types: tuple[str, ...], scale: int) -> tuple[str, list[str]]:
    """A queue file and the paths of its leaves; ``scale`` is about what a leaf may use."""
    while True:
        leaves: list[str] = []
        parents = [_draw_parent(rng, types, scale, f"p{n}", "root", leaves) for n in range(rng.randint(1, 3))]
        text = tree(*parents, preemption={"enabled": True})
        try:
            load(text)
        except ConfigError:  # more guaranteed below than above, or than a max allows
            continue
        return text, leaves


def _draw_parent(rng: Random, types: tuple[str, ...], scale: int, name: str, above: str, leaves: list[str]) -> dict[str, object]:
    path = f"{above}.{name}"
    children = []
    for n in range(rng.randint(1, 3)):
        if above == "root" and rng.random() < 0.15:
            children.append(_draw_parent(rng, types, scale, f"q{n}", path, leaves))
        else:
            children.append(_draw_queue(rng, types, scale, f"l{n}"))
            leaves.append(f"{path}.l{n}")
    return _draw_queue(rng, types, 3 * scale, name, *children)


def _draw_queue(rng: Random, types: tuple[str, ...], scale: int, name: str, *children: dict[str, object]) -> dict[str, object]:
    keys: dict[str, object] = {}
    guaranteed = {kind: rng.randint(0, scale) for kind in types if rng.random() < (0.4 if children else 0.6)}
    if guaranteed:
        keys["guaranteed"] = guaranteed
    if rng.random() < 0.25:
        keys["max"] = {kind: guaranteed.get(kind, 0) + rng.randint(1, scale) for kind in types if rng.random() < 0.7}
    properties: dict[str, object] = {}
    if not children:
        properties["preemption.delay"] = rng.choice(("1s", "3s", "10s"))
    if rng.random() < 0.2:
        properties["preemption.policy"] = rng.choice(("fence", "disabled"))
    if rng.random() < 0.2:
        properties["priority.offset"] = rng.choice((-2, -1, 1, 2))
    if rng.random() < 0.1:
        properties["priority.policy"] = "fence"
    return queue(name, *children, p=properties, **keys)


class Checked(World):
    """Looks at the invariants if there are new facts: what a silent step breaks is still broken afterwards."""

    checked_count = 0

    def _check(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        if len(self.facts) > self.checked_count:
            self.checked_count = len(self.facts)
            super()._check(core, scheduler)


class Cluster:
    """A partition that is watched: each preemption is judged by the state before it."""

    def __init__(self, seed: int, *, work_max: int = PLENTY) -> None:
        self.rng = rng = Random(seed)
        self.types = rng.choice((("vcore",), ("vcore",), ("memory", "vcore")))
        self.node_count = rng.randint(1, 4)
        self.size = rng.choice((6, 10, 16))
        self.priorities = rng.choice(((0,), (0, 0, 0, 1), (0, 1, -1, 3)))
        leaves_about = 4
        self.text, self.leaves = draw_text(rng, self.types, max(2, self.node_count * self.size // leaves_about))
        self.watch = Watch()
        self.judged = 0
        self.world = Checked(self.text, confirms=False, work_max=work_max)
        self._heard = 0
        self._keys = 0
        unwatched = self.world.direct.cycle
        self.world.direct.cycle = lambda now_ns: self._watched(now_ns, unwatched)  # type: ignore[method-assign]
        self.world.given(*(self.node(f"n{n}") for n in range(self.node_count)))
        self.applications = [f"app{n}" for n in range(len(self.leaves) + rng.randint(0, 3))]
        for n, name in enumerate(self.applications):
            leaf = self.leaves[n] if n < len(self.leaves) else rng.choice(self.leaves)
            self.world.given(app(name, leaf))

    def _hear(self) -> None:
        new = self.world.facts[self._heard :]
        self._heard += len(new)
        self.watch.hear(new)

    def _watched(self, now_ns: int, cycle: Callable[[int], tuple[Cycle, bool]]) -> tuple[Cycle, bool]:
        self._hear()
        self.watch.let_time_pass(now_ns)
        before = State(self.world.direct.core, self.watch, now_ns)
        result, has_confirmed = cycle(now_ns)
        preempted = [fact for fact in result.facts if isinstance(fact, Preempted)]
        assert len(preempted) <= 1
        for fact in preempted:
            check(before, fact)
            if not requires(fact.ask):  # PE-15
                assert fact.at_ns >= self.watch.handed_back_ns.get(ask_id(fact.ask), -RETRY_NS) + RETRY_NS
            self.judged += 1
        return result, has_confirmed

    def state(self) -> State:
        self._hear()
        return State(self.world.direct.core, self.watch, self.world.now_ns)

    def node(self, name: str) -> Submission:
        return node(name, **dict.fromkeys(self.types, self.size))

    def task(self) -> Submission:
        rng = self.rng
        self._keys += 1
        largest = rng.choice((1, 2, 4))
        amounts = {kind: rng.randint(0 if kind == "memory" else 1, largest) for kind in self.types}
        return ask(
            f"t{self._keys}",
            rng.choice(self.applications),
            priority=rng.choice(self.priorities),
            requires=f"n{rng.randrange(self.node_count)}" if rng.random() < 0.04 else None,
            originator=rng.random() < 0.1,
            preempt_self=rng.random() < 0.8,
            preempt_other=rng.random() < 0.8,
            **amounts,
        )

    def fill(self, sets: ReplicaSets) -> None:
        """Some applications take the cluster first, others come later."""
        rng = self.rng
        room = self.node_count * self.size
        for number in range(4):
            chosen = self.applications
            self.applications = rng.sample(chosen, max(1, len(chosen) // 2))
            count = rng.randint(1, room // 2) if number else room
            self.world.send(*(self.task() for _ in range(count)), at=number * LAST_S / 4)
            self.applications = chosen
            sets.run((number + 1) * LAST_S / 4 - 1)


def missed(state: State) -> list[str]:
    """Asks that could preempt, and do not."""
    return [
        task.ask.allocation_key
        for identity, task in state.waiting.items()
        if task.ask.allow_preempt_other and not requires(task.ask) and identity not in state.contests and state.solve(task)
    ]


# ---- the laws


@cache
def play(seed: int, work_max: int = PLENTY) -> tuple[Cluster, ReplicaSets]:
    """Fill a cluster and run it to the end: releases are confirmed at once or late, and there is no other input."""
    cluster = Cluster(seed, work_max=work_max)
    slow = cluster.rng.choice((0.0, 0.0, 0.5, 12.0))
    sets = ReplicaSets(cluster.world, lambda _: slow * cluster.rng.randint(0, 3))
    cluster.fill(sets)
    sets.run(END_S)
    return cluster, sets


@pytest.mark.parametrize("seed", SEEDS)
def test_it_ends(seed: int) -> None:
    """All laws hold each time; it ends, nothing was missed, and every preemption came to something."""
    cluster, sets = play(seed)
    assert all(at_s < END_S - QUIET_S for at_s, _ in sets.evicted), sets.evicted[-10:]
    copies = Counter(key.partition("'")[0] for _, key in sets.evicted)
    assert all(count <= 3 for count in copies.values()), copies
    watch = cluster.watch
    watch.let_time_pass(cluster.world.now_ns)
    assert watch.contests == {}
    pinned = {contest.fact.node_id for contest in watch.all_contests if requires(contest.fact.ask)}
    pinned |= {requires(task.ask) for task in cluster.state().running}
    for contest in watch.all_contests:
        assert contest.outcome == "placed" or contest.fact.node_id in pinned, contest  # somebody who requires it had it
    assert missed(cluster.state()) == []
    assert reversals(cluster) == [] or len(cluster.types) > 1


def reversals(cluster: Cluster) -> list[Preempted]:
    """Preemptions for a queue whose tasks the victims' queues have preempted since the last external change."""
    pairs: set[tuple[str, str]] = set()
    found = []
    for contest in cluster.watch.all_contests:
        fact = contest.fact
        if not requires(fact.ask) and fact.at_ns >= LAST_S * S_NS:
            victims = {str(path) for path, _, _ in fact.victims}
            if any((fact.queue, path) in pairs for path in victims):
                found.append(fact)
            pairs |= {(path, str(fact.queue)) for path in victims}
    return found


def test_small_turns() -> None:
    """A search that is interrupted again and again comes to the same end; however little a plan may do, it does something."""
    for seed, work_max in [(seed, 100) for seed in range(5)] + [(1, 5), (2, 5)]:
        whole, cut = play(seed)[0].watch.all_contests, play(seed, work_max)[0].watch.all_contests
        assert [contest.fact for contest in whole] == [contest.fact for contest in cut]


def test_the_histories_hold_what_they_should() -> None:
    """The histories have many preemptions, with one victim and several, for the guarantee of a leaf or a parent, and a node."""
    clusters = [play(seed)[0] for seed in SEEDS]
    facts = [contest.fact for cluster in clusters for contest in cluster.watch.all_contests]
    assert len(facts) > scaled(80)
    assert sum(len(fact.victims) > 1 for fact in facts) > scaled(10)
    assert sum(fact.why.startswith("queue ") for fact in facts) > scaled(3)
    assert sum(bool(requires(fact.ask)) for fact in facts) > scaled(3)
    assert sum(contest.outcome == "placed" for cluster in clusters for contest in cluster.watch.all_contests) > 0.9 * len(facts)


# ---- when much else happens


class Rough(Cluster):
    """Answers come late, never or otherwise; nodes, tasks, applications and configurations change on the way."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        rng = self.rng
        self.sets = ReplicaSets(
            self.world,
            lambda _: rng.choice((0.0, 0.0, 1.0, 20.0, 300.0, None)),
            lambda: rng.choice((PREEMPTED, PREEMPTED, "STOPPED_BY_RM", "TIMEOUT", "UNKNOWN_TERMINATION_TYPE")),
        )
        self.node_sizes = (self.size - 3, self.size, self.size + 2)
        actions: list[tuple[int, Callable[[], list[Submission]]]] = [
            (8, lambda: [self.task() for _ in range(rng.randint(1, 4))]),
            (4, self.resize),
            (4, self.end),
            (4, self.hand_back),
            (4, self.change_node),
            (1, lambda: [remove(rng.choice(self.applications))]),
            (2, lambda: [app(rng.choice(self.applications), rng.choice(self.leaves))]),
            (1, self.reload),
            (2, self.come_back),
        ]
        self._weights = [weight for weight, _ in actions]
        self._actions = [action for _, action in actions]

    def play(self, steps: int = 60) -> None:
        self.fill(self.sets)
        rng = self.rng
        for _ in range(steps):
            self.sets.run(self.world.now_ns / S_NS + rng.choice((0.0, 0.5, 4.0, 16.0, 70.0)))
            for said in rng.choices(self._actions, self._weights)[0]():
                self.world.send(said)
            if rng.random() < 0.1:
                name = rng.choice(self.applications)
                self.world.administer(rng.choice((terminate(name), move(name, rng.choice(self.leaves)))))

    def _known(self) -> list[Ask]:
        state = self.state()
        chosen = [task.ask for task in [*state.running, *state.waiting.values()]]
        fought = [task for task in chosen if ask_id(task) in self.watch.contests or ask_id(task) in self.watch.preempting]
        return fought if fought and self.rng.random() < 0.6 else chosen

    def resize(self) -> list[Submission]:
        known = self._known()
        if not known:
            return []
        ask = self.rng.choice(known)
        resource = {kind: self.rng.randint(1, 4) for kind in self.types}
        return [structs.replace(ask, resource=resource, node_id=None)]

    def end(self) -> list[Submission]:
        known = self._known()
        if not known:
            return []
        ask = self.rng.choice(known)
        return [release(ask.allocation_key, ask.application_id, self.rng.choice((PREEMPTED, "STOPPED_BY_RM")))]

    def hand_back(self) -> list[Submission]:
        """Tasks could not start, most likely those that others were preempted for; some are not on this node, or do not run."""
        known = [contest.fact.ask for contest in self.watch.all_contests[-5:]] + self._known()
        node_id = self.rng.choice((None, None, None, f"n{self.rng.randrange(self.node_count)}"))
        chosen = [self.rng.choice(known) for _ in range(self.rng.randint(1, 2))] if known else []
        return [hand_back(ask.allocation_key, node_id, ask.application_id) for ask in chosen]

    def come_back(self) -> list[Submission]:
        """The resource manager places an ask itself."""
        waiting = [task.ask for task in self.state().waiting.values()]
        name = f"n{self.rng.randrange(self.node_count)}"
        return [structs.replace(self.rng.choice(waiting), node_id=name)] if waiting else []

    def change_node(self) -> list[Submission]:
        name = f"n{self.rng.randrange(self.node_count)}"
        actions = ("CREATE", "UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION")
        action = self.rng.choice(actions)
        sizes = dict.fromkeys(self.types, self.rng.choice(self.node_sizes)) if action in ("CREATE", "UPDATE") else {}
        return [node(name, action, **sizes)]

    def reload(self) -> list[Submission]:
        """The same queues with other guarantees, maxima and policies; the partition may not preempt any more, or again."""
        tree_of = json.loads(self.text)
        for found in every_queue(tree_of["partitions"][0]["queues"][0]):
            if self.rng.random() < 0.3:
                found.pop("resources", None)
            if self.rng.random() < 0.3:
                found.setdefault("properties", {})["preemption.policy"] = self.rng.choice(("default", "fence", "disabled"))
        tree_of["partitions"][0]["preemption"] = {"enabled": self.rng.random() < 0.8}
        text = json.dumps(tree_of)
        try:
            load(text)
        except ConfigError:
            return []
        return [configure(text)]

    def wind_up(self) -> None:
        """Remove all applications, and release all that runs."""
        self.world.send(*(remove(name) for name in self.applications))
        self.world.send(*(release(key, name) for name, key in [task.id for task in self.state().running]))


def every_queue(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The queue and all queues below it."""
    return [found, *(queue for child in found.get("queues", []) for queue in every_queue(child))]


@cache
def play_rough(seed: int) -> Rough:
    """Up to its end, when all are gone."""
    cluster = Rough(seed)
    cluster.play()
    cluster.wind_up()
    return cluster


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens(seed: int) -> None:
    """The laws hold each time, the books agree with the owners after each step, and in the end nothing is left in them."""
    cluster = play_rough(seed)
    state = cluster.world.direct.scheduler.state
    books = state.preemptions
    assert (books.by_ask, books.victims, books.last_attempts) == ({}, {}, {})
    for account in state.tree.nodes.values():
        assert not any(account.preempting.values())
        assert not any(account.claims.values())


def test_rough_histories_hold_what_they_should() -> None:
    """The rough histories have many preemptions, and every way in which one can end."""
    contests = [contest for seed in SEEDS for contest in play_rough(seed).watch.all_contests]
    assert len(contests) > scaled(100)
    outcomes = Counter(contest.outcome for contest in contests)
    assert outcomes.keys() >= {"placed", "reservation lost", "ask gone", "ask resized", "no room"}, outcomes
