"""Actors against the oracle: whatever order trio runs its tasks in, the decision log is the same, byte for byte."""

from pathlib import Path

import pytest
import trio

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.planner import Budget
from ykactor.sim.generate import generate
from ykactor.sim.simulator import simulate, simulate_directly
from ykactor.wire import scenario
from ykactor.wire.render import decision_log

ORDERS = range(20)
RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "conformance"
FAMILIES = ("a-", "b-", "c-", "d-", "e-", "n-")
#: The two shortest of each family.
RECORDED = [
    path
    for family in FAMILIES
    for path in sorted(RECORDINGS.glob(f"{family}*/*/scenario.json"), key=lambda path: (path.stat().st_size, path))[:2]
]


def assert_same_bytes(story, budget=CYCLE_BUDGET):
    """Twenty task orders and the plain loop agree on every decision and on the final state."""
    expected = simulate_directly(story, budget=budget)
    log = decision_log(expected.facts)
    assert log
    for order in ORDERS:
        trio._core._run._r.seed(order)
        outcome = simulate(story, budget=budget)
        assert decision_log(outcome.facts) == log, f"task order {order}"
        assert (outcome.final, outcome.waiting, outcome.refused) == (expected.final, expected.waiting, expected.refused)


@pytest.mark.parametrize("number", range(16))
def test_generated_workloads(number):
    """Random trees and sessions, mistakes, churn and reloads included."""
    assert_same_bytes(generate(number, queues=4 + number, applications=6, asks=60, reloads=number % 3))


@pytest.mark.parametrize("number", range(4))
def test_many_small_cycles(number):
    """A budget that is used up all the time: the order of cycles, timers and input holds as well."""
    assert_same_bytes(generate(100 + number, nodes=12, applications=10, asks=100, churn=1.0), Budget(2, 5))


@pytest.mark.skipif(not RECORDED, reason="no recordings beside the checkout")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_recorded_scenarios(path):
    """The sessions that decisions of Apache YuniKorn core were recorded for."""
    assert_same_bytes(scenario.load(path))
