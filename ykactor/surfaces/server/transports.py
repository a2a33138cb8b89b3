"""Transports: how bytes go over a socket. This one takes them as they are, ``tls_transport`` encrypts them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import trio

from ykactor.access.credentials import Credentials
from ykactor.surfaces.server.frames import Frames

#: Waits until a socket can be read.
Readable = Callable[[trio.socket.SocketType], Awaitable[None]]


class Transport(trio.abc.HalfCloseableStream):
    """A socket to which whole frames can be sent without waiting, too.

    Attributes:
        socket: of the connection.
        credentials: what ``open`` has seen of the peer.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.socket = stream.socket
        self.credentials = Credentials()
        self._stream = stream

    async def open(self) -> None:
        """Do what is needed before anything can be sent or received. Raises as ``receive_some``."""

    def send_now(self, frames: Frames) -> int:
        """Take as many bytes as is possible without waiting, and return their number.

        Raises:
            OSError: nothing is taken now, or the connection is broken.
        """
        return frames.send(self.socket.fileno())

    def flush(self) -> bool:
        """Send what was taken and is still here, without waiting; whether nothing is left. Raises as ``send_now``."""
        return True

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As of trio, behind what ``send_now`` has taken."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As of trio."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """As of trio."""
        return await self._stream.receive_some(max_bytes)

    # ---- for a peer that sends something, waits for the answer, and only then sends more

    async def receive_next(self, max_bytes: int, readable: Readable = trio.lowlevel.wait_readable) -> bytes | bytearray:
        """As ``receive_some``, but it waits before it looks, as nothing is there yet."""
        while True:
            await readable(self.socket)
            try:
                return os.read(self.socket.fileno(), max_bytes)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def answer(self, data: bytes | memoryview) -> None:
        """As ``send_all``, but it waits only while the socket takes nothing: an answer has been waited for already."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self.socket.fileno(), left) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.socket)
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    # ---- the end

    async def send_eof(self) -> None:
        """As of trio."""
        await self._stream.send_eof()

    async def finish(self) -> None:
        """Tell the peer that nothing follows, and read to the end.

        Closing a socket with unread bytes resets the connection, and the peer may lose the last message.
        """
        await self.send_eof()
        while await self._stream.receive_some(2**16):
            pass

    async def aclose(self) -> None:
        """As of trio."""
        await self._stream.aclose()
