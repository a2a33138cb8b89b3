"""Requests of a resource manager that partitions have not finished."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import trio

from ykactor.core.values.ids import PartitionName
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ProtocolError


class Pending:
    """A request whose ``Ack`` waits for partitions."""

    def __init__(
        self, request_id: str, partitions: Iterable[PartitionName], working: Iterable[PartitionName], checksum: str = ""
    ) -> None:
        self.ack = si.Ack(id=request_id, checksum=checksum)
        #: The partitions whose facts must be published before the ``Ack``.
        self.partitions = list(partitions)
        self.done = trio.Event()
        self._working = set(working)
        self._check()

    def on_done(self, partition: PartitionName) -> None:
        """Called from the partition's task (``Intake.done``)."""
        self._working.discard(partition)
        self._check()

    def _check(self) -> None:
        if not self._working:
            self.done.set()


class Reply:
    """The reply of a partition to an administrator's request."""

    def __init__(self) -> None:
        self.given = trio.Event()
        self.refusal = ""

    def on_done(self, _: PartitionName, refusal: str) -> None:
        """Called from the partition's task (``Administer.done``)."""
        self.refusal = refusal
        self.given.set()


@contextmanager
def unavailable_when_closed(who: str) -> Iterator[None]:
    """Raise ProtocolError if the inbox of a partition is closed; ``who`` is the subject of the message, with do or does."""
    try:
        yield
    except (trio.ClosedResourceError, trio.BrokenResourceError):
        raise ProtocolError("UNAVAILABLE", f"{who} not run at the moment, try again later") from None
