"""The daemon as it ships: ``python -m ykactor serve`` in a process of its own, with real sockets, files and signals."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio
from click.testing import CliRunner
from forked import Forked

from ykactor.client import follow
from ykactor.surfaces.cli.main import main
from ykactor.wire.si import messages as si

COMMAND = (sys.executable, "-m", "ykactor")
#: Absolute bound of one test with a daemon: it ends what hangs, however busy the machine is.
LIMIT_S = 180.0


class RunningDaemon:
    """A daemon process and what it has logged so far."""

    def __init__(self, process: trio.Process | Forked) -> None:
        self.process = process
        self.url = ""
        #: Of the REST API, if it is served.
        self.http = ""
        self.lines: list[dict[str, Any]] = []
        #: What it wrote that is no line of the log, for example a traceback.
        self.noise = ""
        #: While this is not set, nobody reads the log.
        self.reading = trio.Event()
        self.reading.set()
        self._has_ended = False
        self._grown = trio.Event()

    async def read_log(self) -> None:
        """Take in what the process writes on standard error until it ends."""
        assert self.process.stderr is not None
        rest = b""
        async for chunk in self.process.stderr:
            await self.reading.wait()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._take(line)
        if rest:
            self._take(rest)
        self._has_ended = True
        self._grown.set()

    def _take(self, line: bytes) -> None:
        try:
            self.lines.append(msgspec.json.decode(line))
        except msgspec.DecodeError:
            self.noise += line.decode() + "\n"
        self._grown.set()
        self._grown = trio.Event()

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The lines of this event so far."""
        return [line for line in self.lines if line["event"] == event]

    async def wait_logged(self, event: str, count: int = 1) -> dict[str, Any]:
        """Wait until an event has been logged ``count`` times and return the line; fails when the daemon ends before."""
        while len(found := self.logged(event)) < count:
            assert not self._has_ended, f"the daemon ended without {event}\n{self.noise}"
            await self._grown.wait()
        return found[count - 1]

    async def wait_read(self) -> None:
        """Wait until the process has ended and all that it has written was taken in."""
        while not self._has_ended:
            await self._grown.wait()

    async def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.terminate()
        return await self.process.wait()

    async def state(self) -> dict[str, Any]:
        """The state of the default partition now."""
        return await state_of(self.url)

    def cpu_s(self) -> float:
        """CPU time that the process has used, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def real_daemon(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    program: str = "",
    wrapper: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
    ws: Sequence[str] = ("--ws", "127.0.0.1:0"),
    http: str = "none",
    limit_s: float = LIMIT_S,
    ready: str = "daemon_started",
) -> AsyncIterator[RunningDaemon]:
    """Run ``ykactor serve`` until the block ends; it is killed then if it still lives.

    Args:
        arguments: of ``serve``, beside ``ws`` and ``http``.
        environment: on top of ours.
        program: a Python file that runs in place of ``ykactor``.
        wrapper: a command that gets ours as its last arguments and should become it.
        pass_fds: descriptors that it inherits.
        limit_s: the block fails if it takes longer.
        ready: the event in its log that the block begins with; "" for none, then the daemon has no addresses.
    """
    process = await _start(["serve", *ws, "--http", http, *map(str, arguments)], environment or {}, program, wrapper, pass_fds)
    daemon = RunningDaemon(process)
    try:
        with trio.fail_after(limit_s):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(daemon.read_log)
                addresses = (await daemon.wait_logged(ready))["addresses"].split(", ") if ready else []
                daemon.http = next((url for url in addresses if url.startswith("http")), "")
                daemon.url = ", ".join(url for url in addresses if url != daemon.http)
                yield daemon
                nursery.cancel_scope.cancel()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()
            await process.stderr.aclose()


async def _start(
    arguments: Sequence[str], environment: Mapping[str, str], program: str, wrapper: Sequence[str], pass_fds: Sequence[int]
) -> trio.Process | Forked:
    """Start ``ykactor``: forked where nothing asks for an interpreter of its own, because imports cost more than most tests."""
    whole = clean_environment() | dict(environment)
    if not wrapper and not pass_fds:
        return await Forked.start(arguments, whole, program=program)
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return await trio.lowlevel.open_process([*wrapper, *COMMAND, *arguments], **pipes, env=whole, pass_fds=pass_fds)


async def _read_to_the_end(process: Forked) -> tuple[str, str]:
    """Read its standard output and error to the end."""
    written = {"stdout": b"", "stderr": b""}

    async def read(name: str) -> None:
        async for chunk in getattr(process, name):
            written[name] += chunk

    async with trio.open_nursery() as nursery:
        for name in written:
            nursery.start_soon(read, name)
    return written["stdout"].decode(), written["stderr"].decode()


async def state_of(url: str) -> dict[str, Any]:
    """The state of the default partition of a daemon now."""
    async with follow(url, from_="snapshot") as messages:
        snapshot = await messages.__anext__()
    assert isinstance(snapshot, si.Snapshot)
    (partition,) = snapshot.partitions
    found: dict[str, Any] = msgspec.to_builtins(partition)
    return found


@asynccontextmanager
async def running_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: int | None = None, terminal: int | None = None
) -> AsyncIterator[Forked]:
    """``ykactor`` in a process of its own until the block ends; it is killed then if it still runs.

    Args:
        environment: as in ``real_daemon``.
        stdin: its standard input; None: nothing.
        terminal: takes its outputs; None: they are pipes.
    """
    whole = clean_environment() | (environment or {})
    process = await Forked.start(list(map(str, arguments)), whole, stdin=stdin, log=terminal)
    try:
        with trio.fail_after(LIMIT_S):
            yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


async def run_command(
    *arguments: str | Path, expect: int = 0, environment: Mapping[str, str] | None = None, stdin: int | None = None
) -> tuple[str, str]:
    """Run ``ykactor`` to its end, which must have this exit code; what it wrote on standard output and error.

    Args:
        environment, stdin: as in ``running_command``.
    """
    code, output, errors = await ended_command(*arguments, environment=environment, stdin=stdin)
    assert code == expect, output + errors
    return output, errors


async def ended_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: int | None = None
) -> tuple[int, str, str]:
    """The same; its exit code comes first."""
    async with running_command(*arguments, environment=environment, stdin=stdin) as process:
        output, errors = await _read_to_the_end(process)
        return await process.wait(), output, errors


def new_token(identity: str, access_file: Path) -> str:
    """The secret that ``ykactor token create`` prints; it runs in this process, because it needs nothing of its own."""
    done = CliRunner().invoke(main, ["token", "create", identity, "--access", str(access_file)])
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


def clean_environment() -> dict[str, str]:
    """Ours without what systemd, a terminal or a user of the commands may have put there."""
    ours = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "JOURNAL_STREAM")
    return {name: value for name, value in os.environ.items() if name not in ours and not name.startswith("YKACTOR_")}


# ---- small worlds


def node(node_id: str = "n1", action: str = "CREATE", **resource: int | str) -> si.NodeRequest:
    return si.NodeRequest(nodes=[si.NodeInfo(node_id=node_id, action=action, schedulable_resource=resource or {"vcore": 4000})])


def application(application_id: str = "app-1", queue: str = "root.default") -> si.ApplicationRequest:
    """An application for ``queue``; the built-in configuration puts it into the queue that its namespace names."""
    entry = si.AddApplicationRequest(
        application_id=application_id,
        queue_name=queue,
        ugi=si.UserGroupInformation(user="alice"),
        tags={"namespace": queue.removeprefix("root.")},
    )
    return si.ApplicationRequest(new=[entry])


def asks(*keys: str, of: str = "app-1", **resource: int | str) -> si.AllocationRequest:
    wanted = resource or {"vcore": 1000}
    return si.AllocationRequest(
        allocations=[si.Allocation(allocation_key=key, application_id=of, resource_per_alloc=wanted) for key in keys]
    )


async def next_allocated(messages: Any, count: int = 1) -> list[tuple[str, str]]:
    """(allocation key, node) of the next ``count`` placements that a resource manager receives."""
    placed: list[tuple[str, str]] = []
    while len(placed) < count:
        response = await messages.__anext__()
        if isinstance(response, si.AllocationResponse):
            placed += [(allocation.allocation_key, allocation.node_id) for allocation in response.new]
    return placed


async def next_event(messages: Any, kind: str, contains: str = "") -> si.EventRecord:
    """The next event of this type or detail whose message contains a text."""
    async for message in messages:
        is_wanted = isinstance(message, si.EventRecord) and kind in (message.type, message.event_change_detail)
        if is_wanted and contains in message.message:
            return message
    raise AssertionError("a follower has no end")


async def status_of(url: str, path: str) -> int:
    """The status of the answer to ``GET``, with the user of this moment."""
    host, port = url.removeprefix("http://").rsplit(":", 1)
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return int(bytes(await stream.receive_some()).split()[1])
