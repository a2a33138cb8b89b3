"""The client for programs that run asyncio: the same names, parameters, messages and errors as of `ykactor.client`.

Each session has a thread of its own, in which the trio client runs: what is given to be called (``on_journal``,
``on_connection``), and the iterable of `ResourceManager.send_all`, are called in it. They must not wait for anything, least of
all for the session; an error of ``on_connection`` ends the session, and who leaves it gets the error.
A method that is cancelled has the same effect as in trio, and no message is lost.

Examples
--------
::

    import asyncio

    from ykactor.client.asyncio import follow

    async def print_events(url):
        async with follow(url) as messages:
            async for message in messages:
                print(message)

    asyncio.run(print_events("ws://127.0.0.1:9081"))
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from ykactor import client
from ykactor.client.bridge import Bridge, Numbers, Posting, documented_as, mirrors
from ykactor.client.resource_manager import Answered, R, predicate_answers
from ykactor.wire.si import messages as si

__all__ = [
    "connect",
    "ResourceManager",
    "keep_registered",
    "KeptSession",
    "follow",
    "Follower",
    "operate",
    "Operator",
    "read_configuration",
    "check_health",
    "read_usage",
]

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F")


class Messages(Generic[T]):
    """Iterates over what a trio client yields. Several tasks may; each message goes to one of them."""

    def __init__(self, bridge: Bridge[Any], following: Callable[[], Awaitable[T]]) -> None:
        self._bridge = bridge
        self._following = following
        self._turn = asyncio.Lock()
        #: The next message; kept if who waited for it is cancelled.
        self._next: asyncio.Future[T] | None = None

    def __aiter__(self) -> "Messages[T]":
        return self

    async def __anext__(self) -> T:
        async with self._turn:
            if self._next is None:
                self._next = asyncio.wrap_future(self._bridge.call(self._following))
                self._next.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody asks
            try:
                message = await asyncio.shield(self._next)
            except Exception:
                self._next = None
                raise
            self._next = None
            return message


@mirrors(client.ResourceManager)
class ResourceManager(Messages[si.Response], Numbers):
    """The asyncio flavour of `ykactor.client.ResourceManager`."""

    def __init__(self, bridge: Bridge[client.ResourceManager], session: client.ResourceManager) -> None:
        super().__init__(bridge, session.__anext__)
        self._session = session

    async def send(self, request: si.Request) -> None:
        await asyncio.wrap_future(self._bridge.call(partial(self._session.send, request)))

    async def request(self, request: si.Request) -> si.Ack:
        return await asyncio.wrap_future(self._bridge.call(partial(self._session.request, request)))

    def send_all(self, requests: Iterable[R]) -> Messages[Answered[R]]:
        return Messages(self._bridge, self._session.send_all(requests).__anext__)

    async def answer(
        self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str], *, uses: int | None = None
    ) -> None:
        await self.send(predicate_answers(asked, refusal, uses))

    async def hand_back(self, allocation: si.Allocation) -> si.Ack:
        return await asyncio.wrap_future(self._bridge.call(partial(self._session.hand_back, allocation)))


@mirrors(client.KeptSession)
class KeptSession(Messages[si.Response | client.Refusal], Posting):
    """The asyncio flavour of `ykactor.client.KeptSession`."""

    def __init__(self, bridge: Bridge[client.KeptSession], session: client.KeptSession) -> None:
        super().__init__(bridge, session.__anext__)
        Posting.__init__(self, bridge, session)


@mirrors(client.Follower)
class Follower(Messages[client.FollowedMessage]):
    """The asyncio flavour of `ykactor.client.Follower`."""

    def __init__(self, bridge: Bridge[client.Follower], session: client.Follower) -> None:
        super().__init__(bridge, session.__anext__)
        self._session = session

    @property
    def term(self) -> str:
        return self._session.term


@mirrors(client.Operator)
class Operator:
    """The asyncio flavour of `ykactor.client.Operator`."""

    def __init__(self, bridge: Bridge[client.Operator], session: client.Operator) -> None:
        self._bridge = bridge
        self._session = session

    async def request(self, request: si.OperatorRequest) -> si.Ack:
        return await asyncio.wrap_future(self._bridge.call(partial(self._session.request, request)))


def _bridged(
    opener: Callable[P, AbstractAsyncContextManager[S]], face: Callable[[Bridge[S], S], F]
) -> Callable[P, AbstractAsyncContextManager[F]]:
    """The function of the trio client, with these parameters, that yields the asyncio flavour of its session."""

    @documented_as(opener)
    @asynccontextmanager
    async def opened(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[F]:
        bridge = Bridge(opener(*args, **kwargs))
        try:
            yield face(bridge, await asyncio.wrap_future(bridge.opened))
        finally:
            await asyncio.shield(asyncio.wrap_future(bridge.close()))

    return opened


def _asked(question: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The function of the trio client that has one answer, with these parameters."""

    @documented_as(question)
    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        bridge = Bridge(nullcontext())
        try:
            await asyncio.wrap_future(bridge.opened)
            return await asyncio.wrap_future(bridge.call(partial(question, *args, **kwargs)))
        finally:
            await asyncio.shield(asyncio.wrap_future(bridge.close()))

    return asked


connect = _bridged(client.connect, ResourceManager)
keep_registered = _bridged(client.keep_registered, KeptSession)
follow = _bridged(client.follow, Follower)
operate = _bridged(client.operate, Operator)
read_configuration = _asked(client.read_configuration)
check_health = _asked(client.check_health)
read_usage = _asked(client.read_usage)
