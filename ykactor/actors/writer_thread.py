"""A thread that commits journal batches off the event loop."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import trio

from ykactor.journal.batch import Batch


class AsyncStore(Protocol):
    """Writes batches, one after the other."""

    async def commit(self, batch: Batch) -> None:
        """Return when the batch is durable.

        Raises:
            NotWrittenError: see there. After any other exception nothing may be written any more.
        """

    async def tidy(self) -> bool:
        """Do what takes longer and can wait; called after each commit, when all know of it. Whether there was anything to do."""

    async def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """The durable records whose keys begin with ``prefix``: key and record. May be called during a commit."""


class BlockingStore(Protocol):
    """An ``AsyncStore`` whose methods block; they are called in any thread, but one at a time unless they say otherwise."""

    def commit(self, batch: Batch) -> object:
        """Commit a batch, like ``AsyncStore.commit``."""

    @property
    def needs_tidying(self) -> bool:
        """True if there is something to tidy; does not block."""

    def tidy(self) -> None:
        """Tidy, like ``AsyncStore.tidy``."""

    def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """The rows of ``AsyncStore.rows``; unlike the others, it may be called while another call goes on."""


class WriterThread:
    """A store whose blocking work is done in a thread.

    If a call is cancelled, the thread is left alone: a disk that does not answer must not keep the daemon from ending.
    """

    def __init__(self, store: BlockingStore) -> None:
        self._store = store
        #: A limiter of its own: who else uses threads never delays a commit.
        self._limiter = trio.CapacityLimiter(1)

    async def commit(self, batch: Batch) -> None:
        await self._in_thread(partial(self._store.commit, batch))

    async def tidy(self) -> bool:
        """Tidy in the thread, or do nothing at once if there is nothing to tidy."""
        if not self._store.needs_tidying:
            return False
        await self._in_thread(self._store.tidy)
        return True

    async def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Read in a thread of its own, so that commits do not wait for it."""
        return await trio.to_thread.run_sync(self._store.rows, prefix, abandon_on_cancel=True)

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await trio.to_thread.run_sync(work, limiter=self._limiter, abandon_on_cancel=True)
