"""Be a resource manager."""

import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio
from msgspec import UNSET, structs
from trio_websocket import WebSocketConnection

from ykactor.client.connection import RequestRefused, Speaker, encoding_named, open_connection
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import Encoding


class ResourceManager:
    """A registered session; made by `connect`. Iterate over it to get the daemon's messages.

    Several tasks may use it at the same time.

    Attributes
    ----------
    sequence : int
        The number of the newest message received; pass it as ``resume_from`` to `connect` after a lost connection.
    """

    def __init__(self, connection: WebSocketConnection, encoding: Encoding, sequence: int) -> None:
        self.sequence = sequence
        self._decode = encoding.decode_response
        self._speaker = Speaker(connection, encoding)
        #: Whoever waits for something reads for all.
        self._reading = trio.Lock()
        self._responses: deque[si.Response] = deque()
        #: Answers to requests that somebody waits for; None until there is one.
        self._answers: dict[str, si.Ack | si.ErrorResponse | None] = {}
        #: Old acknowledgements may come again after a resume: ids of two sessions must differ.
        self._id_prefix = secrets.token_hex(4)
        self._ids_count = 0

    async def send(self, request: si.Request) -> None:
        """Send a request and do not wait; with an ``id``, its `si.Ack` or `si.ErrorResponse` is iterated over like the rest.

        Raises
        ------
        Disconnected
        """
        await self._speaker.send(request)

    async def request(self, request: si.Request) -> si.Ack:
        """Send a request and wait until it is accepted; by then everything that it caused directly has arrived.

        Parameters
        ----------
        request : si.Request
            Its ``id`` is replaced.

        Raises
        ------
        RequestRefused
            Nothing of the request took effect.
        Disconnected
            Whether the request took effect is unknown: register again with ``resume_from`` to learn what happened.
        """
        self._ids_count += 1
        request_id = f"{self._id_prefix}-{self._ids_count}"
        self._answers[request_id] = None
        try:
            await self._speaker.send(structs.replace(request, id=request_id))
            await self._receive_until(lambda: self._answers[request_id] is not None)
        finally:
            answer = self._answers.pop(request_id)
        if isinstance(answer, si.ErrorResponse):
            raise RequestRefused(answer.code, answer.message, answer.path)
        assert answer is not None, "waited for it above"
        return answer

    async def answer(self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str]) -> None:
        """Answer what the daemon asks about nodes, and do not wait.

        It asks whoever has connected with ``answers_predicates``, and takes what is not answered within 10 s for a refusal.

        Parameters
        ----------
        asked : si.PredicatesRequest
            As iterated over.
        refusal : callable
            Is called with each check; returns why such asks may not run on that node, or "" if they may.

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
            si.PredicateAnswer(predicate=it.predicate, node_id=it.node_id, allocate=it.allocate, error=refusal(it))
            for it in asked.checks
        ]
        await self.send(si.PredicatesResponse(partition_name=asked.partition_name, answers=answers))

    def __aiter__(self) -> "ResourceManager":
        return self

    async def __anext__(self) -> si.Response:
        """The next message that answers no `request`. Raises `Disconnected` at the end of the connection."""
        await self._receive_until(lambda: bool(self._responses))
        return self._responses.popleft()

    async def _receive_until(self, is_there: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not is_there():
            async with self._reading:
                if not is_there():
                    self._sort(self._decode(await self._speaker.receive()))

    def _sort(self, message: si.Response) -> None:
        self.sequence = message.sequence or self.sequence
        if isinstance(message, si.Ack | si.ErrorResponse) and message.id in self._answers:
            self._answers[message.id] = message
        elif not isinstance(message, si.RegisterResourceManagerResponse):
            self._responses.append(message)


@asynccontextmanager
async def connect(
    url: str,
    *,
    rm_id: str,
    encoding: str = "json",
    config: str = "",
    resume_from: int | None = None,
    answers_predicates: bool = False,
) -> AsyncIterator[ResourceManager]:
    """Register as a resource manager.

    Parameters
    ----------
    url : str
        ``ws://HOST:9081``.
    rm_id : str
        Who you are. One session at a time: an older one with this id is closed.
    encoding : {"json", "msgpack"}
    config : str
        A queue configuration to put into force; empty keeps what runs.
    resume_from : int, optional
        The number of the last message that you know (`ResourceManager.sequence`): everything is kept and what you missed
        comes first. Without it the daemon forgets your nodes and applications and you report them again.
    answers_predicates : bool
        Whether you `ResourceManager.answer` each `si.PredicatesRequest` that you iterate over.

    Raises
    ------
    RequestRefused
        ``RESYNC_REQUIRED``: register without ``resume_from``. ``ALREADY_REGISTERED``: there is another resource manager.
    Disconnected
        Now or, from the session's methods, later.

    Examples
    --------
    See the package's.
    """
    spoken = encoding_named(encoding)
    async with open_connection(url, "/v1/rm", subprotocols=[spoken.name]) as connection:
        session = ResourceManager(connection, spoken, resume_from or 0)
        await session.request(
            si.RegisterResourceManagerRequest(
                rm_id=rm_id,
                config=config,
                resume_from=UNSET if resume_from is None else resume_from,
                answers_predicates=answers_predicates,
            )
        )
        yield session
