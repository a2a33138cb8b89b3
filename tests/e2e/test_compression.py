"""Compressed messages over real sockets; the other end is the websocket library's own extension, or raw bytes."""

import random
import zlib
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec
import pytest
import trio
from costs import Memory
from doubles import running_daemon
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Message, Pong, Request, TextMessage
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import FrameProtocol, Opcode

from ykactor.actors.commands import Publication
from ykactor.actors.ring import TAKE_BYTES_MAX
from ykactor.client import follow
from ykactor.core.messages.facts import ApplicationAdded, NodeRemoved
from ykactor.surfaces.sessions import feed_session
from ykactor.surfaces.sessions.peer import Limits
from ykactor.wire.compression import compressed

SUBSCRIBE = b'{"type":"Subscribe","from":0}'


class Follower:
    """A follower that knows the library's protocol only; ``offers`` is whether it offers to decompress."""

    def __init__(self, stream, encoding, offers):
        self.stream = stream
        self.format = {"json": msgspec.json, "msgpack": msgspec.msgpack}[encoding]
        self.is_text = encoding == "json"
        self.protocol = WSConnection(ConnectionType.CLIENT)
        self.extensions = [PerMessageDeflate()] if offers else []
        #: Bytes that came, and bytes of the messages in them.
        self.received = self.decoded = 0
        self._events = iter(())

    async def open(self, path):
        subprotocols = [f"ykactor.v1.{'json' if self.is_text else 'msgpack'}"]
        request = Request(host="127.0.0.1", target=path, extensions=self.extensions, subprotocols=subprotocols)
        await self.stream.send_all(self.protocol.send(request))
        assert isinstance(await self._event(), AcceptConnection)

    async def send(self, **message):
        data = self.format.encode(message)
        event = TextMessage(data.decode()) if self.is_text else BytesMessage(data)
        await self.stream.send_all(self.protocol.send(event))

    async def receive(self):
        """The next message, or the code and reason with which the connection was closed."""
        whole = b""
        while True:
            event = await self._event()
            if isinstance(event, CloseConnection):
                return event.code, event.reason
            assert isinstance(event, Message)
            whole += event.data.encode() if self.is_text else event.data
            if event.message_finished:
                self.decoded += len(whole)
                return self.format.decode(whole)

    async def subscribe(self, **wanted):
        await self.send(type="Subscribe", **{"from": 0}, **wanted)
        assert (await self.receive())["type"] == "Bookmark"

    async def _event(self):
        while (event := next(self._events, None)) is None or isinstance(event, Pong):
            data = await self.stream.receive_some()
            self.received += len(data)
            self.protocol.receive_data(data or None)
            self._events = self.protocol.events()
        return event


@asynccontextmanager
async def follower(daemon, *, encoding="json", offers=True, path="/v1/feed"):
    async with await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2])) as stream:
        made = Follower(stream, encoding, offers)
        await made.open(path)
        yield made


async def publish(daemon, *facts):
    await daemon.feed.inbox.put(Publication("default", list(facts)))
    await daemon.feed.published("default")


# ---- handshake


