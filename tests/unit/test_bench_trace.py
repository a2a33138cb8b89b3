"""``bench/trace.py``: it counts what an ask runs through, and two runs count the same."""

import pytest

from bench.phases import PHASES
from bench.trace import in_bulk, of_one_ask
from bench.workloads import Workload

SMALL = Workload(nodes=20, leaves=2, applications=2, asks_each=500)


async def test_one_ask_is_followed_from_the_bytes_to_the_feed() -> None:
    """Code of the sessions, the partition, the planner, the node, the leaf, the feed and the journal runs, each in its file."""
    trace = await of_one_ask(SMALL)
    named = {file.rpartition("ykactor/")[2] for file in trace.files()}
    line = {"surfaces/sessions/rm_session.py", "wire/si/requests.py", "core/partition/rounds.py", "core/planner/planner.py"}
    assert line | {"core/objects/node.py", "core/objects/leaf.py", "actors/feed.py", "actors/journal.py"} <= named
    assert len(named) <= len(trace.calls) <= trace.moves + len(trace.calls) <= 2 * trace.calls.total()


async def test_calls_in_bulk_are_those_of_the_next_run() -> None:
    """Tasks take turns in random order, and timers may be due: else the same code runs. Every ask costs calls in each phase."""
    first, second = await in_bulk(SMALL), await in_bulk(SMALL)
    for phase in ("translate", "ingest", "observe", "plan", "publish"):
        assert first.python[phase] == pytest.approx(second.python[phase], rel=0.25)
        assert first.built_in[phase] == pytest.approx(second.built_in[phase], rel=0.25)
        assert first.python[phase] > SMALL.asks
    assert set(first.python) <= set(PHASES)
