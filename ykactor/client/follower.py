"""Follow the event feed."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from msgspec import structs

from ykactor.client.connection import Disconnected, RequestRefused, Speaker, encoding_named, is_refused, open_connection
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding, ProtocolError

#: A daemon that is not there yet may take this long to come up.
FIRST_CONNECT_S = 5.0
#: The first and the longest pause before a follower connects again; each is between half and all of it.
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0

FollowedMessage = si.EventRecord | si.Snapshot | si.Lagged
#: Is told in a sentence that the connection is lost, or what was done now that it is back.
OnConnection = Callable[[str], object]


def silently(sentence: str) -> None:
    """The ``OnConnection`` of those who do not care."""


class Follower:
    """What `follow` yields; iterate over it."""

    def __init__(
        self, url: str, encoding: Encoding, subscribe: si.Subscribe, rng: random.Random, on_connection: OnConnection
    ) -> None:
        self._url = url
        self._encoding = encoding
        self._subscribe = subscribe
        self._rng = rng
        self._on_connection = on_connection
        self._is_lost = False
        self._told, self._messages = trio.open_memory_channel[FollowedMessage](0)
        #: Set when the daemon has confirmed the subscription for the first time, or when it will not.
        self.begun = trio.Event()
        self._failure: Exception | None = None

    @property
    def instance(self) -> str:
        """The daemon's run that the events' numbers are of."""
        return self._subscribe.instance

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
        patient_until = trio.current_time() + FIRST_CONNECT_S
        try:
            while True:
                began_from = self._subscribe.from_
                try:
                    async with open_connection(self._url, "/v1/feed", subprotocols=[self._encoding.name]) as connection:
                        await self._listen(Speaker(connection, self._encoding))
                except Disconnected as lost:
                    if self.begun.is_set():
                        self._on_lost(lost)
                    elif not is_refused(lost) or trio.current_time() >= patient_until:
                        raise
                except RequestRefused as refused:
                    # The daemon has started anew and its numbers are not ours: begin with its state.
                    if not (self.begun.is_set() and refused.code == "RESYNC_REQUIRED"):
                        raise
                    self._resume_from("snapshot")
                has_moved = self._subscribe.from_ != began_from
                attempt = 0 if has_moved or not self.begun.is_set() else attempt + 1
                pause_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(attempt, 16))
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
            if self._is_lost:
                self._on_back(message)
            self.begun.set()
            await self._tell(message)

    def _on_lost(self, lost: Disconnected) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._on_connection(f"connection lost, trying again: {lost}")

    def _on_back(self, confirmation: si.FeedMessage) -> None:
        self._is_lost = False
        if isinstance(confirmation, si.Snapshot):
            outcome = "the daemon has started anew, events in between may be missed, its present state follows"
        else:
            outcome = f"resumed exactly where it was lost, behind event {self._subscribe.from_}"
        self._on_connection(f"connection is back: {outcome}")

    async def _tell(self, message: si.Events | si.Snapshot | si.Bookmark | si.Lagged) -> None:
        match message:
            case si.Events(events=events):
                for event in events:
                    await self._told.send(event)
                    self._resume_from(event.sequence)
            case si.Bookmark(sequence=sequence, instance=instance):
                self._resume_from(sequence, instance)
            case si.Snapshot(sequence=sequence, instance=instance):
                await self._told.send(message)
                self._resume_from(sequence, instance)
            case si.Lagged(to=to):
                await self._told.send(message)
                self._resume_from(to)

    def _resume_from(self, place: int | str, instance: str | None = None) -> None:
        """Where to go on; ``instance`` is the daemon's run that numbers are of, None for the same as before."""
        same = self._subscribe.instance
        self._subscribe = structs.replace(self._subscribe, from_=place, instance=same if instance is None else instance)


@asynccontextmanager
async def follow(
    url: str,
    *,
    from_: int | str = "now",
    instance: str = "",
    partitions: Sequence[str] = (),
    queues: Sequence[str] = (),
    applications: Sequence[str] = (),
    kinds: Sequence[str] = (),
    encoding: str = "json",
    rng: random.Random | None = None,
    on_connection: OnConnection = silently,
) -> AsyncIterator[Follower]:
    """Follow the event feed; a lost connection is made again and resumed where it was, without gap or repetition.

    A daemon that is not up yet is waited for up to ``FIRST_CONNECT_S`` (5 s).

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``.
    from_ : int or {"now", "snapshot"}
        Begin with what happens from now on, with the present state, or behind this sequence number.
    instance : str
        Whose number ``from_`` is (`Follower.instance`); a daemon that has started anew since refuses it. Empty: trust the number.
    partitions, queues, applications, kinds : sequence of str
        What to see; empty is everything. A queue stands for all below it too; a kind is a type (``APP``) or a detail
        (``APP_RUNNING``).
    encoding : {"json", "msgpack"}
    rng : random.Random, optional
        Spreads the pauses between attempts to connect, so that many followers do not come back at once.
    on_connection : callable
        Is told in a sentence that the connection is lost, and when it is back whether it was resumed or begun anew.

    Yields
    ------
    Follower
        Iterates over `si.EventRecord`, `si.Snapshot` (the state at its sequence) and `si.Lagged` (these events are gone).
        Numbers belong to one run of the daemon: behind a restart a follower begins anew, with a `si.Snapshot`; events in
        between may be missed.
        Iteration raises `Disconnected` when the very first connection fails, `RequestRefused` when the subscription is wrong.

    Examples
    --------
    See the package's.
    """
    subscribe = si.Subscribe(
        from_=from_,
        instance=instance,
        partitions=list(partitions),
        queues=list(queues),
        applications=list(applications),
        kinds=list(kinds),
    )
    follower = Follower(url, encoding_named(encoding), subscribe, rng or random.Random(), on_connection)
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
