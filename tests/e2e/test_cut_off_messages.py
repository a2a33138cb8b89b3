"""A client that is cancelled while it sends: nothing may follow half of a message."""

from contextlib import suppress
from functools import partial

import pytest
import trio
from daemon import node
from trio.testing import MemorySendStream, wait_all_tasks_blocked
from trio_websocket import ConnectionClosed, serve_websocket

from ykactor.client import Disconnected
from ykactor.client.connection import MessageStream, _Whole, open_connection
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

LONG = si.UpdateConfigurationRequest(config="#" * 2**24)


async def test_a_message_that_is_cut_off_ends_the_connection():
    """The next one would be taken for the rest of it."""
    received, reads, ended = [], trio.Event(), trio.Event()

    async def serve(request):
        connection = await request.accept(subprotocol=JSON.name)
        await reads.wait()
        with suppress(ConnectionClosed):
            while True:
                received.append(await connection.get_message())
        ended.set()

    async with trio.open_nursery() as nursery:
        # Without a queue the library reads nothing more while nobody has taken the first message.
        options = {"message_queue_size": 0, "max_message_size": 2**25}
        server = await nursery.start(partial(serve_websocket, serve, "127.0.0.1", 0, ssl_context=None, **options))
        async with open_connection(f"ws://127.0.0.1:{server.port}", "/", subprotocols=[JSON.name]) as connection:
            stream = MessageStream(connection, JSON)
            await stream.send(node("first"))
            async with trio.open_nursery() as sending:
                sending.start_soon(stream.send, LONG)
                await wait_all_tasks_blocked(0.05)  # the buffers of the sockets are full
                sending.cancel_scope.cancel()
            assert sending.cancel_scope.cancelled_caught
            with pytest.raises(Disconnected):
                await stream.send(node("later"))
            with pytest.raises(Disconnected), trio.fail_after(60):
                await stream.receive()
        reads.set()
        with trio.fail_after(60):
            await ended.wait()
        nursery.cancel_scope.cancel()
    assert [JSON.decode_request(message).nodes[0].node_id for message in received] == ["first"]


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


async def test_ctrl_c_ends_the_connection():
    """A sender that goes on after it must not send behind half of a message."""

    async def interrupt():
        raise KeyboardInterrupt

    whole = _Whole(MemorySendStream(send_all_hook=interrupt))
    with pytest.raises(KeyboardInterrupt):
        await whole.send_all(b"first")
    with pytest.raises(trio.ClosedResourceError):
        await whole.send_all(b"later")
