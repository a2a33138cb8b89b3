"""Requests of a resource manager that partitions have not finished."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import trio

from ykactor.actors.commands import Answers, Failure
from ykactor.actors.receipts import Accepted, Unanswered
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.sessions.peer import error_response
from ykactor.wire.si import messages as si
from ykactor.wire.si.protocol_error import ProtocolError

#: The bytes of the requests that the partitions have not finished; then the session reads no further request.
BACKLOG_BYTES_MAX = 2**26


class Sender:
    """Hears what a request does beside its answer. This one ignores it."""

    def post(self, error: si.ErrorResponse) -> None:
        """Hear of the error of a request that wants no answer."""

    def exceeded(self, partition: PartitionName, reason: str) -> None:
        """Hear of a limit that has refused a part of a request (``Answers.exceeded``)."""

    def on_finished(self) -> None:
        """Hear that partitions have finished a request: its answer is known."""


class Pending(Answers):
    """A request that partitions work on.

    Args:
        partitions: those whose facts must be published before the answer.
        working: those that have a part of the request.
        accepted: the request, if it wants an answer.
        sender: the session that has sent it.

    Attributes:
        answer: to the request; None if it had no effect and gets none.
        turns: those of ``Ack``, until the answer is sent.
        finished: set when the answer is known.
    """

    def __init__(
        self,
        request_id: str,
        partitions: Iterable[PartitionName],
        working: Iterable[PartitionName],
        accepted: Accepted | None = None,
        sender: Sender | None = None,
    ) -> None:
        self.turns: dict[str, int] = {}
        self.answer: si.Ack | si.ErrorResponse | None = si.Ack(id=request_id, turns=self.turns)
        self.accepted = accepted
        self.partitions = list(partitions)
        self.finished = trio.Event()
        self._request_id = request_id
        self._sender = sender or Sender()
        self._parts = frozenset(working)
        self._working = set(self._parts)
        self._check()

    def done(self, partition: PartitionName, turn: int = 0) -> None:
        """A partition has carried out its part (``Answers.done``)."""
        if turn:
            self.turns[partition] = turn
        self._working.discard(partition)
        self._check()

    def failed(self, failure: Failure) -> None:
        """A partition has not carried out its part, or not all of it."""
        self.refuse(ProtocolError(failure.code, failure.reason))

    def exceeded(self, partition: PartitionName, reason: str) -> None:
        """Tell the sender."""
        self._sender.exceeded(partition, reason)

    def refuse(self, error: ProtocolError) -> None:
        """The answer is this error; of several the first is told."""
        if not isinstance(self.answer, si.ErrorResponse):
            self.answer = error_response(error, self._request_id)
            if self.accepted is None:
                self._sender.post(self.answer)

    def withhold(self, partitions: Iterable[PartitionName]) -> None:
        """These partitions will not get their parts."""
        left = self._working.intersection(partitions)
        if left and left == self._parts:
            self.answer = None
        elif left:
            self.refuse(interrupted())
        self._working -= left
        self._check()

    def _check(self) -> None:
        if not self._working:
            self.finished.set()
            self._sender.on_finished()


class Backlog:
    """The requests of a session that partitions have not finished, bounded by their number and the bytes of their messages.

    Args:
        memory: where the bytes count too.
        count_max: the limit ``outstanding`` (SE-48), as it is now: ``add`` waits while there are so many.
        bytes_max: the same while there are more.
    """

    def __init__(self, memory: InputMemory, count_max: Callable[[], int], bytes_max: int = BACKLOG_BYTES_MAX) -> None:
        self._memory = memory
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._requests: deque[tuple[Pending, int]] = deque()
        self._bytes = 0

    @property
    def room(self) -> int:
        """The number of requests that may be begun now: 1 at least, after ``add``."""
        return max(1, self._count_max() - len(self._requests))

    async def add(self, requests: list[tuple[Pending, int]]) -> None:
        """Add requests with the bytes of their messages, and wait until there is room for another one."""
        self._requests += requests
        added = 0
        for _, size in requests:
            added += size
        self._count(added)
        while self._requests and (self._requests[0][0].finished.is_set() or self._is_full()):
            if not self._requests[0][0].finished.is_set():  # else to wait would be a checkpoint, and make small requests dearer
                await self._requests[0][0].finished.wait()
            freed = 0
            while self._requests and self._requests[0][0].finished.is_set():
                freed += self._requests.popleft()[1]
            self._count(-freed)

    def close(self) -> None:
        """The session has ended."""
        self._requests.clear()
        self._count(-self._bytes)

    def _count(self, size: int) -> None:
        self._bytes += size
        self._memory.add_requests(size)

    def _is_full(self) -> bool:
        return self._bytes > self._bytes_max or len(self._requests) >= self._count_max()


def late_answer(request: Unanswered) -> si.Ack | si.ErrorResponse:
    """The answer to a request that a daemon before this one has carried out, or a part of it (SC-157)."""
    if request.refusal:
        return error_response(ProtocolError("REFUSED", request.refusal), request.request_id)
    if request.is_done:
        return si.Ack(id=request.request_id)
    return error_response(interrupted(), request.request_id)


def interrupted() -> ProtocolError:
    """The answer to a request of which only a part was carried out."""
    message = "only a part of the request was carried out: send it again, without what it has done"
    return ProtocolError("INTERRUPTED", message)


@contextmanager
def unavailable_when_closed(who: str) -> Iterator[None]:
    """Raise ProtocolError if the inbox of a partition is closed; ``who`` is the subject of the message, with do or does."""
    try:
        yield
    except (trio.ClosedResourceError, trio.BrokenResourceError):
        raise ProtocolError("UNAVAILABLE", f"{who} not run at the moment, try again later") from None
