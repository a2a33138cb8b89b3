"""A trio client for the daemon: be a resource manager, or follow the event feed.

Messages are the structs of `ykactor.wire.si`.

Examples
--------
A resource manager with one node and one task, which waits until the task may run::

    from ykactor.client import connect
    from ykactor.wire import si

    async def run_one_task(url):
        node = si.NodeInfo(node_id="n1", action="CREATE", schedulable_resource={"vcore": "4", "memory": "8Gi"})
        app = si.AddApplicationRequest(application_id="app-1", queue_name="root.default")
        task = si.Allocation(allocation_key="t1", application_id="app-1", resource_per_alloc={"vcore": "500m"})
        async with connect(url, rm_id="example") as rm:
            await rm.request(si.NodeRequest(nodes=[node]))
            await rm.request(si.ApplicationRequest(new=[app]))
            await rm.request(si.AllocationRequest(allocations=[task]))
            async for response in rm:
                if isinstance(response, si.AllocationResponse) and response.new:
                    return response.new[0].node_id

A follower that prints what happens in one queue and everything below it::

    from ykactor.client import follow

    async def print_queue(url):
        async with follow(url, queues=["root.default"]) as messages:
            async for message in messages:
                print(message)
"""

import random
import secrets
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import trio
from msgspec import UNSET, Struct, structs
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream

from ykactor.wire import si
from ykactor.wire.codec import ENCODINGS, Encoding, ProtocolError

#: A connection that is not open after this long has failed; a closing handshake that takes longer is cut off.
CONNECT_S = 10.0
CLOSE_S = 2.0
#: Snapshots are single messages, and a large cluster's is large.
MESSAGE_BYTES_MAX = 2**28
#: Messages that wait for a reader before TCP makes the daemon wait.
WAITING_MAX = 10_000
#: The first and the longest pause before a follower connects again; each is between half and all of it.
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0


class Disconnected(Exception):
    """There is no connection to the daemon: it could not be made, or it was lost or closed. The message says why."""


class RequestRefused(Exception):
    """The daemon refused a request; nothing of it took effect.

    Attributes
    ----------
    code : str
        For programs, for example ``WRONG_TYPE``.
    message : str
        For people.
    path : str
        Where in the request, for example ``nodes[0].action``; may be empty.
    """

    def __init__(self, code: str, message: str, path: str = "") -> None:
        super().__init__(f"{code}: {path}: {message}" if path else f"{code}: {message}")
        self.code = code
        self.message = message
        self.path = path


# ---- connections


@asynccontextmanager
async def open_connection(
    url: str, path: str, *, subprotocols: Sequence[str] = (), headers: Sequence[tuple[bytes, bytes]] = ()
) -> AsyncIterator[WebSocketConnection]:
    """Connect to the daemon and close everything at the end.

    Parameters
    ----------
    url : str
        ``ws://HOST:PORT`` or ``wss://HOST:PORT``.
    path : str
        ``/v1/rm`` or ``/v1/feed``.
    subprotocols, headers
        Of the handshake.

    Raises
    ------
    Disconnected
        The connection could not be made; ``__cause__`` is why.
    ValueError
        The URL is not one.
    """
    failure: BaseException | None = None
    try:
        # The library leaves the socket open when the other side ends the conversation, hence a stream of our own.
        async with await _open_stream(url) as stream, trio.open_nursery() as nursery:
            with trio.fail_after(CONNECT_S):
                connection = await wrap_client_stream(
                    nursery,
                    stream,
                    urlsplit(url).netloc.rpartition("@")[2],
                    path,
                    subprotocols=subprotocols,
                    extra_headers=list(headers),
                    message_queue_size=WAITING_MAX,
                    max_message_size=MESSAGE_BYTES_MAX,
                    receive_buffer_size=2**16,
                )
            try:
                yield connection
            except Exception as error:  # handed on below, as it is and not in the nursery's group
                failure = error
            with trio.move_on_after(CLOSE_S):
                await connection.aclose()
            nursery.cancel_scope.cancel()
    except* (OSError, trio.TooSlowError, ConnectionRejected, ConnectionClosed) as errors:
        failure = failure or _disconnected(url, errors)
    if failure is not None:
        raise failure


async def _open_stream(url: str) -> trio.SocketStream | trio.SSLStream[trio.SocketStream]:
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise ValueError(f"found {url}, expected ws://HOST:PORT or wss://HOST:PORT")
    with trio.fail_after(CONNECT_S):
        if parts.scheme == "ws":
            return await trio.open_tcp_stream(parts.hostname, parts.port or 80)
        context = ssl.create_default_context()
        return await trio.open_ssl_over_tcp_stream(
            parts.hostname, parts.port or 443, ssl_context=context, https_compatible=True
        )


def _disconnected(url: str, errors: BaseExceptionGroup[Exception]) -> Disconnected:
    """The first real cause of a group."""
    cause: BaseException = errors
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    match cause:
        case ConnectionRejected(status_code=status, body=body):
            reason = f"answered {status} {(body or b'').decode(errors='replace').strip()}".rstrip()
        case trio.TooSlowError():
            reason = f"no answer within {CONNECT_S:g} s"
        case _:
            reason = str(cause) or type(cause).__name__
    disconnected = Disconnected(f"{url}: {reason}")
    disconnected.__cause__ = cause
    return disconnected


