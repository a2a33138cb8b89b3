"""The client's closing of a connection."""

from functools import partial

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request

from ykactor.client.connection import open_connection

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
