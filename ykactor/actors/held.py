"""Locks without needless checkpoints, where each step of the event loop counts."""

import trio


class Held:
    """Holds a lock during an ``async with`` block; to take it is a checkpoint only if another task holds it."""

    __slots__ = ("_lock",)

    def __init__(self, lock: trio.Lock | trio.StrictFIFOLock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        """Take the lock."""
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        """Let it go."""
        self._lock.release()
