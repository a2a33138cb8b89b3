"""``bench/trace.py``: it counts what an ask runs through, and two runs count the same."""

import re
from pathlib import Path

import pytest

import bench
from bench.phases import PHASES
from bench.trace import in_bulk, of_one_ask
from bench.workloads import Workload
from ykactor.core.planner import planner

pytestmark = pytest.mark.skipif(not planner.__file__.endswith(".py"), reason="calls of compiled functions are not counted")

FOLDER = Path(bench.__file__).parent
SMALL = Workload(nodes=20, leaves=2, applications=2, asks_each=500)


async def test_one_ask_is_followed_from_the_bytes_to_the_feed() -> None:
    """Code of the sessions, the partition, the planner, the node, the leaf, the feed and the journal runs, each in its file."""
    trace = await of_one_ask(SMALL)
    named = {file.rpartition("ykactor/")[2] for file in trace.files()}
    line = {"surfaces/sessions/rm_session.py", "wire/si/requests.py", "core/partition/rounds.py", "core/planner/planner.py"}
    assert line | {"core/objects/node.py", "core/objects/queues.py", "actors/feed.py", "actors/journal.py"} <= named
    assert len(named) <= len(trace.functions()) <= trace.moves() + len(trace.functions()) <= 2 * len(trace.calls)


async def test_one_ask_runs_through_no_more_than_is_written_down() -> None:
    """The table in bench/README.md bounds files, functions, calls and moves; a timer, or the order of tasks, may add a few."""
    (row,) = re.findall(r"\| files \|.*\n.*\n\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", (FOLDER / "README.md").read_text())
    files, functions, calls, moves = map(int, row)
    trace = await of_one_ask(SMALL)
    assert len(trace.files()) <= files
    assert len(trace.functions()) <= functions + 2
    assert len(trace.calls) <= 1.02 * calls
    assert trace.moves() <= 1.02 * moves


async def test_calls_in_bulk_are_those_of_the_next_run() -> None:
    """Tasks take turns in random order, and timers may be due: else the same code runs. Every ask costs calls in each phase."""
    first, second = await in_bulk(SMALL), await in_bulk(SMALL)
    for phase in ("translate", "ingest", "observe", "plan", "publish"):
        assert first.python[phase] == pytest.approx(second.python[phase], rel=0.25)
        assert first.built_in[phase] == pytest.approx(second.built_in[phase], rel=0.25)
        assert first.python[phase] > SMALL.asks
    assert set(first.python) <= set(PHASES)
