"""The table of a dry run: neighbours with the same outcome are one row, with all that they have."""

from __future__ import annotations

import json

import pytest
from msgspec import to_builtins

from ykactor.sim.dry_run import Tried
from ykactor.surfaces.cli.dry_run import folded


def rows(*asks: Tried) -> list[tuple[str, str]]:
    return [(row["allocationKey"], row["nodeID"]) for row in folded(0, map(to_builtins, asks))]


def runs(key: str, node_id: str = "n1", **more: object) -> Tried:
    return Tried("default", "job", key, "runs", node_id, after_seconds=0, **more)  # type: ignore[arg-type]


def test_tasks_of_a_job_on_two_nodes() -> None:
    """A range of numbers, and the number of tasks on each node; tasks with another outcome are a row of their own."""
    asks = [runs(f"job-1.{number}", f"n{1 + number % 2}") for number in range(1, 201)]
    waits = Tried("default", "job", "job-1.201", "waits", code="QUOTA", reason="none is left")
    assert rows(*asks, waits) == [("job-1.1-200", "n2: 100, n1: 100"), ("job-1.201", "")]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["a"], "a"),
        (["a1", "a2", "a3"], "a1-3"),
        (["9", "10"], "9-10"),
        (["a1", "a3"], "a1 to a3 (2)"),
        (["a01", "a02"], "a01 to a02 (2)"),
        (["x", "y"], "x to y (2)"),
        (["a2", "a1"], "a2 to a1 (2)"),
        (["1" * 5000, "2"], f"{'1' * 5000} to 2 (2)"),
        (["a²", "a³"], "a² to a³ (2)"),
    ],
)
def test_names(keys: list[str], text: str) -> None:
    """Consecutive numbers are a range; of other names the first and the last are told."""
    assert rows(*map(runs, keys)) == [(text, "n1")]


def test_victims_are_added_up() -> None:
    """One row has all victims, and all that they lose; another reason for the preemption is another row."""
    asks = [runs(f"a{n}", preempts=[f"v{n}"], why="law 4", work_lost={"vcore": 60}) for n in (1, 2)]
    (row,) = folded(0, [to_builtins(each) for each in asks])
    assert (row["preempts"], row["workLost"]) == (["v1", "v2"], {"vcore": 120})
    assert len(rows(*asks, runs("a3", preempts=["v3"], why="law 2"), runs("a4"))) == 3
    assert json.dumps(row)
