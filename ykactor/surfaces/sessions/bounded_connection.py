"""A websocket connection of a server that bounds what its peer can make it do below the level of messages."""

import io
import logging
from collections import deque
from contextlib import suppress

import trio
from trio_websocket import CloseReason, ConnectionClosed, WebSocketConnection
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from ykactor.surfaces.admission.session_limits import InputMemory, SessionLimits
from ykactor.surfaces.log.logs import log_event
from ykactor.wire.compression import ExtensibleConnection
from ykactor.wire.si.lengths import size_of

logger = logging.getLogger(__name__)

#: Frames of one message: the largest one has them if each has 3 KiB.
FRAMES_MAX = 2**13
#: Of so many frames that come at once, other tasks run: they take about 1 ms.
_FRAMES_STEP = 128
#: Pings and pongs in a second.
CONTROL_FRAMES_MAX = 100
#: Close codes of RFC 6455.
_POLICY_VIOLATION = 1008
_TOO_BIG = 1009


class BoundedConnection(WebSocketConnection):
    """Ends the connection with a code and a reason when the peer exceeds a limit.

    The library keeps each frame of a message, however small, counts characters of text, and answers all pings.

    Args:
        nursery: lives as long as the connection.
        path: what the peer connected to, for the log.
        limits: how large a message may be, after it is decompressed; learns what was refused.
        close_s: the time limit for sending a close frame.
        memory: where the bytes count that no session has finished.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        protocol: ExtensibleConnection,
        nursery: trio.Nursery,
        *,
        path: str,
        limits: SessionLimits,
        close_s: float,
        memory: InputMemory,
    ) -> None:
        super().__init__(stream, protocol, receive_buffer_size=2**16)
        self._limits = limits
        self._nursery = nursery
        self._log_path = path
        self._close_s = close_s
        self._memory = memory
        self._is_refused = False
        #: What has come of a message of several parts, if anything, its bytes and its frames.
        self._gathered: io.BytesIO | None = None
        self._size = 0
        self._frames = 0
        #: The bytes of messages that wait for ``get_message``, and of the one that it returned last.
        self._waiting: deque[int] = deque()
        self._taken = 0
        self._control_frames = 0
        self._control_since_s = trio.current_time()

    async def get_message(self) -> str | bytes:
        """As of the library, but a text of several parts is in UTF-8: to put many MiB of text together takes long.

        The message before has been handled, and counts no more.
        """
        self._memory.release(self, self._taken)
        self._taken = 0
        message = await super().get_message()
        self._taken = self._waiting.popleft()
        return message

    def refuse(self, code: int, reason: str) -> None:
        """End the connection, with a close frame if none was sent. Nothing more is read."""
        if self._is_refused:
            return
        self._is_refused, self._reader_running = True, False
        self._gathered = None
        self._memory.forget(self)
        if self._close_reason is not None:  # it is being closed, and the peer has not answered
            self._close_handshake.set()
            return
        log_event(logger, logging.INFO, "peer_dropped", path=self._log_path, code=code, reason=reason)
        self._limits.refused(reason)
        self._close_reason = CloseReason(code, reason)
        self._nursery.start_soon(self._send_close, code, reason)

    async def _send_close(self, code: int, reason: str) -> None:
        # Shielded: the session may learn of the end from the reader task first, and end the nursery.
        with trio.move_on_after(self._close_s, shield=True), suppress(ConnectionClosed):
            await self._send(CloseConnection(code=code, reason=reason))
        await self._recv_channel.aclose()  # ends the session

    def _raise_if_refused(self) -> None:
        """Make the library drop what else it has read."""
        if self._is_refused:
            raise ConnectionClosed(self._close_reason)

    # ---- what the reader task of the library calls

    async def _handle_message_event(self, event: BytesMessage | TextMessage) -> None:
        self._count(event)
        self._raise_if_refused()
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
        self._waiting.append(self._size)
        self._gathered, self._size, self._frames = None, 0, 0
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):  # nobody receives any more
            await self._send_channel.send(message)

    async def _handle_ping_event(self, event: Ping) -> None:
        self._count_control_frame()
        await super()._handle_ping_event(event)

    async def _handle_pong_event(self, event: Pong) -> None:
        self._count_control_frame()
        await super()._handle_pong_event(event)

    def _count_control_frame(self) -> None:
        now_s = trio.current_time()
        if now_s - self._control_since_s >= 1:
            self._control_since_s, self._control_frames = now_s, 0
        self._control_frames += 1
        if self._control_frames > CONTROL_FRAMES_MAX:
            self.refuse(_POLICY_VIOLATION, f"more than {CONTROL_FRAMES_MAX} pings and pongs came in a second")
        self._raise_if_refused()
