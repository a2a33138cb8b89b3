"""A client that is cancelled while it sends: its message is sent whole, or not at all."""

from contextlib import suppress
from functools import partial

import trio
from daemon import node
from trio.testing import wait_all_tasks_blocked
from trio_websocket import ConnectionClosed, serve_websocket

from ykactor.client.connection import MessageStream, open_connection
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

LONG = si.UpdateConfigurationRequest(config="#" * 2**24)


async def test_a_message_whose_sender_is_cancelled_is_sent_whole():
    """The next one is not taken for the rest of it."""
    received, reads, has_all = [], trio.Event(), trio.Event()

    async def serve(request):
        connection = await request.accept(subprotocol=JSON.name)
        await reads.wait()
        with suppress(ConnectionClosed):
            while len(received) < 4:
                received.append(JSON.decode_request(await connection.get_message()))
        has_all.set()

    async with trio.open_nursery() as nursery:
        # Without a queue the library reads nothing more while nobody has taken the first message.
        options = {"message_queue_size": 0, "max_message_size": 2**25}
        server = await nursery.start(partial(serve_websocket, serve, "127.0.0.1", 0, ssl_context=None, **options))
        async with open_connection(f"ws://127.0.0.1:{server.port}", "/", subprotocols=[JSON.name]) as connection:
            stream = MessageStream(connection, JSON)
            await stream.send(node("first"))
            async with trio.open_nursery() as sending:
                sending.start_soon(stream.send, LONG)
                sending.start_soon(stream.send, LONG)
                await wait_all_tasks_blocked(0.05)  # the buffers of the sockets are full
                sending.cancel_scope.cancel()
            reads.set()
            await stream.send(node("later"))
            with trio.fail_after(60):
                await has_all.wait()
        nursery.cancel_scope.cancel()
    assert received == [node("first"), LONG, LONG, node("later")]


async def test_who_is_cancelled_before_sends_nothing():
    """The connection goes on."""
    received = trio.Event()

    async def serve(request):
        connection = await request.accept(subprotocol=JSON.name)
        assert JSON.decode_request(await connection.get_message()) == node("later")
        received.set()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve_websocket, serve, "127.0.0.1", 0, ssl_context=None))
        async with open_connection(f"ws://127.0.0.1:{server.port}", "/", subprotocols=[JSON.name]) as connection:
            stream = MessageStream(connection, JSON)
            with trio.CancelScope() as cancelled:
                cancelled.cancel()
                await stream.send(node("first"))
            await stream.send(node("later"))
            with trio.fail_after(60):
                await received.wait()
        nursery.cancel_scope.cancel()
