"""The protocol of the command line and the local resource manager: lines of JSON over a Unix socket.

The socket is in the state directory, which only its owner may enter. Each end checks this, and the user of the other end, before
anything is read or sent: whoever could enter would get the environment of a job, and whoever could replace the socket would get
those to come.
"""

import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import trio
from msgspec import Struct

from ykactor.local.machine import user_name
from ykactor.local.model import Job, State, Task
from ykactor.wire.si import messages as si
from ykactor.wire.sockets import Credentials, credentials

#: Bytes of a line from a client: the environment has at most 1 MiB, and JSON makes a third more of it.
LINE_MAX = 2 * 2**20
#: Bytes of an answer: a job may have 10,000 tasks.
ANSWER_MAX = 64 * 2**20
#: The socket in the state directory.
NAME = "control"


class _Message(Struct, frozen=True, tag_field="type", tag=str, omit_defaults=True):
    pass


class Submit(_Message, frozen=True):
    """A job; its ``id``, ``user`` and ``submitted_ns`` are replaced. The same ``token`` again is the same job.

    Answer: ``Submitted``.
    """

    job: Job


class PlanJob(_Message, frozen=True):
    """A job that is not to be run: what the daemon would be sent. ``job`` as of ``Submit``. Answer: ``PlannedJob``."""

    job: Job


class ListJobs(_Message, frozen=True):
    """The newest jobs, the newest last. Answer: ``JobList``."""

    limit: int


class ShowJob(_Message, frozen=True):
    """A job with its tasks, or only the task ``index``, as soon as they have ended if ``waits``. Answer: ``ShownJob``."""

    job: str
    waits: bool = False
    index: int | None = None


class Submitted(_Message, frozen=True):
    """``directory`` as in ``ShownJob``; ``notice`` says why the job will wait, if that is known."""

    job: str
    directory: str
    notice: str = ""


class PlannedJob(_Message, frozen=True):
    """The requests for a job, as they would be sent at first: of a gang, those for its placeholders."""

    applications: si.ApplicationRequest
    asks: si.AllocationRequest


class JobRow(Struct, frozen=True):
    """A job without its environment, and how many of its tasks are in each state.

    Attributes:
        indexes: of its first task and of the last one.
        is_gang: whether its tasks end together.
    """

    id: str
    name: str
    user: str
    queue: str
    arguments: list[str]
    resource: dict[str, int]
    submitted_ns: int
    indexes: tuple[int, int]
    is_gang: bool
    states: dict[State, int]


class JobList(_Message, frozen=True):
    jobs: list[JobRow]


class ShownJob(_Message, frozen=True):
    """``directory`` has those of the attempts, ``INDEX.ATTEMPT``."""

    job: JobRow
    tasks: list[Task]
    directory: str


class Refused(_Message, frozen=True):
    message: str


Request = Submit | PlanJob | ListJobs | ShowJob
Answer = Submitted | PlannedJob | JobList | ShownJob | Refused
Handler = Callable[[Request], Awaitable[Answer]]

_decode_request = msgspec.json.Decoder(Request).decode
_decode_answer = msgspec.json.Decoder(Answer).decode


# ---- the state directory, which is for its owner alone

#: The rights that only the owner may have.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class NotPrivate(Exception):
    """A directory, or the process behind its socket, is of somebody else, or open to others; the message says what was found."""


@contextmanager
def private_directory(directory: Path) -> Iterator[int]:
    """A directory of the own user that nobody else can enter or replace; its descriptor.

    Raises:
        NotPrivate. OSError: it cannot be entered.
    """
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise NotPrivate(f"{directory}: found a directory of {user_name(status.st_uid)}, expected one of {_me()}")
        if status.st_mode & _OTHERS:
            found = f"{stat.S_IMODE(status.st_mode):o}"
            raise NotPrivate(
                f"{directory}: found the mode {found}, expected 700, because jobs have secrets: chmod 700 makes it so"
            )
        for parent in directory.resolve().parents:
            mode = parent.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                raise NotPrivate(
                    f"{directory}: found that everybody may replace what is in {parent}, expected the mode 755 there"
                )
        yield descriptor
    finally:
        os.close(descriptor)


