"""Daemons and adapters in processes of their own, beside an API server in this one."""

import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from msgspec import Struct

from bench.apiserver import ApiServer
from bench.daemon import cpu_of, python_process, read_line, running_daemon
from bench.kubeobjects import node

_QUEUES = """
partitions:
- name: default
  placementrules: [{name: tag, value: namespace, create: true}]
  queues: [{name: root, submitacl: "*"}]
"""
#: A process that uses less than this in a while has nothing to do.
_IDLE_CPU_S, _WHILE_S = 0.003, 0.25


class Running(Struct, frozen=True):
    """A daemon with an adapter: the URL of the one, and the process ids of both."""

    url: str
    daemon_pid: int
    adapter_pid: int


class Town:
    """Attributes:
    server: the API server.
    """

    def __init__(self, server: ApiServer, kubeconfig: Path) -> None:
        self.server = server
        self._kubeconfig = kubeconfig

    @asynccontextmanager
    async def adapter(self, *arguments: str) -> AsyncIterator[Running]:
        """A daemon and an adapter, which leads unless the arguments say that it wants a Lease."""
        async with running_daemon(_QUEUES) as (url, daemon_pid):
            where = ("--kubeconfig", str(self._kubeconfig), "--url", url, *(arguments or ("--no-lease",)))
            async with python_process("ykactor", "kubernetes", *where, stderr=subprocess.DEVNULL) as process:
                yield Running(url, daemon_pid, process.pid)

    async def bare(self, action: str, count: int, act: Callable[[], object] = lambda: None) -> float:
        """CPU seconds of the client alone (``bench.bare``); ``act`` is called when it has begun."""
        arguments = ("bench.bare", str(self._kubeconfig), action, str(count))
        async with python_process(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            await read_line(process.stdout)
            await process.stdin.send_all(b"\n")
            act()
            return float(await read_line(process.stdout))


@asynccontextmanager
async def running_town(nodes: int) -> AsyncIterator[Town]:
    """An API server with so many nodes."""
    server = ApiServer()
    for number in range(nodes):
        server.put("nodes", node(f"n{number}"))
    with tempfile.TemporaryDirectory() as folder:
        async with server.running(Path(folder)) as kubeconfig:
            yield Town(server, kubeconfig)


async def settled(pid: int) -> float:
    """CPU seconds of a process, when it has nothing to do any more."""
    before_s = -1.0
    while (cpu_s := cpu_of(pid)) - before_s > _IDLE_CPU_S:
        before_s = cpu_s
        await trio.sleep(_WHILE_S)
    return cpu_s