class _Speaker:
    """Whole messages over a connection in one encoding."""

    def __init__(self, connection: WebSocketConnection, encoding: Encoding) -> None:
        self._connection = connection
        self._encoding = encoding
        self._is_text = encoding.name.endswith(".json")

    async def send(self, message: Struct) -> None:
        data = self._encoding.encode(message)
        try:
            await self._connection.send_message(data.decode() if self._is_text else data)
        except ConnectionClosed as closed:
            raise _closed(closed) from None

    async def receive(self) -> str | bytes:
        try:
            return await self._connection.get_message()
        except ConnectionClosed as closed:
            raise _closed(closed) from None


def _closed(closed: ConnectionClosed) -> Disconnected:
    reason = closed.reason
    if reason is None:
        return Disconnected("the connection is closed")
    return Disconnected(f"the connection was closed: {reason.code} {reason.reason or reason.name}")


# ---- resource managers


class ResourceManager:
    """A registered session; made by `connect`. Iterate over it to get the daemon's messages.

    Several tasks may use it at the same time.

    Attributes
    ----------
    sequence : int
        The number of the newest message received; pass it as ``resume_from`` to `connect` after a lost connection.
    """

    def __init__(self, connection: WebSocketConnection, encoding: Encoding, sequence: int) -> None:
        self.sequence = sequence
        self._decode = encoding.decode_response
        self._speaker = _Speaker(connection, encoding)
        #: Whoever waits for something reads for all.
        self._reading = trio.Lock()
        self._responses: deque[si.Response] = deque()
        #: Answers to requests that somebody waits for; None until there is one.
        self._answers: dict[str, si.Ack | si.ErrorResponse | None] = {}
        #: Old acknowledgements may come again after a resume: ids of two sessions must differ.
        self._id_prefix = secrets.token_hex(4)
        self._ids_count = 0

    async def send(self, request: si.Request) -> None:
        """Send a request and do not wait; with an ``id``, its `si.Ack` or `si.ErrorResponse` is iterated over like the rest.

        Raises
        ------
        Disconnected
        """
        await self._speaker.send(request)

    async def request(self, request: si.Request) -> si.Ack:
        """Send a request and wait until it is accepted; by then everything that it caused directly has arrived.

        Parameters
        ----------
        request : si.Request
            Its ``id`` is replaced.

        Raises
        ------
        RequestRefused
            Nothing of the request took effect.
        Disconnected
            Whether the request took effect is unknown: register again with ``resume_from`` to learn what happened.
        """
        self._ids_count += 1
        request_id = f"{self._id_prefix}-{self._ids_count}"
        self._answers[request_id] = None
        try:
            await self._speaker.send(structs.replace(request, id=request_id))
            await self._receive_until(lambda: self._answers[request_id] is not None)
        finally:
            answer = self._answers.pop(request_id)
        if isinstance(answer, si.ErrorResponse):
            raise RequestRefused(answer.code, answer.message, answer.path)
        assert answer is not None, "waited for it above"
        return answer

    def __aiter__(self) -> "ResourceManager":
        return self

    async def __anext__(self) -> si.Response:
        """The next message that answers no `request`. Raises `Disconnected` at the end of the connection."""
        await self._receive_until(lambda: bool(self._responses))
        return self._responses.popleft()

    async def _receive_until(self, is_there: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not is_there():
            async with self._reading:
                if not is_there():
                    self._sort(self._decode(await self._speaker.receive()))

    def _sort(self, message: si.Response) -> None:
        self.sequence = message.sequence or self.sequence
        if isinstance(message, si.Ack | si.ErrorResponse) and message.id in self._answers:
            self._answers[message.id] = message
        elif not isinstance(message, si.RegisterResourceManagerResponse):
            self._responses.append(message)


@asynccontextmanager
async def connect(
    url: str,
    *,
    rm_id: str,
    encoding: str = "json",
    config: str = "",
    resume_from: int | None = None,
) -> AsyncIterator[ResourceManager]:
    """Register as a resource manager.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``.
    rm_id : str
        Who you are. One session at a time: an older one with this id is closed.
    encoding : {"json", "msgpack"}
    config : str
        A queue configuration to put into force; empty keeps what runs.
    resume_from : int, optional
        The number of the last message that you know (`ResourceManager.sequence`): everything is kept and what you missed
        comes first. Without it the daemon forgets your nodes and applications and you report them again.

    Raises
    ------
    RequestRefused
        ``RESYNC_REQUIRED``: register without ``resume_from``. ``ALREADY_REGISTERED``: there is another resource manager.
    Disconnected
        Now or, from the session's methods, later.

    Examples
    --------
    See the module's.
    """
    spoken = _encoding(encoding)
    async with open_connection(url, "/v1/rm", subprotocols=[spoken.name]) as connection:
        session = ResourceManager(connection, spoken, resume_from or 0)
        await session.request(
            si.RegisterResourceManagerRequest(
                rm_id=rm_id, config=config, resume_from=UNSET if resume_from is None else resume_from
            )
        )
        yield session


def _encoding(name: str) -> Encoding:
    subprotocol = f"ykactor.v1.{name}"
    if subprotocol not in ENCODINGS:
        raise ValueError(f"found {name!r}, expected json or msgpack")
    return ENCODINGS[subprotocol]


# ---- followers

FollowedMessage = si.EventRecord | si.Snapshot | si.Lagged


class Follower:
    """What `follow` yields; iterate over it."""

    def __init__(self, url: str, encoding: Encoding, subscribe: si.Subscribe, rng: random.Random) -> None:
        self._url = url
        self._encoding = encoding
        self._subscribe = subscribe
        self._rng = rng
        self._told, self._messages = trio.open_memory_channel[FollowedMessage](0)
        #: Set when the daemon has confirmed the subscription for the first time, or when it will not.
        self.begun = trio.Event()
        self._failure: Exception | None = None

    def __aiter__(self) -> "Follower":
        return self

    async def __anext__(self) -> FollowedMessage:
        try:
            return await self._messages.receive()
        except trio.EndOfChannel:
            assert self._failure is not None, "the channel ends only then"
            raise self._failure from None

    async def run(self) -> None:
        """Listen for ever, over as many connections as it takes."""
        attempt = 0
        try:
            while True:
                began_from = self._subscribe.from_
                try:
                    async with open_connection(self._url, "/v1/feed", subprotocols=[self._encoding.name]) as connection:
                        await self._listen(_Speaker(connection, self._encoding))
                except Disconnected:
                    if not self.begun.is_set():
                        raise
                except RequestRefused as refused:
                    # The daemon has started anew and does not know our numbers: begin with its state.
                    if not (self.begun.is_set() and refused.code == "RESYNC_REQUIRED"):
                        raise
                    self._resume_from("snapshot")
                attempt = 0 if self._subscribe.from_ != began_from else attempt + 1
                pause_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**min(attempt, 16))
                await trio.sleep(pause_s * self._rng.uniform(0.5, 1))
        except (Disconnected, RequestRefused, ProtocolError, ValueError) as error:
            self._failure = error
            self.begun.set()
            self._told.close()

    async def _listen(self, speaker: _Speaker) -> None:
        await speaker.send(self._subscribe)
        while True:
            message = self._encoding.decode_feed(await speaker.receive())
            if isinstance(message, si.ErrorResponse):
                raise RequestRefused(message.code, message.message, message.path)
            self.begun.set()
            await self._tell(message)

    async def _tell(self, message: si.Events | si.Snapshot | si.Bookmark | si.Lagged) -> None:
        match message:
            case si.Events(events=events):
                for event in events:
                    await self._told.send(event)
                    self._resume_from(event.sequence)
            case si.Bookmark(sequence=sequence):
                self._resume_from(sequence)
            case si.Snapshot(sequence=sequence):
                await self._told.send(message)
                self._resume_from(sequence)
            case si.Lagged(to=to):
                await self._told.send(message)
                self._resume_from(to)

    def _resume_from(self, place: int | str) -> None:
        self._subscribe = structs.replace(self._subscribe, from_=place)


