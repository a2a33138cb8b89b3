"""What is committed to the journal in one transaction, and who commits it."""

from collections.abc import Callable
from typing import Protocol

import trio
from msgspec import Struct


class Batch(Struct):
    """The changes and the history of some turns.

    Attributes:
        first_event, first_message: the number of the first; of the next one if there is none in the batch.
        at_ns: the Unix time at which the batch is complete.
        puts: new records: key (JSON) -> record (JSON).
        deletes: the keys of records that are no more; none of them is in ``puts``.
        turns: each turn with its facts, as JSON.
        messages: the messages to the resource manager, as they are sent.
        bases: the state of a partition before some of the turns, by their positions in ``turns`` (``core.records.base``).
        names: what the turns are about.
    """

    first_event: int
    first_message: int
    at_ns: int = 0
    puts: dict[bytes, bytes] = {}
    deletes: set[bytes] = set()
    events_count: int = 0
    messages_count: int = 0
    turns: list[bytes] = []
    messages: list[bytes] = []
    bases: dict[int, bytes] = {}
    names: set[str] = set()


class DiskFullError(Exception):
    """There is no room for the batch, of which nothing was written; the same batch may be tried again."""


class Store(Protocol):
    """Writes batches, one after the other."""

    async def commit(self, batch: Batch) -> None:
        """Return when the batch is durable.

        Raises:
            DiskFullError: see there. After any other exception nothing may be written any more.
        """

    async def tidy(self, now_ns: int) -> None:
        """Keep the files small; called after each commit, when it was reported."""


class WriterThread:
    """A store whose blocking work is done in a thread.

    Args:
        commit, tidy: as in ``Store``, but blocking; called in one thread at a time.
    """

    def __init__(self, commit: Callable[[Batch], object], tidy: Callable[[int], object]) -> None:
        self._commit = commit
        self._tidy = tidy
        #: A limiter of its own: who else uses threads never delays a commit.
        self._limiter = trio.CapacityLimiter(1)

    async def commit(self, batch: Batch) -> None:
        """If this is cancelled, the thread is left alone: a disk that does not answer must not keep the daemon from ending."""
        await trio.to_thread.run_sync(self._commit, batch, limiter=self._limiter, abandon_on_cancel=True)

    async def tidy(self, now_ns: int) -> None:
        """The same."""
        await trio.to_thread.run_sync(self._tidy, now_ns, limiter=self._limiter, abandon_on_cancel=True)
