"""The client for programs that run no event loop: the same names, parameters, messages and errors as of `ykactor.client`.

Each session has a thread of its own: what is given to be called (``on_journal``,
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

import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import WRAPPER_ASSIGNMENTS, partial, wraps
from math import inf
from time import monotonic
from typing import Any, Generic, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ykactor import client
from ykactor.client.errors import Disconnected
from ykactor.client.resource_manager import Answered, R, handed_back, predicate_answers
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
C = TypeVar("C", bound=type)
_LATE = "found no message within {} s"


class Loop:
    """An event loop in a thread of its own, whose functions other threads call. A forked process has no such thread."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._started: Future[BlockingPortal] = Future()
        self._thread = threading.Thread(target=self._run, name="ykactor-client", daemon=True)
        self._thread.start()
        self._portal = self._started.result()  # within a few ms

    def _run(self) -> None:
        try:
            anyio.run(self._serve, backend="trio")
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # it could not even begin, such as without file descriptors

    async def _serve(self) -> None:
        async with BlockingPortal() as portal:
            self._started.set_result(portal)
            await portal.sleep_until_stopped()

    @property
    def is_running(self) -> bool:
        return os.getpid() == self._process and not sys.is_finalizing()

    @contextmanager
    def opened(self, opening: AbstractAsyncContextManager[S]) -> Iterator[S]:
        """Enter a context manager in the thread, and leave it at the end without an exception."""
        entered = self._portal.wrap_async_context_manager(opening)
        session = entered.__enter__()
        try:
            yield session
        finally:
            if self.is_running:
                entered.__exit__(None, None, None)

    def start(self, function: Callable[..., Awaitable[T]], *args: object) -> "Future[T]":
        """Begin to call a function in the thread."""
        try:
            if self.is_running:
                return self._portal.start_task_soon(function, *args)
        except RuntimeError:  # it was stopped
            pass
        raise Disconnected("the session is closed")

    def call(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Call a function in the thread. Who is interrupted does not want its result any more."""
        future = self.start(function, *args)
        try:
            return _result(future)
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread; calls that have not ended are cancelled."""
        if self.is_running:
            self._portal.call(self._portal.stop, True)
            self._thread.join()


def _result(future: "Future[T]") -> T:
    try:
        return future.result()
    except CancelledError:
        raise Disconnected("the session is closed") from None


def mirrors(original: type) -> Callable[[C], C]:
    """The members of a class that have no docstring get that of the class that it stands for."""

    def documented(face: C) -> C:
        for name, member in vars(face).items():
            if not name.startswith("_") and not member.__doc__:
                mirrored = getattr(original, name, None)
                member.__doc__ = (
                    f"The attribute of `ykactor.client.{original.__name__}`." if mirrored is None else mirrored.__doc__
                )
        return face

    return documented


class Messages(Generic[T]):
    """Iterates over what a client yields. Several threads may; each message goes to one of them."""

    def __init__(self, loop: Loop, following: Callable[[], Awaitable[T]]) -> None:
        self._loop = loop
        self._following = following
        self._turn = threading.Lock()
        #: The next message; kept if who waited for it is interrupted.
        self._next: Future[T] | None = None

    def __iter__(self) -> "Messages[T]":
        return self

    def __next__(self) -> T:
        try:
            return self._take(None)
        except StopAsyncIteration:
            raise StopIteration from None

    def _take(self, timeout: float | None) -> T:
        end = None if timeout is None else monotonic() + timeout
        if not self._turn.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError(_LATE.format(timeout))
        try:
            if self._next is None:
                self._next = self._loop.start(self._following)
            wait([self._next], None if end is None else max(0.0, end - monotonic()))
            if not self._next.done():
                raise TimeoutError(_LATE.format(timeout))
            taken, self._next = self._next, None
        finally:
            self._turn.release()
        return _result(taken)


class Received(Messages[T]):
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


@mirrors(client.ResourceManager)
class ResourceManager(Received[si.Response]):
    """The face of `ykactor.client.ResourceManager`."""

    def __init__(self, loop: Loop, session: client.ResourceManager) -> None:
        super().__init__(loop, session.__anext__)
        self._session = session

    @property
    def sequence(self) -> int:
        return self._session.sequence

    @property
    def term(self) -> str:
        return self._session.term

    @property
    def unread_count(self) -> int:
        return self._session.unread_count

    def send(self, request: si.Request) -> None:
        self._loop.call(self._session.send, request)

    def request(self, request: si.Request) -> si.Ack:
        return self._loop.call(self._session.request, request)

    def send_all(self, requests: Iterable[R]) -> Messages[Answered[R]]:
        return Messages(self._loop, self._session.send_all(requests).__anext__)

    def answer(
        self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str], *, uses: int | None = None
    ) -> None:
        self.send(predicate_answers(asked, refusal, uses))

    def hand_back(self, allocation: si.Allocation) -> si.Ack:
        return self.request(handed_back(allocation))


