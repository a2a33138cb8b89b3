"""Processes of tasks of several users, which root starts (``ykactor local --system``).

Root believes only what root has written. Each attempt has two files in a directory that only root enters: ``begun`` has the
number of the process and its start, ``exit`` how it has ended. The shell that writes the exit code is the user's, so the code is
the user's word; the kernel says when the task has ended, and whether by itself. The directory with ``out`` and ``err`` is of the
user, and root opens nothing in it. A task is known by its control group, which its user can neither leave nor choose.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import trio
from msgspec import structs

from ykactor.core.values.printable import printable
from ykactor.local import launcher
from ykactor.local.model import Ended, Job, Task
from ykactor.local.processes import NotStarted, environment, files
from ykactor.local.programs import launch
from ykactor.local.removal import Removal
from ykactor.local.scripts import command
from ykactor.local.shared_groups import SharedCgroups

_BEGUN = re.compile(r"([1-9]\d{0,6}) (\d+)\n")
_EXIT = re.compile(r"(\d{1,3})(?: (.*))?\n")
_SMALL = 4096
#: Instead of a number, in an attempt that must not begin.
_FORBIDDEN = "forbidden\n"
_VANISHED = "its process has vanished: it was killed from outside, or the machine had no memory left"
_NOT_BEGUN = "it could not say that it has begun: is the disk full, or does the directory of users not answer?"


class SharedProcesses:
    """The processes of all users below a directory of root; the same methods as ``Processes``.

    Args:
        grace_s: between SIGTERM and SIGKILL.
    """

    def __init__(self, directory: Path, groups: SharedCgroups, grace_s: float) -> None:
        self._jobs, self._state = directory / "jobs", directory / "state"
        self._groups = groups
        self._grace_s = grace_s
        #: Launchers that this program has started, which become the shells of the tasks, by the key of the task.
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        #: Tasks that had ended before they were told to end.
        self._ended_before: set[str] = set()
        self._removal = Removal()
        self._state.mkdir(mode=0o700, exist_ok=True)
        self._jobs.mkdir(mode=0o711, exist_ok=True)
        self._jobs.chmod(0o711)  # whatever the umask
        _sort(self._state)

    def job_directory(self, job: str) -> Path:
        """The directory with those of the attempts, ``INDEX.ATTEMPT``, which are of the user of the job."""
        return self._jobs / job

    def start(self, job: Job, task: Task) -> None:
        """Start the command, unless it has been started before.

        Raises:  NotStarted.
        """
        assert job.login is not None, "each job of a shared machine has a user"
        try:
            self._begun(task).parent.mkdir(mode=0o700, exist_ok=True)
            attempt = self._user_directory(task, job.login.uid)
            order = {
                "uid": job.login.uid,
                "umask": job.login.umask,
                "limits": job.login.limits,
                "group": self._groups.group(job, task),
                "begun": str(self._begun(task)),
                "exit": str(self._exit(task)),
                "attempt": _text(bytes(attempt)),
                "files": [(_text(file.path), file.is_emptied) for file in files(job, task)],
                "directory": _text(job.directory),
                "terminal": _text(job.terminal),
                "arguments": [_text(word) for word in command(job, attempt)],
                "script": _text(job.script),
                "environ": [_text(b"=".join(pair)) for pair in environment(job, task, attempt, {}).items()],
            }
            self._children[task.key] = launch(launcher, order)
        except (OSError, ValueError) as error:
            raise NotStarted(f"the command cannot be started: {error}") from None

    def has_begun(self, task: Task) -> bool:
        return self._begun(task).exists()

    def forbid(self, task: Task) -> None:
        """Let an attempt that has not begun never begin, also if its launcher is on its way."""
        begun = self._begun(task)
        with suppress(OSError):
            begun.parent.mkdir(mode=0o700, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=begun.parent) as file:
                file.write(_FORBIDDEN)
                file.flush()
                begun.hardlink_to(file.name)

    async def wait(self, task: Task) -> Ended:
        """Wait until the command of a task has ended; then nothing of the task is left."""
        child = self._children.get(task.key)
        if child is not None:
            await _is_over(child.pid)
            child.wait()
            del self._children[task.key]
        if (number := self._process(task)) is not None:  # it may have begun by a launcher of an earlier run of this program
            await _is_over(*number)
        measured = await self._groups.clean(task)
        ended = structs.replace(measured.added_to(self.ended(task)), by_itself=task.key in self._ended_before)
        self._ended_before.discard(task.key)
        return ended

    def ended(self, task: Task) -> Ended:
        """The end of a process that has ended, as far as it is known."""
        found = _EXIT.fullmatch(_content(self._exit(task)))
        if found is not None:
            return Ended(int(found[1]), printable(found[2] or ""))
        return Ended(None, _VANISHED if self.has_begun(task) else _NOT_BEGUN)

    async def terminate(self, task: Task) -> None:
        """SIGTERM to all processes of the task, and after the grace SIGKILL."""
        if (number := self._process(task)) is not None and not _runs(*number):
            self._ended_before.add(task.key)
        with trio.move_on_after(self._grace_s):
            while not self.has_begun(task):  # noqa: ASYNC110 (a launcher tells nobody that it begins)
                await trio.sleep(0.01)
            self._groups.signal(task, signal.SIGTERM)
            await trio.sleep(self._grace_s)
        if task.key in self._children:
            with suppress(ProcessLookupError):
                self._children[task.key].kill()
        self._groups.kill(task)

    async def remove(self, jobs: Sequence[str], uid: int | None) -> list[str]:
        """Delete what the tasks of jobs of a user have written, and what root knows of them.

        Returns:  the jobs of which the user has left something.

        Raises:  OSError.
        """
        await self._removal.delete([self.job_directory(job) for job in jobs], uid)
        return await trio.to_thread.run_sync(lambda: [job for job in jobs if not self._removed(job)])

    def _removed(self, job: str) -> bool:
        """Remove the directories of root for a job, below which a user may have mounted something; True if they are gone."""
        shutil.rmtree(self._state / job, ignore_errors=True)
        directory = self.job_directory(job)
        try:
            for attempt in directory.iterdir():
                with suppress(OSError):
                    attempt.rmdir()
            directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _user_directory(self, task: Task, uid: int) -> Path:
        """The directory of the attempt; it may be there: who starts a task may have been killed."""
        attempt = self.job_directory(task.job) / f"{task.index}.{task.attempt}"
        attempt.parent.mkdir(mode=0o711, exist_ok=True)
        attempt.parent.chmod(0o711)  # whatever the umask
        attempt.mkdir(mode=0o700, exist_ok=True)
        os.chown(attempt, uid, -1, follow_symlinks=False)
        return attempt

    def _begun(self, task: Task) -> Path:
        return self._state / task.job / f"{task.index}.{task.attempt}.begun"

    def _exit(self, task: Task) -> Path:
        return self._state / task.job / f"{task.index}.{task.attempt}.exit"

    def _process(self, task: Task) -> tuple[int, str] | None:
        """The number of the process and its start; None if it has not begun."""
        found = _BEGUN.fullmatch(_content(self._begun(task)))
        return None if found is None else (int(found[1]), found[2])


def _sort(state: Path) -> None:
    """Give each job a directory of its own for its files, which older versions have in one."""
    for file in [entry for entry in os.scandir(state) if entry.is_file(follow_symlinks=False)]:
        job, _, name = file.name.partition(".")
        (state / job).mkdir(mode=0o700, exist_ok=True)
        os.rename(file, state / job / name)


def _content(path: Path) -> str:
    """A small file of root; "" if there is none."""
    try:
        with path.open("rb") as file:
            return file.read(_SMALL).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _runs(pid: int, started: str) -> bool:
    """True if the process has not ended; a child that has is there until it is waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state != b"Z" and launcher.start_time(pid) == started
    except (FileNotFoundError, ProcessLookupError):
        return False


async def _is_over(pid: int, started: str = "") -> None:
    """Wait until a process has ended; its number may be that of another one, unless it is a child of this program."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with suppress(OSError):
            if not started or launcher.start_time(pid) == started:
                await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)
