"""Connections of other users to the socket of a local resource manager, which only root can make."""

import os
import socket
from contextlib import suppress
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


def skip_without_system() -> None:
    """Skip the tests of a module where root may not, or cannot, run jobs of other users."""
    try:
        check_start("unix:/ws.sock")
    except NotSafe as reason:
        pytest.skip(str(reason), allow_module_level=True)
    if shared_cgroups(f"test-{os.getpid()}", 10) is None:
        pytest.skip("found no tree of control groups in which this process may make some", allow_module_level=True)


def open_to_all(directory: Path) -> Path:
    """A directory that all users can reach."""
    directory.mkdir(exist_ok=True)
    for each in (directory, *directory.parents):
        if not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o011)
    directory.chmod(0o755)
    return directory


def connected_as(uid: int, directory: Path) -> trio.SocketStream:
    """A connection that a process of a user has made, and handed over.

    Raises:  ConnectionRefusedError: it could not.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if not child:
            status = 1
            try:
                os.setgroups([]), os.setgid(uid), os.setuid(uid)
                made = socket.socket(socket.AF_UNIX)
                made.connect(str(directory / control.NAME))
                socket.send_fds(theirs, [b"!"], [made.fileno()])
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            raise ConnectionRefusedError
        (descriptor,) = socket.recv_fds(ours, 1, 1)[1]
    return trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=descriptor)))


async def ask_as(uid: int, directory: Path, request: control.Request) -> control.Answer:
    """The answer that a user gets."""
    async with connected_as(uid, directory) as stream:
        with suppress(trio.BrokenResourceError):  # it was refused before it had said anything
            await control.send(stream, request)
        answer: control.Answer = msgspec.json.decode(await control.read_line(stream, 2**24), type=control.Answer)
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
