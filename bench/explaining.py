"""The time of explanations while many asks wait, and of the search for the smallest changes with which one would be placed."""

from __future__ import annotations

from time import monotonic, perf_counter, thread_time
from typing import Any

from bench.harness import Rig, running
from bench.measures import Samples
from bench.shapes import Waiting
from bench.workloads import queue_file
from ykactor.actors.clock import system_ns
from ykactor.core.inspection.explaining import explain
from ykactor.core.inspection.explaining_places import explain_node, explain_queue
from ykactor.core.messages.asks import AskID
from ykactor.core.records.base import decode_base, encode_base, partition_from
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import Steps, finished, paced
from ykactor.core.values.times import US_NS
from ykactor.sim.twin import Forks, Twin

#: How long changes are looked for, as ``ykactor explain --changes`` does.
_SEARCH_S = 5.0


async def explanations(waiting: Waiting) -> Samples:
    """CPU milliseconds of an explanation of an ask, of the root queue and of a node, and of the longest of all steps."""
    async with running(queue_file(2), [*waiting.setup(), *waiting.pending()]) as rig:
        await rig.settle()
        core, state = rig.partition.core, rig.partition.scheduler_core.state
        found = {
            "ask": _timed(explain(core, state, _last(waiting), system_ns())),
            "queue": _timed(explain_queue(core, state, QueuePath("root"))),
            "node": _timed(explain_node(core, state, NodeID("n00000"))),
        }
    samples: Samples = {f"{name}_ms": [total_ms] for name, (total_ms, _) in found.items()}
    return samples | {"step_max_ms": [max(step_ms for _, step_ms in found.values())]}


async def changes(waiting: Waiting) -> Samples:
    """Seconds of the search for changes that place the last ask, and the number of changes that were found."""
    async with running(queue_file(2), [*waiting.setup(), *waiting.pending()]) as rig:
        await rig.settle()
        began_s = perf_counter()
        twin = _twin(rig, _last(waiting))
        forks = Forks(twin, monotonic, _SEARCH_S)
        search = twin.smallest_changes(forks.attempt, forks.wait)
        return {"changes_s": [perf_counter() - began_s], "found": [len(search.found)]}


def _twin(rig: Rig, ask: AskID) -> Twin:
    core, state = rig.partition.core, rig.partition.scheduler_core.state
    cores = finished(partition_from(decode_base(finished(encode_base(core, state)))))
    return Twin(cores, system_ns() // US_NS * US_NS, ask)


def _last(waiting: Waiting) -> AskID:
    ask = waiting.ask(waiting.asks - 1)
    return ApplicationID(ask.application_id), AllocationKey(ask.allocation_key)


def _timed(work: Steps[Any]) -> tuple[float, float]:
    """The CPU milliseconds of work, and of its longest part."""
    began_s = since_s = thread_time()
    longest_s = 0.0
    for _ in paced(work):
        longest_s = max(longest_s, thread_time() - since_s)
        since_s = thread_time()
    now_s = thread_time()
    return 1e3 * (now_s - began_s), 1e3 * max(longest_s, now_s - since_s)
