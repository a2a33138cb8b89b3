"""The peer of a session: sends and receives whole messages over a websocket connection."""

import logging
import math
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar, cast

import msgspec
import trio
from msgspec import Struct, structs

from ykactor.actors.journal import Notices, Resumed, Stalled
from ykactor.actors.pauses import drive, pause
from ykactor.core.values.parts import Steps, finished
from ykactor.surfaces.admission.session_limits import SessionLimits
from ykactor.surfaces.admission.slots import FEED_PATH, OPERATOR_PATH, RM_PATH
from ykactor.surfaces.files.helper_process import HelperProcessError, in_helper_process
from ykactor.surfaces.log.logs import log_event
from ykactor.surfaces.net.frames import Frames, frame
from ykactor.surfaces.net.transports import FrameStream
from ykactor.surfaces.sessions.connection import ConnectionClosedError, Received, WebSocket
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, MSGPACK, Encoding
from ykactor.wire.si.lengths import REQUEST_MAX, TEXT_MAX, shortened, size_of
from ykactor.wire.si.protocol_error import ProtocolError

logger = logging.getLogger(__name__)

#: The close codes of a peer that says nothing, and of one that does not read (RFC 6455 leaves 4000 and above to applications).
SILENT = 4003
STALLED = 4004

#: What a session that has not been settled lacks, by path.
_WANTED = {RM_PATH: "no registration", FEED_PATH: "no subscription", OPERATOR_PATH: "no request that may be carried out"}

#: Messages are sent together until they have so many bytes.
_TOGETHER_BYTES = 2**16


class Limits(Struct, frozen=True):
    """Limits of the server, beside those that the access file may change (SE-48)."""

    #: The largest message of a follower: the lists of a subscription have up to 256 KiB each (AP-138).
    subscription_bytes_max: int = 2 * 2**20
    #: Time limits for what a session is there for (``Peer.settle``), for sending one message, and for the closing handshake.
    unused_s: float = 30.0
    send_s: float = 10.0
    close_s: float = 2.0
    #: A ping leaves this often, and its answer may take as long.
    ping_s: float = 30.0


