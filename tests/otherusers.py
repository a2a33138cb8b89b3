"""Connections of other users to the socket of a local resource manager, which only root can make."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import trio

from ykactor.local import control
from ykactor.local.login import Login
from ykactor.local.model import Job
from ykactor.local.shared_groups import shared_cgroups
from ykactor.local.system import NotSafe, check_start

#: Accounts that every machine has.
DAEMON, BIN, NOBODY = 1, 2, 65534
LOGIN = Login(umask=0o027)


def why_no_system() -> str:
    """The reason for which this process may not, or cannot, run jobs of other users; "" if it can."""
    try:
        check_start("unix:/ws.sock")
    except NotSafe as reason:
        return str(reason)
    if shared_cgroups(f"test-{os.getpid()}", 10) is None:
        return "found no tree of control groups in which this process may make some"
    return ""


def skip_without_system() -> None:
    """Skip the tests of a module where this process cannot run jobs of other users."""
    if reason := why_no_system():
        pytest.skip(reason, allow_module_level=True)


@contextmanager
def directory_for_all() -> Iterator[Path]:
    """A directory that all users can enter: those of pytest are for its own user, and each run makes them so again."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


def connections_as(uid: int, directory: Path, count: int) -> list[trio.SocketStream]:
    """Connections of a user, whom the kernel tells to the other end.

    Raises:  NoManager: nobody listens.
    """
    made = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    groups = os.getgroups()
    os.setgroups([]), os.seteuid(uid)
    try:
        for each in made:
            each.connect(str(directory / control.NAME))
    except OSError as error:  # it is away, or has only just begun
        for each in made:
            each.close()
        raise control.NoManager(str(error)) from None
    finally:
        os.seteuid(0), os.setgroups(groups)
    return [trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in made]


async def ask_as(uid: int, directory: Path, request: control.Request) -> control.Answer:
    """The answer that a user gets.

    Raises:  NoManager: nobody listens, or it has ended before its answer.
    """
    (stream,) = connections_as(uid, directory, 1)
    async with stream:
        with suppress(trio.BrokenResourceError):  # it was refused before it had said anything
            await control.send(stream, request)
        try:
            line = await control.read_line(stream, 2**24)
        except trio.BrokenResourceError:
            line = b""
    if not line:
        raise control.NoManager("it has ended before its answer", has_begun=True)
    answer: control.Answer = msgspec.json.decode(line, type=control.Answer)
    return answer


async def refusal_of(uid: int, directory: Path, request: control.Request) -> str:
    """The reason for which a user is refused."""
    answer = await ask_as(uid, directory, request)
    assert isinstance(answer, control.Refused), answer
    return answer.message


async def submit_as(uid: int, directory: Path, job: Job) -> str:
    """The id of a job that a user submits."""
    answer = await ask_as(uid, directory, control.Submit(job))
    assert isinstance(answer, control.Submitted), answer
    return answer.job


@contextmanager
def control_group_tree(mount: Path) -> Iterator[Path]:
    """A tree of control groups without controllers, which other trees of this machine may have."""
    if subprocess.run(["mount", "-t", "cgroup2", "none", mount], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a tree of control groups")
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", mount], check=True)