@asynccontextmanager
async def follow(
    url: str,
    *,
    from_: int | str = "now",
    partitions: Sequence[str] = (),
    queues: Sequence[str] = (),
    applications: Sequence[str] = (),
    kinds: Sequence[str] = (),
    encoding: str = "json",
    rng: random.Random | None = None,
) -> AsyncIterator[Follower]:
    """Follow the event feed; a lost connection is made again and resumed where it was, without gap or repetition.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``.
    from_ : int or {"now", "snapshot"}
        Begin with what happens from now on, with the present state, or behind this sequence number.
    partitions, queues, applications, kinds : sequence of str
        What to see; empty is everything. A queue stands for all below it too; a kind is a type (``APP``) or a detail
        (``APP_RUNNING``).
    encoding : {"json", "msgpack"}
    rng : random.Random, optional
        Spreads the pauses between attempts to connect, so that many followers do not come back at once.

    Yields
    ------
    Follower
        Iterates over `si.EventRecord`, `si.Snapshot` (the state at its sequence) and `si.Lagged` (these events are gone).
        A daemon that has forgotten its numbers makes a follower begin anew, with a `si.Snapshot`.
        Iteration raises `Disconnected` when the very first connection fails, `RequestRefused` when the subscription is wrong.

    Examples
    --------
    See the module's.
    """
    subscribe = si.Subscribe(
        from_=from_,
        partitions=list(partitions),
        queues=list(queues),
        applications=list(applications),
        kinds=list(kinds),
    )
    follower = Follower(url, _encoding(encoding), subscribe, rng or random.Random())
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follower.run)
        await follower.begun.wait()
        try:
            yield follower
        except Exception as error:  # handed on below, as it is and not in the nursery's group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
