"""Cost of the phases of a turn: CPU time of an allocation, divided among the phases and what is around them.

An instrument of trio is called before and after each step of a task, and the ``TurnTimes`` of a partition also tell it where
a phase begins or ends. So the CPU time between two such moments belongs to exactly one phase, and the phases add up to the whole:

| phase | CPU time of |
|---|---|
| ``translate`` | the task that sends requests: from wire structs to submissions, and into the partition's inbox |
| ``ingest`` to ``settle`` | the tasks of partition, scheduler, queues and nodes in that phase (``actors/durations.py``) |
| ``publish`` | the feed: it renders, numbers and keeps events, and delivers facts to the outbox |
| ``follower`` | both readers: events and responses as JSON |
| ``gc`` | the garbage collector, whatever it interrupts |
| ``trio`` | everything outside the steps of tasks: the event loop |

Between two turns the partition takes input, which belongs to ``ingest``.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time, thread_time
from typing import Any
from unittest.mock import patch

import trio

from bench.harness import FEED, READERS, running
from bench.measures import Samples, place_all, release_all
from bench.workloads import FullCluster, Workload
from ykactor.actors.durations import PHASES as OF_TURN
from ykactor.actors.durations import TurnTimes
from ykactor.actors.pauses import settle_memory

PHASES = ("translate", *OF_TURN, "follower", "gc", "trio")


def figure_of(phase: str) -> str:
    """The name of the figure of a phase."""
    return f"{phase}_us"


async def of_workload(workload: Workload) -> Samples:
    """CPU microseconds of each phase for an allocation, and ``cpu_us``, the whole."""
    requests = workload.requests()
    async with running(workload.config(), workload.setup()) as rig:
        settle_memory()
        with phases_timed() as spent_s:
            await place_all(rig, workload.asks, requests)
    return _for_each(workload.asks, spent_s)


async def of_freed_nodes(cluster: FullCluster, rounds: int = 10) -> Samples:
    """The same when everything on a node is released, and pending asks are placed there."""
    async with running(cluster.config(), cluster.setup()) as rig:
        settle_memory()
        requests = [release_all(rig, f"n{i * cluster.nodes // rounds:05}") for i in range(rounds)]
        with phases_timed() as spent_s:
            for request in requests:
                await rig.submit(request)
                await rig.settle()
    return _for_each(rig.events.allocations, spent_s)


def _for_each(allocations: int, spent_s: dict[str, float]) -> Samples:
    return {name: [seconds * 1e6 / allocations] for name, seconds in spent_s.items()}


@contextmanager
def phases_timed() -> Iterator[dict[str, float]]:
    """Yields the figures, which are filled with CPU seconds at the end of the block. The task that enters it sends requests."""
    spent_s: dict[str, float] = {}
    clock = PhaseClock(trio.lowlevel.current_task())
    with clock.told():
        trio.lowlevel.add_instrument(clock)
        gc.callbacks.append(clock.on_collection)
        began_s = process_time()
        try:
            yield spent_s
        finally:
            clock.switch("trio")
            whole_s = process_time() - began_s
            gc.callbacks.remove(clock.on_collection)
            trio.lowlevel.remove_instrument(clock)
    spent_s["cpu_us"] = whole_s
    spent_s |= {figure_of(phase): seconds for phase, seconds in clock.spent_s.items()}


class PhaseClock(trio.abc.Instrument):
    """Adds the CPU time of the thread to the phase that it is spent for.

    Args:
        sender: the task that sends requests, and runs at present.

    Attributes:
        phase: the present one.
    """

    def __init__(self, sender: trio.lowlevel.Task) -> None:
        self.spent_s = dict.fromkeys(PHASES, 0.0)
        self._sender = sender
        #: What the partition and its owners do, whichever of their tasks runs.
        self._of_turn = "ingest"
        self.phase = "translate"
        #: The phase that the garbage collector interrupts.
        self._interrupted = "trio"
        self._since_s = thread_time()

    def switch(self, phase: str) -> None:
        """The time from now on belongs to this phase."""
        now_s = thread_time()
        self.spent_s[self.phase] += now_s - self._since_s
        self.phase, self._since_s = phase, now_s

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.switch(self._phase_of(task))

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.switch("trio")

    def _phase_of(self, task: trio.lowlevel.Task) -> str:
        if task is self._sender:
            return "translate"
        if task.name == FEED:
            return "publish"
        return "follower" if task.name in READERS else self._of_turn

    def on_collection(self, moment: str, _: dict[str, Any]) -> None:
        """Note the time of a collection, as one of ``gc.callbacks``."""
        if moment == "start":
            self._interrupted = self.phase
            self.switch("gc")
        else:
            self.switch(self._interrupted)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Have all partitions tell their phases during the block."""
        begin, end = TurnTimes.begin, TurnTimes.end

        def begun(times: TurnTimes, phase: str) -> None:
            begin(times, phase)
            self._enter(phase)

        def ended(times: TurnTimes) -> None:
            end(times)
            self._enter("ingest")

        with patch.object(TurnTimes, "begin", begun), patch.object(TurnTimes, "end", ended):
            yield

    def _enter(self, phase: str) -> None:
        """Called in a step of the partition's task, or of its scheduler's."""
        self._of_turn = phase
        self.switch(phase)
