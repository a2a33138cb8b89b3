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
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ykactor import client
from ykactor.client.resource_manager import Answered, Answers, R
from ykactor.client.session_thread import (
    FollowingSession,
    PostingSession,
    RegisteredSession,
    SessionThread,
    ThreadedSession,
    answering,
    documented_as,
)
from ykactor.wire.si import messages as si

__all__ = [
    "connect",
    "ResourceManager",
    "keep_registered",
    "KeptSession",
    "explain",
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
M = TypeVar("M", bound=AsyncIterator[Any])


def _called(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[ThreadedSession[S], P], Coroutine[Any, Any, T]]:
    """The method of the trio client, with these parameters."""

    @documented_as(method)
    async def called(self: ThreadedSession[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._thread.call(partial(method, self._session, *args, **kwargs)))

    return called


class Messages(ThreadedSession[M], Generic[M, T]):
    """Iterates over what a trio client yields. Several tasks may; each message goes to one of them."""

    def __init__(self, thread: SessionThread[Any], session: M) -> None:
        super().__init__(thread, session)
        self._turn = asyncio.Lock()
        #: The next message; kept if who waited for it is cancelled.
        self._next: asyncio.Future[T] | None = None

    def __aiter__(self) -> "Messages[M, T]":
        return self

    async def __anext__(self) -> T:
        async with self._turn:
            if self._next is None:
                self._next = asyncio.wrap_future(self._thread.call(self._session.__anext__))
                self._next.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody asks
            await asyncio.wait([self._next])
            taken, self._next = self._next, None
            return taken.result()


class ResourceManager(Messages[client.ResourceManager, si.Response], RegisteredSession[Coroutine[Any, Any, None]]):
    """The asyncio flavour of `ykactor.client.ResourceManager`."""

    send = _called(client.ResourceManager.send)
    request = _called(client.ResourceManager.request)
    hand_back = _called(client.ResourceManager.hand_back)

    @documented_as(client.ResourceManager.send_all)
    def send_all(self, requests: Iterable[R]) -> Messages[Answers[R], Answered[R]]:
        return Messages(self._thread, self._session.send_all(requests))


class KeptSession(Messages[client.KeptSession, si.Response | client.Refusal], PostingSession):
    """The asyncio flavour of `ykactor.client.KeptSession`."""


class Follower(Messages[client.Follower, client.FollowedMessage], FollowingSession):
    """The asyncio flavour of `ykactor.client.Follower`."""


class Operator(ThreadedSession[client.Operator]):
    """The asyncio flavour of `ykactor.client.Operator`."""

    request = _called(client.Operator.request)


@asynccontextmanager
async def _running(opening: AbstractAsyncContextManager[S]) -> AsyncIterator[tuple[SessionThread[S], S]]:
    """Enters a context manager of the trio client in a thread."""
    thread = SessionThread(opening)
    try:
        yield thread, await asyncio.wrap_future(thread.opened)
    finally:
        if thread.is_running:
            await asyncio.shield(asyncio.wrap_future(thread.close()))


def _opened(
    opener: Callable[P, AbstractAsyncContextManager[S]], flavour: Callable[[SessionThread[S], S], F]
) -> Callable[P, AbstractAsyncContextManager[F]]:
    """The function of the trio client, with these parameters, that yields the asyncio flavour of its session."""

    @documented_as(opener)
    @asynccontextmanager
    async def opened(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[F]:
        async with _running(opener(*args, **kwargs)) as running:
            yield flavour(*running)

    return opened


def _asked(question: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The function of the trio client that has one answer, with these parameters."""

    @documented_as(question)
    async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        async with _running(answering(partial(question, *args, **kwargs))) as (_, answer):
            return answer

    return asked


connect = _opened(client.connect, ResourceManager)
keep_registered = _opened(client.keep_registered, KeptSession)
follow = _opened(client.follow, Follower)
operate = _opened(client.operate, Operator)
read_configuration = _asked(client.read_configuration)
check_health = _asked(client.check_health)
read_usage = _asked(client.read_usage)
explain = _asked(client.explain)
