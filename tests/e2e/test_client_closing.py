"""How the client closes a connection."""

from functools import partial

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request

from ykactor.client.connection import open_connection

#: An empty ping of a server.
PING = b"\x89\x00"


async def ping_while_closing(stream: trio.SocketStream) -> None:
    """Accept a connection, and ping it as soon as it closes, before the close is answered."""
    protocol = WSConnection(ConnectionType.SERVER)
    async for data in stream:
        protocol.receive_data(data)
        for event in protocol.events():
            if isinstance(event, Request):
                await stream.send_all(protocol.send(AcceptConnection()))
            elif isinstance(event, CloseConnection):
                await stream.send_all(PING + protocol.send(event.response()))
                return


async def test_a_ping_that_crosses_the_close_is_not_answered(nursery: trio.Nursery) -> None:
    """Nothing may follow a close frame (RFC 6455, 5.5.1); a daemon pings whoever has been silent for long."""
    serve = partial(trio.serve_tcp, ping_while_closing, 0, host="127.0.0.1")
    listeners: list[trio.SocketListener] = await nursery.start(serve)
    port = listeners[0].socket.getsockname()[1]
    async with open_connection(f"ws://127.0.0.1:{port}", "/v1/feed") as connection:
        pass
    assert connection.closed is not None
    assert connection.closed.code == 1000
    nursery.cancel_scope.cancel()
