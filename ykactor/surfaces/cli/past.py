"""The past of a daemon: its answer to a subscription, then the events that it has in memory up to this answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from msgspec import structs

from ykactor.client import Disconnected, RequestRefused
from ykactor.client.connection import MessageStream, open_connection
from ykactor.client.login import Login
from ykactor.surfaces.cli.urls import Destination
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

#: Seconds that the daemon may be silent: after one without events it says how far it is.
SILENCE_S = 60.0


class Past:
    """A connection that has been told what is now.

    Attributes:
        now: the answer, with the number of the last event.
        missing_queues: those of the wanted queues that do not exist; known when the events come.
    """

    def __init__(self, stream: MessageStream, now: si.Bookmark | si.Snapshot) -> None:
        self.now = now
        self.missing_queues: list[str] = []
        self._stream = stream

    async def events(self, wanted: si.Subscribe) -> AsyncIterator[si.EventRecord | si.Lagged]:
        """The wanted ones up to now, and which are no longer in memory."""
        last = self.now.sequence
        if not last:
            return
        await self._stream.send(structs.replace(wanted, from_=0, term=self.now.term))
        while not isinstance(message := await _receive(self._stream), si.Bookmark) or message.sequence:
            pass  # what the first subscription still had
        self.missing_queues = message.missing_queues
        async for told in up_to(last, self._stream):
            yield told


async def up_to(last: int, stream: MessageStream) -> AsyncIterator[si.EventRecord | si.Lagged]:
    """The messages before event ``last``: events, or that the daemon is there although it shows no more of them."""
    reached = 0
    while reached < last:
        match await _receive(stream):
            case si.Events(events=batch):
                for event in batch:
                    if event.sequence <= last:
                        yield event
                reached = batch[-1].sequence
            case si.Bookmark(sequence=sequence):
                reached = sequence
            case si.Lagged() as lost:
                yield lost
                reached = lost.to


@asynccontextmanager
async def opened(daemon: Destination, from_: str) -> AsyncIterator[Past]:
    """Ask for what is ``now``, or for a ``snapshot``.

    Raises:
        Disconnected, RequestRefused: as `follow` does.
    """
    login = Login(**daemon.login())
    async with open_connection(daemon.url, "/v1/feed", login=login, subprotocols=[JSON.name], compresses=True) as connection:
        stream = MessageStream(connection, JSON)
        await stream.send(si.Subscribe(from_=from_))
        now = await _receive(stream)
        while not isinstance(now, si.Bookmark | si.Snapshot):
            now = await _receive(stream)  # the daemon tells first that it cannot write its journal
        yield Past(stream, now)


async def _receive(stream: MessageStream) -> si.FeedMessage:
    with trio.move_on_after(SILENCE_S):
        message = JSON.decode_feed(await stream.receive())
        if isinstance(message, si.ErrorResponse):
            raise RequestRefused(message.code, message.message, message.path)
        return message
    raise Disconnected(f"no message within {SILENCE_S:g} s, the daemon has too much to do")