async def shaken(daemon, offer, path="/v1/feed"):
    """The ``Sec-WebSocket-Extensions`` of the answer to this offer; None without."""
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Sec-WebSocket-Extensions: {offer}", "", ""]
    async with await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2])) as stream:
        await stream.send_all("\r\n".join(lines).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await stream.receive_some()
    status, *headers = answer.decode().split("\r\n")
    assert " 101 " in status
    found = [line.partition(": ")[2] for line in headers if line.lower().startswith("sec-websocket-extensions:")]
    assert len(found) <= 1
    return found[0] if found else None


ACCEPTED = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"


@pytest.mark.parametrize(
    "offer",
    [
        "permessage-deflate",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; client_max_window_bits=9; client_no_context_takeover",
        'permessage-deflate;server_no_context_takeover;client_max_window_bits="15"',
        "x-unknown, permessage-deflate; server_max_window_bits=9, permessage-deflate, permessage-deflate",
    ],
)
async def test_what_browsers_and_libraries_offer_is_accepted(offer):
    """The first offer that can be met is accepted once; neither side may refer to the message before."""
    async with running_daemon() as daemon:
        assert await shaken(daemon, offer) == ACCEPTED


@pytest.mark.parametrize("value", ["15", '"15"'])
async def test_the_largest_window_is_confirmed(value):
    """RFC 7692 wants the server to answer this parameter."""
    async with running_daemon() as daemon:
        offer = f"permessage-deflate; server_max_window_bits={value}"
        assert await shaken(daemon, offer) == f"{ACCEPTED}; server_max_window_bits=15"


@pytest.mark.parametrize(
    "offer",
    [
        "x-unknown",
        "permessage-deflate; server_max_window_bits=14",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; client_max_window_bits=16",
        "permessage-deflate; client_max_window_bits=09",
        'permessage-deflate; client_max_window_bits="9',
        "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; unknown",
        "permessage-deflate;",
    ],
)
async def test_an_offer_that_cannot_be_met_is_declined(offer):
    """Smaller windows of the server, unknown, repeated and wrong parameters: the connection goes on without compression."""
    async with running_daemon() as daemon:
        assert await shaken(daemon, offer) is None


async def test_resource_managers_are_not_compressed():
    """Their messages may be large, so compressed ones would cost much to bound."""
    async with running_daemon() as daemon:
        assert await shaken(daemon, "permessage-deflate", "/v1/rm") is None


# ---- events

#: What followers want, and which events that are.
FILTERS = [
    ({}, lambda event: True),
    ({"kinds": ["NODE"]}, lambda event: event["type"] == "NODE"),
    ({"kinds": ["APP"]}, lambda event: event["type"] == "APP"),
    ({"applications": ["app-3"]}, lambda event: "app-3" in (event["objectID"], event.get("referenceID"))),
    ({"partitions": ["default", "other"]}, lambda event: True),
]


async def test_all_followers_get_their_events_in_order():
    """Thirty followers with every filter and encoding, some of which decompress: each has its events, once and in order."""
    chance = random.Random(7)
    async with running_daemon(ring_max=100_000) as daemon, AsyncExitStack() as stack, trio.open_nursery() as nursery:

        async def read(reader, seen):
            while True:
                message = await reader.receive()
                seen += message["events"] if message["type"] == "Events" else []

        readers, all_seen = [], []
        for number in range(30):
            wanted, _ = FILTERS[number % 5]
            reader = follower(daemon, encoding=("json", "msgpack")[number % 2], offers=number % 3 > 0)
            readers.append(await stack.enter_async_context(reader))
            await readers[-1].subscribe(**wanted)
            all_seen.append([])
            nursery.start_soon(read, readers[-1], all_seen[-1])
        for _ in range(60):
            facts = [
                NodeRemoved(0, f"n{chance.randrange(10)}"),
                ApplicationAdded(0, f"app-{chance.randrange(5)}", "root.a", "al"),
            ]
            await publish(daemon, *[chance.choice(facts) for _ in range(chance.choice((1, 30, 400)))])
            await trio.sleep(chance.choice((0, 0.001, 0.02)))
        while len(all_seen[0]) < daemon.feed.ring.sequence:
            await trio.lowlevel.checkpoint()
        expected = [list(filter(FILTERS[number % 5][1], all_seen[0])) for number in range(30)]
        while any(len(seen) < len(wanted) for seen, wanted in zip(all_seen, expected, strict=True)):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert [event["sequence"] for event in all_seen[0]] == list(range(1, daemon.feed.ring.sequence + 1))
    assert all_seen == expected
    assert [reader.received < reader.decoded / 2 for reader in readers] == [number % 3 > 0 for number in range(30)]


async def test_a_message_is_compressed_once_for_all(monkeypatch):
    """Followers of the same filter and encoding share compressed messages, which are made of at most 64 KiB and an event."""
    sizes = []
    monkeypatch.setattr(feed_session, "compressed", lambda message: sizes.append(len(message)) or compressed(message))
    async with running_daemon(ring_max=10_000) as daemon, AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(follower(daemon)) for _ in range(20)]
        await publish(daemon, *[NodeRemoved(0, "n" * 1000)] * 1000)
        for reader in readers:
            await reader.subscribe()
        for reader in readers:
            last = 0
            while last < daemon.feed.ring.sequence:
                last = (await reader.receive())["events"][-1]["sequence"]
    assert len(sizes) < 2 * sum(sizes) / TAKE_BYTES_MAX
    assert max(sizes) < TAKE_BYTES_MAX + 3000


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_our_own_client_decompresses(encoding, monkeypatch):
    """``ykactor.client.follow`` offers it, and yields the same events."""
    made = []
    monkeypatch.setattr(feed_session, "compressed", lambda message: made.append(message) or compressed(message))
    async with running_daemon() as daemon, follow(daemon.url, from_=0, encoding=encoding) as events:
        await publish(daemon, *[NodeRemoved(0, "n1")] * 500)
        assert [(await events.__anext__()).sequence for _ in range(500)] == list(range(1, 501))
    assert made


