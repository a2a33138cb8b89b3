"""Readers of the REST API while asks are placed: what they cost the scheduler, and how long they hold the event loop.

The daemon is in this process with its sockets, the readers are in another one. They ask in three phases of a few seconds,
and then pause for one, so that what the machine does beside falls on both kinds alike. They ask in most phases because what
they may take while nobody asks is saved up for them.
"""

import subprocess
from statistics import mean
from time import perf_counter, thread_time

import msgspec
import trio
from msgspec import Struct

from bench.daemon import python_process, read_line
from bench.measures import Samples, watched
from bench.rest_readers import ROUND, Outcome, is_read
from bench.workloads import in_requests, new_applications, nodes, queue_file
from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, Quiesce
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.net.doors import HTTP, Door
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests

_LEAVES = 100
#: Tasks of one message.
_BATCH = 500
_TASK: si.WireResource = {"vcore": 100, "memory": 2**20}
#: Until the first phase.
_BEGIN_S = 3.0
_PHASE_S = 5.0
#: Of a phase; what is taken then is not measured.
_SETTLE_S = 0.5

#: The tasks that were placed in a second of CPU time of the event loop, and the longest hold in ms. Large answers are compressed
#: in a thread, on a core of their own.
Phase = tuple[float, float]


class Read(Struct, frozen=True):
    """A cluster with applications, while tasks come and go.

    Attributes:
        tasks: that each application has all the time.
        rate: requests of readers in a second.
        loops: readers that ask for everything again and again, and take it uncompressed.
        rounds: of ``ROUND`` phases. Another one before is not measured: what readers take at once when they begin is not what
            they take all the time.
    """

    nodes: int
    applications: int
    rate: int
    rounds: int
    tasks: int = 1
    loops: int = 0

    @property
    def asks(self) -> int:
        """Tasks that run all the time."""
        return self.applications * self.tasks

    def setup(self) -> list[requests.PartitionRequest]:
        """Nodes, applications, and their tasks."""
        names = [(f"app-{i}", f"root.q{i % _LEAVES}") for i in range(self.applications)]
        tasks = (_task(f"t{i}", i % self.applications) for i in range(self.asks))
        return [nodes(self.nodes), new_applications(names), *in_requests(tasks)]


def _task(key: str, application: int) -> si.Allocation:
    return si.Allocation(allocation_key=key, application_id=f"app-{application}", resource_per_alloc=_TASK)


async def read(cluster: Read) -> Samples:
    """``per_second`` is the rate of placements, ``cost_percent`` what the readers take of it; ``hold_ms`` the longest hold.

    ``cost_ratio`` says the same as a number of times.
    """
    daemon = Daemon(queuefile.load(queue_file(_LEAVES)), Settings(reserves=False), Clock.of_the_system())
    async with trio.open_nursery() as nursery:
        doors = [Door.of(listener) for listener in await trio.open_tcp_listeners(0, host="127.0.0.1")]
        doors += [Door.of(listener, HTTP) for listener in await trio.open_tcp_listeners(0, host="127.0.0.1")]
        await nursery.start(daemon.run, doors, Notifier(None))
        await _submit(daemon, cluster.setup())
        port, begin_s = doors[-1].listener.socket.getsockname()[1], perf_counter() + _BEGIN_S
        arguments = (port, cluster.rate, cluster.loops, begin_s, _PHASE_S, cluster.rounds + 1)
        async with python_process("bench.rest_readers", *map(str, arguments), stdout=subprocess.PIPE) as reader:
            phases = [await _placed(daemon, cluster, number, begin_s) for number in range(ROUND * (cluster.rounds + 1))]
            assert reader.stdout is not None
            outcome = msgspec.json.decode(await read_line(reader.stdout), type=Outcome)
        nursery.cancel_scope.cancel()
    read = [phase for number, phase in enumerate(phases) if is_read(number)][ROUND - 1 :]
    alone = [phase for number, phase in enumerate(phases) if not is_read(number)]
    return {
        "per_second": [rate for rate, _ in alone[1:]],
        "read_per_second": [rate for rate, _ in read],
        "cost_ratio": [_cost_ratio(read[(ROUND - 1) * i :][: ROUND - 1], alone[i:][:2]) for i in range(cluster.rounds)],
        "cost_percent": [_cost_percent(read[(ROUND - 1) * i :][: ROUND - 1], alone[i:][:2]) for i in range(cluster.rounds)],
        "hold_ms": [hold_ms for _, hold_ms in alone[1:]],
        "read_hold_ms": [hold_ms for _, hold_ms in read],
        "slowest_ms": [outcome.slowest_ms],
        "refused": [float(outcome.refused)],
    }


def _cost_percent(read: list[Phase], alone: list[Phase]) -> float:
    """The added cost of the phases of a round with readers, beside those before and after them without."""
    return 100 * (1 - 1 / _cost_ratio(read, alone))


def _cost_ratio(read: list[Phase], alone: list[Phase]) -> float:
    """The cost of a placement with readers, as a multiple of that without."""
    return mean(rate for rate, _ in alone) / mean(rate for rate, _ in read)


async def _placed(daemon: Daemon, cluster: Read, phase: int, begin_s: float) -> Phase:
    """Place and release tasks in a phase: how many in a second of CPU time of the loop, and the longest hold."""
    placed, end_s = 0, begin_s + (phase + 1) * _PHASE_S
    await trio.sleep(max(0, end_s - _PHASE_S + _SETTLE_S - perf_counter()))
    with watched() as watch:
        began_cpu_s = thread_time()
        while perf_counter() < end_s:
            tasks = [_task(f"{phase}-{placed + i}", (placed + i) % cluster.applications) for i in range(_BATCH)]
            await _submit(daemon, [si.AllocationRequest(allocations=tasks)])
            releases = [
                si.AllocationRelease(
                    application_id=task.application_id, allocation_key=task.allocation_key, termination_type="STOPPED_BY_RM"
                )
                for task in tasks
            ]
            gone = si.AllocationReleasesRequest(allocations_to_release=releases)
            await _submit(daemon, [si.AllocationRequest(releases=gone)])
            placed += len(tasks)
        taken_s = thread_time() - began_cpu_s
    return placed / taken_s, max(watch.turns_ms)


async def _submit(daemon: Daemon, messages: list[requests.PartitionRequest]) -> None:
    inbox = daemon.partitions[PartitionName("default")]
    for message in messages:
        for submissions in requests.submissions(message).values():
            await inbox.put(Intake(submissions))
    decided = Awaited()
    await inbox.put(Quiesce(decided))
    await decided.wait()
