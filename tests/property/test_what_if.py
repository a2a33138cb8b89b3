"""A what-if decides as the scheduler then does, tells everything that is different, and changes nothing of the state."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from generate import generate
from msgspec import structs
from seeds import seeds

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.config.model import PartitionConfig
from ykactor.core.records.base import decode_base, encode_base, partition_from
from ykactor.core.turn.scheduler import Cores
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.simulator import Record, ignore, run_directly, to_ns
from ykactor.sim.what_if import Comparison, compare
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest

#: Where a task runs: application, key and node.
Place = tuple[str, str, str]


def halves(story: Scenario) -> tuple[Scenario, Scenario]:
    """The story up to the middle of its messages, and the rest of it with seconds from then on."""
    middle = len(story.messages) // 2
    at = story.messages[middle - 1].at
    rest = [TimedRequest(message.at - at, message.request) for message in story.messages[middle:]]
    return structs.replace(story, messages=story.messages[:middle], until=at), structs.replace(
        story, messages=rest, until=story.until - at
    )


def played(story: Scenario) -> dict[PartitionName, bytes]:
    """The state after a story, as a journal has it."""
    direct = DirectPartitions(make, {config.name: make(config, 0) for config in queuefile.load(story.config).partitions})
    run_directly(story, direct, Record(ignore))
    return bases_of(direct)


def bases_of(direct: DirectPartitions) -> dict[PartitionName, bytes]:
    found = direct.partitions.items()
    return {name: finished(encode_base(partition.core, partition.scheduler.state)) for name, partition in found}


def made(bases: Mapping[PartitionName, bytes]) -> dict[PartitionName, Cores]:
    return {name: finished(partition_from(decode_base(base))) for name, base in bases.items()}


def make(config: PartitionConfig, now_ns: int, cores: Cores | None = None) -> DirectPartition:
    return DirectPartition(config, CYCLE_BUDGET, lambda _: None, now_ns=now_ns, wakes=True, cores=cores)


def went_on(bases: Mapping[PartitionName, bytes], story: Scenario, begin_ns: int) -> tuple[set[Place], int]:
    """The places of tasks when the scheduler has gone on from the state with the story, and the number of those that wait."""
    found = made(bases).items()
    direct = DirectPartitions(make, {name: make(cores[0].registry.config, begin_ns, cores) for name, cores in found})
    record = Record(ignore, begin_ns)
    record.is_open = True
    run_directly(story, direct, record, begin_ns)
    places, waiting = set(), 0
    for partition in direct.partitions.values():
        registry = partition.core.registry
        for application_id in registry.applications:
            tasks = registry.leaf_of(application_id).applications[application_id].tasks
            places |= {(application_id, key, node_id) for key, (_, node_id) in tasks.allocations.items()}
            waiting += len(tasks.asks) + len(tasks.replacing)
    return places, waiting


def told(comparison: Comparison) -> tuple[set[Place], set[Place]]:
    """The places of tasks in one run only: as it is, and with the change."""
    found: tuple[set[Place], set[Place]] = (set(), set())
    for difference in comparison.differences:
        for places, status in zip(found, (difference.as_it_is, difference.what_if), strict=True):
            if status is not None and status.state == "runs":
                places |= {(difference.application_id, key, status.node_id) for key in difference.allocation_keys}
    return found


@pytest.mark.parametrize("seed", seeds(60))
def test_the_scheduler_then_decides_the_same(seed: int) -> None:
    """The tasks that run and wait at the end are those that the scheduler alone would leave; nothing else is told."""
    first, rest = halves(generate(seed, applications=6, asks=40, reloads=seed % 3))
    bases, begin_ns = played(first), to_ns(first.until)
    before = dict(bases)
    comparison = compare(lambda: made(bases), rest, begin_ns, reserves=True)
    quiet, quiet_waiting = went_on(bases, structs.replace(rest, messages=[]), begin_ns)
    busy, busy_waiting = went_on(bases, rest, begin_ns)
    only_quiet, only_busy = told(comparison)
    assert (only_quiet - only_busy, only_busy - only_quiet) == (quiet - busy, busy - quiet)
    assert (comparison.as_it_is.runs, comparison.what_if.runs) == (len(quiet), len(busy))
    assert (comparison.as_it_is.waits, comparison.what_if.waits) == (quiet_waiting, busy_waiting)
    assert bases == before
    assert compare(lambda: made(bases), rest, begin_ns, reserves=True) == comparison


@pytest.mark.parametrize("seed", seeds(12))
def test_without_a_change_nothing_is_different(seed: int) -> None:
    """Two runs of the same state with the same messages are the same run."""
    first, rest = halves(generate(seed, applications=6, asks=40))
    bases = played(first)
    comparison = compare(lambda: made(bases), structs.replace(rest, messages=[]), to_ns(first.until), reserves=True)
    assert comparison.differences == comparison.changes == comparison.refused == []
    assert comparison.as_it_is == comparison.what_if