def check_peer(peer: Credentials) -> None:
    """NotPrivate if the process at the other end of a socket is of another user."""
    if peer.uid != os.geteuid():
        raise NotPrivate(f"found process {peer.pid} of {user_name(peer.uid)} at the other end, expected one of {_me()}")


def _me() -> str:
    return user_name(os.geteuid())


# ---- both ends of the socket


class NoManager(Exception):
    """The manager does not listen; or, if ``has_begun``, it has ended before its answer."""

    def __init__(self, message: str, *, has_begun: bool = False) -> None:
        super().__init__(message)
        self.has_begun = has_begun


@contextmanager
def _socket_path(directory: Path) -> Iterator[str]:
    """The socket in a state directory, by a path within the kernel's limit of 107 bytes, however long that of the directory is.

    Raises:
        NotPrivate. OSError: the directory cannot be entered.
    """
    with private_directory(directory) as descriptor:
        yield f"/proc/self/fd/{descriptor}/{NAME}"


@asynccontextmanager
async def listening(directory: Path) -> AsyncIterator[trio.SocketListener]:
    """The socket of a state directory, which the caller has locked: one that is there was left behind."""
    path = directory / NAME
    path.unlink(missing_ok=True)
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unbound:
        with _socket_path(directory) as short:
            await unbound.bind(short)
        path.chmod(0o600)
        unbound.listen(1024)
        try:
            yield trio.SocketListener(unbound)
        finally:
            path.unlink(missing_ok=True)


async def serve(listener: trio.SocketListener, handle: Handler) -> None:
    """Answer clients until cancelled."""
    await trio.serve_listeners(partial(_converse, handle=handle), [listener])


async def _converse(stream: trio.SocketStream, *, handle: Handler) -> None:
    try:
        async with stream:
            try:
                check_peer(credentials(stream.socket))
            except NotPrivate as reason:
                await _send(stream, Refused(str(reason)))
                return
            while line := await _line(stream, LINE_MAX):
                try:
                    request = _decode_request(line)
                except msgspec.DecodeError as error:
                    await _send(stream, Refused(f"found no request: {error}"))
                    return
                answer = await _answered(stream, partial(handle, request))
                if answer is None:
                    return
                await _send(stream, answer)
    except (trio.BrokenResourceError, NoManager):
        return  # the client has gone, or does not keep to the limits


async def _answered(stream: trio.SocketStream, handle: Callable[[], Awaitable[Answer]]) -> Answer | None:
    """The answer; None if the client goes meanwhile: it may have asked for something that takes days."""
    answer: Answer | None = None
    async with trio.open_nursery() as nursery:

        async def cancel_at_the_end() -> None:
            with suppress(trio.BrokenResourceError):
                await stream.receive_some(1)  # a client sends nothing while it waits
            nursery.cancel_scope.cancel()

        nursery.start_soon(cancel_at_the_end)
        answer = await handle()
        nursery.cancel_scope.cancel()
    return answer


async def ask(directory: Path, request: Request) -> Answer:
    """Ask the local resource manager of a state directory.

    Raises:
        NoManager: there is none, or it has ended before its answer.
        NotPrivate: the directory or the process there is of another user, or open to others.
    """
    try:
        with _socket_path(directory) as path:
            stream = await trio.open_unix_socket(path)
    except OSError:
        raise NoManager(f"no local resource manager runs for {directory}: start one with ykactor local") from None
    try:
        async with stream:
            check_peer(credentials(stream.socket))
            await _send(stream, request)
            line = await _line(stream, ANSWER_MAX)
    except trio.BrokenResourceError:
        line = b""
    if not line:
        raise NoManager("the local resource manager has ended before its answer", has_begun=True)
    answer: Answer = _decode_answer(line)
    return answer


async def _send(stream: trio.SocketStream, message: Struct) -> None:
    await stream.send_all(msgspec.json.encode(message) + b"\n")


async def _line(stream: trio.SocketStream, limit: int) -> bytes:
    """The next line; empty at the end. Who sends one at a time waits for its answer, so there is nothing behind it."""
    data = bytearray()
    while not data.endswith(b"\n"):
        received = await stream.receive_some(2**16)
        if not received:
            return b""
        data += received
        if len(data) > limit:
            raise NoManager(f"found a line of more than {limit} bytes")
    return bytes(data)
