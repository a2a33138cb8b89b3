"""Transports: how bytes go over a socket, as they are or encrypted with TLS.

``trio.SSLStream`` can only wait. A follower is sent frames without waiting, so here TLS works in memory: a call encrypts or
decrypts some bytes, and the socket takes and gives others. All that is encrypted leaves through ``flush``, in its order,
whoever has caused it.
"""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from termios import FIONREAD

import trio

from ykactor.access.credentials import Credentials, shown_by
from ykactor.actors.mailbox import Held
from ykactor.surfaces.net.doors import Door
from ykactor.surfaces.net.frames import Frames

#: How long a connection is read after the last answer.
LINGER_S = 1
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
        """Send data behind what ``send_now`` has taken."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    # ---- for small messages, without a checkpoint, which costs as much as some of them

    def write_now(self, data: bytes) -> int:
        """Send as many bytes as the socket takes now behind everything before, and return their number.

        Raises:
            OSError: as ``send_now``.
        """
        return os.write(self.socket.fileno(), data)

    def receive_now(self, max_bytes: int) -> bytes | None:
        """The data that is here, b"" at the end; None if it has to be waited for (``receive_some``)."""
        try:
            return os.read(self.socket.fileno(), max_bytes)
        except OSError:  # who waits learns of an error
            return None

    def has_unread(self) -> bool:
        """True if the socket has bytes that were not received."""
        number = self.socket.fileno()  # -1: the socket is closed
        return number >= 0 and any(ioctl(number, FIONREAD, bytes(4)))

    # ---- for a peer that sends something, waits for the answer, and only then sends more

    async def receive_next(self, max_bytes: int, readable: Readable = trio.lowlevel.wait_readable) -> bytes | bytearray:
        """Receive some data, but wait before the first look, as nothing is there yet. Raises as ``receive_some``."""
        while True:
            if self.socket.fileno() < 0:
                raise trio.ClosedResourceError("the socket is closed")
            await readable(self.socket)
            try:
                return os.read(self.socket.fileno(), max_bytes)
            except BlockingIOError:
                pass
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def answer(self, data: bytes | memoryview) -> None:
        """Send data, but wait only while the socket takes nothing: an answer has been waited for already."""
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
        await self._stream.send_eof()

    async def finish(self) -> None:
        """Tell the peer that nothing follows, and read to the end.

        Closing a socket with unread bytes resets the connection, and the peer may lose the last message.
        """
        await self.send_eof()
        while await self._stream.receive_some(2**16):
            pass

    async def aclose(self) -> None:
        await self._stream.aclose()


async def linger(transport: Transport) -> None:
    """Read what still comes before the connection is closed: unread bytes would reset it, and lose the last answer."""
    with trio.move_on_after(LINGER_S), suppress(trio.BrokenResourceError):
        await transport.finish()


# ---- TLS

#: What is encrypted at once: four records. No more is kept of what the socket does not take.
CHUNK_BYTES = 2**16
#: What is decrypted at once, about a record: messages of TLS itself can be small, and each costs some microseconds.
RECEIVED_BYTES = 2**14
#: More that is encrypted and not sent can only be answers to messages of TLS.
_UNSENT_MAX = 2 * CHUNK_BYTES


class TlsError(Exception):
    """An error because of which there is no connection; the message is for the log.

    Attributes:
        is_certificate: whether that of the client is refused.
    """

    def __init__(self, error: ssl.SSLError | ValueError) -> None:
        self.is_certificate = not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLCertVerificationError)
        match error:
            case ssl.SSLCertVerificationError(verify_message=message):
                reason = f"the certificate of the client is refused: {message}"
            case ssl.SSLError(reason=str(code)):
                reason = f"found no valid TLS: {code.lower().replace('_', ' ')}"
            case ssl.SSLError():
                reason = "found no valid TLS"
            case _:
                reason = "the certificate of the client is refused: its names are no valid text"
        super().__init__(reason)


def transport_of(door: Door, stream: trio.SocketStream) -> Transport:
    """The transport of a new connection."""
    return Transport(stream) if door.tls is None else TlsTransport(stream, door.tls.context, door.tls.turn)


class TlsTransport(Transport):
    """The side of the daemon.

    Args:
        context: of the daemon.
        turn: held by one handshake at a time while it computes, for about a millisecond. Other tasks run in between; a
            handshake that waits for its client does not hold it.
    """

    def __init__(self, stream: trio.SocketStream, context: ssl.SSLContext, turn: trio.Lock) -> None:
        super().__init__(stream)
        self._turn = turn
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        #: Of what is encrypted, the part that the socket has to take first.
        self._unsent = memoryview(b"")

    async def open(self) -> None:
        """Shake hands.

        Raises:
            TlsError: the client does not speak TLS, or not as it has to, or its certificate is refused.
            BrokenResourceError: the connection has ended.
        """
        is_open = False
        while not is_open:
            received = await self._stream.receive_some(RECEIVED_BYTES)
            if not received:
                raise trio.BrokenResourceError("the connection was closed during the handshake of TLS")
            self._incoming.write(received)
            async with self._turn:
                is_open = self._step()
            await self._drained()

    def _step(self) -> bool:
        """Go on with the handshake; whether it has ended."""
        try:
            self._tls.do_handshake()
            self.credentials = shown_by(self._tls.getpeercert())
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ValueError) as error:
            with suppress(OSError):
                self.flush()  # the alert that says why
            raise TlsError(error) from None
        return True

    # ---- sending

    def send_now(self, frames: Frames) -> int:
        """Encrypt frames as far as the socket takes them; what was taken may be here still."""
        taken = 0
        while taken < frames.size and self.flush():
            taken += self._tls.write(frames.after(taken).read(CHUNK_BYTES))
        return taken

    def flush(self) -> bool:
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                self._unsent = self._unsent[os.write(self.socket.fileno(), self._unsent) :]
            except BlockingIOError:
                return False
        return True

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._drained()
        for start in range(0, len(data), CHUNK_BYTES):
            with _broken():
                self._tls.write(memoryview(data)[start : start + CHUNK_BYTES])
            await self._drained()

    async def answer(self, data: bytes | memoryview) -> None:
        await self.send_all(data)

    def write_now(self, data: bytes) -> int:
        """Take nothing: what is encrypted may be here still."""
        return 0

    async def _drained(self) -> None:
        """Wait until the socket has taken all that is encrypted."""
        await trio.lowlevel.checkpoint()
        with _broken():
            while not self.flush():
                await trio.lowlevel.wait_writable(self.socket)

    # ---- receiving

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive decrypted data. The end of the connection is an end, also without word of it."""
        await trio.lowlevel.checkpoint()
        while (data := self._decrypted(max_bytes or RECEIVED_BYTES)) is None:
            self._encrypted(await super().receive_some(RECEIVED_BYTES))
        return data

    async def receive_next(self, max_bytes: int, readable: Readable = trio.lowlevel.wait_readable) -> bytes | bytearray:
        """Receive decrypted data, but look first: what has come may have had more than was asked for."""
        while (data := self._decrypted(max_bytes)) is None:
            self._encrypted(await super().receive_next(RECEIVED_BYTES, readable))
        return data

    def receive_now(self, max_bytes: int) -> bytes | None:
        """Return None: what has come may be no data."""
        return None

    def _encrypted(self, received: bytes | bytearray) -> None:
        if received:
            self._incoming.write(received)
        else:
            self._incoming.write_eof()

    def _decrypted(self, max_bytes: int) -> bytes | None:
        """Decrypted bytes of what has come; None if there are none, b"" at the end."""
        try:
            return self._tls.read(max_bytes)
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except ssl.SSLError as error:
            raise trio.BrokenResourceError(str(error)) from error
        finally:
            self._answer()

    def _answer(self) -> None:
        """Send what TLS itself answers, without waiting: a client that does not read that gets no more."""
        with suppress(OSError):  # who sends learns of it
            self.flush()
        if len(self._unsent) + self._outgoing.pending > _UNSENT_MAX:
            raise trio.BrokenResourceError("the client asks TLS for answers and does not read them")

    # ---- the end

    async def send_eof(self) -> None:
        self._say_end()
        await self._drained()
        await super().send_eof()

    async def aclose(self) -> None:
        """Close the connection. The peer learns that nothing was cut off if that needs no waiting."""
        self._say_end()
        with suppress(OSError):
            self.flush()
        await super().aclose()

    def _say_end(self) -> None:
        with suppress(ssl.SSLError):  # there was no connection, or the peer has not said so too
            self._tls.unwrap()


