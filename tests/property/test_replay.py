"""A recording can be run again, in another process too, and gives the same; rules that have changed show where."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import recorded
from fragments import draw_fragments
from ganghistories import ResourceManager
from histories import S_NS, Batch, History, draw_history
from msgspec import structs
from preemptinghistories import Preempting
from recorded import DEFAULT, GPU, Happening, Step, record
from recordedfiles import TickingClock
from seeds import scaled, seeds
from test_administered_histories import NO_TASK, draw_request
from world import PLENTY, app, ask, node, remove

from ykactor.actors import partition
from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import PartitionConfig, SchedulerConfig
from ykactor.core.messages.asks import Ask, ask_id
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import ApplyConfig, Submission, WantSchedulingStates
from ykactor.core.partition import partition as partition_module
from ykactor.core.records.encoding import encode, pairs
from ykactor.core.records.export import everything
from ykactor.core.values.ids import PartitionName
from ykactor.journal.reading import Reader
from ykactor.journal.store import Store
from ykactor.sim.replay import NOTHING
from ykactor.surfaces.cli import story
from ykactor.surfaces.cli.replay import Outcome, replayed
from ykactor.surfaces.files.recovery import events_of, recover
from ykactor.wire import queuefile
from ykactor.wire.si.events import mentioned

BUDGETS = (CYCLE_BUDGET, Budget(7, 5), Budget(1, PLENTY))
LEAVES = ("root.a", "root.a.b", "root.b")


def scheduler_config(*partitions: PartitionConfig) -> SchedulerConfig:
    return SchedulerConfig(partitions, checksum=f"{len(partitions)}", text="")


def steps_of(history: History, seed: int) -> Iterator[Step]:
    """The history with administrators, a second partition that comes and goes, and a wish to know why asks wait."""
    rng, dice = random.Random(seed), random.Random(-seed - 1)
    other = structs.replace(history.config, name=GPU)
    for batch in history.batches:
        name = rng.choice((DEFAULT, DEFAULT, DEFAULT, GPU))
        if dice.random() < 0.1:
            yield Step(batch.at_ns, partial(wish, dice.random() < 0.6), name)
        yield Step(batch.at_ns, partial(submissions_of, batch, name), name)
        if rng.random() < 0.3:
            tasks = (ask_id(each) for each in batch.submissions if isinstance(each, Ask))
            task = next(tasks, NO_TASK)
            yield Step(batch.at_ns, partial(draw_request, rng, rng.choice(LEAVES), task))
        if rng.random() < 0.2:
            parts = rng.choice(((history.config,), (history.config, other)))
            yield Step(batch.at_ns, partial(scheduler_config, *parts))


def wish(is_wanted: bool) -> Happening:
    return [WantSchedulingStates(is_wanted)]


def submissions_of(batch: Batch, name: PartitionName) -> list[Submission]:
    """A batch for a partition; a configuration keeps the name of its partition."""
    return [
        ApplyConfig(structs.replace(each.config, name=name)) if isinstance(each, ApplyConfig) else each
        for each in batch.submissions
    ]


def record_history(directory: Path, history: History, seed: int, **options: Any) -> int:
    steps, budget = list(steps_of(history, seed)), BUDGETS[seed % 3]
    return record(directory, scheduler_config(history.config), steps, seed=seed, budget=budget, **options)


def record_gangs(directory: Path, seed: int, manager: ResourceManager | None = None, **options: Any) -> int:
    """A resource manager that answers what it hears, late, twice, otherwise or never."""
    manager = manager or ResourceManager(seed)
    config = queuefile.load(manager.text)

    def draw() -> Happening:
        return [*manager.draw()]

    steps = [Step(0, lambda: [*manager.opening()]), *(Step(number * S_NS, draw) for number in range(40))]
    return record(directory, config, steps, seed=seed, budget=BUDGETS[seed % 3], hear=manager.hear, **options)


def replay(directory: Path, until: int | None = None, partition: str | None = None) -> Outcome:
    with Reader.open(directory) as reader:
        return replayed(reader, until, partition)


def bases_in(directory: Path) -> int:
    with Reader.open(directory) as reader:
        return sum(len(reader.bases(row.number)) for row in reader.rows())


def assert_same(directory: Path) -> Outcome:
    outcome = replay(directory)
    assert outcome.difference is None, outcome.difference
    return outcome


@pytest.mark.parametrize("seed", seeds(15))
def test_every_history_can_be_run_again(seed: int, tmp_path: Path) -> None:
    """Restarts, reloads, administrators, partitions that come and go, gangs: nothing is decided otherwise, no row is another."""
    histories = (draw_history(seed), draw_fragments(seed))
    # each with other dice for when the daemon ends: with the same, a seed of few ends has few in all three
    starts = [record_history(tmp_path / str(number), history, seed + number) for number, history in enumerate(histories)]
    starts.append(record_gangs(tmp_path / "2", seed + 2))
    outcomes = [assert_same(tmp_path / str(number)) for number in range(3)]
    assert all(outcome.facts > 20 for outcome in outcomes)
    assert sum(starts) > 4


def test_preemption_can_be_run_again(tmp_path: Path) -> None:
    """Preemption for guarantees and quotas is replayed, with gangs, reservations, and sudden ends before its releases."""
    counts: Counter[str] = Counter()
    for seed in seeds(12):
        directory = tmp_path / str(seed)
        record_gangs(directory, seed, Preempting(seed))
        assert_same(directory)
        with Reader.open(directory) as reader:
            facts = [fact for row in reader.rows() for text in row.turns() for fact in msgspec.json.decode(text)["facts"]]
        counts.update(name for name, _ in facts)
        counts.update(content["termination_type"] for name, content in facts if name == "ReleaseStarted")
    kinds = ("Preempted", "QuotaPreempted", "Reserved", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED")
    assert min(counts[kind] for kind in kinds) >= scaled(3), counts


@pytest.mark.parametrize("seed", [14, 17, 41])
def test_readers_between_two_cycles_change_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot in the middle of a burst makes nodes agree with the scheduler earlier; the next plan may not depend on it."""
    monkeypatch.setattr(recorded, "Clock", TickingClock)
    record_gangs(tmp_path, seed, Preempting(seed))
    assert_same(tmp_path)


