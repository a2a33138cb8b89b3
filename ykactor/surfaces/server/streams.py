"""A stream that says when the other end has finished speaking: the websocket library tells only who waits for a message."""

from __future__ import annotations

from collections.abc import Callable

import trio


class EndNoticedStream(trio.abc.Stream):
    """Passes everything on to ``stream``.

    Attributes:
        on_end: called once the peer has closed its side or the connection is broken.
        has_ended: whether that is so.
    """

    def __init__(self, stream: trio.abc.Stream, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self.on_end = on_end
        self.has_ended = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of ``stream``."""
        try:
            data = await self._stream.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._note_end()
            raise
        if not data:
            self._note_end()
        return data

    def _note_end(self) -> None:
        self.has_ended = True
        self.on_end()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As of ``stream``."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As of ``stream``."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """As of ``stream``."""
        await self._stream.aclose()
