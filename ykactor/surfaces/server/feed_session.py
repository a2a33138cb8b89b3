"""A follower's session: it subscribes, and what the feed tells its subscription goes to it."""

from contextlib import suppress

import trio
from msgspec import Raw, Struct
from trio_websocket import ConnectionClosed

from ykactor.actors.feed import Batch, EventFilter, FeedActor, Missed, Reached, SnapshotError, Subscription
from ykactor.surfaces.server.peer import Peer, error_response
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ProtocolError


class _EncodedEvents(Struct, tag_field="type", tag="Events"):
    """``si.Events`` made of events that are encoded already."""

    events: list[Raw]


class FeedSession:
    """Sends what a subscription yields; a further ``Subscribe`` replaces the one before.

    ``instance`` names the daemon's run: the feed's numbers begin anew with every run.
    """

    def __init__(self, peer: Peer, feed: FeedActor, instance: str) -> None:
        self.peer = peer
        self._feed = feed
        self._instance = instance
        self._said, self._heard = trio.open_memory_channel[si.Subscribe | ProtocolError](1)
        self._is_stopping = False
        #: Waiting for events: cancelled when the peer has said something.
        self._listening = trio.CancelScope()
        #: Waiting for a snapshot. ``stop`` cancels both.
        self._beginning = trio.CancelScope()

    def stop(self) -> None:
        """Take no more subscriptions; ``run`` sends what the last one holds and ends."""
        self._is_stopping = True
        self._listening.cancel()
        self._beginning.cancel()

    async def run(self) -> None:
        """Talk until the connection ends or ``stop`` is called."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, nursery.cancel_scope)
            with suppress(ConnectionClosed):  # whoever waits for a message is told the same
                await self._speak()
            nursery.cancel_scope.cancel()

    async def _listen(self, session: trio.CancelScope) -> None:
        with suppress(ConnectionClosed):
            while True:
                await self._on_message(await self.peer.receive())
        session.cancel()

    async def _on_message(self, message: str | bytes) -> None:
        heard: si.Subscribe | ProtocolError
        try:
            heard = self.peer.encoding.decode_subscribe(message)
        except ProtocolError as error:
            heard = error
        await self._said.send(heard)
        self._listening.cancel()

    async def _speak(self) -> None:
        subscription: Subscription | None = None
        while not self._is_stopping:
            try:
                heard = self._heard.receive_nowait()
            except trio.WouldBlock:
                await self._tell_next(subscription)
                continue
            try:
                if isinstance(heard, ProtocolError):
                    raise heard
                subscription = await self._subscribe(heard)
            except ProtocolError as error:
                await self.peer.send(error_response(error))
        while subscription is not None and (told := subscription.next_nowait()) is not None:
            await self._tell(told)

    async def _tell_next(self, subscription: Subscription | None) -> None:
        told: Batch | Missed | Reached | None = None
        with trio.CancelScope() as self._listening:
            if subscription is None:
                await trio.sleep_forever()
            else:
                told = await subscription.next()
        if told is not None:
            await self._tell(told)

    async def _tell(self, told: Batch | Missed | Reached) -> None:
        match told:
            case Batch(events):
                await self.peer.send(_EncodedEvents([Raw(event) for event in events]))
            case Missed(first, last):
                await self.peer.send(si.Lagged(from_=first, to=last))
            case Reached(sequence):
                await self.peer.send(self._bookmark(sequence))

    async def _subscribe(self, request: si.Subscribe) -> Subscription | None:
        wanted = EventFilter(
            frozenset(request.partitions),
            tuple(queue.lower().rstrip(".") for queue in request.queues),
            frozenset(request.applications),
            frozenset(request.kinds),
        )
        with trio.CancelScope() as self._beginning:
            begin = await self._begin(request.from_, request.instance)
        if self._beginning.cancelled_caught:
            return None
        # Sent before anything else: it confirms the subscription and says from where to resume.
        await self.peer.send(begin)
        return Subscription(self._feed, self.peer.encoding.encode, wanted, begin.sequence)

    async def _begin(self, from_: int | str, instance: str) -> si.Snapshot | si.Bookmark:
        """The sequence number after which events follow, with the snapshot if one is wanted."""
        match from_:
            case "now":
                return self._bookmark(self._feed.sequence)
            case "snapshot":
                try:
                    snapshot = await self._feed.snapshot()
                except SnapshotError as error:
                    raise ProtocolError("UNAVAILABLE", str(error), "from") from None
                return si.Snapshot(sequence=snapshot.sequence, instance=self._instance, partitions=snapshot.partitions)
            case int() if instance not in ("", self._instance):
                message = f"found {instance}, expected {self._instance}: numbers began anew, subscribe to a snapshot instead"
                raise ProtocolError("RESYNC_REQUIRED", message, "instance")
            case int() if 0 <= from_ <= self._feed.sequence:
                return self._bookmark(from_)
            case int():
                message = f"found {from_}, expected 0 to {self._feed.sequence}: subscribe to a snapshot instead"
                raise ProtocolError("RESYNC_REQUIRED", message, "from")
        raise ProtocolError("UNKNOWN_NAME", f"found {from_!r}, expected now, snapshot or a sequence number", "from")

    def _bookmark(self, sequence: int) -> si.Bookmark:
        return si.Bookmark(sequence=sequence, instance=self._instance)
