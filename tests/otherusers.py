"""Connections of other users to the socket of a local resource manager, which only root can make."""

import os
import socket
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


def skip_without_system() -> None:
    """Skip the tests of a module where root may not, or cannot, run jobs of other users."""
    try:
        check_start("unix:/ws.sock")
    except NotSafe as reason:
        pytest.skip(str(reason), allow_module_level=True)
    if shared_cgroups(f"test-{os.getpid()}", 10) is None:
        pytest.skip("found no tree of control groups in which this process may make some", allow_module_level=True)


@contextmanager
def directory_for_all() -> Iterator[Path]:
    """A directory that all users can enter: those of pytest are for its own user, and each run makes them so again."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


def connections_as(uid: int, directory: Path, count: int) -> list[trio.SocketStream]:
    """Connections that a process of a user has made, and handed over; at most 250.

    Raises:  ConnectionRefusedError: it could not.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = os.fork()
        if not child:
            status = 1
            try:
                os.setgroups([]), os.setgid(uid), os.setuid(uid)
                made = [socket.socket(socket.AF_UNIX) for _ in range(count)]
                for each in made:
                    each.connect(str(directory / control.NAME))
                socket.send_fds(theirs, [b"!"], [each.fileno() for each in made])
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            raise ConnectionRefusedError
        descriptors = socket.recv_fds(ours, 1, count)[1]
    return [trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=each))) for each in descriptors]


async def ask_as(uid: int, directory: Path, request: control.Request) -> control.Answer:
    """The answer that a user gets."""
    (stream,) = connections_as(uid, directory, 1)
    async with stream:
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