def test_another_process_finds_the_same(tmp_path: Path) -> None:
    """Neither the order within sets nor anything else of a process decides."""
    record_history(tmp_path / "0", draw_history(7), 7)
    record_gangs(tmp_path / "1", 7)
    for name in ("0", "1"):
        expected = assert_same(tmp_path / name)
        for hash_seed in ("1", "2", "3"):
            done = subprocess.run(
                [sys.executable, "-m", "ykactor", "replay", str(tmp_path / name), "-o", "json"],
                env=os.environ | {"PYTHONHASHSEED": hash_seed},
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done
            assert msgspec.json.decode(done.stdout) == msgspec.to_builtins(expected)


def test_without_the_beginning(tmp_path: Path) -> None:
    """The replay begins at the next start of the daemon if old history is gone; there may be no such start any more."""
    left = []
    for seed in seeds(5):
        directory = tmp_path / str(seed)
        record_history(directory, draw_history(seed, batches=40), seed)
        whole = assert_same(directory)
        store = Store.open(directory, "off", now_ns=0)
        store.trim(store._end_byte // 2, 10**18, now_ns=0)
        store.close()
        left.append(assert_same(directory).turns)
        assert left[-1] < whole.turns
    assert sum(left) > scaled(20)


@pytest.mark.parametrize("seed", seeds(10))
def test_partitions_that_are_made_anew_while_they_run(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens around it, each base is what the replay has, and what follows is decided from it."""
    monkeypatch.setattr(partition, "BASES_APART", 0)
    keep_bytes = random.Random(seed).choice((500, 2_000, 4_000))
    starts = record_history(tmp_path / "0", draw_history(seed), seed, keep_bytes=keep_bytes)
    starts += record_history(tmp_path / "1", draw_fragments(seed), seed + 1, keep_bytes=keep_bytes)
    starts += record_gangs(tmp_path / "2", seed + 2, keep_bytes=keep_bytes)
    for number in range(3):
        assert_same(tmp_path / str(number))
    assert sum(bases_in(tmp_path / str(number)) for number in range(3)) > 2 * starts


@pytest.mark.parametrize("seed", seeds(5))
def test_without_the_only_start(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay begins where a partition was made anew if the history before the start is gone."""
    monkeypatch.setattr(partition, "BASES_APART", 0)
    history, budget = draw_history(seed, batches=40), BUDGETS[seed % 3]
    steps = list(steps_of(history, seed))
    config = scheduler_config(history.config)
    assert record(tmp_path, config, steps, seed=seed, budget=budget, ends=0, keep_bytes=5_000) == 1
    whole = assert_same(tmp_path)
    store = Store.open(tmp_path, "off", now_ns=0)
    store.trim(store._end_byte // 2, 10**18, now_ns=0)
    store.close()
    rest = assert_same(tmp_path)
    assert 0 < rest.turns < whole.turns


def draining_queue(*more: Step) -> list[Step]:
    """A dynamic queue is empty from second 1 on, and is removed at second 11."""
    opening = [node("n1", vcore=4), app("app-1", "", namespace="web"), ask("t1", "app-1", vcore=1)]
    return [Step(0, lambda: opening), Step(S_NS, lambda: [remove("app-1")]), *more, Step(40 * S_NS, list)]


def test_other_rules_show_the_first_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay decides again, with the rules of today; recovery does not, and gives what was recorded."""
    record(tmp_path, queuefile.load(""), draining_queue(), seed=0, budget=CYCLE_BUDGET, ends=0)
    whole = assert_same(tmp_path)
    monkeypatch.setattr(partition_module, "QUEUE_CLEANER_NS", 10**15)
    outcome = replay(tmp_path)
    found = outcome.difference
    assert found is not None
    assert (found.what, bytes(found.turn.cause), found.turn.now_ns) == ("fact 1", b'{"timers_due":true}', 11 * S_NS)
    assert found.expected.startswith(b'["QueueRemoved",{"at_ns":11000000000,"queue":"root.web"')
    assert found.found == NOTHING
    assert (outcome.turns, outcome.last_ns) < (whole.turns, whole.last_ns)
    with Reader.open(tmp_path) as reader:
        known = recover(reader, reserves=True)
        assert known is not None
        core, scheduler, _ = known.partitions[DEFAULT]
        kept = {key: data for key, data in reader.records() if key.startswith(b'["default"')}
        assert dict(pairs(encode(DEFAULT, everything(core, scheduler.state)))) == kept


def test_a_row_that_differs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay compares all rows at each start of the daemon, which shows differences that no fact shows yet."""
    restart = Step(2 * S_NS, list)
    record(tmp_path, queuefile.load(""), draining_queue(restart), seed=0, budget=CYCLE_BUDGET, ends=1, sudden=0)
    assert_same(tmp_path)
    monkeypatch.setattr(partition_module, "QUEUE_CLEANER_NS", 10**15)
    found = replay(tmp_path).difference
    assert found is not None
    assert found.what == 'row ["default","partition"]'
    cleaning = [msgspec.json.decode(row)["cleaning_ns"] for row in (found.expected, found.found)]
    assert cleaning == [11 * S_NS, 10**15 + S_NS]


def test_the_index_misses_nothing(tmp_path: Path) -> None:
    """The story of each name in a random history has all events that are about it."""
    record_history(tmp_path, draw_history(3), 3)
    with Reader.open(tmp_path) as reader:
        events = [event for row in reader.rows() for event, _ in events_of(row)]
        names = mentioned(events)
        assert len(names) > 30
        for name in names:
            lines = list(story.past_lines(name, reader, 0))
            assert [int(click.unstyle(line).split()[1]) for line in lines] == [
                event.sequence for event in events if name in mentioned([event])
            ]
