"""Follow the event feed."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio
from msgspec import structs

from ykactor.client.connection import Disconnected, RequestRefused, Speaker, encoding_named, open_connection
from ykactor.wire import si
from ykactor.wire.codec import Encoding, ProtocolError

#: The first and the longest pause before a follower connects again; each is between half and all of it.
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0

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
                        await self._listen(Speaker(connection, self._encoding))
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

    async def _listen(self, speaker: Speaker) -> None:
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
    See the package's.
    """
    subscribe = si.Subscribe(
        from_=from_,
        partitions=list(partitions),
        queues=list(queues),
        applications=list(applications),
        kinds=list(kinds),
    )
    follower = Follower(url, encoding_named(encoding), subscribe, rng or random.Random())
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
