"""The daemon in a process of its own, with real sockets: ``ykactor serve``, and what measurements ask of a process."""

import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio


@asynccontextmanager
async def python_process(
    *arguments: str, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None
) -> AsyncIterator[trio.Process]:
    """A Python process that is killed at the end."""
    process = await trio.lowlevel.open_process([sys.executable, "-m", *arguments], stdin=stdin, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    await pipe.aclose()


@asynccontextmanager
async def running_daemon(config: str, *arguments: str, program: str = "ykactor") -> AsyncIterator[tuple[str, int]]:
    """The URL and the process id of a daemon with this queue file and these arguments, killed when the block ends.

    Without ``--ws`` it has a port of its own, and without ``--http`` no REST API; the URLs of several are separated by ``, ``.

    Args:
        program: a module that takes the arguments of ``ykactor``.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queues.yaml"
        path.write_text(config)
        async with _serving(program, "--config", str(path), *arguments) as served:
            yield served


@asynccontextmanager
async def _serving(program: str, *arguments: str) -> AsyncIterator[tuple[str, int]]:
    absent = {"--http": "none", "--ws": "127.0.0.1:0"}
    doors = [each for option, address in absent.items() if option not in arguments for each in (option, address)]
    async with python_process(program, "serve", *doors, *arguments, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        log = b""
        while b'"daemon_started"' not in log:
            log += await read_line(process.stderr)
        started = next(line for line in map(msgspec.json.decode, log.splitlines()) if line["event"] == "daemon_started")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain, process.stderr)
            yield started["addresses"], process.pid
            nursery.cancel_scope.cancel()


async def read_line(pipe: trio.abc.ReceiveStream) -> bytes:
    """Read up to the end of a line; less if the pipe ends."""
    read = b""
    while not read.endswith(b"\n") and (part := await pipe.receive_some()):
        read += part
    return read


async def drain(stream: trio.abc.ReceiveStream) -> None:
    """Read what a process writes, so that it can go on."""
    async for _ in stream:
        pass


def cpu_of(pid: int) -> float:
    """CPU time that the process has used, in seconds."""
    return time.clock_gettime(~pid << 3 | 2)  # the CPU clock of another process has this number: clock_getcpuclockid(3)
