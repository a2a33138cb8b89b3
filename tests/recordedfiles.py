"""Recordings of journals, and what is compared of the history and of a run of its recording."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from ykactor.actors.clock import Clock
from ykactor.core.messages.facts import Allocated, Fact
from ykactor.core.values.ids import PartitionName
from ykactor.journal.reading import Reader
from ykactor.sim.simulator import simulate
from ykactor.surfaces.cli.main import main
from ykactor.surfaces.cli.replay import turns_in
from ykactor.wire.history import RecordedTurn, decode_facts
from ykactor.wire.scenario import Scenario, load

#: When, where and what was placed: partition, application, key, node.
Placement = tuple[int, str, str, str, str]


class TickingClock(Clock):
    """A clock that is never read twice at the same time: virtual time stands still while a daemon works."""

    _last_ns = 0

    def now_ns(self) -> int:
        self._last_ns = max(super().now_ns(), self._last_ns + 1000)
        return self._last_ns


def record(directory: Path, target: Path, *options: str) -> str:
    """Record a journal. Returns what is told on standard error."""
    result = CliRunner().invoke(main, ["record", str(directory), *options, "-o", str(target)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stderr


def loaded(path: Path, config: Path | None = None) -> Scenario:
    """A recording, perhaps with another configuration."""
    return load(path, config, recordings=True)


def run(scenario: Scenario) -> list[tuple[PartitionName, Fact]]:
    """The facts of a run."""
    facts: list[tuple[PartitionName, Fact]] = []
    simulate(scenario, lambda name, fact: facts.append((name, fact)))
    return facts


def turns_of(directory: Path) -> Iterator[RecordedTurn]:
    """The turns of a journal."""
    with Reader.open(directory) as reader:
        yield from (turn for _, turn, _ in turns_in(reader) if turn.number is not None)


def facts_of(directory: Path, from_ns: int = 0) -> list[tuple[PartitionName, Fact]]:
    """The recorded facts from a time on."""
    turns = [turn for turn in turns_of(directory) if turn.now_ns >= from_ns]
    return [(turn.partition, fact) for turn in turns for fact in decode_facts(turn.facts)]


def placements(facts: list[tuple[PartitionName, Fact]]) -> list[Placement]:
    """The placements, in order."""
    placed = [(name, fact) for name, fact in facts if isinstance(fact, Allocated)]
    return sorted((fact.at_ns, name, fact.ask.application_id, fact.ask.allocation_key, fact.node_id) for name, fact in placed)
