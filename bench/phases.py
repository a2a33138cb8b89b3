"""What the phases of a turn cost: CPU time of an allocation, divided among the phases and what is around them.

Nothing in the scheduler measures. An instrument of trio is called before and after each step of a task, and ``turn`` of the
partition's task is replaced by one that notes each phase it yields. So the CPU time between two such moments belongs to exactly
one phase, and the phases add up to the whole:

| phase | CPU time of |
|---|---|
| ``translate`` | the task that sends requests: from wire structs to submissions, and into the partition's inbox |
| ``ingest`` to ``settle`` | the tasks of partition, scheduler, queues and nodes in that phase (``core/turn/phases.py``) |
| ``publish`` | the feed: it renders, numbers and keeps events, and delivers facts to the outbox |
| ``follower`` | both readers: events and responses as JSON |
| ``gc`` | the garbage collector, whatever it interrupts |
| ``trio`` | everything outside the steps of tasks: the event loop |

Between two turns the partition takes input, which belongs to ``ingest``.
"""

import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from time import process_time, thread_time
from typing import Any
from unittest.mock import patch

import trio

from bench.harness import FEED, READERS, running
from bench.measures import Samples, place_all, release_all
from bench.workloads import FullCluster, Workload
from ykactor.actors.memory import settle_memory
from ykactor.core.turn.phases import Commit, Ingest, MakePlan, Observe, Phase, Publish, Settle
from ykactor.core.turn.turn import turn

#: Where the partition's task has it.
TURN = "ykactor.actors.partition.turn"
_OF_TURN: dict[type, str] = {
    Ingest: "ingest",
    Observe: "observe",
    MakePlan: "plan",
    Commit: "commit",
    Settle: "settle",
    Publish: "publish",
}
PHASES = ("translate", *_OF_TURN.values(), "follower", "gc", "trio")


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
    with patch(TURN, clock.noting(turn)):
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
        """Of ``trio.abc.Instrument``."""
        self.switch(self._phase_of(task))

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Of ``trio.abc.Instrument``."""
        self.switch("trio")

    def _phase_of(self, task: trio.lowlevel.Task) -> str:
        if task is self._sender:
            return "translate"
        if task.name == FEED:
            return "publish"
        return "follower" if task.name in READERS else self._of_turn

    def on_collection(self, moment: str, _: dict[str, Any]) -> None:
        """For ``gc.callbacks``."""
        if moment == "start":
            self._interrupted = self.phase
            self.switch("gc")
        else:
            self.switch(self._interrupted)

    def noting(self, turns: Callable[..., Generator[Phase, Any, Any]]) -> Callable[..., Generator[Phase, Any, Any]]:
        """The same function, which also notes its phases."""

        def noted(*args: Any, **options: Any) -> Generator[Phase, Any, Any]:
            phases, reply = turns(*args, **options), None
            try:
                while True:
                    phase = phases.send(reply)
                    self._enter(_OF_TURN[type(phase)])
                    reply = yield phase
            except StopIteration as end:
                self._enter("ingest")
                return end.value

        return noted

    def _enter(self, phase: str) -> None:
        """Called in a step of the partition's task."""
        self._of_turn = phase
        self.switch(phase)