async def test_lagged_and_goodbye_come_in_their_places():
    """Messages that are not compressed, and the close frame, come between compressed ones."""
    async with running_daemon(ring_max=4) as daemon, follower(daemon) as lagging:
        await publish(daemon, *[NodeRemoved(0, "n1")] * 6)
        await lagging.subscribe()
        assert await lagging.receive() == {"type": "Lagged", "from": 1, "to": 2}
        assert [event["sequence"] for event in (await lagging.receive())["events"]] == [3, 4, 5, 6]
        await publish(daemon, *[NodeRemoved(0, "n1")] * 2)
        daemon.stopping.set()
        assert [event["sequence"] for event in (await lagging.receive())["events"]] == [7, 8]
        assert await lagging.receive() == (1001, "the daemon stops")


# ---- messages of followers


def frame(payload, opcode=Opcode.TEXT, *, is_compressed=True, fin=True):
    """A frame as a client sends it, with these bytes as its payload."""
    protocol = FrameProtocol(client=True, extensions=[])
    data = protocol._serialize_frame(opcode, payload, fin)
    data[0] |= 0x40 if is_compressed else 0
    return bytes(data)


LIMITS = Limits(subscription_bytes_max=10_000)


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_follower_may_compress_within_the_limit(parts):
    """A message that has the largest size after it is decompressed is read, whole or in parts with a ping between."""
    payload = compressed(SUBSCRIBE.ljust(10_000))
    step = -(-len(payload) // parts)
    async with running_daemon(limits=LIMITS) as daemon, follower(daemon) as peer:
        for start in range(0, len(payload), step):
            opcode = Opcode.CONTINUATION if start else Opcode.TEXT
            part = frame(payload[start : start + step], opcode, is_compressed=not start, fin=start + step >= len(payload))
            await peer.stream.send_all(part + frame(b"", Opcode.PING, is_compressed=False))
        assert (await peer.receive())["type"] == "Bookmark"
        await peer.stream.send_all(frame(SUBSCRIBE, is_compressed=False))
        assert (await peer.receive())["type"] == "Bookmark"


@pytest.mark.parametrize("size", [10_001, 2**26])
@pytest.mark.parametrize("step", [10, 2**20])
async def test_a_bomb_is_refused(size, step):
    """The limit holds for what is decompressed, of which nothing more is kept; the session ends as after any large message."""
    bomb = compressed(bytes(size))
    with Memory() as memory:
        async with running_daemon(limits=LIMITS) as daemon, follower(daemon) as peer, trio.open_nursery() as nursery:
            nursery.start_soon(send_until_refused, peer.stream, frame(bomb), step)
            assert await peer.receive() == (1009, "a message has more than 10000 bytes")
            nursery.cancel_scope.cancel()
    assert memory.peak < 2**24


async def send_until_refused(stream, data, step):
    with suppress(trio.BrokenResourceError):
        for start in range(0, len(data), step):
            await stream.send_all(data[start : start + step])


LAST_BLOCK = zlib.compress(SUBSCRIBE, wbits=-15)


async def test_a_last_block_may_end_a_message():
    """The example of RFC 7692, 7.2.3.4, is read: an empty block follows."""
    async with running_daemon() as daemon, follower(daemon) as peer:
        await peer.stream.send_all(frame(LAST_BLOCK + b"\0"))
        assert (await peer.receive())["type"] == "Bookmark"


@pytest.mark.parametrize("payload", [b"\xff" * 10, LAST_BLOCK + bytes(1000)], ids=["garbage", "bytes behind the last block"])
async def test_what_cannot_be_decompressed_ends_the_connection(payload):
    """The connection ends as after a wrong frame; nothing is kept of bytes that belong to no message."""
    async with running_daemon() as daemon, follower(daemon) as peer:
        await peer.stream.send_all(frame(payload))
        assert await peer.receive() == (1006, None)


@pytest.mark.parametrize(("path", "offers"), [("/v1/rm", True), ("/v1/feed", False)])
async def test_compressed_messages_without_negotiation_end_the_connection(path, offers):
    """A resource manager, or a follower that has not offered it, may not compress."""
    async with running_daemon() as daemon, follower(daemon, path=path, offers=offers) as peer:
        assert not any(extension.enabled() for extension in peer.extensions)
        await peer.stream.send_all(frame(compressed(SUBSCRIBE)))
        assert await peer.receive() == (1006, None)


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.CONTINUATION])
async def test_only_the_first_frame_of_a_message_is_marked_as_compressed(opcode):
    """RFC 7692, 6.1: not a control frame, and no later frame."""
    async with running_daemon() as daemon, follower(daemon) as peer:
        await peer.stream.send_all(frame(b"", fin=False) + frame(b"", opcode))
        assert await peer.receive() == (1006, None)
