"""The client of a resource manager."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import chain, islice
from typing import Any, Generic, Literal, NamedTuple, TypeVar, Unpack

import trio
from msgspec import UNSET
from trio_websocket import WebSocketConnection

from ykactor.client.connection import MessageStream, OnJournal, encoding_named, open_connection, term_of
from ykactor.client.errors import Refused
from ykactor.client.login import LoginOptions, login_of
from ykactor.client.requests import Part, SentRequest, attribute, new_ids, parts_of, whole
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding

#: The number of requests of `ResourceManager.send_all` that have no answer yet.
IN_FLIGHT_MAX = 64

#: Called with the term of the daemon, before anything is registered.
BeforeRegistering = Callable[[str], object]

R = TypeVar("R", bound=si.Request)
T = TypeVar("T")


class Answered(NamedTuple, Generic[R]):
    """A request with its answer, from `ResourceManager.send_all`."""

    request: R
    outcome: si.Ack | Refused


class Sender(ABC, Generic[T]):
    """Sends requests; what sending returns is awaited in asynchronous programs, unless it does not wait."""

    @abstractmethod
    def send(self, request: si.WorkRequest) -> T: ...

    def answer(self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str], *, uses: int | None = None) -> T:
        """Answer predicate checks, without waiting.

        The daemon sends them if the session was opened with ``answers_predicates``. A check without an answer within 10 s counts
        as refused.

        Parameters
        ----------
        asked : si.PredicatesRequest
            The request that iteration yielded.
        refusal : callable
            Called with each check; returns why the asks may not run on the node, or "" if they may.
        uses : int, optional
            For how many placements on its node a permission holds (SC-160); without it, until something ends it (SC-156).

        Raises
        ------
        Disconnected
            Or what else `send` raises.

        Examples
        --------
        ::

            async for response in rm:
                if isinstance(response, si.PredicatesRequest):
                    await rm.answer(response, lambda check: "" if check.node_id in has_volume else "its volume is not there")
        """
        answers = [
            si.PredicateAnswer(
                predicate=check.predicate, node_id=check.node_id, allocate=check.allocate, error=refusal(check), uses=uses
            )
            for check in asked.checks
        ]
        return self.send(si.PredicatesResponse(partition_name=asked.partition_name, answers=answers))


class ResourceManager(Sender[Coroutine[Any, Any, None]]):
    """A registered session, opened by `connect`. Iterate over it to get the messages of the daemon.

    Several tasks may use it at the same time. Messages that arrive while a `request` waits are kept until iteration takes them,
    without a limit.

    Attributes
    ----------
    sequence : int
        The number of the newest message received; pass it as ``resume_from`` to `connect` after a lost connection.
    term : str
        The term of this number; pass it as ``term`` with it.
    """

    def __init__(self, connection: WebSocketConnection, encoding: Encoding, sequence: int, on_journal: OnJournal | None) -> None:
        self.sequence = sequence
        self.term = ""
        self._on_journal = on_journal
        self._encode = encoding.encode
        self._stream = MessageStream(connection, encoding)
        #: Held by the task that reads; it delivers messages for all waiting tasks.
        self._reading = trio.Lock()
        self._responses: deque[si.Response] = deque()
        #: Requests without an answer by id, in order, also those for whose answer nobody waits.
        self._sent: dict[str, SentRequest] = {}
        self._ids = new_ids()

    @property
    def unread_count(self) -> int:
        """The number of messages that were received while a `request` waited, and that iteration has not yielded yet."""
        return len(self._responses)

    async def send(self, request: si.Request) -> None:
        """Send a request without waiting. If it has an ``id``, iteration yields its `si.Ack` or `si.ErrorResponse`.

        Raises
        ------
        Disconnected
        """
        await self._stream.send(request)

    async def send_encoded(self, data: bytes) -> None:
        """Send a request that is encoded, like `send`."""
        await self._stream.send_encoded(data)

    async def request(self, request: si.Request) -> si.Ack:
        """Send a request and wait for its `si.Ack`. All messages with its direct results have arrived before.

        Parameters
        ----------
        request : si.Request
            Its ``id`` is replaced.

        Raises
        ------
        Refused
            The daemon rejected entries of the request (AP-139); the others took effect. Iteration yields the rejections too.
        RequestRefused
            The daemon refused the request as a whole, which had no effect.
        Disconnected
            It is not known whether the request took effect. Register again with ``resume_from``: the missing messages come
            first, with the `si.Ack` of the request if it took effect. If there is none, send it again (rule SC-157).
        """
        outcome = await self._outcome(await self._start(whole(request, next(self._ids), self._encode)))
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    def send_all(self, requests: Iterable[R]) -> "Answers[R]":
        """Send requests without waiting for each answer; yields the answers in the order of the requests.

        Up to ``IN_FLIGHT_MAX`` (64) requests have no answer at any time. None is sent while the caller does not take an answer
        that is there. Iterate in one task. Who leaves the loop before its end has nothing to close; what was sent has its effect.

        Parameters
        ----------
        requests : iterable of si.Request
            Their ``id`` is replaced. A large one is sent in parts, each with an answer of its own.

        Yields
        ------
        Answered
            A request, and its `si.Ack` or why it was refused; the requests behind it are sent all the same.

        Raises
        ------
        Disconnected
            As of `request`, for all requests without an answer.

        Examples
        --------
        ::

            async for request, outcome in rm.send_all(requests):
                if isinstance(outcome, Refused):
                    print(request, outcome)
        """
        parts = (part for request in requests for part in parts_of(request, self._ids, self._encode))
        return Answers(self, parts)

    async def _start(self, part: Part[R]) -> SentRequest:
        """Send a request, for `_outcome`."""
        sent = self._sent[part.id] = SentRequest(part.request)
        try:
            await self._stream.send_encoded(part.data)
        except BaseException:
            del self._sent[part.id]  # no rejection can be about it
            raise
        return sent

    async def _outcome(self, sent: SentRequest) -> si.Ack | Refused:
        await self._receive_until(lambda: sent.answer is not None)
        return sent.outcome()

    async def hand_back(self, allocation: si.Allocation) -> si.Ack:
        """Hand back an allocation that could not start on its node: the ask waits again, for a while without this node (AP-144).

        Parameters
        ----------
        allocation : si.Allocation
            As it came in `si.AllocationResponse.new`.

        Raises
        ------
        Refused, RequestRefused, Disconnected
            As of `request`.
        """
        return await self.request(handed_back(allocation))

    def __aiter__(self) -> "ResourceManager":
        return self

    async def __anext__(self) -> si.Response:
        """The next message that is not the response to a `request`. Raises `Disconnected` when the connection ends."""
        await self._receive_until(lambda: bool(self._responses))
        return self._responses.popleft()

    async def _receive_until(self, is_there: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not is_there():
            async with self._reading:
                if not is_there():
                    self._deliver(await self._stream.receive_response())

    def _deliver(self, message: si.Response) -> None:
        self.sequence = message.sequence or self.sequence
        attribute(message, self._sent.values())
        if isinstance(message, si.Ack | si.ErrorResponse) and message.id in self._sent:
            self._sent.pop(message.id).answer = message
        elif isinstance(message, si.JournalStatus) and self._on_journal is not None:
            self._on_journal(message)
        elif not isinstance(message, si.RegisterResourceManagerResponse):
            self._responses.append(message)


class Answers(Generic[R]):
    """Sends the requests of `ResourceManager.send_all`, and iterates over their answers."""

    def __init__(self, rm: ResourceManager, parts: Iterable[Part[R]]) -> None:
        self._rm = rm
        self._parts = iter(parts)
        self._in_flight: deque[tuple[R, SentRequest]] = deque()

    def __aiter__(self) -> "Answers[R]":
        return self

    async def __anext__(self) -> Answered[R]:
        for part in islice(self._parts, IN_FLIGHT_MAX - len(self._in_flight)):
            try:
                self._in_flight.append((part.request, await self._rm._start(part)))
            except BaseException:
                self._parts = chain([part], self._parts)
                raise
        if not self._in_flight:
            raise StopAsyncIteration
        request, sent = self._in_flight[0]
        answered = Answered(request, await self._rm._outcome(sent))
        self._in_flight.popleft()
        return answered


def handed_back(allocation: si.Allocation) -> si.AllocationRequest:
    """The request that `ResourceManager.hand_back` sends."""
    release = si.AllocationRelease(
        application_id=allocation.application_id,
        allocation_key=allocation.allocation_key,
        partition_name=allocation.partition_name,
        termination_type="SCHEDULING_FAILED_ON_RM",
        node_id=allocation.node_id,
    )
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))


class RegistrationOptions(LoginOptions, total=False):
    """The parameters of `connect` and `keep_registered` that say what registers, with those of `LoginOptions`.

    Parameters
    ----------
    answers_predicates : bool
        Whether each `si.PredicatesRequest` that iteration yields will be answered with `ResourceManager.answer`.
    wants_scheduling_states : bool
        Whether iteration shall yield a `si.SchedulingStateResponse` when it is new why asks wait (rule AP-146).
    epoch : int
        The number of this process, if several of this `rm_id` take over from each other: each has a higher one than that
        before it, such as the number of transitions of a lease. The daemon refuses a lower one than it has seen, so that a
        process that was replaced cannot come back.
    version : str
        The version of the resource manager.
    build_info : mapping of str, optional
        What else is known of it, which `/ws/v1/clusters` shows. The keys of Apache YuniKorn are ``buildVersion``, ``buildDate``,
        ``arch``, ``coreSHA``, ``siSHA`` and ``shimSHA``; its web UI shows the first two.
    before_registering : callable, optional
        Called with the term of the daemon when the connection is open; what it raises ends the connection, and nothing is
        registered. The term is "" if the daemon does not tell it, as one of version 0.2.
    """

    answers_predicates: bool
    wants_scheduling_states: bool
    epoch: int
    version: str
    build_info: Mapping[str, str] | None
    before_registering: BeforeRegistering | None


@asynccontextmanager
async def connect(
    url: str,
    *,
    rm_id: str,
    encoding: str = "json",
    config: str = "",
    resume_from: int | Literal["now"] | None = None,
    term: str = "",
    on_journal: OnJournal | None = None,
    **options: Unpack[RegistrationOptions],
) -> AsyncIterator[ResourceManager]:
    """Register as a resource manager. See `ykactor.client` for an example.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``, ``wss://HOST:9081`` or ``unix:PATH``.
    rm_id : str
        The id of the resource manager. It has one session at a time: an older one with this id is closed.
    encoding : {"json", "msgpack"}
    config : str
        A queue configuration to apply; empty keeps the one in force.
    resume_from : int or "now", optional
        The number of the last message received (`ResourceManager.sequence`): the daemon keeps nodes and applications, and first
        sends the messages after this one; with "now" it sends new ones only. Without it the daemon forgets nodes and
        applications, and they must be reported again.
    term : str
        The term of this number (`ResourceManager.term`). A daemon that goes on from another copy of its state directory has
        other messages with the same numbers, and refuses it. Without it only a daemon that has not been restarted goes on.
    on_journal : callable, optional
        Called with each `si.JournalStatus` when it arrives, also while this registration waits for the journal of the daemon.
        Without it, iteration yields them.
    **options
        What registers, and who this is: see `RegistrationOptions` and `LoginOptions`.

    Raises
    ------
    RequestRefused
        ``RESYNC_REQUIRED``: register without ``resume_from``. ``ALREADY_REGISTERED``: another resource manager holds the
        daemon, until it sends a `si.DeregisterResourceManagerRequest`. ``STALE_EPOCH``: a process with a higher `epoch` has
        registered. ``NOT_AUTHENTICATED``, ``NOT_PERMITTED``: the daemon does not let this one in.
    Disconnected
        Raised here, or later by the methods of the session.
    """
    chosen = encoding_named(encoding)
    async with open_connection(url, "/v1/rm", login=login_of(options), subprotocols=[chosen.name]) as connection:
        if (before_registering := options.get("before_registering")) is not None:
            before_registering(term_of(connection))
        session = ResourceManager(connection, chosen, resume_from if isinstance(resume_from, int) else 0, on_journal)
        registration = si.RegisterResourceManagerRequest(
            rm_id=rm_id,
            config=config,
            resume_from=UNSET if resume_from is None else resume_from,
            term=term,
            answers_predicates=options.get("answers_predicates", False),
            wants_scheduling_states=options.get("wants_scheduling_states", False),
            epoch=options.get("epoch", 0),
            version=options.get("version", ""),
            build_info=options.get("build_info") or {},
        )
        session.term = (await session.request(registration)).term
        yield session
