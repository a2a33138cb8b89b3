"""Readers of the REST API while asks are placed: what they cost the scheduler, and how long they hold the event loop.

The daemon is in this process with its sockets, the readers are in another one. Rounds with and without readers take turns.
"""

import subprocess
from time import perf_counter, process_time

import msgspec
import trio
from msgspec import Struct

from bench.daemon import python_process, read_line
from bench.measures import Samples, watched
from bench.rest_readers import Outcome
from bench.workloads import in_requests, new_applications, nodes, queue_file
from ykactor.actors.clock import Clock
from ykactor.actors.commands import Intake, Quiesce
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.server.daemon import Daemon, Settings
from ykactor.surfaces.server.doors import HTTP, Door
from ykactor.surfaces.server.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests

_LEAVES = 100
_TASK: si.WireResource = {"vcore": 100, "memory": 2**20}
_SECONDS = 8.0
#: Readers begin so much earlier: what they take at once at their beginning is not what they take all the time.
_BEFORE_S = 5.0


class Read(Struct, frozen=True):
    """A cluster with applications of one task each, while tasks come and go.

    Attributes:
        rate: requests of readers in a second.
        rounds: of each kind.
    """

    nodes: int
    applications: int
    rate: int
    rounds: int

    @property
    def asks(self) -> int:
        """Tasks that run all the time."""
        return self.applications

    def setup(self) -> list[requests.PartitionRequest]:
        """Nodes, applications, and a task of each."""
        names = [(f"app-{i}", f"root.q{i % _LEAVES}") for i in range(self.applications)]
        return [nodes(self.nodes), new_applications(names), *in_requests(_task(f"t{i}", i) for i in range(self.applications))]


def _task(key: str, application: int) -> si.Allocation:
    return si.Allocation(allocation_key=key, application_id=f"app-{application}", resource_per_alloc=_TASK)


async def read(cluster: Read) -> Samples:
    """``per_second`` is the rate of placements, ``cost_percent`` what the readers take of it; ``hold_ms`` the longest hold."""
    daemon = Daemon(queuefile.load(queue_file(_LEAVES)), Settings(reserves=False), Clock.of_the_system())
    samples: Samples = {"per_second": [], "read_per_second": [], "cost_percent": [], "hold_ms": [], "read_hold_ms": []}
    samples |= {"slowest_ms": [], "refused": []}
    async with trio.open_nursery() as nursery:
        doors = [Door.of(listener) for listener in await trio.open_tcp_listeners(0, host="127.0.0.1")]
        doors += [Door.of(listener, HTTP) for listener in await trio.open_tcp_listeners(0, host="127.0.0.1")]
        await nursery.start(daemon.run, doors, Notifier(None))
        await _submit(daemon, cluster.setup())
        port = doors[-1].listener.socket.getsockname()[1]
        for number in range(cluster.rounds):
            rate, hold_ms = await _placed(daemon, cluster, f"a{number}")
            async with python_process(
                "bench.rest_readers", str(port), str(cluster.rate), str(_BEFORE_S + _SECONDS), stdout=subprocess.PIPE
            ) as reader:
                await trio.sleep(_BEFORE_S)
                read_rate, read_hold_ms = await _placed(daemon, cluster, f"b{number}")
                assert reader.stdout is not None
                outcome = msgspec.json.decode(await read_line(reader.stdout), type=Outcome)
            samples["per_second"].append(rate)
            samples["read_per_second"].append(read_rate)
            samples["cost_percent"].append(100 * (1 - read_rate / rate))
            samples["hold_ms"].append(hold_ms)
            samples["read_hold_ms"].append(read_hold_ms)
            samples["slowest_ms"].append(outcome.slowest_ms)
            samples["refused"].append(float(outcome.refused))
        nursery.cancel_scope.cancel()
    return samples


async def _placed(daemon: Daemon, cluster: Read, prefix: str) -> tuple[float, float]:
    """Place and release tasks for some seconds: how many in a second of CPU time that is not idle, and the longest hold."""
    placed = 0
    with watched() as watch:
        began_s, began_cpu_s = perf_counter(), process_time()
        while perf_counter() < began_s + _SECONDS - 1:
            tasks = [_task(f"{prefix}-{placed + i}", (placed + i) % cluster.applications) for i in range(1000)]
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
        taken_s = process_time() - began_cpu_s
    return placed / taken_s, max(watch.turns_ms)


async def _submit(daemon: Daemon, messages: list[requests.PartitionRequest]) -> None:
    inbox = daemon.partitions[PartitionName("default")]
    for message in messages:
        for submissions in requests.submissions(message).values():
            await inbox.put(Intake(submissions))
    decided = trio.Event()
    await inbox.put(Quiesce(lambda _: decided.set()))
    await decided.wait()
