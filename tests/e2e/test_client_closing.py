"""The client's closing of a connection."""

from functools import partial

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request

from ykactor.client import Disconnected, connection
from ykactor.client.connection import SILENT_S, MessageStream, open_connection
from ykactor.wire.si.codec import JSON

#: An empty ping of a server.
PING = b"\x89\x00"


async def ping_while_closing(received: list[bytes], stream: trio.SocketStream) -> None:
    """Accept a connection, and ping it as soon as it closes, before the close is answered; note what comes then."""
    protocol = WSConnection(ConnectionType.SERVER)
    async for data in stream:
        protocol.receive_data(data)
        for event in protocol.events():
            if isinstance(event, Request):
                await stream.send_all(protocol.send(AcceptConnection()))
            elif isinstance(event, CloseConnection):
                await stream.send_all(PING + protocol.send(event.response()))
                await stream.send_eof()
                received += [bytes(rest) async for rest in stream]
                received.append(b"the end")


async def test_a_ping_that_crosses_the_close_is_not_answered(nursery: trio.Nursery) -> None:
    """Nothing may follow a close frame (RFC 6455, 5.5.1); a daemon pings whoever has been silent for long."""
    received: list[bytes] = []
    serve = partial(trio.serve_tcp, partial(ping_while_closing, received), 0, host="127.0.0.1")
    listeners: list[trio.SocketListener] = await nursery.start(serve)
    port = listeners[0].socket.getsockname()[1]
    async with open_connection(f"ws://127.0.0.1:{port}", "/v1/feed"):
        pass
    with trio.fail_after(60):
        while not received:  # noqa: ASYNC110
            await trio.sleep(0.001)
    assert received == [b"the end"]
    nursery.cancel_scope.cancel()


async def test_a_daemon_that_says_nothing_is_gone(
    autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pings keep a connection open; without any the machine of the daemon is gone, and who only reads tries another address."""
    ours, theirs = memory_stream_pair()

    async def connected(*_: object) -> trio.StapledStream:  # type: ignore[type-arg]
        return ours

    async def ping_for_a_while() -> None:
        protocol = WSConnection(ConnectionType.SERVER)
        while not any(isinstance(event, Request) for event in protocol.events()):
            protocol.receive_data(bytes(await theirs.receive_some()))
        await theirs.send_all(protocol.send(AcceptConnection()))
        for _ in range(20):
            await trio.sleep(60)
            await theirs.send_all(PING)

    monkeypatch.setattr(connection, "open_stream", connected)
    with trio.fail_after(3600):
        nursery.start_soon(ping_for_a_while)
        with pytest.raises(Disconnected, match="stands still, or the network failed"):
            async with open_connection("ws://127.0.0.1:1", "/v1/feed") as opened:
                await MessageStream(opened, JSON).receive()
    assert trio.current_time() == 20 * 60 + SILENT_S
