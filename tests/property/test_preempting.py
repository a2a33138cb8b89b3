"""Random clusters of applications that submit again what is preempted: every preemption keeps the laws, and it ends."""

from __future__ import annotations

from random import Random

import pytest
from preemptionlaws import State, Watch, check, requires
from replicasets import ReplicaSets
from world import PLENTY, World, app, ask, load, node, queue, tree, world

from ykactor.core.decisions import Preempted
from ykactor.core.messages import Submission
from ykactor.core.scheduler import Cycle
from ykactor.wire.queuefile import ConfigError

#: All that is asked for comes before this second; what follows are resubmissions.
LAST_S = 60
END_S = 1200
#: As nothing changes by itself any more. A release that takes long may be followed by a retry after 15 s.
QUIET_S = 600


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
        self.it: World = world(self.text, confirms=False, work_max=work_max)
        self._heard = 0
        self._keys = 0
        unwatched = self.it.direct.scheduler.cycle
        self.it.direct.scheduler.cycle = lambda now_ns, budget: self._watched(now_ns, unwatched(now_ns, budget))  # type: ignore[method-assign]
        self.it.given(*(self.node(f"n{n}") for n in range(self.node_count)))
        self.applications = [f"app{n}" for n in range(len(self.leaves) + rng.randint(0, 3))]
        for n, name in enumerate(self.applications):
            leaf = self.leaves[n] if n < len(self.leaves) else rng.choice(self.leaves)
            self.it.given(app(name, leaf))

    def _hear(self) -> None:
        new = self.it.facts[self._heard :]
        self._heard += len(new)
        self.watch.hear(new)

    def _watched(self, now_ns: int, cycle: Cycle) -> Cycle:
        self._hear()
        self.watch.let_time_pass(now_ns)
        before = State(self.it.direct.core, self.watch, now_ns)
        result = yield from cycle
        preempted = [fact for fact in result.facts if isinstance(fact, Preempted)]
        assert len(preempted) <= 1
        for fact in preempted:
            check(before, fact)
            self.judged += 1
        return result

    def state(self) -> State:
        self._hear()
        return State(self.it.direct.core, self.watch, self.it.now_ns)

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
            self.it.send(*(self.task() for _ in range(count)), at=number * LAST_S / 4)
            self.applications = chosen
            sets.run((number + 1) * LAST_S / 4 - 1)


def missed(state: State) -> list[str]:
    """Asks that could have others go for them, and do not."""
    return [
        task.ask.spec.allocation_key
        for identity, task in state.waiting.items()
        if task.ask.spec.allow_preempt_other and not requires(task.ask) and identity not in state.contests and state.solve(task)
    ]


# ---- the laws


def play(seed: int, work_max: int = PLENTY) -> tuple[Cluster, ReplicaSets]:
    """Everything is confirmed at once or late, and nothing else happens from outside."""
    cluster = Cluster(seed, work_max=work_max)
    slow = cluster.rng.choice((0.0, 0.0, 0.5, 12.0))
    sets = ReplicaSets(cluster.it, lambda _: slow * cluster.rng.randint(0, 3))
    cluster.fill(sets)
    sets.run(END_S)
    return cluster, sets


@pytest.mark.parametrize("seed", range(150))
def test_it_ends(seed: int) -> None:
    """All seven laws hold each time; it ends, nothing was missed, and every preemption came to something."""
    cluster, sets = play(seed)
    cluster.watch.let_time_pass(cluster.it.now_ns)
    last_s = max((at_s for at_s, _ in sets.evicted), default=0.0)
    assert last_s < END_S - QUIET_S, sets.evicted[-10:]
    assert cluster.watch.contests == {}
    assert missed(cluster.state()) == []
    assert all(contest.outcome for contest in cluster.watch.all_contests)


def test_the_histories_hold_what_they_should() -> None:
    """Of the above: many preemptions, in most of which the preemptor runs in the end."""
    outcomes = [contest.outcome for seed in range(40) for contest in play(seed)[0].watch.all_contests]
    assert len(outcomes) > 60
    assert outcomes.count("placed") > 0.9 * len(outcomes)
