"""Processes of tasks, which outlive the program that starts them.

Each attempt of a task has a directory: ``out`` and ``err`` are what the command has written, ``pid`` says that it was started,
and ``exit`` how it has ended. A small shell enters its control group, if there is one, and runs the command. It first links
``pid``, which only one can do, so that an attempt runs at most once, however often it is started: who comes second ends with
nothing done. At the end it writes ``exit``, unless the launcher has said there why the files of a job cannot be opened, and kills
what the command has left in its process group.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import trio
from msgspec import structs

from ykactor.core.values.printable import printable
from ykactor.core.values.quantities import quantity_text
from ykactor.local import launcher
from ykactor.local.isolation import Isolation
from ykactor.local.launcher import EXECUTE, TERMINAL
from ykactor.local.model import Ended, Job, Task
from ykactor.local.programs import words
from ykactor.local.removal import Removal
from ykactor.local.scripts import FILE, command
from ykactor.local.slurm import with_variables
from ykactor.local.streams import Streams, absolute, expanded, is_shared
from ykactor.local.untrusted import Unreadable, is_there, open_regular, read_small

# A signal to the group is the command's business: the shell stays, and says how the command has ended. ``command -p`` and
# ``exec`` find programs only, whatever the environment makes of their names.
_SHELL = f"""\
[ -z "$1" ] || echo 0 > "$1/cgroup.procs" || exit 125
shift
trap : TERM INT HUP QUIT ALRM PIPE USR1 USR2
echo $$ > "$YKACTOR_ATTEMPT_DIR/pid.$$" &&
command -p ln "$YKACTOR_ATTEMPT_DIR/pid.$$" "$YKACTOR_ATTEMPT_DIR/pid" || exit 125
{TERMINAL.replace("TOLD", '> "$YKACTOR_ATTEMPT_DIR/exit"')}({EXECUTE})
code=$?
[ -e "$YKACTOR_ATTEMPT_DIR/exit" ] || echo $code > "$YKACTOR_ATTEMPT_DIR/exit"
kill -KILL 0
"""
#: The directory of the attempt, by which its processes are known.
_ATTEMPT = "YKACTOR_ATTEMPT_DIR"
#: The text of the shell: a process number, which Linux keeps below 2**22, and an exit code; the launcher adds a reason.
_PID, _EXIT, _EXIT_MAX = re.compile(rb"[1-9]\d{0,6}\n"), re.compile(rb"(\d{1,3})(?: ([^\n]*))?\n"), 255
#: Instead of a number, in an attempt that must not begin.
_FORBIDDEN = b"forbidden\n"
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
        #: Attempts of which the end is waited for.
        self._watched: set[Path] = set()
        #: Attempts that had ended before they were told to end.
        self._ended_before: set[Path] = set()
        self._removal = Removal()

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
            group = self._isolation.group(job, task)
            if job.script:
                _write_script(attempt, job.script)
            with _appended(attempt / "out") as output, _appended(attempt / "err") as errors:
                self._children[attempt] = subprocess.Popen(
                    [
                        *self._isolation.prefix(job, task),
                        "/bin/sh",
                        "-c",
                        _SHELL,
                        "sh",
                        group,
                        job.terminal,
                        *_command(job, task, attempt),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    cwd=job.directory,
                    env=environment(job, task, attempt, self._isolation.needs),
                    start_new_session=True,
                )
        except (OSError, ValueError, Unreadable) as error:
            raise NotStarted(f"the command cannot be started: {error}") from None

    def has_begun(self, task: Task) -> bool:
        return is_there(self.attempt(task) / "pid")

    def forbid(self, task: Task) -> None:
        """Let an attempt that has not begun never begin, also if its shell is on its way.

        Where a job has made this impossible, the attempt begins and is ended.
        """
        attempt = self.attempt(task)
        mark = attempt / "pid.forbidden"
        with suppress(OSError):
            attempt.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError), open(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_FORBIDDEN)
            (attempt / "pid").hardlink_to(mark)

    async def wait(self, task: Task) -> Ended:
        """Wait until the process of the task has ended, with all that it has left in its group.

        If nothing says how it has ended, nothing says either that its number is the right one: then all of it is ended.
        """
        attempt = self.attempt(task)
        self._watched.add(attempt)
        child, used_ns = await self._reaped(attempt)
        is_own = False
        with suppress(Unreadable):
            pid = _pid(attempt)
            is_own = pid == child
            if pid is not None and not is_own:  # of an earlier run of this program
                await _gone(pid, attempt)
            if pid is not None:
                await _kill_group(pid, attempt)
        ended = self.ended(task)
        if ended.exit_code is None:
            await _kill_all(attempt)
        elif is_own:  # a shell that was killed has not counted its command
            ended = structs.replace(ended, cpu_ns=used_ns)
        measured = await self._isolation.clean(task)
        ended = structs.replace(measured.added_to(ended), by_itself=attempt in self._ended_before)
        self._watched.discard(attempt)
        self._ended_before.discard(attempt)
        return ended

    def ended(self, task: Task) -> Ended:
        """The end of a process that has ended, as far as it is known."""
        attempt = self.attempt(task)
        try:
            _pid(attempt)
            code, reason = _end(attempt)
        except Unreadable as error:
            return Ended(None, f"its state cannot be read: {error}")
        if code is None and not is_there(attempt / "pid"):
            return Ended(None, "it could not say that it has begun: is the disk full?")
        return Ended(code, reason if code is not None else _VANISHED)

    async def terminate(self, task: Task) -> None:
        """SIGTERM to all processes of the task, and after the grace SIGKILL."""
        attempt = self.attempt(task)
        if attempt in self._watched and is_there(attempt / "exit"):
            self._ended_before.add(attempt)
        with trio.move_on_after(self._grace_s):
            while not self._signal(attempt, signal.SIGTERM):  # noqa: ASYNC110 (a shell tells nobody that it begins)
                await trio.sleep(0.01)
            await trio.sleep(self._grace_s)
        if attempt in self._watched:
            self._signal(attempt, signal.SIGKILL)
            await _kill_all(attempt)

    async def remove(self, jobs: Sequence[str], uid: int | None) -> list[str]:
        """Delete what the tasks of jobs have written; ``uid`` is that of a shared machine.

        Returns:  the jobs of which something is left.

        Raises:  OSError.
        """
        await self._removal.delete([self.job_directory(job) for job in jobs], None)
        return await trio.to_thread.run_sync(lambda: [job for job in jobs if is_there(self.job_directory(job))])

    async def _reaped(self, attempt: Path) -> tuple[int | None, int]:
        """Wait for the shell that this program has started; its process number, None if there is none.

        Returns also:  the processor time in ns of the shell and of what it has waited for.
        """
        child = self._children.get(attempt)
        if child is None:
            return None, 0
        await _readable(os.pidfd_open(child.pid))
        _, status, usage = os.wait4(child.pid, 0)  # noqa: ASYNC222 (it has ended)
        child.returncode = os.waitstatus_to_exitcode(status)  # so that it does not wait again
        del self._children[attempt]
        return child.pid, round((usage.ru_utime + usage.ru_stime) * 1e9)

    def _signal(self, attempt: Path, number: signal.Signals) -> bool:
        """Signal the process groups of an attempt; True if it has begun. It may have ended."""
        try:
            pid = _pid(attempt)
            has_begun = pid is not None
        except Unreadable:
            pid, has_begun = None, True
        groups = {pid} if pid is not None and _is_of(pid, attempt) else set()
        if attempt in self._children and (has_begun or number == signal.SIGKILL):
            groups.add(self._children[attempt].pid)
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        return has_begun


def environment(job: Job, task: Task, attempt: Path, more: Mapping[str, str]) -> dict[bytes, bytes]:
    """The environment of the submitter, with what is allocated, and ``more``."""
    inherited = dict(entry.split(b"=", 1) for entry in job.environ if b"=" in entry)
    if job.has_slurm_names:
        inherited = with_variables(inherited, job, task)
    own = {
        _ATTEMPT: str(attempt),
        "YKACTOR_ALLOCATION": task.key,
        "YKACTOR_JOB": job.id,
        "YKACTOR_TASK": str(task.index),
        "YKACTOR_TASKS": str(job.count),
        "YKACTOR_ARRAY_MIN": str(job.first),
        "YKACTOR_ARRAY_MAX": str(job.last),
        "YKACTOR_ATTEMPT": str(task.attempt),
        "YKACTOR_QUEUE": job.leaf,
        "YKACTOR_VCORE": quantity_text("vcore", job.resource.get("vcore", 0)),
        "YKACTOR_MEMORY": str(job.resource.get("memory", 0)),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, task.gpus)),
        **more,
    }
    return inherited | {os.fsencode(name): os.fsencode(value) for name, value in own.items()}


class File(NamedTuple):
    """The absolute path of a file of a task, and whether it is emptied first; an empty path stands for what is usual."""

    path: bytes
    is_emptied: bool


def files(job: Job, task: Task) -> list[File]:
    """The files of an attempt for standard input, output and error; none if all are the usual ones.

    The first attempt of a task empties a file that is its own. All others append: nothing is lost of what another attempt, or
    another task, has written.
    """
    streams = job.streams
    if streams == Streams():
        return []
    values: dict[bytes, str | int] = {b"a": task.index, b"n": task.attempt, b"u": job.user, b"N": task.node, b"%": "%"}
    values |= {b"j": job.id, b"A": job.id, b"x": job.name or job.id}
    return [
        File(expanded(absolute(job.directory, each), values), not task.attempt and not is_shared(each, job.count))
        for each in (streams.input, streams.output, streams.error or streams.output)
    ]


def _command(job: Job, task: Task, attempt: Path) -> list[str | bytes]:
    """The words of the command, behind those of the launcher if it has to open files."""
    arguments = command(job, attempt)
    if not (named := files(job, task)):
        return [*arguments]
    told = json.dumps([(file.path.decode("latin-1"), file.is_emptied) for file in named])
    return [*words(launcher), str(attempt), told, *arguments]


def _appended(path: Path) -> BinaryIO:
    """A file of an attempt, for what the command writes. The job, or one before it, may have put something else there.

    Raises:  Unreadable.
    """
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.set_blocking(descriptor, True)
    if os.fstat(descriptor).st_nlink != 1:
        os.close(descriptor)
        raise Unreadable(f"{path.name}: found a file with another name too, expected one of this attempt")
    return open(descriptor, "ab")


def _write_script(attempt: Path, script: bytes) -> None:
    """Write the script of an attempt, all of it at once: a process that was started before may begin to read it just now.

    Raises:  OSError.
    """
    own = attempt / f"{FILE}.{os.getpid()}"
    own.unlink(missing_ok=True)
    with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:
        file.write(script)
    own.replace(attempt / FILE)


def _pid(attempt: Path) -> int | None:
    """The number of the process of an attempt; None if it has not begun, or never will.

    Raises:  Unreadable.
    """
    content = read_small(attempt / "pid")
    if content is None or content == _FORBIDDEN:
        return None
    if _PID.fullmatch(content) is None:
        raise Unreadable(f"pid: found {content[:64]!r}, expected the number of a process")
    return int(content)


def _end(attempt: Path) -> tuple[int | None, str]:
    """The exit code of an attempt, and why it could not be started, if so; None if it has not ended, or could not say so.

    Raises:  Unreadable.
    """
    content = read_small(attempt / "exit")
    if content is None:
        return None, ""
    found = _EXIT.fullmatch(content)
    if found is None or int(found[1]) > _EXIT_MAX:
        raise Unreadable(f"exit: found {content[:64]!r}, expected a number up to {_EXIT_MAX}")
    return int(found[1]), printable((found[2] or b"").decode(errors="replace"))


def _is_of(pid: int, attempt: Path) -> bool:
    """True if a process belongs to the attempt: its number may be that of another one by now."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"%s=%s" % (_ATTEMPT.encode(), os.fsencode(attempt)) in entries


async def _kill_group(pid: int, attempt: Path) -> None:
    """End the rest of a group whose shell has ended, if the number still is that of the group; returns when it is gone."""
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


async def _kill_all(attempt: Path) -> None:
    """All processes of an attempt, wherever they have gone, until there are none."""
    while members := [pid for pid in _processes() if _is_of(pid, attempt)]:
        for member in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member, signal.SIGKILL)
        for member in members:
            await _gone(member, attempt)


def _group(pid: int) -> list[int]:
    """The processes in a process group."""
    found = []
    for member in _processes():
        with suppress(OSError):
            fields = Path(f"/proc/{member}/stat").read_bytes().rpartition(b")")[2].split()  # its name may be any bytes
            if int(fields[2]) == pid:
                found.append(member)
    return found


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


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
