"""``ykactor local`` in a process of its own, and the jobs that a test gives it."""

import os
import secrets
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from daemon import LIMIT_S, clean_environment
from forked import Forked
from otherusers import ask_as

from ykactor.local import control
from ykactor.local.model import Job, State

#: Starts ``ykactor local`` as another user, who may not be able to read the interpreter: what it needs is imported before.
_AS_USER = """
import encodings.idna, os, sys
from ykactor.surfaces.cli.jobs.local import command
user = int(sys.argv.pop(1))
os.setgroups([]), os.setgid(user), os.setuid(user)
command(sys.argv[2:])
"""


class LocalManager:
    """A state directory, and the process that has it.

    Args:
        user: the number of the user of the process; None: ours.
    """

    def __init__(self, directory: Path, url: str, *options: str, user: int | None = None) -> None:
        self.directory = directory
        self._arguments = ["local", "--url", url, "--local-dir", str(directory), "--grace", "0.5", *options]
        self._user = user
        self.process: trio.Process | Forked

    async def open(self) -> None:
        """Start it, without waiting for anything."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = clean_environment()
        with (self.directory / "log").open("ab") as log:
            if self._user is None:
                self.process = await Forked.start(self._arguments, environment, log=log.fileno())
            else:
                command = [sys.executable, "-c", _AS_USER, str(self._user), *self._arguments]
                self.process = await trio.lowlevel.open_process(command, stdout=log, stderr=log, env=environment)

    async def start(self) -> None:
        """Returns when it answers."""
        await self.open()
        with trio.fail_after(LIMIT_S):
            while not await self._answers():
                assert self.process.returncode is None, self.log()
                await trio.sleep(0.02)

    async def _answers(self) -> bool:
        try:
            await control.ask(self.directory, control.ListJobs(1))
        except control.NoManager:
            return False
        return True

    def log(self) -> str:
        return (self.directory / "log").read_text()

    async def has_said(self, text: str, times: int = 1) -> None:
        """Wait until its log has a text so often."""
        with trio.fail_after(LIMIT_S):
            while self.log().count(text) < times:
                assert self.process.returncode is None, self.log()
                await trio.sleep(0.02)

    async def ends(self) -> str:
        """Wait until it has ended by itself, with exit code 1; what it has said."""
        with trio.fail_after(LIMIT_S):
            assert await self.process.wait() == 1, self.log()
        return self.log()

    async def kill(self, number: int = signal.SIGKILL) -> int:
        """Returns the exit code."""
        self.process.send_signal(number)
        return await self.process.wait()

    async def ask(self, request: control.Request, uid: int | None = None) -> control.Answer:
        """The answer to us, or to another user.

        Raises:  NoManager.
        """
        return await (control.ask(self.directory, request) if uid is None else ask_as(uid, self.directory, request))

    async def submit(self, script: str, uid: int | None = None, **fields: Any) -> str:
        """A job that runs a script of the shell; its id."""
        job = job_of(script, **fields)
        while True:
            try:
                answer = await self.ask(control.Submit(job), uid)
                assert isinstance(answer, control.Submitted), answer
                return answer.job
            except control.NoManager:  # it was killed: the same again is no second job
                await trio.sleep(0.05)

    async def show(self, job: str, *, waits: bool = False) -> control.ShownJob:
        while True:
            try:
                answer = await self.ask(control.ShowJob(job, waits))
                assert isinstance(answer, control.ShownJob), answer
                return answer
            except control.NoManager:
                await trio.sleep(0.05)

    async def states(self, job: str) -> list[State]:
        """The states of the tasks, when the job has ended."""
        with trio.fail_after(LIMIT_S):
            return [task.state for task in (await self.show(job, waits=True)).tasks]

    async def has_state(self, job: str, state: State) -> None:
        """Wait until the first task has it."""
        with trio.fail_after(LIMIT_S):
            while (await self.show(job)).tasks[0].state is not state:  # noqa: ASYNC110 (nothing tells when it is)
                await trio.sleep(0.02)


@asynccontextmanager
async def local_manager(directory: Path, url: str, *options: str) -> AsyncIterator[LocalManager]:
    """Run a local resource manager until the block ends; then kill it and what its jobs have left."""
    manager = LocalManager(directory, url, *options)
    await manager.start()
    try:
        yield manager
    finally:
        manager.process.kill()
        with trio.CancelScope(shield=True):
            await manager.process.wait()
        for pid in left_over(directory):
            os.kill(pid, signal.SIGKILL)


def job_of(script: str, /, **fields: Any) -> Job:
    values: dict[str, Any] = {
        "id": "",
        "token": secrets.token_hex(8),
        "name": "",
        "user": "",
        "queue": "",
        "arguments": [os.fsencode(word) for word in ("/bin/sh", "-c", script)],
        "environ": [b"PATH=" + os.environb[b"PATH"]],
        "directory": b"/",
        "resource": {"vcore": 100},
        "submitted_ns": 0,
    }
    return Job(**(values | fields))


def left_over(directory: Path) -> list[int]:
    """The processes of the jobs of a state directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"YKACTOR_ATTEMPT_DIR=" + os.fsencode(directory) in environ:
                found.append(int(entry.name))
    return found


def noting(path: Path, then: str = "") -> str:
    """A script that adds a line to a file, so that a test sees how often it has run."""
    return f'echo "$YKACTOR_ALLOCATION" >> {shlex.quote(str(path))}; {then}'
