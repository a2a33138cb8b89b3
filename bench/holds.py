"""Work that could hold the event loop: one message or one decision that concerns tens of thousands of allocations or asks.

``max_ms`` is the longest time for which the event loop does not check its sockets, in CPU time; ``cpu_s`` the CPU time in all.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import process_time

import trio
from msgspec import Struct

from bench.harness import running
from bench.measures import Samples, watched
from bench.readers import HANDSHAKE, OFFER, frame_in
from bench.shapes import Waiting
from bench.workloads import GIB, HEAD, in_requests, new_applications, nodes, queue_file
from ykactor.actors.clock import Clock
from ykactor.actors.commands import Awaited, Intake, Quiesce
from ykactor.core.messages.submissions import ApplyConfig
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.daemon.daemon import Daemon, Settings
from ykactor.surfaces.net.doors import Door
from ykactor.surfaces.net.systemd import Notifier
from ykactor.wire import queuefile
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests
from ykactor.wire.si.requests import PartitionRequest

_TASK: si.WireResource = {"vcore": 6_400, "memory": 20 * GIB}
_SUBSCRIBE = b'{"type":"Subscribe","from":"snapshot"}'


class Holding(Struct, frozen=True):
    """Running allocations on nodes that they fill, ten on each.

    Attributes:
        asks: the allocations.
        applications: their applications.
        waiting: asks that are pending, of 20 sizes, in as many applications of their own.
    """

    asks: int
    applications: int = 1
    waiting: int = 0

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.asks // 10

    def setup(self) -> list[PartitionRequest]:
        """Nodes, applications and allocations."""
        names = [(f"{kind}{i}", f"root.q{number}") for number, kind in enumerate("rw") for i in range(self.applications)]
        tasks = (
            si.Allocation(
                allocation_key=f"t{i}",
                application_id=f"r{i % self.applications}",
                resource_per_alloc=_TASK,
                node_id=f"n{i % self.nodes:05}",
            )
            for i in range(self.asks)
        )
        asks = (
            si.Allocation(
                allocation_key=f"a{i}",
                application_id=f"w{i % self.applications}",
                resource_per_alloc=_size(i // self.applications % 20),
            )
            for i in range(self.waiting)
        )
        return [nodes(self.nodes), new_applications(names), *in_requests(tasks), *in_requests(asks)]


def _size(number: int) -> si.WireResource:
    return {"vcore": 1_000 + number, "memory": GIB}


@asynccontextmanager
async def _measured(samples: Samples) -> AsyncIterator[None]:
    """Puts the figures of the block into ``samples``."""
    with watched() as watch:
        began_s = process_time()
        yield
        samples |= {"max_ms": [max(watch.turns_ms)], "cpu_s": [process_time() - began_s]}


# ---- a release, and what follows


async def release(holding: Holding) -> Samples:
    """One application ends, with all its allocations."""
    samples: Samples = {}
    every = si.AllocationRelease(application_id="r0", termination_type="STOPPED_BY_RM")
    async with running(queue_file(2), holding.setup(), may_miss=True) as rig, _measured(samples):
        await rig.submit(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[every])))
        await rig.settle()
    return samples


# ---- quota preemption


async def enforce(holding: Holding) -> Samples:
    """The quota of a queue is lowered to half of what it uses."""
    samples: Samples = {}
    async with running(_with_quota(holding.asks), holding.setup(), may_miss=True) as rig, _measured(samples):
        lowered = queuefile.load(_with_quota(holding.asks // 2)).partitions[0]
        await rig.partition.inbox.put(Intake([ApplyConfig(lowered)]))
        await trio.sleep(1.5)
        await rig.settle()
    return samples


def _with_quota(tasks: int) -> str:
    """A queue file in which one queue has room for this many tasks."""
    quota = f"resources: {{max: {{vcore: {tasks * int(_TASK['vcore'])}m}}}}"
    lines = [f"          - {{name: q0, {quota}, properties: {{quota.preemption.delay: 1s}}}}", "          - {name: q1}"]
    return "\n".join([*HEAD, *lines, "    preemption: {quotapreemptionenabled: true}"])


# ---- a gang


class LargeGang(Struct, frozen=True):
    """A gang whose placeholders run, and its real asks; the resource manager confirms replacements when all have started."""

    nodes: int
    asks: int

    def setup(self) -> list[PartitionRequest]:
        """Nodes, the application, and its placeholders."""
        user = si.UserGroupInformation(user="bench", groups=["bench"])
        total: si.WireResource = {name: int(quantity) * self.asks for name, quantity in _size(0).items()}
        gang = si.AddApplicationRequest(application_id="gang", queue_name="root.q0", ugi=user, placeholder_ask=total)
        holders = in_requests(self._member(f"p{i}", placeholder=True) for i in range(self.asks))
        return [nodes(self.nodes), si.ApplicationRequest(new=[gang]), *holders]

    def real(self) -> list[si.AllocationRequest]:
        """The real asks."""
        return in_requests(self._member(f"r{i}", placeholder=False) for i in range(self.asks))

    def _member(self, key: str, *, placeholder: bool) -> si.Allocation:
        return si.Allocation(
            allocation_key=key,
            application_id="gang",
            resource_per_alloc=_size(0),
            task_group_name="g",
            placeholder=placeholder,
        )


async def replace(gang: LargeGang) -> Samples:
    """All placeholders are replaced."""
    samples: Samples = {}
    async with running(queue_file(1), gang.setup(), may_miss=True) as rig, _measured(samples):
        for request in gang.real():
            await rig.submit(request)
            await rig.settle()
        for first in range(0, gang.asks, 1000):
            confirmed = [
                si.AllocationRelease(application_id="gang", allocation_key=f"p{i}", termination_type="PLACEHOLDER_REPLACED")
                for i in range(first, min(first + 1000, gang.asks))
            ]
            await rig.submit(si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=confirmed)))
        await rig.settle()
    return samples


# ---- many shapes, many queues


async def fail(waiting: Waiting) -> Samples:
    """Asks of many shapes that fit nowhere, until nothing more is decided about them."""
    samples: Samples = {}
    requests = waiting.pending()
    async with running(queue_file(2), waiting.setup(), may_miss=True) as rig, _measured(samples):
        for request in requests:
            await rig.submit(request)
        await rig.settle()
        await trio.sleep(3)  # they may reserve after 2 s
        await rig.settle()
    return samples


# ---- a snapshot


async def snapshot(holding: Holding) -> Samples:
    """A follower subscribes to a snapshot: the daemon itself, with its sockets."""
    samples: Samples = {}
    daemon = Daemon(queuefile.load(queue_file(2)), Settings(reserves=False), Clock.of_the_system())
    async with trio.open_nursery() as nursery:
        doors = [Door.of(listener) for listener in await trio.open_tcp_listeners(0, host="127.0.0.1")]
        await nursery.start(daemon.run, doors, Notifier(None))
        inbox = daemon.partitions[PartitionName("default")]
        for request in holding.setup():
            for submissions in requests.submissions(request).values():
                await inbox.put(Intake(submissions))
        decided = Awaited()
        await inbox.put(Quiesce(decided))
        await decided.wait()
        port = doors[0].listener.socket.getsockname()[1]
        async with _measured(samples):
            sizes = [await trio.to_thread.run_sync(_first_message, port, offer) for offer in (b"", OFFER)]
        nursery.cancel_scope.cancel()
    return samples | {"mib": [sizes[0] / 2**20]}


def _first_message(port: int, offer: bytes) -> int:
    """Subscribe to a snapshot and read its message, in another thread; the number of bytes."""
    unread = bytearray()
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(HANDSHAKE + offer + b"\r\n")
        while b"\r\n\r\n" not in unread:
            unread += sock.recv(2**20)
        sock.sendall(bytes([0x81, 0x80 | len(_SUBSCRIBE)]) + bytes(4) + _SUBSCRIBE)
        at = unread.index(b"\r\n\r\n") + 4
        size, is_last = 0, False
        while not is_last:
            while (frame := frame_in(unread, at)) is None:
                unread += sock.recv(2**20)
            size, at, is_last = size + frame.end - frame.start, frame.end, bool(frame.kind & 0x80)
    return size
