"""The client of a resource manager."""

import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, Unpack

import trio
from msgspec import UNSET, structs
from trio_websocket import WebSocketConnection

from ykactor.client.connection import MessageStream, OnJournal, encoding_named, open_connection
from ykactor.client.errors import RequestRefused
from ykactor.client.login import Login, LoginOptions
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding


class ResourceManager:
    """A registered session, opened by `connect`. Iterate over it to get the messages of the daemon.

    Several tasks may use it at the same time. Messages that arrive while a `request` waits are kept until iteration takes them,
    without a limit.

    Attributes
    ----------
    sequence : int
        The number of the newest message received; pass it as ``resume_from`` to `connect` after a lost connection.
    """

    def __init__(self, connection: WebSocketConnection, encoding: Encoding, sequence: int, on_journal: OnJournal | None) -> None:
        self.sequence = sequence
        self._on_journal = on_journal
        self._decode = encoding.decode_response
        self._stream = MessageStream(connection, encoding)
        #: Held by the task that reads; it delivers messages for all waiting tasks.
        self._reading = trio.Lock()
        self._responses: deque[si.Response] = deque()
        #: By request id: the response to a request that a task waits for, None before it arrives.
        self._answers: dict[str, si.Ack | si.ErrorResponse | None] = {}
        #: Old acknowledgements may be repeated after a resume, so the ids of two sessions must differ.
        self._id_prefix = secrets.token_hex(4)
        self._ids_count = 0

    async def send(self, request: si.Request) -> None:
        """Send a request without waiting. If it has an ``id``, iteration yields its `si.Ack` or `si.ErrorResponse`.

        Raises
        ------
        Disconnected
        """
        await self._stream.send(request)

    async def request(self, request: si.Request) -> si.Ack:
        """Send a request and wait for its `si.Ack`. All messages with its direct results have arrived before.

        Parameters
        ----------
        request : si.Request
            Its ``id`` is replaced.

        Raises
        ------
        RequestRefused
            The daemon refused the request, which had no effect.
        Disconnected
            It is not known whether the request took effect. Register again with ``resume_from``: the missing messages come
            first, with the `si.Ack` of the request if it took effect. If there is none, send it again (rule SC-157).
        """
        self._ids_count += 1
        request_id = f"{self._id_prefix}-{self._ids_count}"
        self._answers[request_id] = None
        try:
            await self._stream.send(structs.replace(request, id=request_id))
            await self._receive_until(lambda: self._answers[request_id] is not None)
        finally:
            answer = self._answers.pop(request_id)
        if isinstance(answer, si.ErrorResponse):
            raise RequestRefused(answer.code, answer.message, answer.path)
        assert answer is not None, "_receive_until has waited for the response"
        return answer

    async def answer(self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str]) -> None:
        """Answer predicate checks, without waiting.

        The daemon sends them if the session was opened with ``answers_predicates``. A check without an answer within 10 s counts
        as refused.

        Parameters
        ----------
        asked : si.PredicatesRequest
            The request that iteration yielded.
        refusal : callable
            Called with each check; returns why the asks may not run on the node, or "" if they may.

        Raises
        ------
        Disconnected

        Examples
        --------
        ::

            async for response in rm:
                if isinstance(response, si.PredicatesRequest):
                    await rm.answer(response, lambda check: "" if check.node_id in has_volume else "its volume is not there")
        """
        answers = [
            si.PredicateAnswer(predicate=check.predicate, node_id=check.node_id, allocate=check.allocate, error=refusal(check))
            for check in asked.checks
        ]
        await self.send(si.PredicatesResponse(partition_name=asked.partition_name, answers=answers))

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
                    self._deliver(self._decode(await self._stream.receive()))

    def _deliver(self, message: si.Response) -> None:
        self.sequence = message.sequence or self.sequence
        if isinstance(message, si.Ack | si.ErrorResponse) and message.id in self._answers:
            self._answers[message.id] = message
        elif isinstance(message, si.JournalStatus) and self._on_journal is not None:
            self._on_journal(message)
        elif not isinstance(message, si.RegisterResourceManagerResponse):
            self._responses.append(message)


@asynccontextmanager
async def connect(
    url: str,
    *,
    rm_id: str,
    encoding: str = "json",
    config: str = "",
    resume_from: int | Literal["now"] | None = None,
    answers_predicates: bool = False,
    on_journal: OnJournal | None = None,
    **login: Unpack[LoginOptions],
) -> AsyncIterator[ResourceManager]:
    """Register as a resource manager.

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
    answers_predicates : bool
        Whether each `si.PredicatesRequest` that iteration yields will be answered with `ResourceManager.answer`.
    on_journal : callable, optional
        Called with each `si.JournalStatus` when it arrives, also while this registration waits for the journal of the daemon.
        Without it, iteration yields them.
    token, tls, insecure
        How to show who this is: see `LoginOptions`.

    Raises
    ------
    RequestRefused
        ``RESYNC_REQUIRED``: register without ``resume_from``. ``ALREADY_REGISTERED``: another resource manager holds the
        daemon, until it sends a `si.DeregisterResourceManagerRequest`. ``NOT_AUTHENTICATED``, ``NOT_PERMITTED``: the daemon does
        not let this one in.
    Disconnected
        Raised here, or later by the methods of the session.

    Examples
    --------
    See `ykactor.client`.
    """
    chosen = encoding_named(encoding)
    async with open_connection(url, "/v1/rm", login=Login(**login), subprotocols=[chosen.name]) as connection:
        session = ResourceManager(connection, chosen, resume_from if isinstance(resume_from, int) else 0, on_journal)
        await session.request(
            si.RegisterResourceManagerRequest(
                rm_id=rm_id,
                config=config,
                resume_from=UNSET if resume_from is None else resume_from,
                answers_predicates=answers_predicates,
            )
        )
        yield session
