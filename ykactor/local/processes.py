"""Processes of tasks, which outlive the program that starts them.

Each attempt of a task has a directory: ``out`` and ``err`` are what the command has written, ``pid`` says that it was started,
and ``exit`` how it has ended. A small shell runs the command. It first links ``pid``, which only one can do, so that an attempt
runs at most once, however often it is started: who comes second ends with nothing done. At the end it writes ``exit`` and kills
what the command has left in its process group.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import trio

from ykactor.core.values.quantities import quantity_text
from ykactor.local.isolation import Isolation
from ykactor.local.model import Ended, Job, Task

# A signal to the group is the command's business: the shell stays, and says how the command has ended. ``command -p`` and
# ``exec`` find programs only, whatever the environment makes of their names.
_SHELL = """\
trap : TERM INT HUP QUIT ALRM PIPE USR1 USR2
echo $$ > "$YKACTOR_ATTEMPT/pid.$$" && command -p ln "$YKACTOR_ATTEMPT/pid.$$" "$YKACTOR_ATTEMPT/pid" || exit 125
(exec "$@")
echo $? > "$YKACTOR_ATTEMPT/exit"
kill -KILL 0
"""
_ATTEMPT = "YKACTOR_ATTEMPT"
_VANISHED = "its process has vanished: it was killed from outside, or the machine had no memory left"


class NotStarted(Exception):
    """The command could not be started; the message says why."""


class Processes:
    """The processes below a directory.

    Args:
        grace_s: between SIGTERM and SIGKILL.
    """

    def __init__(self, directory: Path, isolation: Isolation, grace_s: float) -> None:
        self._directory = directory
        self._isolation = isolation
        self._grace_s = grace_s
        #: Shells that this program has started, by attempt: they stay as zombies until they are waited for.
        self._children: dict[Path, subprocess.Popen[bytes]] = {}

    def attempt(self, task: Task) -> Path:
        """The directory of the present attempt."""
        return self.job_directory(task.job) / f"{task.index}.{task.attempt}"

    def job_directory(self, job: str) -> Path:
        return self._directory / job

    def start(self, job: Job, task: Task) -> None:
        """Start the command, unless it has been started before.

        Raises:  NotStarted.
        """
        attempt = self.attempt(task)
        try:
            attempt.mkdir(parents=True, exist_ok=True)
            with (attempt / "out").open("ab") as output, (attempt / "err").open("ab") as errors:
                self._children[attempt] = subprocess.Popen(
                    [*self._isolation.prefix(job, task), "/bin/sh", "-c", _SHELL, "sh", *job.arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    cwd=job.directory,
                    env=environment(job, task, attempt, self._isolation.environ),
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            raise NotStarted(f"the command cannot be started: {error}") from None

    def has_begun(self, task: Task) -> bool:
        return (self.attempt(task) / "pid").exists()

    def forbid(self, task: Task) -> None:
        """Let an attempt that has not begun never begin, also if its shell is on its way."""
        attempt = self.attempt(task)
        attempt.mkdir(parents=True, exist_ok=True)
        mark = attempt / "pid.forbidden"
        mark.write_text("forbidden\n")
        with suppress(FileExistsError):
            (attempt / "pid").hardlink_to(mark)

    async def wait(self, task: Task) -> Ended:
        """Wait until the process of the task has ended, with all that it has left in its group."""
        attempt = self.attempt(task)
        child = await self._reaped(attempt)
        pid = _number(attempt / "pid")
        if pid is not None and pid != child:  # of an earlier run of this program
            await _gone(pid, attempt)
        if pid is not None:
            await _kill_group(pid, attempt)
        await self._isolation.clean(task)
        return self.ended(task)

    def ended(self, task: Task) -> Ended:
        """What is known of a process that has ended."""
        attempt = self.attempt(task)
        code = _number(attempt / "exit")
        if code is None and not (attempt / "pid").exists():
            return Ended(None, "it could not say that it has begun: is the disk full?")
        return Ended(code, "" if code is not None else _VANISHED)

    async def terminate(self, task: Task) -> None:
        """SIGTERM to all processes of the task, and after the grace SIGKILL."""
        attempt = self.attempt(task)
        with trio.move_on_after(self._grace_s):
            while not self._signal(attempt, signal.SIGTERM):  # noqa: ASYNC110 (a shell tells nobody that it begins)
                await trio.sleep(0.01)
            await trio.sleep(self._grace_s)
        if not self._signal(attempt, signal.SIGKILL) and attempt in self._children:
            self._children[attempt].kill()

    async def _reaped(self, attempt: Path) -> int | None:
        """Wait for the shell that this program has started; its process number."""
        child = self._children.get(attempt)
        if child is None:
            return None
        await _readable(os.pidfd_open(child.pid))
        child.wait()
        del self._children[attempt]
        return child.pid

    def _signal(self, attempt: Path, number: signal.Signals) -> bool:
        """Whether the process has begun; it may have ended."""
        pid = _number(attempt / "pid")
        if pid is not None and _is_of(pid, attempt):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        return pid is not None


def environment(job: Job, task: Task, attempt: Path, more: Mapping[str, str]) -> dict[bytes, bytes]:
    """That of who has submitted the job, with what is allocated, and ``more``."""
    inherited = dict(entry.split(b"=", 1) for entry in job.environ if b"=" in entry)
    own = {
        _ATTEMPT: str(attempt),
        "YKACTOR_ALLOCATION": task.key,
        "YKACTOR_JOB": job.id,
        "YKACTOR_TASK": str(task.index),
        "YKACTOR_TASKS": str(job.count),
        "YKACTOR_QUEUE": job.leaf,
        "YKACTOR_VCORE": quantity_text("vcore", job.resource.get("vcore", 0)),
        "YKACTOR_MEMORY": str(job.resource.get("memory", 0)),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, task.gpus)),
        **more,
    }
    return inherited | {os.fsencode(name): os.fsencode(value) for name, value in own.items()}


def _number(path: Path) -> int | None:
    """The number in a file; None if the file is not there, or not written yet."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _is_of(pid: int, attempt: Path) -> bool:
    """Whether a process belongs to the attempt: its number may be that of another one by now."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"%s=%s" % (_ATTEMPT.encode(), os.fsencode(attempt)) in entries


async def _kill_group(pid: int, attempt: Path) -> None:
    """What is left of a group whose shell has ended, if the number still is that of the group; returns when it is gone."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:  # as nearly always
        return
    except PermissionError:
        pass
    members = [member for member in _group(pid) if _is_of(member, attempt)]
    if members:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    for member in members:
        await _gone(member, attempt)


def _group(pid: int) -> list[int]:
    """The processes in a process group."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == pid:
                    found.append(int(entry.name))
    return found


async def _gone(pid: int, attempt: Path) -> None:
    """Wait until a process of the attempt has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    if _is_of(pid, attempt):  # asked after it was opened: it is this process, or has ended
        await _readable(descriptor)
    else:
        os.close(descriptor)


async def _readable(descriptor: int) -> None:
    """Wait until the process has ended, and close the descriptor."""
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
