"""The store of a state directory for tests on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable

import trio

from ykactor.actors.journal import BlockingStore
from ykactor.journal.transaction import Batch


class InlineStore:
    """The store of a state directory, without a thread: the virtual clock would not wait for one."""

    def __init__(self, store: BlockingStore, delay_s: Callable[[], float]) -> None:
        self._store = store
        self._delay_s = delay_s

    async def commit(self, batch: Batch) -> None:
        await trio.sleep(self._delay_s())
        self._store.commit(batch)

    async def tidy(self) -> bool:
        return False

    async def rows(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        await trio.sleep(self._delay_s())
        return self._store.rows(prefix)
