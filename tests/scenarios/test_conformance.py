"""Recorded decisions of Apache YuniKorn core, compared one by one with ours.

The recordings lie beside the checkout; where they are not, there is nothing to compare with.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ykactor.core.decisions import Decision
from ykactor.core.invariants import violations
from ykactor.core.partition import PartitionCore
from ykactor.core.planner import Budget
from ykactor.core.scheduler import SchedulerCore
from ykactor.core.snapshot import final_state
from ykactor.sim.direct import DirectPartition
from ykactor.sim.script import instants, unknown_partitions
from ykactor.wire import queuefile, scenario
from ykactor.wire.render import decision_lines

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "conformance"
#: What this release claims to decide alike.
FAMILIES = ("a-", "b-", "c-", "d-", "e-", "n-")
#: Cases that need what this release does not have.
OUT_OF_SCOPE = {"a-single-leaf/reserved-leaf-d922a": "needs reservations (SC-50 to SC-62)"}

CASES = sorted(
    path.parent
    for path in RECORDINGS.glob("*/*/scenario.json")
    if path.parent.parent.name.startswith(FAMILIES)
)
pytestmark = pytest.mark.skipif(not CASES, reason="no recordings beside the checkout")


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    """``compare.py`` of the recordings."""
    spec = importlib.util.spec_from_file_location("conformance_compare", RECORDINGS / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode  # the recordings are not ours to write to
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def simulate(path: Path) -> tuple[list[dict[str, object]], dict[str, object]]:
    """The decisions of one scenario and its final state; the invariants hold after every step."""
    story = scenario.load(path)
    config = queuefile.load(story.config)
    facts: list[Decision] = []

    def check(core: PartitionCore, scheduler: SchedulerCore) -> None:
        assert violations(core, scheduler) == []

    parts = {it.name: DirectPartition(it, Budget(1000, 10**6), facts.extend, check) for it in config.partitions}
    for instant in instants(story, config):
        facts.extend(unknown_partitions(instant, list(parts)))
        for name, part in parts.items():
            part.intake(instant.at_ns, instant.work.get(name, []))
    (part,) = parts.values()
    return [line for it in facts for line in decision_lines(it)], final_state(part.core, part.scheduler.indexes)


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_decides_as_recorded(folder: Path, compare: ModuleType) -> None:
    """Same allocations and releases in the same order on the same nodes, same refusals, same final state."""
    reason = OUT_OF_SCOPE.get(f"{folder.parent.name}/{folder.name}")
    if reason is not None:
        pytest.skip(reason)
    decisions, final = simulate(folder / "scenario.json")
    golden = [json.loads(line) for line in (folder / "golden.jsonl").read_text().splitlines() if line.strip()]
    _, differences = compare.compare(
        json.loads((folder / "scenario.json").read_text()),
        golden,
        json.loads((folder / "final.json").read_text()),
        decisions,
        final,
    )
    assert differences == {}
