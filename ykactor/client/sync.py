"""The client for programs that run no event loop: the same names, parameters, messages and errors as of `ykactor.client`.

Each session has a thread of its own, in which the trio client runs: what is given to be called (``on_journal``,
``on_connection``), and the iterable of `ResourceManager.send_all`, are called in it. They must not wait for anything, least of
all for the session; an error of ``on_connection`` ends the session, and who leaves it gets the error.
Several threads may use a session. Ctrl-C interrupts each method.

Examples
--------
::

    from ykactor.client.sync import follow

    with follow("ws://127.0.0.1:9081") as messages:
        for message in messages:
            print(message)
"""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from math import inf
from time import monotonic
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
_LATE = "found no message within {} s"


def _called(method: Callable[Concatenate[S, P], Awaitable[T]]) -> Callable[Concatenate[ThreadedSession[S], P], T]:
    """The method of the trio client, with these parameters."""

    @documented_as(method)
    def called(self: ThreadedSession[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        future = self._thread.call(partial(method, self._session, *args, **kwargs))
        try:
            return future.result()
        finally:
            future.cancel()  # who is interrupted does not want the result any more

    return called


class Messages(ThreadedSession[M], Generic[M, T]):
    """Iterates over what a trio client yields. Several threads may; each message goes to one of them."""

    def __init__(self, thread: SessionThread[Any], session: M) -> None:
        super().__init__(thread, session)
        self._turn = threading.Lock()
        #: The next message; kept if who waited for it is interrupted.
        self._next: Future[T] | None = None

    def __iter__(self) -> "Messages[M, T]":
        return self

    def __next__(self) -> T:
        try:
            return self._take(None)
        except StopAsyncIteration:
            raise StopIteration from None

    def _take(self, timeout: float | None) -> T:
        if not self._thread.is_running:  # in a forked process nobody releases the lock, nor brings the message that was awaited
            raise self._thread.ended()
        end = None if timeout is None else monotonic() + timeout
        if not self._turn.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError(_LATE.format(timeout))
        try:
            if self._next is None:
                self._next = self._thread.call(self._session.__anext__)
            wait([self._next], None if end is None else max(0.0, end - monotonic()))
            if not self._next.done():
                raise TimeoutError(_LATE.format(timeout))
            taken, self._next = self._next, None
        finally:
            self._turn.release()
        return taken.result()


class Received(Messages[M, T]):
    """The messages of a session, which end only with an error."""

    def receive(self, timeout: float | None = None) -> T:
        """The next message, as ``next``, but waits at most this long.

        Parameters
        ----------
        timeout : float, optional
            Seconds. A message that comes later is the next one.

        Raises
        ------
        TimeoutError
        Disconnected
        """
        return self._take(None if timeout == inf else timeout)


class ResourceManager(Received[client.ResourceManager, si.Response], RegisteredSession[None]):
    """The blocking flavour of `ykactor.client.ResourceManager`."""

    send = _called(client.ResourceManager.send)
    request = _called(client.ResourceManager.request)
    hand_back = _called(client.ResourceManager.hand_back)

    @documented_as(client.ResourceManager.send_all)
    def send_all(self, requests: Iterable[R]) -> Messages[Answers[R], Answered[R]]:
        return Messages(self._thread, self._session.send_all(requests))


class KeptSession(Received[client.KeptSession, si.Response | client.Refusal], PostingSession):
    """The blocking flavour of `ykactor.client.KeptSession`."""


class Follower(Received[client.Follower, client.FollowedMessage], FollowingSession):
    """The blocking flavour of `ykactor.client.Follower`."""


class Operator(ThreadedSession[client.Operator]):
    """The blocking flavour of `ykactor.client.Operator`."""

    request = _called(client.Operator.request)


@contextmanager
def _running(opening: AbstractAsyncContextManager[S]) -> Iterator[tuple[SessionThread[S], S]]:
    """Enters a context manager of the trio client in a thread."""
    thread = SessionThread(opening)
    try:
        yield thread, thread.opened.result()
    finally:
        if thread.is_running:
            thread.close().result()


def _opened(
    opener: Callable[P, AbstractAsyncContextManager[S]], flavour: Callable[[SessionThread[S], S], F]
) -> Callable[P, AbstractContextManager[F]]:
    """The function of the trio client, with these parameters, that yields the blocking flavour of its session."""

    @documented_as(opener)
    @contextmanager
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[F]:
        with _running(opener(*args, **kwargs)) as running:
            yield flavour(*running)

    return opened


def _asked(question: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """The function of the trio client that has one answer, with these parameters."""

    @documented_as(question)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        with _running(answering(partial(question, *args, **kwargs))) as (_, answer):
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
