"""Recorded decisions of Apache YuniKorn core, compared one by one with ours.

The recordings lie beside the checkout; where they are not, there is nothing to compare with.
"""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from msgspec import to_builtins

from ykactor.core.config.model import PartitionConfig
from ykactor.core.inspection.invariants import violations
from ykactor.core.inspection.snapshot import final_state
from ykactor.core.messages.facts import ApplicationRejected, Fact
from ykactor.core.messages.planned import Budget
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import finished
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.simulator import Work, addressed, instants, play
from ykactor.wire import queuefile, scenario
from ykactor.wire.decision_log import decision_lines

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "conformance"
#: What this release claims to decide alike.
FAMILIES = ("a-", "b-", "c-", "d-", "e-", "f-", "g-", "h-", "i-", "j-", "k-", "l-", "m-", "n-", "p-")
#: Cases that show what the reference calls an accident of the original; ours decides by the rule.
ACCIDENTS = {
    "a-single-leaf/reserved-leaf-d922a": "SC-52: the original scores nodes to reserve with swapped arguments",
    "j-gang/gang-timeout-soft-short-cc82a": "GA-61: the original never starts a gang whose replacement began before it was whole",
    "i-churn/foreign-8e6f3": "PR-66: the original does not re-score a node when foreign use changes",
    "k-preemption/preempt-nodes-08bbc": "PE-26: the original refuses an ask of 2 in a queue that uses 3 of its guarantee of 4",
    "k-preemption/preempt-optout-59e10": "AP-53: the original takes a task without a policy for one that opted out",
    "k-preemption/preempt-retry-164d3": "law 2: the original leaves a queue with 32000 Mi of its guarantee of 32 Gi",
    "k-preemption/preempt-several-2c9b9": "PE-39: the original does not count what is free on the node, and has one too many go",
    "l-reload/reload-userlimits-b8bf3": "QU-76: the original goes on applying a `*` limit that a reload removed",
    "m-invalid/invalid-06228": "AP-107: the original drops a placeholder without task group without an answer",
    "m-invalid/invalid-718f9": "QU-1: the original cuts sums at 64 bits, and what is subtracted later is lost",
    "m-invalid/invalid-dab86": "PR-66: the original does not re-score a node when foreign use changes",
}

CASES = sorted(path.parent for path in RECORDINGS.glob("*/*/scenario.json") if path.parent.parent.name.startswith(FAMILIES))
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
    """The decisions of one scenario, without wakes, and its final state; the invariants hold after every step."""
    story = scenario.load(path)
    facts: list[Fact] = []
    turned_away: dict[str, dict[str, str]] = {}

    def check(core: PartitionCore, scheduler: SchedulerCore) -> None:
        assert violations(core, scheduler) == []

    def admit(work: Work, known: list[PartitionName], at_ns: int) -> Work:
        routed, refused = addressed(work, known, at_ns)
        for rejection in refused:
            facts.append(rejection)
            if isinstance(rejection, ApplicationRejected):
                turned_away[rejection.application_id] = {"state": "Rejected"}
        return routed

    config = queuefile.load(story.config)

    def make(partition: PartitionConfig, now_ns: int) -> DirectPartition:
        budget = Budget(1000, 10**6)
        return DirectPartition(partition, budget, facts.extend, check, now_ns, confirms=story.confirm_releases)

    direct = DirectPartitions(make, {partition.name: make(partition, 0) for partition in config.partitions})
    for instant in instants(story):
        play(instant, direct, admit)
    (part,) = direct.partitions.values()
    final = to_builtins(finished(final_state(part.core, part.scheduler.state)))
    final["applications"] = turned_away | final["applications"]
    return [line for decision in facts for line in decision_lines(decision)], final


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_decides_as_recorded(folder: Path, compare: ModuleType) -> None:
    """Same allocations and releases in the same order on the same nodes, same refusals, same final state."""
    name = f"{folder.parent.name}/{folder.name}"
    decisions, final = simulate(folder / "scenario.json")
    golden = [json.loads(line) for line in (folder / "golden.jsonl").read_text().splitlines() if line.strip()]
    _, differences = compare.compare(
        json.loads((folder / "scenario.json").read_text()),
        golden,
        json.loads((folder / "final.json").read_text()),
        decisions,
        final,
    )
    assert bool(differences) is (name in ACCIDENTS), differences