class Peer:
    """Sends and receives messages over an accepted connection, in its encoding, with a deadline for every send.

    One task at a time may send. ``write`` and ``flush`` send frames that were made for many peers (``subscription.Writer``).

    Args:
        stream: the one below the connection.
        sends: how fast messages may come.
        limits: of time.
    """

    def __init__(
        self,
        stream: FrameStream,
        connection: WebSocket,
        encoding: Encoding,
        sends: SessionLimits,
        limits: Limits,
    ) -> None:
        self.encoding = encoding
        self._sends = sends
        self._stream = stream
        self._path = sends.path
        self._connection = connection
        self._unused_s = limits.unused_s
        #: When a session that is not used ends, of trio's clock, and around waiting for a message until then.
        self._unused_until = trio.current_time() + limits.unused_s
        self._unused = trio.CancelScope()
        #: Since when a message is waited for; None while the session does something else.
        self._receiving_since: float | None = None
        self._send_s = limits.send_s
        self._close_s = limits.close_s
        #: The time at which ``flush`` found that the peer had not read everything; None if it has.
        self._unread_since: float | None = None

    async def receive(self) -> str | bytes:
        """Wait for one message, like ``receive_some``."""
        (message,) = await self.receive_some(1)
        return message.content

    async def receive_some(self, most: int) -> list[Received]:
        """Wait for messages, as many as may be handled in one step; ``ConnectionClosedError`` when the connection has ended.

        A session that is not settled ends after ``unused_s``, with the reason. One that has sent too much is
        left alone for a while: what it sends then waits in its own buffers (TCP back pressure).
        """
        await self._wait_for_limits()
        self._receiving_since = trio.current_time()
        try:
            messages, size = await self._receive(min(most, self._sends.together_max))
        finally:
            self._receiving_since = None
        self._sends.received(len(messages), size)
        return messages

    async def _wait_for_limits(self) -> None:
        """Wait while too much has come, at most until the connection ends: then the few messages that are here are the last."""
        if self._sends.has_to_wait() and not self._connection.has_ended:
            with suppress(ConnectionClosedError), self.connected():
                await self._sends.wait()

    async def _receive(self, most: int) -> tuple[list[Received], int]:
        if self._unused_until == math.inf:  # a scope costs as much as a small message
            return await self._connection.get_messages(most)
        with trio.CancelScope(deadline=self._unused_until) as self._unused:
            return await self._connection.get_messages(most)
        await self.drop(SILENT, f"{_WANTED.get(self._path, 'no message')} came within {self._unused_s:g} s")
        raise ConnectionClosedError

    def gather_while(self, is_answering: Callable[[], bool], *, goes_on: bool) -> None:
        """Let small messages gather that come while earlier ones have no answer, so that they share a turn (``GATHER_S``).

        Args:
            goes_on: let them gather also after that, while several come together: then they share a commit too, which takes
                longer than a turn.
        """
        self._connection.is_answering, self._connection.goes_on_gathering = is_answering, goes_on

    def answered(self) -> None:
        """The peer has got all answers: what gathers is read soon."""
        self._connection.answered()

    def settle(self) -> None:
        """The session is used for what it is there for: from now on it may wait for messages as long as it likes."""
        self._unused_until = self._unused.deadline = math.inf

    @contextmanager
    def working(self) -> Iterator[None]:
        """The session does what the peer has asked for within this block: meanwhile no message is missed."""
        self._unused.deadline = math.inf
        try:
            yield
        finally:
            self._unused.deadline = self._unused_until

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Raises ``ConnectionClosedError`` when the connection ends within this block, which waits for something else."""
        with trio.CancelScope() as scope:
            self._connection.on_end = scope.cancel
            if self._connection.has_ended:
                scope.cancel()
            yield
        if scope.cancelled_caught:
            raise ConnectionClosedError

    async def keep_alive(self, ping_s: float) -> None:
        """Send a ping every ``ping_s`` seconds, and end the connection when one is not answered in as much time.

        While the session takes no messages the answer may be behind them, and does not count as missing.
        """
        with suppress(ConnectionClosedError):
            while True:
                await trio.sleep(ping_s)
                began_s = trio.current_time()
                with trio.move_on_after(ping_s) as deadline:
                    await self._connection.ping()
                since_s = self._receiving_since
                if deadline.cancelled_caught and since_s is not None and since_s <= began_s:
                    await self.drop(SILENT, f"no answer to a ping came within {ping_s:g} s")
                    return

    async def send(self, message: Struct) -> None:
        """Send one message, as ``send_encoded`` does."""
        await self.send_encoded([self.encoding.encode(message)], self.encoding)

    async def tell_of_journal(self, notices: Notices) -> None:
        """Tell what has changed of the journal, if anything: a request is not answered before it is durable."""
        if (notice := notices.next()) is not None:
            await self.send(journal_status(notice))

    async def send_encoded(self, messages: Sequence[bytes], encoding: Encoding) -> None:
        """Send messages that were encoded in ``encoding``; another one than that of the peer is only possible for responses.

        No checkpoint if they are small, and the connection takes them.

        Raises ``ConnectionClosedError`` if the connection has ended, or the peer does not read for ``send_s``: small messages
        are sent together, and count as one.

        Nothing can follow a part of a frame, not even a close frame. So a peer that does not read has ``close_s`` more to take
        the message; if it does, the close frame with the reason follows.
        """
        frames, size = list[bytes](), 0
        for data in messages:
            if encoding is not self.encoding:
                data = self.encoding.encode(encoding.decode_response(data))
            frames.append(frame(data, is_text=self.encoding is JSON))
            size += len(data)
            if size > _TOGETHER_BYTES:
                await self._send_in_time(partial(self._connection.send_frames, b"".join(frames)))
                frames, size = [], 0
        if frames:
            last = b"".join(frames)
            sent = self._connection.send_now(last)
            if sent < len(last):
                await self._send_in_time(partial(self._connection.send_frames, last[sent:]))

    async def _send_in_time(self, send: Callable[[], Awaitable[None]]) -> None:
        began_s = trio.current_time()
        with trio.move_on_after(self._send_s + self._close_s) as deadline:
            await send()
        if trio.current_time() - began_s > self._send_s:
            await self._drop_stalled(is_stuck=deadline.cancelled_caught)

    async def _drop_stalled(self, *, is_stuck: bool) -> None:
        """Drop the peer; if it is stuck in a frame, no close frame can follow."""
        reason = f"a message was not read within {self._send_s:g} s"
        self._log_drop(STALLED, reason)  # first: the session is cancelled when the stream is closed
        if is_stuck:
            await trio.aclose_forcefully(self._stream)
        await self.close(STALLED, reason)
        raise ConnectionClosedError

    # ---- frames that were made for many peers

    def write(self, packed: Frames) -> bool:
        """Write frames behind everything before, nothing after the close frame; whether there is room for more."""
        return not self._connection.is_closing and self._stream.write(packed)

    def flush(self) -> bool:
        """Send what was written as far as the connection takes it; whether nothing is left."""
        is_sent = self._stream.flush()
        if is_sent:
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = trio.current_time()
        return is_sent

    @property
    def is_overdue(self) -> bool:
        """True if the peer has not read what was written for ``send_s``."""
        return self._unread_since is not None and trio.current_time() - self._unread_since > self._send_s

    async def send_packed(self, packed: Frames) -> None:
        """Send frames as ``send`` sends a message."""
        self.write(packed)
        await self._send_in_time(partial(self._stream.send_all, b""))

    async def send_rest(self) -> None:
        """Send what is left of an overdue write, and drop the peer; as in ``send`` it has ``close_s`` to take it."""
        with trio.move_on_after(self._close_s) as deadline:
            await self._stream.send_all(b"")
        await self._drop_stalled(is_stuck=deadline.cancelled_caught)

    # ---- the end

    async def drop(self, code: int, reason: str) -> None:
        """Close the connection because of what the peer does or fails to do, and log it: the peer may not get the reason."""
        self._log_drop(code, reason)
        await self.close(code, reason)

    def _log_drop(self, code: int, reason: str) -> None:
        log_event(logger, logging.INFO, "peer_dropped", path=self._path, code=code, reason=reason)

    async def close(self, code: int = 1000, reason: str | None = None) -> None:
        """Close the connection with a reason; gives up if the peer does not answer the closing handshake in time."""
        with trio.move_on_after(self._close_s):
            await self._connection.aclose(code, reason)


def journal_status(notice: Stalled | Resumed) -> si.JournalStatus:
    """The message for a change of the journal."""
    if isinstance(notice, Resumed):
        return si.JournalStatus(writable=True)
    return si.JournalStatus(writable=False, since_nano=notice.since_ns, reason=shortened(notice.reason))


def error_response(error: ProtocolError, request_id: str = "") -> si.ErrorResponse:
    """The response to a wrong message. What it repeats of the message may be too long, and is cut.

    The text has room for the summary of the mistakes of a configuration, which ends with their number.
    """
    return si.ErrorResponse(
        code=error.code,
        message=shortened(error.message, 8 * TEXT_MAX),
        path=shortened(error.path),
        id=shortened(error.request_id or request_id),
    )


# ---- requests; one with a large configuration is read by a separate process, so that nobody waits for it

R = TypeVar("R", bound=si.Request | si.OperatorRequest)

#: A method of an encoding that decodes a kind of requests.
Decoding = Callable[[Encoding, bytes | str], Steps[R]]

#: The time limit of the process.
READ_S = 60.0
_PART_BYTES = 2**18
_NOT_READ = "the process that reads a large request failed"


class _Found(Struct, tag=True):
    """A request: encoded, without its configuration, which follows."""

    request: bytes


class _Refused(Struct, tag=True):
    """The fields of a ``ProtocolError``."""

    code: str
    message: str
    path: str
    request_id: str


_outcomes = msgspec.msgpack.Decoder(_Found | _Refused)
_SIZE_BYTES = 4


async def read_request(decoding: Decoding[R], encoding: Encoding, message: bytes | str) -> R:
    """The request of a message, with pauses.

    Args:
        decoding: a method of ``Encoding``.

    Raises:
        ProtocolError: it is wrong, or has more than ``REQUEST_MAX`` bytes and no configuration.
    """
    if size_of(message) <= REQUEST_MAX:
        return await drive(decoding(encoding, message))
    raw = message.encode() if isinstance(message, str) else message
    try:
        return await _received(decoding, await in_helper_process(_read, raw, encoding.name, decoding.__name__, limit_s=READ_S))
    except trio.TooSlowError:
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: it took longer than {READ_S:g} s", "config") from None
    except (HelperProcessError, ValueError) as error:  # its output is wrong if another version was installed meanwhile
        raise ProtocolError("UNAVAILABLE", f"{_NOT_READ}: {error}", "config") from None


async def _received(decoding: Decoding[R], data: bytes) -> R:
    start = _SIZE_BYTES + int.from_bytes(data[:_SIZE_BYTES], "big")
    outcome = _outcomes.decode(data[_SIZE_BYTES:start])
    if isinstance(outcome, _Refused):
        raise ProtocolError(outcome.code, outcome.message, outcome.path, outcome.request_id)
    request = finished(decoding(MSGPACK, outcome.request))
    decode, parts = getincrementaldecoder("utf-8")().decode, list[str]()
    for at in range(start, len(data), _PART_BYTES):
        parts.append(decode(data[at : at + _PART_BYTES]))
        await pause()
    assert isinstance(request, si.UpdateConfigurationRequest | si.RegisterResourceManagerRequest), "it has a configuration"
    return cast("R", structs.replace(request, config="".join(parts)))


def _read(data: bytes, encoding_name: str, decoding_name: str) -> bytes:
    """The outcome of a message, followed by its configuration."""
    text = ""
    outcome: _Found | _Refused
    try:
        request = finished(getattr(Encoding, decoding_name)(ENCODINGS[encoding_name], data))
        text = getattr(request, "config", "")
        if not text:
            found = f"found a request of {len(data)} bytes without a configuration"
            raise ProtocolError("OUT_OF_RANGE", f"{found}, expected at most {REQUEST_MAX}: split it", "", request.id)
        outcome = _Found(MSGPACK.encode(structs.replace(request, config="")))
    except ProtocolError as error:
        outcome = _Refused(error.code, error.message, error.path, error.request_id)
    head = msgspec.msgpack.encode(outcome)
    return len(head).to_bytes(_SIZE_BYTES, "big") + head + text.encode()
