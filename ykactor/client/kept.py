"""A resource manager that stays registered: it connects again, resumes, and registers afresh when it has to."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple, Unpack

import trio
from msgspec import structs

from ykactor.client.addresses import Addresses
from ykactor.client.connection import alongside
from ykactor.client.errors import Disconnected, RequestRefused, SessionReplaced
from ykactor.client.reconnecting import OnConnection, ReconnectingSession, silently
from ykactor.client.requests import Part, new_ids, parts_of
from ykactor.client.resource_manager import RegistrationOptions, ResourceManager, Sender, connect, handed_back
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON

#: A part of the request has taken effect (SC-157).
_INTERRUPTED = "INTERRUPTED"


#: `connect` without what changes from time to time.
Registering = Callable[..., AbstractAsyncContextManager[ResourceManager]]


class Refusal(NamedTuple):
    """A request that the daemon has refused; it had no effect."""

    request: si.WorkRequest
    answer: si.ErrorResponse


class _Interrupted(Exception):
    """The outcome of a request is unknown: a full resync is needed."""


class KeptSession(ReconnectingSession[si.Response | Refusal], Sender[None]):
    """A registration that outlives connections, opened by `keep_registered`. Iterate over it in one task; any task may send.

    Attributes
    ----------
    is_lost : bool
        Whether its connection was lost, or could not be made, and there is no other yet. False also before the first attempt.
    """

    def __init__(
        self,
        addresses: Addresses,
        register: Registering,
        config: Callable[[], str],
        rng: random.Random,
        on_connection: OnConnection,
    ) -> None:
        super().__init__(rng, on_connection)
        self._addresses = addresses
        self._register = register
        self._config = config
        #: The configuration that the daemon has refused in a fresh registration; the next one comes without.
        self._refused_config: Refusal | None = None
        #: The number of the newest message that was handled; None: there is nothing to resume.
        self._sequence: int | None = None
        #: Its term.
        self._term = ""
        self._ids = new_ids()
        #: Requests without an answer, by id, and the ids of those that this connection has not sent, both in order.
        self._unanswered: dict[str, Part[si.WorkRequest]] = {}
        self._unsent: dict[str, None] = {}
        self._has_unsent = trio.Event()
        #: Set when iteration has yielded a fresh registration, after which everything is to be sent.
        self._is_reported = trio.Event()

    def send(self, request: si.WorkRequest) -> None:
        """Send a request, without waiting. It is sent again until the daemon has answered it, or has to be told everything.

        It may be called for many requests at once: all that are not sent yet follow each other without waiting for answers. A
        large request is sent in parts. Requests without an answer are kept without a limit (``unanswered_count``). If the request
        has an ``id``, iteration yields its `si.Ack`.

        Raises
        ------
        Disconnected, RequestRefused, ProtocolError, ValueError
            The session has ended with it, as iteration says too.
        """
        self.send_parts(self.parts(request))

    def hand_back(self, allocation: si.Allocation) -> None:
        """Hand back an allocation, like `ResourceManager.hand_back`, without waiting. Raises what `send` raises."""
        self.send(handed_back(allocation))

    def parts(self, request: si.WorkRequest) -> list[Part[si.WorkRequest]]:
        """The request as `send_parts` takes it, in any thread. Raises what `send` raises."""
        if self._failure is not None:
            raise self._failure
        return list(parts_of(request, self._ids, JSON.encode))

    def send_parts(self, parts: list[Part[si.WorkRequest]]) -> None:
        """Send a request, without effect if the session has ended."""
        if self._failure is None:
            self._unanswered.update((part.id, part) for part in parts)
            self._unsent.update(dict.fromkeys(part.id for part in parts))
            self._has_unsent.set()

    @property
    def unanswered_count(self) -> int:
        """The number of requests that the daemon has not answered yet."""
        return len(self._unanswered)

    async def __anext__(self) -> si.Response | Refusal:
        message = await super().__anext__()
        if isinstance(message, si.RegisterResourceManagerResponse):
            # What was sent before this is part of what is reported now.
            self._unanswered.clear()
            self._is_reported.set()
        return message

    async def _connect(self) -> None:
        while True:
            before = self._sequence
            text = self._config() if before is None and self._refused_config is None else ""
            try:
                async with self._register(self._addresses.current, config=text, resume_from=before, term=self._term) as rm:
                    self._addresses.confirmed(rm.term)
                    self._opened_s = trio.current_time()
                    await self._serve(rm)
            except SessionReplaced:
                raise
            except Disconnected as lost:
                self._on_lost(f"no connection, trying again: {lost}")
                self._addresses.failed()
                return
            except _Interrupted:
                self._sequence = None
                return
            except RequestRefused as refused:
                if text and refused.path == "config":
                    self._refused_config = _refusal_of(text, refused)
                elif before is None or refused.code != "RESYNC_REQUIRED":
                    raise
                self._sequence = None  # register afresh, at once

    async def _serve(self, rm: ResourceManager) -> None:
        """Handle the messages of a connection, and send what has no answer when those of earlier connections are handled."""
        self.is_lost = False
        self._term = rm.term
        if self._sequence is None:
            self._on_connection("registered")
            self._is_reported = trio.Event()
            await self._messages_in.send(si.RegisterResourceManagerResponse(sequence=rm.sequence))
            await self._is_reported.wait()  # a channel hands over before the other task runs, and nothing old may be sent
            self._sequence = rm.sequence
            refused, self._refused_config = self._refused_config, None
            if refused is not None:
                await self._messages_in.send(refused)
        else:
            self._on_connection(f"resumed after message {self._sequence}")
        for _ in range(rm.unread_count):
            await self._handle(await anext(rm))
        self._unsent = dict.fromkeys(self._unanswered)
        async with alongside(partial(self._send_all, rm)):
            async for message in rm:
                await self._handle(message)

    async def _send_all(self, rm: ResourceManager) -> None:
        """Send requests until the connection ends, which the task that reads finds too."""
        try:
            while True:
                while self._unsent:
                    request_id = next(iter(self._unsent))
                    del self._unsent[request_id]
                    await rm.send_encoded(self._unanswered[request_id].data)
                self._has_unsent = trio.Event()
                await self._has_unsent.wait()
        except Disconnected:
            return

    async def _handle(self, message: si.Response) -> None:
        """Deliver a message, and note its number when it is delivered."""
        match message:
            case si.Ack(id=request_id):  # also of registrations, which come again
                part = self._unanswered.get(request_id)
                if part is not None and (part.request.id or isinstance(part.request, si.UpdateConfigurationRequest)):
                    await self._messages_in.send(structs.replace(message, id=part.request.id))
                self._forget(request_id)
            case si.ErrorResponse(id=request_id, code=code) if request_id in self._unanswered:
                if code == _INTERRUPTED:
                    raise _Interrupted
                request = self._unanswered[request_id].request
                await self._messages_in.send(Refusal(request, structs.replace(message, id=request.id)))
                self._forget(request_id)
            case _:
                await self._messages_in.send(message)
        self._sequence = message.sequence or self._sequence

    def _forget(self, request_id: str) -> None:
        """Remove an answered request, also if this connection has not sent it yet."""
        self._unanswered.pop(request_id, None)
        self._unsent.pop(request_id, None)


def _refusal_of(config: str, refused: RequestRefused) -> Refusal:
    """The refusal of the configuration of a registration, as if it had been sent by itself, not to wait for a confirmation."""
    answer = si.ErrorResponse(id="", code=refused.code, message=refused.message, path=refused.path)
    return Refusal(si.UpdateConfigurationRequest(config=config, waits_for_confirmation=False), answer)


def _no_config() -> str:
    """Keep the configuration in force."""
    return ""


@asynccontextmanager
async def keep_registered(
    url: str,
    *,
    rm_id: str,
    config: Callable[[], str] = _no_config,
    rng: random.Random | None = None,
    on_connection: OnConnection = silently,
    **options: Unpack[RegistrationOptions],
) -> AsyncIterator[KeptSession]:
    """Register as a resource manager and stay registered. The daemon may come later, be away, or begin with nothing.

    Parameters
    ----------
    url : str
        As of `connect`. With several addresses, with commas between them, each failure leads to the next one, and a daemon is
        refused for which another one has taken over (rule DU-23).
    rm_id
        As of `connect`.
    config : callable, optional
        Called at each fresh registration; returns the queue configuration that is in force before anything else is handled. If
        the daemon refuses it, it registers without, and iteration yields the `Refusal`. Empty keeps the one in force.
    rng : random.Random, optional
        For the random pauses between attempts to connect.
    on_connection : callable
        Called with a sentence when it is registered, has resumed, and when there is no connection.
    **options
        As of `connect`. What ``before_registering`` raises ends the session, and is raised in an exception group.

    Yields
    ------
    KeptSession
        Iterates over the messages of the daemon, each once and in order. A `si.RegisterResourceManagerResponse` says that the
        daemon has nothing of this resource manager: it is the first message, and comes again when the daemon has lost its state
        or the connection was away for too long. Requests without an answer are forgotten then: send everything (SC-144).
        A `Refusal` is a request that had no effect. A `si.Ack` says that a request with an ``id`` is carried out, or that the
        configuration of a `si.UpdateConfigurationRequest` is in force, also without an ``id``. The daemon handles what follows
        such a request meanwhile, so its queues may be used from then on.
        Iteration raises `SessionReplaced`, `RequestRefused` if the daemon does not let this one in, and `ProtocolError`.

    Examples
    --------
    ::

        async with keep_registered("ws://127.0.0.1:9081", rm_id="example") as rm:
            async for message in rm:
                match message:
                    case si.RegisterResourceManagerResponse():
                        for request in everything():  # nodes, applications, tasks that run, asks
                            rm.send(request)
                    case si.AllocationResponse(new=new):
                        ...
    """
    addresses, check = Addresses(url), options.get("before_registering")

    def before_registering(term: str) -> None:
        addresses.check(term)
        if check is not None:
            check(term)

    options["before_registering"] = before_registering
    register = partial(connect, rm_id=rm_id, **options)
    session = KeptSession(addresses, register, config, rng or random.Random(), on_connection)
    async with alongside(session.run):
        yield session
