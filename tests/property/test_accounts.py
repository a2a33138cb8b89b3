"""Accounts and pasts are what a naive reading of the facts finds (AP-90, AP-140, AP-141), also after restarts."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import pytest
from checked import World
from ganghistories import ResourceManager
from histories import draw_history
from naiveaccounts import NaiveAccounts, found_sums
from preemptinghistories import Preempting
from seeds import scaled, seeds
from test_administered_histories import NO_TASK, draw_request

from ykactor.core.config.model import PartitionConfig
from ykactor.core.inspection.accounting import Column
from ykactor.core.objects.application import Application
from ykactor.core.partition.timers import EndedApplication
from ykactor.wire import queuefile

#: Every interval of a history becomes so much longer: many tasks run over midnight, and some times are no whole seconds.
SLOWER = 1801.3


class CountedWorld(World):
    """A partition whose accounts are compared with the naive ones; now and then it ends and goes on from what was kept."""

    def __init__(self, config: PartitionConfig, seed: int, *, confirms: bool = True) -> None:
        self.rng = random.Random(seed)
        self.naive = NaiveAccounts()
        super().__init__(config, confirms=confirms)

    def look(self, now_ns: int) -> None:
        self.naive.hear(self.facts)
        self.naive.look_at_replacements(now_ns, self.core.registry)
        if self.rng.random() < 0.2:
            self.restore(*self.kept.restored())
            self.scheduler.planner.preemptor.attempt_on_node = lambda *_: None
            self.reference.partition = self.core

    def check_all(self, now_ns: int) -> Counter[str]:
        """Returns how often each kind of account was compared."""
        registry = self.core.registry
        expected = self.naive.sums(now_ns)
        assert found_sums(registry, now_ns) == expected
        for name, path in registry.applications.items():
            application = registry.leaf(path).applications[name]
            application.past.reach(application.account.used)
            self.check_past(name, application, self.naive.applications[name])
        kept = list(self.core.timers.ended.values())
        remembered = self.naive.ended[len(self.naive.ended) - len(kept) :]
        for (name, known), application in zip(remembered, kept, strict=True):
            self.check_past(name, application, known)
        return Counter(str(key[0]) for key in expected)

    @staticmethod
    def check_past(name: str, found: Application | EndedApplication, expected: object) -> None:
        past = found.past
        history = {("used", kind): amounts for kind, amounts in past.used.items()}
        history |= {("preempted", kind): amounts for kind, amounts in past.preempted.items()}
        history |= {("placeholders", kind): amounts for kind, amounts in past.placeholders.items()}
        most = {kind: quantity for kind, quantity in expected.max_used.items() if quantity}  # type: ignore[attr-defined]
        assert (name, past.max_used, history) == (name, most, expected.history)  # type: ignore[attr-defined]
        assert past.states == expected.states[-64:]  # type: ignore[attr-defined]


@cache
def administered(seed: int) -> Counter[str]:
    """Play one history and count what was compared."""
    history = draw_history(seed)
    world = CountedWorld(history.config, seed)
    now_ns = 0
    for batch in history.batches:
        now_ns = int(batch.at_ns * SLOWER)
        world.advance(now_ns)
        world.intake(now_ns, batch.submissions)
        world.look(now_ns)
        if world.rng.random() < 0.5:
            world.administer(now_ns, draw_request(world.rng, world.rng.choice(list(world.core.registry.queues)), NO_TASK))
            world.schedule(now_ns)
            world.look(now_ns)
    return world.check_all(now_ns + 10**14)


@pytest.mark.parametrize("seed", seeds(25))
def test_histories_with_administrators(seed: int) -> None:
    """Moves, resizes, recovered tasks, creation times in the past, lost nodes, restarts: the sums are the naive ones."""
    administered(seed)


def test_the_histories_use_and_wait() -> None:
    """A history in which all is held uses nothing; most of those above do."""
    counts = [administered(seed) for seed in seeds(25)]
    assert sum(count["allocated"] > 0 < count["waited"] for count in counts) > scaled(20)


def test_gangs_and_preemption() -> None:
    """Placeholders, replacements, releases that are confirmed late or never, and victims."""
    counts: Counter[str] = Counter()
    for seed in seeds(20):
        manager = (ResourceManager if seed % 2 else Preempting)(seed)
        world = CountedWorld(queuefile.load(manager.text).partitions[0], seed, confirms=False)
        world.intake(0, manager.opening())
        for _ in range(40):
            heard = len(world.facts)
            submissions = manager.draw()
            now_ns = int(manager.now_ns * SLOWER)
            world.intake(now_ns, submissions)
            world.look(now_ns)
            manager.hear(world.facts[heard:])
        counts += world.check_all(now_ns)
    assert min(counts[name] for name in ("allocated", "waited", "lost")) >= scaled(4), counts


@pytest.mark.parametrize("columns", [(Column.DAY, Column.USER), (Column.QUEUE,), ()])
def test_sums_by_some_columns(columns: tuple[Column, ...]) -> None:
    """Each column that is left out is summed up."""
    history = draw_history(5)
    world = CountedWorld(history.config, 5)
    world.play(history.batches)
    world.naive.hear(world.facts)
    now_ns = history.batches[-1].at_ns
    expected: dict[tuple[object, ...], dict[str, int]] = {}
    for (name, *values), amounts in world.naive.sums(now_ns).items():
        by_column = dict(zip(Column, values, strict=True))
        sum_ = expected.setdefault((name, *(by_column[column] for column in columns)), {})
        for kind, quantity in amounts.items():
            sum_[kind] = sum_.get(kind, 0) + quantity
    assert expected
    assert found_sums(world.core.registry, now_ns, columns) == expected