@contextmanager
def _broken() -> Iterator[None]:
    """An error of TLS or of the socket within this block is the end of the connection."""
    try:
        yield
    except OSError as error:
        raise trio.BrokenResourceError(str(error)) from error


# ---- frames

#: The send buffer of a socket that gets frames; the kernel doubles it. Left to itself it gives 4 MiB to a follower that reads
#: slowly, and with hundreds of them runs out of memory for sockets: then it drops packets of all connections.
_SEND_BUFFER_BYTES = 256 * 2**10


class FrameStream(trio.abc.Stream):
    """A connection to which frames can be written without waiting, beside what is sent.

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
        except OSError:  # also BlockingIOError; a broken connection is found by who reads
            return False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send what is left of frames, then the data."""
        async with Held(self._sending):
            while self._unsent:
                await self._transport.send_all(self._unsent.popleft().read())
            await self._transport.send_all(data)

    def send_now(self, data: bytes) -> int:
        """Send as much of the data as the connection takes now behind everything before; the number of bytes."""
        if self._unsent or self._sending.locked():
            return 0
        try:
            return self._transport.write_now(data)
        except OSError:  # who waits learns of an error
            return 0

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._transport.receive_some(max_bytes)

    async def receive_next(self, max_bytes: int) -> bytes | bytearray:
        """Receive some data, which has not come yet (``Transport.receive_next``)."""
        return await self._transport.receive_next(max_bytes)

    def receive_now(self, max_bytes: int) -> bytes | None:
        """The data that is here (``Transport.receive_now``)."""
        return self._transport.receive_now(max_bytes)

    def has_unread(self) -> bool:
        """True if the socket has bytes that were not received."""
        return self._transport.has_unread()

    async def wait_send_all_might_not_block(self) -> None:
        await self._transport.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._transport.aclose()
