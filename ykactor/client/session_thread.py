"""Sessions of the trio client in threads of their own, for programs that do not run trio.

Calls come from other threads as futures: who cancels a future cancels the call. When the session is closed, or its thread fails,
calls that wait end with `Disconnected`.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import WRAPPER_ASSIGNMENTS, wraps
from typing import Any, Generic, TypeVar

import trio

from ykactor.client.errors import Disconnected
from ykactor.client.follower import Follower
from ykactor.client.kept import KeptSession
from ykactor.client.requests import Part
from ykactor.client.resource_manager import ResourceManager, Sender, handed_back
from ykactor.wire.si import messages as si

S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F")


class SessionThread(Generic[S]):
    """A thread that enters a context manager of the trio client, such as `connect(...)`, and runs calls of its session.

    Attributes
    ----------
    opened : Future
        What the context manager yields, or why it does not.
    closed : Future
        Done when the thread has nothing more to do; with the error that has ended the session, such as one of what was given to
        be called.
    """

    def __init__(self, opening: AbstractAsyncContextManager[S]) -> None:
        self.opened: Future[S] = Future()
        self.closed: Future[None] = Future()
        self._process = os.getpid()
        #: Of the opening, then of the calls.
        self._scope = trio.CancelScope()
        self._calls: trio.Nursery
        started: Future[trio.lowlevel.TrioToken] = Future()
        threading.Thread(target=self._run, args=(opening, started), name="ykactor-client", daemon=True).start()
        self._token = started.result()  # within a few ms

    @property
    def is_running(self) -> bool:
        """True unless this is a forked process, or the interpreter ends: no thread runs then."""
        return os.getpid() == self._process and not sys.is_finalizing()

    def call(self, function: Callable[[], Awaitable[T]]) -> "Future[T]":
        """Call a function of the session in the thread."""
        future: Future[T] = Future()
        scope = trio.CancelScope()
        future.add_done_callback(lambda done: done.cancelled() and self.call_soon(scope.cancel))

        async def carry_out() -> None:
            try:
                with scope:
                    future.set_result(await function())
            except Exception as error:
                _fail(future, error)
            finally:
                _fail(future, _closed())

        def begin() -> None:
            try:
                self._calls.start_soon(carry_out)
            except RuntimeError:  # the session is being closed
                _fail(future, _closed())

        if not self.call_soon(begin):
            _fail(future, self.ended())
        return future

    def call_soon(self, function: Callable[[], object]) -> bool:
        """Call a function in the thread, after those before it; False if it has ended, or is not running."""
        if not self.is_running:
            return False
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def ended(self) -> Disconnected:
        """The error of calls when the thread has ended, or is one of another process."""
        if os.getpid() != self._process:
            return Disconnected("the session belongs to the process from which this one was forked: open another one here")
        error = _closed()
        if self.closed.done():
            error.__cause__ = self.closed.exception()
        return error

    def close(self) -> "Future[None]":
        """Leave the context manager, also if it is not entered yet; may be called again."""
        self.call_soon(lambda: self._scope.cancel())
        return self.closed

    def _run(self, opening: AbstractAsyncContextManager[S], started: "Future[trio.lowlevel.TrioToken]") -> None:
        failure: BaseException | None = None
        try:
            trio.run(self._serve, opening, started)
        except BaseException as error:
            failure = error
        if not self.opened.done() or self.opened.cancelled():
            _fail(started, failure or _closed())  # the thread could not even begin, such as without file descriptors
            _fail(self.opened, failure or _closed())
            failure = None  # who opens it is told
        if failure is not None:
            self.closed.set_exception(failure)
        else:
            self.closed.set_result(None)

    async def _serve(self, opening: AbstractAsyncContextManager[S], started: "Future[trio.lowlevel.TrioToken]") -> None:
        started.set_result(trio.lowlevel.current_trio_token())
        with self._scope:
            async with opening as session, trio.open_nursery() as self._calls:
                self._scope = self._calls.cancel_scope
                with suppress(InvalidStateError):  # nobody waits for it any more
                    self.opened.set_result(session)
                await trio.sleep_forever()


def _fail(future: "Future[T]", error: BaseException) -> None:
    """Set the error of a future, without effect if it is done."""
    with suppress(InvalidStateError):
        future.set_exception(error)


def _closed() -> Disconnected:
    return Disconnected("the session is closed")


@asynccontextmanager
async def answering(question: Callable[[], Awaitable[T]]) -> AsyncIterator[T]:
    """A session that has no calls, only the answer to a question."""
    yield await question()


def documented_as(function: Callable[..., Any]) -> Callable[[F], F]:
    """Name, parameters and docstring are those of this function; what it returns is of another flavour."""
    return wraps(function, [name for name in WRAPPER_ASSIGNMENTS if name not in ("__module__", "__annotations__")])  # type: ignore[return-value]


class ThreadedSession(Generic[S]):
    """A session in a thread of its own, as other threads use it."""

    def __init__(self, thread: SessionThread[Any], session: S) -> None:
        self._thread = thread
        self._session = session


class RegisteredSession(ThreadedSession[ResourceManager], Sender[T]):
    """The attributes of a `ResourceManager`."""

    @property
    def sequence(self) -> int:
        """The number of the newest message received, as of `ykactor.client.ResourceManager`."""
        return self._session.sequence

    @property
    def term(self) -> str:
        """The term of this number."""
        return self._session.term

    @property
    def unread_count(self) -> int:
        """The number of messages that were received while a `request` waited, and that iteration has not yielded yet."""
        return self._session.unread_count


class PostingSession(ThreadedSession[KeptSession], Sender[None]):
    """The attributes of a `KeptSession`, and its methods, which never wait."""

    def __init__(self, thread: SessionThread[Any], session: KeptSession) -> None:
        super().__init__(thread, session)
        #: Requests that are on their way to the thread, encoded: whoever sends one may change it afterwards.
        self._posted: deque[list[Part[si.WorkRequest]]] = deque()

    @documented_as(KeptSession.send)
    def send(self, request: si.WorkRequest) -> None:
        self._posted.append(self._session.parts(request))
        if not self._thread.call_soon(self._send_posted):
            self._posted.clear()
            raise self._thread.ended()

    def _send_posted(self) -> None:
        self._session.send_parts(self._posted[0])
        self._posted.popleft()

    @documented_as(KeptSession.hand_back)
    def hand_back(self, allocation: si.Allocation) -> None:
        self.send(handed_back(allocation))

    @property
    def is_lost(self) -> bool:
        """True if its connection was lost, or could not be made, and there is no other yet."""
        return self._session.is_lost

    @property
    def unanswered_count(self) -> int:
        """The number of requests that the daemon has not answered yet."""
        posted = len(self._posted)  # first: a request that is handed over meanwhile is counted twice rather than not at all
        return posted + self._session.unanswered_count


class FollowingSession(ThreadedSession[Follower]):
    """The attributes of a `Follower`."""

    @property
    def term(self) -> str:
        """The term of the daemon, to which the number of the newest message belongs; pass both to `follow` to resume later."""
        return self._session.term