@mirrors(client.KeptSession)
class KeptSession(Received[si.Response | client.Refusal]):
    """The face of `ykactor.client.KeptSession`."""

    def __init__(self, loop: Loop, session: client.KeptSession) -> None:
        super().__init__(loop, session.__anext__)
        self._session = session

    @property
    def is_lost(self) -> bool:
        return self._session.is_lost

    @property
    def unanswered_count(self) -> int:
        return self._session.unanswered_count

    def send(self, request: si.WorkRequest) -> None:
        self._loop.call(self._send, request)

    async def _send(self, request: si.WorkRequest) -> None:
        self._session.send(request)

    def answer(
        self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str], *, uses: int | None = None
    ) -> None:
        self.send(predicate_answers(asked, refusal, uses))

    def hand_back(self, allocation: si.Allocation) -> None:
        self.send(handed_back(allocation))


@mirrors(client.Follower)
class Follower(Received[client.FollowedMessage]):
    """The face of `ykactor.client.Follower`."""

    def __init__(self, loop: Loop, session: client.Follower) -> None:
        super().__init__(loop, session.__anext__)
        self._session = session

    @property
    def term(self) -> str:
        return self._session.term


@mirrors(client.Operator)
class Operator:
    """The face of `ykactor.client.Operator`."""

    def __init__(self, loop: Loop, session: client.Operator) -> None:
        self._loop = loop
        self._session = session

    def request(self, request: si.OperatorRequest) -> si.Ack:
        return self._loop.call(self._session.request, request)


def _documented_as(function: Callable[..., Any]) -> Callable[[F], F]:
    """Name, parameters and docstring are those of this function; what it returns is another face."""
    return wraps(function, [name for name in WRAPPER_ASSIGNMENTS if name not in ("__module__", "__annotations__")])  # type: ignore[return-value]


@contextmanager
def _loop() -> Iterator[Loop]:
    loop = Loop()
    try:
        yield loop
    finally:
        loop.stop()


def _opened(
    opener: Callable[P, AbstractAsyncContextManager[S]], face: Callable[[Loop, S], F]
) -> Callable[P, AbstractContextManager[F]]:
    """The function of the client, with these parameters, that yields this face of its session."""

    @_documented_as(opener)
    @contextmanager
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[F]:
        with _loop() as loop, loop.opened(opener(*args, **kwargs)) as session:
            yield face(loop, session)

    return opened


def _asked(question: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """The function of the client that has one answer, with these parameters."""

    @_documented_as(question)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        with _loop() as loop:
            return loop.call(partial(question, *args, **kwargs))

    return asked


connect = _opened(client.connect, ResourceManager)
keep_registered = _opened(client.keep_registered, KeptSession)
follow = _opened(client.follow, Follower)
operate = _opened(client.operate, Operator)
read_configuration = _asked(client.read_configuration)
check_health = _asked(client.check_health)
read_usage = _asked(client.read_usage)
