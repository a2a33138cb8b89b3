"""The daemon's end of a websocket: ``wsproto`` reads and makes its frames, here is who waits for what, and how it ends.

What a peer can make the daemon do below the level of messages is bounded here: frames, pings, and bytes in memory.
"""

from __future__ import annotations

import io
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import trio
from wsproto.connection import Connection, ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from ykactor.actors.mailbox import Held
from ykactor.surfaces.admission.session_limits import InputMemory, SessionLimits
from ykactor.surfaces.log.logs import log_event
from ykactor.surfaces.net.transports import FrameStream
from ykactor.wire.si.lengths import size_of

logger = logging.getLogger(__name__)

#: What is received at once.
_READ_BYTES = 2**16
#: The time between two reads of a peer that sends little at once, but more before it has all answers, or several messages in that
#: time. What it sends meanwhile shares one turn of a partition and one commit: each of these costs as much as some asks.
GATHER_S = 0.004
#: The same of a peer that has sent nothing before it got all answers, from that moment on.
ANSWERED_S = 0.001
_LITTLE_BYTES = 2**12
#: Frames of one message: the largest one has them if each has 3 KiB.
FRAMES_MAX = 2**13
#: Of so many frames that come at once, other tasks run: they take about 1 ms.
_FRAMES_STEP = 128
#: Pings and pongs in a second.
CONTROL_FRAMES_MAX = 100
#: Close codes of RFC 6455.
_POLICY_VIOLATION = 1008
_TOO_BIG = 1009


class ConnectionClosedError(Exception):
    """The connection has ended or is being closed."""


class Received(NamedTuple):
    """A message of the peer, and its bytes."""

    content: str | bytes
    size: int


