"""A follower that does not read for a while, over a socket whose buffers are full."""

from contextlib import aclosing

import msgspec
import pytest
import trio
from doubles import running_daemon
from seeds import IS_NIGHT
from wsproto import ConnectionType, WSConnection
from wsproto.events import Message, Request, TextMessage

from ykactor.actors.commands import Publication
from ykactor.core.messages.facts import ApplicationAdded


async def messages(stream, protocol):
    """Every message of the daemon."""
    text = ""
    while True:
        for event in protocol.events():
            if isinstance(event, Message):
                text += event.data
                if event.message_finished:
                    yield msgspec.json.decode(text)
                    text = ""
        protocol.receive_data(await stream.receive_some())


@pytest.mark.skipif(not IS_NIGHT, reason="takes half a minute: part of make test-nightly")
async def test_who_reads_again_in_time_is_told_what_it_missed():
    """The follower gets all that was written to it, ``Lagged`` with exactly the events it lacks, then the kept ones (SE-90)."""
    async with running_daemon(ring_max=50) as daemon:
        async with await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2])) as stream:
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
            protocol = WSConnection(ConnectionType.CLIENT)
            await stream.send_all(protocol.send(Request(host="127.0.0.1", target="/v1/feed")))
            protocol.receive_data(await stream.receive_some())
            await stream.send_all(protocol.send(TextMessage('{"type": "Subscribe"}')))
            while not daemon.feed.fan_out.waiting:
                await trio.lowlevel.checkpoint()
            for number in range(300):
                fact = ApplicationAdded(0, f"{number}".ljust(30_000, "a"), "root.a", "alice")
                await daemon.feed.inbox.put(Publication("default", [fact]))
                await daemon.feed.published("default")
            newest, last, lagged = daemon.feed.ring.sequence, 0, []
            async with aclosing(messages(stream, protocol)) as received:
                async for message in received:
                    for event in message.get("events", ()):
                        assert event["sequence"] == last + 1
                        last = event["sequence"]
                    if message["type"] == "Lagged":
                        assert message["from"] == last + 1
                        last = message["to"]
                        lagged.append(last)
                    if last == newest:
                        break
        assert lagged[-1] == newest - 50
