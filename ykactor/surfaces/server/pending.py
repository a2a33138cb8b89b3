"""Requests of a resource manager that partitions have not finished."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import trio

from ykactor.actors.commands import Failure
from ykactor.actors.receipts import Accepted, Unanswered
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.server.input_memory import InputMemory
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ProtocolError

#: The bytes of the messages that the partitions have not finished; then the session reads no further request.
BACKLOG_BYTES_MAX = 2**26


class Pending:
    """A request whose ``Ack`` waits for partitions."""

    def __init__(self, request_id: str, partitions: Iterable[PartitionName], working: Iterable[PartitionName]) -> None:
        self.answer: si.Ack | si.ErrorResponse = si.Ack(id=request_id)
        #: Set if the request wants an ``Ack``.
        self.accepted: Accepted | None = None
        #: The partitions whose facts must be published before the ``Ack``.
        self.partitions = list(partitions)
        self.done = trio.Event()
        self._working = set(working)
        self._check()

    def on_done(self, partition: PartitionName) -> None:
        """Called from the partition's task (``Intake.done``)."""
        self._working.discard(partition)
        self._check()

    def on_failed(self, failure: Failure) -> None:
        """Called before ``on_done`` (``Intake.failed``); of several failures the first is told."""
        if isinstance(self.answer, si.Ack):
            self.answer = si.ErrorResponse(code=failure.code, message=failure.reason, id=self.answer.id)

    def _check(self) -> None:
        if not self._working:
            self.done.set()


class Backlog:
    """The requests of a session that partitions have not finished, bounded by the bytes of their messages.

    Args:
        memory: where the bytes count too.
        bytes_max: ``add`` waits while they have more.
    """

    def __init__(self, memory: InputMemory, bytes_max: int = BACKLOG_BYTES_MAX) -> None:
        self._memory = memory
        self._bytes_max = bytes_max
        self._requests: deque[tuple[Pending, int]] = deque()
        self._bytes = 0

    async def add(self, request: Pending, size: int) -> None:
        """Add a request whose message has ``size`` bytes, and wait until there is room for another one."""
        self._requests.append((request, size))
        self._count(size)
        while self._requests and (self._requests[0][0].done.is_set() or self._bytes > self._bytes_max):
            oldest, oldest_size = self._requests[0]
            if not oldest.done.is_set():  # even then to wait would be a checkpoint, and make small requests dearer
                await oldest.done.wait()
            self._requests.popleft()
            self._count(-oldest_size)

    def close(self) -> None:
        """The session has ended."""
        self._requests.clear()
        self._count(-self._bytes)

    def _count(self, size: int) -> None:
        self._bytes += size
        self._memory.add_requests(size)


class Reply:
    """The reply of a partition to an administrator's request."""

    def __init__(self) -> None:
        self.given = trio.Event()
        self.refusal = ""
        self._code = "REFUSED"

    def on_failed(self, failure: Failure) -> None:
        """Called before ``on_done`` (``Administer.failed``)."""
        self._code = failure.code

    def on_done(self, _: PartitionName, refusal: str) -> None:
        """Called from the partition's task (``Administer.done``)."""
        self.refusal = refusal
        self.given.set()

    async def accepted(self) -> None:
        """Wait for the reply.

        Raises:
            ProtocolError: the request was not carried out.
        """
        await self.given.wait()
        if self.refusal:
            raise ProtocolError(self._code, self.refusal)


def late_answer(request: Unanswered) -> si.Ack | si.ErrorResponse:
    """The answer to a request that a daemon before this one has carried out, or a part of it (SC-157)."""
    if request.refusal:
        return si.ErrorResponse(code="REFUSED", message=request.refusal, id=request.request_id)
    if request.is_done:
        return si.Ack(id=request.request_id)
    return interrupted(request.request_id)


def interrupted(request_id: str) -> si.ErrorResponse:
    """The answer to a request of which only a part was carried out."""
    message = "only a part of the request was carried out: send it again, without what it has done"
    return si.ErrorResponse(code="INTERRUPTED", message=message, id=request_id)


@contextmanager
def unavailable_when_closed(who: str) -> Iterator[None]:
    """Raise ProtocolError if the inbox of a partition is closed; ``who`` is the subject of the message, with do or does."""
    try:
        yield
    except (trio.ClosedResourceError, trio.BrokenResourceError):
        raise ProtocolError("UNAVAILABLE", f"{who} not run at the moment, try again later") from None
