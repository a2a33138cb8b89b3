"""Processes of ``ykactor`` that start at once: forked by a server that has imported it, which saves most of their CPU time."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import trio
from forkserver import REPORT

_SERVER = Path(__file__).with_name("forkserver.py")


class Forked:
    """A process with what tests use of ``trio.Process``: its outputs are pipes, or ``stdout`` and ``stderr`` are None."""

    def __init__(self, report: int) -> None:
        self.pid = 0
        self._code: int | None = None
        self.stdout: trio.lowlevel.FdStream | None = None
        self.stderr: trio.lowlevel.FdStream | None = None
        self._report = trio.lowlevel.FdStream(report)
        self._waiting = trio.Lock()

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        program: str = "",
        stdin: int | None = None,
        log: int | None = None,
        directory: Path | str = "",
    ) -> "Forked":
        """Run ``ykactor`` with these arguments and exactly this environment.

        Args:
            program: a Python file that runs in place of ``ykactor``.
            stdin: its standard input; None: nothing.
            log: takes both outputs; None: they are pipes.
            directory: where it runs; "": where the tests do.
        """
        report, told = os.pipe()
        process = cls(report)
        ours = [told]
        if stdin is None:
            ours.append(stdin := os.open(os.devnull, os.O_RDONLY))
        if log is None:
            outputs = [process._new_pipe("stdout"), process._new_pipe("stderr")]
            ours += outputs
        else:
            outputs = [log, log]
        request = json.dumps([program, arguments, dict(environment), str(directory)]).encode()
        socket.send_fds(_server(), [request], [stdin, *outputs, told])
        for descriptor in ours:
            os.close(descriptor)
        with trio.CancelScope(shield=True):  # cancelled here, it would run on without anybody who knows of it
            await trio.lowlevel.wait_readable(report)
        process.pid = process._read()
        return process

    def _new_pipe(self, name: str) -> int:
        """The end to write to of a new pipe; the other one is the stream of this name."""
        reading, writing = os.pipe()
        setattr(self, name, trio.lowlevel.FdStream(reading))
        return writing

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.poll()

    def poll(self) -> int | None:
        """The exit code, like ``returncode``."""
        if self._code is None and select.select([self._report.fileno()], [], [], 0)[0]:
            self._code = self._read()
        return self._code

    async def aclose(self) -> None:
        """Close our ends of its outputs."""
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                await stream.aclose()

    async def wait(self) -> int:
        """Wait until it has ended; returns its exit code."""
        async with self._waiting:
            if self.poll() is None:
                await trio.lowlevel.wait_readable(self._report.fileno())
        code = self.poll()
        assert code is not None
        return code

    def _read(self) -> int:
        number: int
        (number,) = REPORT.unpack(os.read(self._report.fileno(), REPORT.size))
        return number

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, but is not yet reported
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _server() -> socket.socket:
    """The socket of this process's fork server, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, str(_SERVER), str(theirs.fileno())]
        # a session of its own, because Ctrl-C is for the tests, which then end their processes
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
