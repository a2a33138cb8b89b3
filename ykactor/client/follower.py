"""Follow the event feed."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NamedTuple, Unpack

import trio
from msgspec import structs

from ykactor.client.addresses import Addresses
from ykactor.client.connection import MessageStream, alongside, encoding_named, is_refused, open_feed
from ykactor.client.errors import Disconnected, RequestRefused
from ykactor.client.login import Login, LoginOptions, login_of
from ykactor.client.reconnecting import OnConnection, ReconnectingSession, silently
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding

#: At the first connection: how long a follower that waits does so for a daemon that does not listen yet.
FIRST_CONNECT_S = 5.0

FollowedMessage = si.EventRecord | si.Snapshot | si.Lagged | si.JournalStatus


class Connecting(NamedTuple):
    """The settings by which a `Follower` connects.

    Attributes
    ----------
    wait_s : float
        Seconds that it waits for a daemon that does not listen yet.
    """

    addresses: Addresses
    login: Login
    encoding: Encoding
    wait_s: float

    def open(self) -> AbstractAsyncContextManager[MessageStream]:
        """A connection to the feed."""
        return open_feed(self.addresses.current, self.login, self.encoding, self.addresses.check)


class Follower(ReconnectingSession[FollowedMessage]):
    """A subscription to the event feed, opened by `follow`. Iterate over it."""

    def __init__(
        self, connecting: Connecting, subscribe: si.Subscribe, rng: random.Random, on_connection: OnConnection = silently
    ) -> None:
        super().__init__(rng, on_connection)
        self._connecting = connecting
        self._subscribe = subscribe
        self._patient_until = trio.current_time() + connecting.wait_s
        self._is_waiting = False
        #: Set when the daemon has confirmed the subscription for the first time, or when following has failed.
        self.begun = trio.Event()

    @property
    def term(self) -> str:
        """The term of the daemon, to which the number of the newest message belongs; pass both to `follow` to resume later."""
        return self._subscribe.term

    async def run(self) -> None:
        await super().run()
        self.begun.set()

    async def _connect(self) -> None:
        try:
            async with self._connecting.open() as stream:
                self._opened_s = trio.current_time()
                await self._listen(stream)
        except Disconnected as lost:
            has_more = self._connecting.addresses.failed()
            if self.begun.is_set():
                self._on_lost(f"connection lost, trying to connect again: {lost}")
            elif has_more:
                self._attempt = 0
            elif not is_refused(lost) or trio.current_time() >= self._patient_until:
                raise
            else:
                self._on_waiting(lost)
        except RequestRefused as refused:
            # A daemon that knows no terms, and does not have this number: start again with its state.
            if not (self.begun.is_set() and refused.code == "RESYNC_REQUIRED"):
                raise
            self._resume_from("snapshot")

    async def _listen(self, stream: MessageStream) -> None:
        await stream.send(self._subscribe)
        while True:
            message = await stream.receive_feed()
            if isinstance(message, si.Bookmark | si.Snapshot):
                self._connecting.addresses.confirmed(message.term)
            if self.is_lost:
                self._on_restored(message)
            elif not self.begun.is_set():
                self._on_connected(message)
            self.begun.set()
            await self._deliver(message)

    def _on_waiting(self, refused: Disconnected) -> None:
        self._attempt = 0  # it may begin to listen at any moment
        if not self._is_waiting:
            self._is_waiting = True
            self._on_connection(f"waiting up to {self._connecting.wait_s:g} s for a daemon: {refused}")

    def _on_connected(self, confirmation: si.FeedMessage) -> None:
        missing = confirmation.missing_queues if isinstance(confirmation, si.Bookmark | si.Snapshot) else []
        yet = f"; there is no queue {' or '.join(missing)} yet" if missing else ""
        if isinstance(confirmation, si.Snapshot) and confirmation.reason:
            yet += f"; {confirmation.reason}, so its present state comes first, and events may be missing"
        self._on_connection(f"connected to {self._connecting.addresses.current}: {_description(self._subscribe)}{yet}")

    def _on_restored(self, confirmation: si.FeedMessage) -> None:
        self.is_lost = False
        if isinstance(confirmation, si.Snapshot):
            reason = confirmation.reason or "the daemon has restarted"
            outcome = f"{reason}; events may be missing, its present state follows"
        else:
            outcome = f"resumed after event {self._subscribe.from_}, no event is missing"
        self._on_connection(f"connection restored: {outcome}")

    async def _deliver(self, message: si.FeedMessage) -> None:
        match message:
            case si.Events(events=events):
                for event in events:
                    await self._messages_in.send(event)
                    self._resume_from(event.sequence)
            case si.Bookmark(sequence=sequence, term=term):
                self._resume_from(sequence, term)
            case si.Snapshot(sequence=sequence, term=term):
                self._resume_from(sequence, term)  # first: who gets the snapshot may ask for its term
                await self._messages_in.send(message)
            case si.JournalStatus():
                await self._messages_in.send(message)
            case si.Lagged(to=to):
                await self._messages_in.send(message)
                self._resume_from(to)

    def _resume_from(self, place: int | str, term: str | None = None) -> None:
        """Set where the next connection starts; ``term`` as in ``Subscribe``, None if it is the same as before."""
        same = self._subscribe.term
        self._subscribe = structs.replace(self._subscribe, from_=place, term=same if term is None else term, turns={})


def _description(subscribe: si.Subscribe) -> str:
    """A description of the events that are followed, for people."""
    filters = {
        "partition": subscribe.partitions,
        "queue": subscribe.queues,
        "application": subscribe.applications,
        "kind": subscribe.kinds,
    }
    only = ", ".join(f"of {name} {' or '.join(wanted)}" for name, wanted in filters.items() if wanted)
    events = "events" if only else "all events"
    match subscribe.from_:
        case "now":
            what = f"{events} from now on"
        case "snapshot":
            what = f"the present state, then {events}"
        case number:
            what = f"{events} after number {number}"
    return f"{what}, only {only}" if only else what


class SubscriptionOptions(LoginOptions, total=False):
    """The parameters of `follow` that say what is received, with those of `LoginOptions`.

    Parameters
    ----------
    pending_asks : bool
        Whether each `si.Snapshot` names all pending asks: ``pendingAsks`` of its partitions.
    partitions, queues, applications, kinds : sequence of str
        Which events to receive; empty means all. A queue includes all queues below it, and has to exist or to be below one
        that exists; a kind is a type (``APP``) or a detail (``APP_RUNNING``).
    """

    pending_asks: bool
    partitions: Sequence[str]
    queues: Sequence[str]
    applications: Sequence[str]
    kinds: Sequence[str]


@asynccontextmanager
async def follow(
    url: str,
    *,
    from_: int | str = "now",
    term: str = "",
    encoding: str = "json",
    rng: random.Random | None = None,
    on_connection: OnConnection = silently,
    waits: bool = True,
    after: si.Ack | None = None,
    **options: Unpack[SubscriptionOptions],
) -> AsyncIterator[Follower]:
    """Follow the event feed. After a lost connection it connects again and resumes, without missing or repeated events.

    See `ykactor.client` for an example.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``, ``wss://HOST:9081`` or ``unix:PATH``, or several with commas between them, as of `keep_registered`.
    from_ : int or {"now", "snapshot"}
        Start with the next event, with the present state, or with the event after this sequence number.
    term : str
        The term of the number ``from_`` (`Follower.term`). A daemon whose history does not have this number of this term, because
        it has no journal, has lost something, or goes on from a copy of its state directory, answers with its present state.
        Empty: not checked.
    encoding : {"json", "msgpack"}
    rng : random.Random, optional
        For the random pauses between attempts to connect, so that many followers do not connect at the same time.
    on_connection : callable
        Called with a sentence: when there is a connection, with what is followed; when it is lost; and when it is restored,
        with whether events may be missing.
    waits : bool
        Whether to wait for up to ``FIRST_CONNECT_S`` (5 s) for a daemon that does not listen yet.
    after : si.Ack
        The answer to a request of which the effect is to be seen, also at a replica, which may wait for it for 2 s.
    **options
        What is received, and who this is: see `SubscriptionOptions` and `LoginOptions`.

    Yields
    ------
    Follower
        Iterates over `si.EventRecord`, `si.Snapshot` (the state at its sequence), `si.Lagged` (these events are lost) and
        `si.JournalStatus` (events wait until the daemon can write its journal, or come again).
        If the daemon does not have the number from which to resume (``term``), a follower starts again with a `si.Snapshot`,
        which has the reason, and events may be missing.
        Iteration raises `Disconnected` if the first connection fails, and `RequestRefused` if the subscription is wrong or the
        daemon does not let this one in, or any more.
    """
    subscribe = si.Subscribe(
        from_=from_,
        term=term if after is None else term or after.term,
        turns={} if after is None else after.turns,
        pending_asks=options.get("pending_asks", False),
        partitions=list(options.get("partitions", ())),
        queues=list(options.get("queues", ())),
        applications=list(options.get("applications", ())),
        kinds=list(options.get("kinds", ())),
    )
    connecting = Connecting(Addresses(url), login_of(options), encoding_named(encoding), FIRST_CONNECT_S if waits else 0.0)
    follower = Follower(connecting, subscribe, rng or random.Random(), on_connection)
    async with alongside(follower.run):
        await follower.begun.wait()
        yield follower
