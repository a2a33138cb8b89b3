"""Streams between a socket and the websocket library, with what the library does not offer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from ykactor.surfaces.net.frames import Frames
from ykactor.surfaces.net.transports import Transport


class EndNoticedStream(trio.abc.Stream):
    """Passes everything on to ``stream``, and notices its end, which the library tells only who waits for a message.

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


#: The send buffer of a socket that gets frames; the kernel doubles it. Left to itself it gives 4 MiB to a follower that reads
#: slowly, and with hundreds of them runs out of memory for sockets: then it drops packets of all connections.
_SEND_BUFFER_BYTES = 256 * 2**10


class FrameStream(trio.abc.Stream):
    """A connection to which frames can be written beside the websocket library, without waiting.

    The library sends whole frames with one ``send_all``, so other frames may come between two of its sends.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        #: Held while something is sent by ``send_all``.
        self._sending = trio.Lock()
        #: What the transport has not taken yet; nothing else may be sent before it.
        self._unsent: deque[Frames] = deque()

    def limit_buffer(self) -> None:
        """Limit the memory that the kernel uses for what the peer has not read."""
        self._transport.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, _SEND_BUFFER_BYTES)

    def write(self, frames: Frames) -> bool:
        """Write frames behind everything before, ``flush`` sends them; whether less is unsent than the transport may take."""
        joined = self._unsent[-1].joined(frames) if self._unsent else None
        if joined is None:
            self._unsent.append(frames)
        else:
            self._unsent[-1] = joined
        return sum(part.size for part in self._unsent) < _SEND_BUFFER_BYTES

    def flush(self) -> bool:
        """Send as much as the transport takes; whether nothing is left. If the connection is broken, everything is left."""
        if self._sending.locked():
            return False
        try:
            while self._unsent:
                first = self._unsent[0]
                count = self._transport.send_now(first)
                if count < first.size:
                    self._unsent[0] = first.after(count)
                    return False
                self._unsent.popleft()
            return self._transport.flush()
        except OSError:  # also BlockingIOError; of a broken connection the library learns when it reads
            return False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send what is left of frames, then the data."""
        async with self._sending:
            while self._unsent:
                await self._transport.send_all(self._unsent.popleft().read())
            await self._transport.send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of the transport."""
        return await self._transport.receive_some(max_bytes)

    async def wait_send_all_might_not_block(self) -> None:
        """As of the transport."""
        await self._transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """As of the transport."""
        await self._transport.aclose()
