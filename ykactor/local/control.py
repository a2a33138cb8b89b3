"""The protocol of the command line and the local resource manager, and the client: lines of JSON over a Unix socket.

A connection has one request and its answer.
"""

import socket
from contextlib import suppress
from pathlib import Path

import msgspec
import trio
from msgspec import Struct

from ykactor.local.model import Job, State, Task
from ykactor.local.private import NotPrivate, opened, stranger, trusted_directory
from ykactor.local.records import Place, Query
from ykactor.wire.si import messages as si
from ykactor.wire.sockets import credentials

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


class ListJobs(Query, frozen=True, tag_field="type", tag=str):
    """The jobs that are meant, the newest last. Answer: ``JobList``."""


class ListAttempts(Query, frozen=True, tag_field="type", tag=str):
    """The attempts of tasks that are meant, those of the newest job last. Answer: ``AttemptList``."""


class Cancel(_Message, frozen=True):
    """End a job, or the task ``index`` of it. Answer: ``Done``, or ``Refused``."""

    job: str
    index: int | None = None


class Hold(_Message, frozen=True):
    """Ask the daemon for no further task of a job, or let it go on. Answer: ``Done``, or ``Refused``."""

    job: str
    is_held: bool


class Requeue(_Message, frozen=True):
    """Run the tasks of a job again that run or have ended, or the one with the ``index``. Answer: ``Done``, or ``Refused``.

    Attributes:
        only_failed: whether tasks are left out that have completed, or run.
        environ: for a job that has ended, because its own was forgotten.
    """

    job: str
    index: int | None
    only_failed: bool
    environ: list[bytes]


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
        indexes: of its first task and of the last one; ``count``: how many there are.
        after: the jobs for whose end it waits.
        is_gang: whether its tasks end together.
        is_held_there: whether an operator holds its application at the daemon.
        time_limit_s: how long a task may run; 0 is as long as it likes.
        input, output, error: absolute patterns of its files; "" for those that are usual.
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
    count: int
    priority: int
    is_held: bool
    is_held_there: bool
    begin_ns: int
    after: list[str]
    time_limit_s: float
    input: str
    output: str
    error: str


class Record(Struct, frozen=True):
    """An attempt of a task, with what is known of it from its job. Amounts in base units; times in Unix ns, 0 for none."""

    job: str
    index: int
    attempt: int
    name: str
    user: str
    queue: str
    priority: int
    node: str
    state: State
    exit_code: int | None
    signal: str
    reason: str
    submitted_ns: int
    eligible_ns: int
    started_ns: int
    ended_ns: int
    resource: dict[str, int]
    peak_memory: int | None
    cpu_ns: int | None
    gpus: list[int]


class JobList(_Message, frozen=True):
    """``more`` is the ``before`` of the request for those before them; None if these are all that are meant."""

    jobs: list[JobRow]
    more: Place | None = None


class AttemptList(_Message, frozen=True):
    """``more`` as in ``JobList``."""

    attempts: list[Record]
    more: Place | None = None


class Done(_Message, frozen=True):
    """``text`` says what was done."""

    text: str


class ShownJob(_Message, frozen=True):
    """A job.

    Attributes:
        directory: has those of the attempts, ``INDEX.ATTEMPT``.
        url: of the daemon.
        is_shared: whether the local resource manager is that of all users.
    """

    job: JobRow
    tasks: list[Task]
    directory: str
    url: str
    is_shared: bool = False


class Refused(_Message, frozen=True):
    message: str


Change = Cancel | Hold | Requeue
Request = Submit | PlanJob | ListJobs | ListAttempts | ShowJob | Change
Answer = Submitted | PlannedJob | JobList | AttemptList | ShownJob | Done | Refused

_decode_answer = msgspec.json.Decoder(Answer).decode


# ---- both ends of the socket


class NoManager(Exception):
    """The manager does not listen; or, if ``has_begun``, it has ended before its answer."""

    def __init__(self, message: str, *, has_begun: bool = False) -> None:
        super().__init__(message)
        self.has_begun = has_begun


def listens(directory: Path) -> bool:
    """True if a process listens in a directory; a socket alone may have been left behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            with opened(directory) as descriptor:
                probe.connect(f"/proc/self/fd/{descriptor}/{NAME}")
        except BlockingIOError:  # many others have connected just now
            return True
        except OSError:
            return False
    return True


async def ask(directory: Path, request: Request) -> Answer:
    """Ask the local resource manager of a state directory.

    Raises:
        NoManager: there is none, or it has ended before its answer.
        NotPrivate: the directory or the process there is of another user, or open to others.
    """
    try:
        with trusted_directory(directory) as (descriptor, owner):
            stream = await trio.open_unix_socket(f"/proc/self/fd/{descriptor}/{NAME}")
    except OSError:
        raise NoManager(f"no local resource manager runs for {directory}: start one with ykactor local") from None
    try:
        async with stream:
            peer = credentials(stream.socket)
            if reason := stranger(peer.pid, peer.uid, owner):
                raise NotPrivate(reason)
            with suppress(trio.BrokenResourceError):  # it may have said why it does not read on
                await send(stream, request)
            line = await read_line(stream, ANSWER_MAX)
    except trio.BrokenResourceError:
        line = b""
    if not line:
        raise NoManager("the local resource manager has ended before its answer", has_begun=True)
    if not line.endswith(b"\n"):
        raise NoManager(f"found an answer of more than {ANSWER_MAX} bytes")
    answer: Answer = _decode_answer(line)
    return answer


async def send(stream: trio.SocketStream, message: Struct) -> None:
    await stream.send_all(msgspec.json.encode(message) + b"\n")


async def read_line(stream: trio.SocketStream, limit: int, start: bytes = b"", *, discards: bool = False) -> bytes:
    """The next line, with its end; empty if there is none. Who sends one at a time waits for its answer: nothing is behind it.

    Args:
        start: what was read of it before.
        discards: whether a line of more than ``limit`` bytes is read to its end; of it, as many as were kept are returned.
    """
    data = bytearray(start)
    while not data.endswith(b"\n") and len(data) <= limit:
        received = await stream.receive_some(2**16)
        if not received:
            return b""
        data += received
    while discards and len(data) > limit and not data.endswith(b"\n"):
        received = await stream.receive_some(2**16)
        data[-1:] = received[-1:] or b"\n"
    return bytes(data)
