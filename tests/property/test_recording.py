"""Recordings of random histories: with the same configuration they run as the daemon did, with another one tasks keep their run
times (DU-26)."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import recorded
from fragments import draw_fragments
from histories import S_NS, draw_history
from preemptinghistories import Preempting
from recorded import AWAY_S, Happening, Step
from recordedfiles import TickingClock, facts_of, loaded, placements, record, run, turns_of
from seeds import scaled, seeds
from test_replay import record_gangs, record_history
from world import app, ask, node, queue, release, remove, tree

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.messages.facts import Allocated, Fact, Released, ReleaseStarted
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.submissions import Submission
from ykactor.core.turn.turn import Input
from ykactor.core.values.ids import PartitionName
from ykactor.journal.reading import Reader
from ykactor.sim.anonymous import Names
from ykactor.sim.recording import in_order
from ykactor.surfaces.cli import record as record_command
from ykactor.surfaces.cli.replay import compared, exact_turns, replayed
from ykactor.wire import queuefile
from ykactor.wire.history import RecordedTurn
from ykactor.wire.scenario.recording import Life, Turn


@pytest.fixture(autouse=True)
def _ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "Clock", TickingClock)


def histories(directory: Path, seed: int) -> Iterator[Path]:
    """Journals of all kinds: restarts, outages, reloads, partitions that come and go, gangs, preemption, lost answers."""
    record_history(directory / "0", draw_history(seed), seed, away_s=AWAY_S)
    record_history(directory / "1", draw_fragments(seed), seed + 1, away_s=AWAY_S)
    record_gangs(directory / "2", seed + 2, away_s=AWAY_S)
    record_well(directory / "3", seed)
    record_gangs(directory / "4", seed, Preempting(seed), away_s=AWAY_S)
    yield from (directory / str(number) for number in range(5))


class WellMeaning:
    """A resource manager whose tasks end, which confirms what it hears late, and submits again what was preempted."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now_s = 0
        self._number = 0
        #: By time: what it will say.
        self._agenda: list[tuple[int, Submission]] = []
        self._life = Counter[str]()
        self._asks: dict[str, Submission] = {}

    def hear(self, facts: list[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, Allocated):
                self._life[fact.ask.allocation_key] += 1
                end = self.now_s + self.rng.randint(2, 9)
                key = fact.ask.allocation_key
                self._agenda.append((end, release(key, fact.ask.application_id)))
            elif isinstance(fact, ReleaseStarted) and fact.node_id is not None:
                key, name = fact.ask.allocation_key, fact.ask.application_id
                self._agenda = [each for each in self._agenda if getattr(each[1], "allocation_key", "") != key]
                at = self.now_s + self.rng.randint(1, 3)
                self._agenda.append((at, release(key, name, fact.termination_type)))
                if self.rng.random() < 0.7:
                    self._agenda.append((at + self.rng.randint(1, 3), self._asks[key]))

    def draw(self) -> Happening:
        self.now_s += 1
        said = [what for at, what in self._agenda if at <= self.now_s]
        self._agenda = [each for each in self._agenda if each[0] > self.now_s]
        for _ in range(self.rng.randint(0, 2)):
            self._number += 1
            name, key = self.rng.choice(("low-1", "low-2", "high-1")), f"t{self._number}"
            is_high = name == "high-1"
            each = ask(key, name, vcore=self.rng.randint(1, 4), priority=3 * is_high, preempt_other=is_high)
            self._asks[key] = each
            said.append(each)
        return said

    @staticmethod
    def opening() -> Happening:
        queues = {"low-1": "root.low", "low-2": "root.low", "high-1": "root.high"}
        return [node("n1", vcore=5), node("n2", vcore=6), *(app(name, path) for name, path in queues.items())]


WELL = tree(queue("low"), queue("high", guaranteed={"vcore": 6}, p={"preemption.delay": "1s"}))


def record_well(directory: Path, seed: int) -> None:
    manager = WellMeaning(seed)
    steps = [Step(0, manager.opening), *(Step(number * S_NS, manager.draw) for number in range(1, 50))]
    steps.append(Step(51 * S_NS, lambda: [remove("low-1")]))
    config = queuefile.load(WELL)
    options: dict[str, Any] = {"ends": 0.02, "sudden": 0, "away_s": AWAY_S}
    recorded.record(directory, config, steps, seed=seed, budget=CYCLE_BUDGET, hear=manager.hear, **options)


@pytest.mark.parametrize("seed", seeds(15))
def test_an_exact_recording_decides_the_same(seed: int, tmp_path: Path) -> None:
    """The same facts, byte for byte, without the journal."""
    for directory in histories(tmp_path, seed):
        target = tmp_path / "exact.jsonl"
        record(directory, target, "--exact")
        found = compared(exact_turns(target), target)
        with Reader.open(directory) as reader:
            expected = replayed(reader)
        assert found.difference is None
        assert (found.turns, found.facts) == (expected.turns, expected.facts)
        texts = [bytes(turn.facts) for _, turn, _ in exact_turns(target)]
        assert texts == [bytes(turn.facts) for turn in turns_of(directory)]


@pytest.mark.parametrize("seed", seeds(20))
def test_the_same_configuration_places_the_same(seed: int, tmp_path: Path) -> None:
    """The same tasks on the same nodes at the same times, from the begin of the history, and from its middle."""
    for directory in histories(tmp_path, seed):
        times = [turn.now_ns for turn in turns_of(directory)]
        middle_ns = (times[0] + times[-1]) // 2 // 10**6 * 10**6
        for from_ns, options in ((0, ()), (middle_ns, ("--from", as_text(middle_ns)))):
            target = tmp_path / "day.jsonl"
            record(directory, target, *options)
            assert placements(run(loaded(target))) == placements(facts_of(directory, from_ns)), directory


@pytest.mark.parametrize(("before", "apart_ns"), [(3000, S_NS // 1000), (5, 3600 * S_NS)])
def test_turns_of_several_partitions_are_recorded_by_time(before: int, apart_ns: int) -> None:
    """A long turn is in the history behind all the short ones of others that began in it, also if the machine has slept."""
    short = [RecordedTurn(PartitionName("short"), number, number * apart_ns) for number in range(1, before)]
    long = RecordedTurn(PartitionName("long"), 1, apart_ns // 2)
    after = [RecordedTurn(PartitionName("short"), number, number * apart_ns) for number in range(before, before + 2000)]
    found = [turn for turn, _ in in_order((turn, None) for turn in [*short, long, *after])]
    assert found == [long, *short, *after]


def as_text(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns // 10**6 / 1000, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def lives_of(path: Path) -> dict[str, list[Life]]:
    """The lives of all asks of a recording, by key."""
    found: dict[str, list[Life]] = {}
    for message in loaded(path).messages:
        turn = message.request
        if isinstance(turn, Turn) and isinstance(turn.cause, Input):
            for index, life in turn.lives.items():
                found.setdefault(turn.cause.submissions[index].allocation_key, []).append(life)  # type: ignore[union-attr]
    return found


def run_times(life: Life) -> set[int]:
    """The nanoseconds that a task with this life may run."""
    run_ns = round(life.run_seconds * 1e6) * 1000
    return {run_ns, *(max(run_ns, round(lost * 1e6) * 1000 + 1000) for lost in life.lost_seconds)}


def test_another_configuration_keeps_run_times(tmp_path: Path) -> None:
    """Tasks run as long as they did, or until an outage ends; what is preempted comes again with its whole run time."""
    other = tmp_path / "other.yaml"
    other.write_text(tree(queue("low", max={"vcore": 5}), queue("high", guaranteed={"vcore": 6}, p={"preemption.delay": "5s"})))
    counts: Counter[str] = Counter()
    for seed in seeds(20):
        directory, target = tmp_path / str(seed), tmp_path / f"{seed}.jsonl"
        record_well(directory, seed)
        record(directory, target)
        lives = lives_of(target)
        facts = run(loaded(target, other))
        resumed = {outage.to_ns for outage in loaded(target).outages}
        began: dict[str, int] = {}
        fixed = {text for text in target.read_text().splitlines() if "ReleaseAllocations" in text}
        for _, fact in facts:
            if isinstance(fact, Allocated):
                began[fact.ask.allocation_key] = fact.at_ns
            elif isinstance(fact, Released) and fact.termination_type is TerminationType.STOPPED_BY_RM:
                key = fact.ask.allocation_key
                if "Removed" not in fact.message and not any(f'"{key}"' in text for text in fixed):
                    ran_ns = set().union(*map(run_times, lives[key]))
                    assert fact.at_ns in resumed or fact.at_ns - began[key] in ran_ns
                    counts["ends"] += 1
        counts["different"] += placements(facts) != placements(facts_of(directory))
        of_all = [life for each in lives.values() for life in each]
        counts["confirmed"] += sum(any(life.confirm_seconds) for life in of_all)
        counts["again"] += sum(any(life.resubmit_seconds) for life in of_all)
    assert min(counts[kind] for kind in ("ends", "different", "confirmed", "again")) >= scaled(10), counts


#: Words of ykactor itself; ``default`` and ``root`` are names that everybody has.
OURS = frozenset({"default", "root", "vcore", "memory"})


def renamed(name: str, names: Names) -> str:
    """A name, or the path of a queue, as an anonymised recording has it."""
    return ".".join(names.codes.get(part, part) for part in name.split("."))


@pytest.mark.parametrize("seed", seeds(20))
def test_without_names_the_same_is_decided(seed: int, tmp_path: Path) -> None:
    """The decisions are those of the recording with the names, renamed; no name of four letters or more is left."""
    for directory in histories(tmp_path, seed):
        target, names = tmp_path / "anonymous.jsonl", Names()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record_command, "Names", lambda names=names: names)
            record(directory, target, "--anonymise")
        expected = [
            (at_ns, renamed(partition, names), *(renamed(name, names) for name in about))
            for at_ns, partition, *about in placements(facts_of(directory))
        ]
        assert placements(run(loaded(target))) == sorted(expected), directory
        text = target.read_text()
        own = {*re.findall(r'"([^"]*)":', text), *OURS}
        left = [name for name in names.codes if len(re.sub("[^A-Za-z]", "", name)) >= 4 and name not in own and name in text]
        assert left == [], directory
        assert len(names.codes) > 10


#: Names of queues beside those that keep their names, in their order; ``-`` is before the dot that follows a name in a path.
SIBLINGS = ("#1", "0q", "a", "a-b", "a0", "default", "e", "root", "rooty", "x", "z")


def test_queues_keep_their_order_without_names(tmp_path: Path) -> None:
    """The next of queues that are equal is the first by name, also beside names that stay."""
    running: list[Submission] = []

    def hear(facts: list[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, Allocated):
                running[:] = [release(fact.ask.allocation_key, fact.ask.application_id)]

    def opening() -> Happening:
        apps = [(f"app-{number}", f"root.{name}") for number, name in enumerate(SIBLINGS[::-1])]
        first = [node("n1", vcore=1), *(app(name, path) for name, path in apps)]
        return [*first, *(ask(f"t{name}-{number}", name, vcore=1) for name, _ in apps for number in (1, 2))]

    steps = [Step(0, opening), *(Step(number * S_NS, lambda: [*running]) for number in range(1, 2 * len(SIBLINGS)))]
    config = queuefile.load(tree(*map(queue, SIBLINGS)))
    recorded.record(tmp_path / "state", config, steps, seed=0, budget=CYCLE_BUDGET, hear=hear, ends=0)
    target, with_names = tmp_path / "anonymous.jsonl", placements(facts_of(tmp_path / "state"))
    record(tmp_path / "state", target, "--anonymise")
    found = placements(run(loaded(target)))
    assert [at_ns for at_ns, *_ in found] == [at_ns for at_ns, *_ in with_names]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(name for _, _, name, *_ in with_names))}
    codes = {name: number for number, name in enumerate(dict.fromkeys(name for _, _, name, *_ in found))}
    assert [codes[name] for _, _, name, *_ in found] == [numbers[name] for _, _, name, *_ in with_names]
    assert len(codes) == len(SIBLINGS)