class WebSocket:
    """An open websocket, while ``run`` runs. Ends with a code and a reason when the peer exceeds a limit.

    Args:
        protocol: of this end.
        nursery: lives as long as the connection.
        limits: how large a message may be, after it is decompressed; learns what was refused.
        memory: where the bytes count that no session has finished.
        close_s: the time limit for sending a close frame.

    Attributes:
        is_closing: True if nothing more can be sent: a close frame was sent or received, or the connection is broken.
        has_ended: True if nothing more is received.
        on_end: called from then on.
        is_answering: True if the peer lacks answers to what it has sent.
        goes_on_gathering: True if what it sends gathers also when it has all answers, as long as several messages come together.
    """

    def __init__(
        self,
        stream: FrameStream,
        protocol: Connection,
        nursery: trio.Nursery,
        *,
        limits: SessionLimits,
        memory: InputMemory,
        close_s: float,
    ) -> None:
        self.is_closing = self.has_ended = False
        self.on_end: Callable[[], object] = lambda: None
        self.is_answering: Callable[[], bool] = lambda: False
        self.goes_on_gathering = False
        self._stream = stream
        self._protocol = protocol
        self._nursery = nursery
        self._limits = limits
        self._close_s = close_s
        self._memory = memory
        self._sending = trio.StrictFIFOLock()
        #: Around what is read; cancelled by ``_end``.
        self._reading = trio.CancelScope()
        #: Around waiting for what gathers.
        self._pause: trio.CancelScope | None = None
        self._is_refused = False
        #: Set when the closing handshake is over, or cannot be completed.
        self._is_over = trio.Event()
        #: The messages that nobody has taken: a peer whose session takes none is not read, not even its pongs.
        self._messages = MessageQueue()
        #: What has come of a message of several parts, if anything, its bytes and its frames.
        self._gathered: io.BytesIO | None = None
        self._size = 0
        self._frames = 0
        #: The number of complete messages so far.
        self._delivered = 0
        #: The bytes of the messages that ``get_messages`` returned last.
        self._taken = 0
        #: The number of the last ping, and what its pong sets.
        self._ping = 0
        self._pong = trio.Event()
        self._control_frames = 0
        self._control_since_s = trio.current_time()

    # ---- what sessions do

    async def get_messages(self, most: int) -> tuple[list[Received], int]:
        """Wait for messages; returns those of one step, ``most`` at most, and their bytes. A checkpoint now and then.

        Those before have been handled, and count no more. A text of several parts is in UTF-8: to join many MiB takes long.

        Raises:
            ConnectionClosedError
        """
        self._memory.release(self, self._taken)
        self._taken = 0
        try:
            messages, self._taken = await self._messages.take(most)
        except trio.EndOfChannel:
            raise ConnectionClosedError from None
        return messages, self._taken

    async def send_frames(self, frames: bytes) -> None:
        """Send whole frames of messages (``net.frames.frame``); raises ConnectionClosedError."""
        self._check_open()
        await self._send_bytes(frames)

    def send_now(self, frames: bytes) -> int:
        """Send as much of whole frames as is possible without waiting, and return the number of bytes.

        The rest has to follow at once by ``send_frames``; raises ConnectionClosedError.
        """
        self._check_open()
        return 0 if self._sending.locked() else self._stream.send_now(frames)

    def answered(self) -> None:
        """The peer has got all answers. If it has sent nothing meanwhile, it has waited for them: what comes now is read soon."""
        if self._pause is not None and not self._stream.has_unread():
            self._pause.deadline = min(self._pause.deadline, trio.current_time() + ANSWERED_S)

    async def ping(self) -> None:
        """Send a ping and wait for its pong; raises ConnectionClosedError."""
        self._check_open()
        self._ping, self._pong = self._ping + 1, trio.Event()
        await self._send(Ping(payload=b"%d" % self._ping))
        await self._pong.wait()

    async def aclose(self, code: int = 1000, reason: str | None = None) -> None:
        """Send a close frame and wait for that of the peer; if the connection is being closed already, wait for the end of that.

        The stream stays open: who has opened it reads what still comes (``net.transports.linger``), which would reset the
        connection otherwise, and take the close frame with it.
        """
        try:
            if not self.is_closing:
                self.is_closing = True
                await self._send_close(code, reason)
                self._messages.drop()
            await self._is_over.wait()
        finally:
            self._end()

    def refuse(self, code: int, reason: str) -> None:
        """End the connection, with a close frame if none was sent. No message of the peer is handled any more."""
        if self._is_refused:
            return
        self._is_refused, self._gathered = True, None
        self._memory.forget(self)
        if self.is_closing:  # the peer has not answered
            self._end()
            return
        log_event(logger, logging.INFO, "peer_dropped", path=self._limits.path, code=code, reason=reason)
        self._limits.refused(reason)
        self.is_closing = True
        self._nursery.start_soon(self._send_refusal, code, reason)

    # ---- sending

    def _check_open(self) -> None:
        if self.is_closing:
            raise ConnectionClosedError

    async def _send(self, event: Event) -> None:
        await self._send_bytes(self._protocol.send(event))

    async def _send_bytes(self, data: bytes) -> None:
        async with Held(self._sending):
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._end()
                raise ConnectionClosedError from None

    async def _send_refusal(self, code: int, reason: str) -> None:
        # Shielded: the session may learn of the end from the task that reads first, and end the nursery.
        with trio.move_on_after(self._close_s, shield=True):
            await self._send_close(code, reason)
        self._messages.drop()  # ends the session
        self._end()

    async def _send_close(self, code: int, reason: str | None) -> None:
        """Send a close frame. A peer that does not take it in time is cut off: nothing can follow what is sent in part."""
        try:
            with suppress(ConnectionClosedError):
                await self._send(CloseConnection(code=code, reason=reason))
        except trio.Cancelled:
            await trio.aclose_forcefully(self._stream)
            raise

    # ---- the end

    def _end(self) -> None:
        """Read nothing more, and let nobody wait for the peer."""
        self.is_closing = True
        self._messages.end()
        self._is_over.set()
        self._reading.cancel()

    # ---- receiving

    async def run(self) -> None:
        """Handle what the peer sends, until the connection has ended or the peer is refused."""
        with self._reading, suppress(ConnectionClosedError, trio.BrokenResourceError, trio.ClosedResourceError):
            await self._read()
        if not self._is_refused:  # else the close frame goes first
            self._end()
        self.has_ended = True
        self.on_end()

    async def _read(self) -> None:
        await self._handle_events()
        gathers, since_s = False, 0.0
        while data := await self._receive(since_s + GATHER_S if gathers else None):
            lacks_answers, since_s = self.is_answering(), trio.current_time()
            self._protocol.receive_data(bytes(data))
            count = await self._handle_events()
            # Who waits for an answer before it sends more never sends several messages during a pause.
            gathers = len(data) < _LITTLE_BYTES and (lacks_answers or (gathers and count > 1 and self.goes_on_gathering))
            await self._messages.drained()

    async def _receive(self, at_s: float | None) -> bytes | bytearray:
        """Wait for data, which gathers until ``at_s`` if that is given; b"" at the end."""
        if at_s is not None:
            try:
                with trio.CancelScope(deadline=at_s) as self._pause:
                    await trio.sleep_forever()
            finally:
                self._pause = None
            if (data := self._stream.receive_now(_READ_BYTES)) is not None:
                return data
        return await self._stream.receive_next(_READ_BYTES)

    async def _handle_events(self) -> int:
        """Handle what has come; returns the number of messages that are complete by that."""
        before = self._delivered
        for event in self._protocol.events():
            await self._handle(event)
        return self._delivered - before

    async def _handle(self, event: Event) -> None:
        match event:
            case TextMessage() | BytesMessage():
                self._count(event)
                self._raise_if_refused()
                await self._handle_message(event)
            case Ping():
                self._count_control_frame()
                if not self.is_closing:
                    await self._send(event.response())
            case Pong(payload=payload):
                self._count_control_frame()
                if payload == b"%d" % self._ping:
                    self._pong.set()
            case CloseConnection():
                await self._handle_close(event)

    def _raise_if_refused(self) -> None:
        """Drop what else was received."""
        if self._is_refused:
            raise ConnectionClosedError

    async def _handle_close(self, event: CloseConnection) -> None:
        """Answer the close frame of the peer; what is no frame at all gets no answer."""
        self._raise_if_refused()
        self.is_closing = True
        if self._protocol.state is ConnectionState.REMOTE_CLOSING:
            await self._send(event.response())
        raise ConnectionClosedError

    async def _handle_message(self, event: BytesMessage | TextMessage) -> None:
        if event.message_finished and self._gathered is None:
            await self._deliver(event.data if isinstance(event, TextMessage) else bytes(event.data))
            return
        if self._gathered is None:
            self._gathered = io.BytesIO()
        self._gathered.write(event.data.encode() if isinstance(event, TextMessage) else event.data)
        if event.message_finished:
            await self._deliver(self._gathered.getvalue())
        elif self._frames % _FRAMES_STEP == 0:
            await trio.lowlevel.checkpoint()

    def _count(self, event: BytesMessage | TextMessage) -> None:
        """Refuse a message that is too large or in too many frames."""
        size = size_of(event.data)
        self._size += size
        self._frames += event.frame_finished
        if too_large := self._limits.refusal(self._size):
            self.refuse(_TOO_BIG, too_large)
        elif self._frames > FRAMES_MAX:
            self.refuse(_POLICY_VIOLATION, f"a message has more than {FRAMES_MAX} frames")
        elif not self._is_refused:
            self._memory.add(self, size)

    async def _deliver(self, message: str | bytes) -> None:
        size = self._size
        self._gathered, self._size, self._frames = None, 0, 0
        self._delivered += 1
        await self._messages.add(message, size)

    def _count_control_frame(self) -> None:
        """Refuse a peer that sends too many pings and pongs."""
        now_s = trio.current_time()
        if now_s - self._control_since_s >= 1:
            self._control_since_s, self._control_frames = now_s, 0
        self._control_frames += 1
        if self._control_frames > CONTROL_FRAMES_MAX:
            self.refuse(_POLICY_VIOLATION, f"more than {CONTROL_FRAMES_MAX} pings and pongs came in a second")
        self._raise_if_refused()


# ---- the messages between a connection, which reads all that the socket has, and its session, which takes them in a few steps

#: With so many messages, or with more bytes, nothing is read until one is left: two large messages may wait at most.
WAITING_MAX, WAITING_BYTES_MAX = 64, 2**16
#: The work of a session before other tasks run, about 2 ms: a message is as much as its bytes and some more.
STEP_WORK, MESSAGE_WORK = 2**14, 2**9


class MessageQueue:
    """The messages of a peer that its session has not taken. One task adds them, one takes them out."""

    def __init__(self) -> None:
        self._messages: deque[Received] = deque()
        self._bytes = 0
        #: True if no more messages are added.
        self._has_ended = False
        self._filled, self._drained = trio.lowlevel.ParkingLot(), trio.lowlevel.ParkingLot()
        #: The work of the messages taken since other tasks ran.
        self._work = 0

    async def add(self, message: str | bytes, size: int) -> None:
        """Add a message of so many bytes, then wait if too much waits. After the end it is dropped."""
        if self._has_ended:
            return
        self._messages.append(Received(message, size))
        self._bytes += size
        if self._filled:
            self._filled.unpark_all()
        if len(self._messages) >= WAITING_MAX or self._bytes > WAITING_BYTES_MAX:
            await self.drained()

    async def drained(self) -> None:
        """Wait until the session has taken all messages but one, which need not wait for the next."""
        while len(self._messages) > 1 and not self._has_ended:
            await self._drained.park()

    async def take(self, most: int) -> tuple[list[Received], int]:
        """Wait for a message; returns it and others that are there, ``most`` in all and the work of one step, and their bytes.

        A checkpoint only if there is none, or enough work was done.

        Raises:
            trio.EndOfChannel: there are no more.
        """
        if self._work > STEP_WORK:
            self._work = 0
            await trio.lowlevel.checkpoint()
        while not self._messages:
            if self._has_ended:
                raise trio.EndOfChannel
            self._work = 0
            await self._filled.park()
        taken, size = list[Received](), 0
        while self._messages and len(taken) < most and self._work <= STEP_WORK:
            message = self._messages.popleft()
            self._work += MESSAGE_WORK + message.size
            size += message.size
            taken.append(message)
        self._bytes -= size
        if self._drained and len(self._messages) <= 1:
            self._drained.unpark_all()
        return taken, size

    def end(self) -> None:
        """Let no more messages come; those that wait can be taken."""
        self._has_ended = True
        self._filled.unpark_all()
        self._drained.unpark_all()

    def drop(self) -> None:
        """Take out all messages, and let no more come."""
        self._messages.clear()
        self._bytes = 0
        self.end()
