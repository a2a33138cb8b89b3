"""A trio client in a thread of its own, for programs that do not run trio.

The thread runs one context manager of the client, such as `connect(...)`. Calls come from other threads as futures: who cancels a
future cancels the call. When the bridge is closed, or the thread fails, calls that wait end with `Disconnected`.
"""

import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from functools import WRAPPER_ASSIGNMENTS, partial, wraps
from typing import Any, Generic, TypeVar

import trio

from ykactor.client.errors import Disconnected
from ykactor.client.kept import KeptSession, Sender
from ykactor.client.resource_manager import ResourceManager
from ykactor.wire.si import messages as si

S = TypeVar("S")
T = TypeVar("T")


class Bridge(Generic[S]):
    """A context manager of the trio client that is entered in a thread of its own.

    Attributes
    ----------
    opened : Future
        What the context manager yields, or why it does not.
    closed : Future
        Done when the thread has nothing more to do: an error that has ended it, such as one of what was given to be called.
    """

    def __init__(self, opening: AbstractAsyncContextManager[S]) -> None:
        self.opened: Future[S] = Future()
        self.closed: Future[None] = Future()
        self._opening = opening
        self._process = os.getpid()
        self._entering = trio.CancelScope()
        self._closing = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._has_opened = False
        #: The token of the thread, as soon as it runs.
        self._running: Future[trio.lowlevel.TrioToken] = Future()
        threading.Thread(target=self._run, name="ykactor-client", daemon=True).start()
        self._token = self._running.result()  # within a few ms

    def call(self, function: Callable[[], Awaitable[T]]) -> "Future[T]":
        """Run a function of the session in the thread."""
        future: Future[T] = Future()
        scope = trio.CancelScope()
        future.add_done_callback(lambda done: done.cancelled() and self.call_soon(scope.cancel))
        if not self.call_soon(partial(self._begin, function, future, scope)):
            _fail(future, self.ended())
        return future

    def ended(self) -> Disconnected:
        """The error of calls when the thread has ended."""
        error = _closed()
        if self.closed.done():
            error.__cause__ = self.closed.exception()
        return error

    def close(self) -> "Future[None]":
        """Leave the context manager, also if it is not entered yet; may be called again. Without effect in a forked process."""
        if os.getpid() != self._process:
            return _nothing()
        self.call_soon(self._on_close)
        return self.closed

    def call_soon(self, function: Callable[[], object]) -> bool:
        """Call a function in the thread, after those before it; False if it has ended, or is one of the process before a fork."""
        if os.getpid() != self._process:
            return False
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    # ---- in the thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            trio.run(self._serve)
        except BaseException as error:
            failure = error if self._has_opened else None  # else who opens it is told
            _fail(self.opened, error)
            _fail(self._running, error)  # else the thread could not even begin, such as without file descriptors
        _fail(self.opened, _closed())
        if failure is None:
            self.closed.set_result(None)
        else:
            self.closed.set_exception(failure)

    async def _serve(self) -> None:
        self._running.set_result(trio.lowlevel.current_trio_token())
        with self._entering:
            async with self._opening as session:
                try:
                    async with trio.open_nursery() as self._nursery:
                        with suppress(InvalidStateError):  # nobody waits for it any more
                            self.opened.set_result(session)
                            self._has_opened = True
                        await self._closing.wait()
                        self._nursery.cancel_scope.cancel()
                finally:
                    self._nursery = None

    def _on_close(self) -> None:
        if self._nursery is None and not self._closing.is_set():
            self._entering.cancel()
        self._closing.set()

    def _begin(self, function: Callable[[], Awaitable[T]], future: "Future[T]", scope: trio.CancelScope) -> None:
        if self._nursery is None:
            _fail(future, _closed())
        else:
            self._nursery.start_soon(_carry_out, function, future, scope)


async def _carry_out(function: Callable[[], Awaitable[T]], future: "Future[T]", scope: trio.CancelScope) -> None:
    try:
        with scope:
            result = await function()
            with suppress(InvalidStateError):
                future.set_result(result)
    except Exception as error:
        _fail(future, error)
    finally:
        _fail(future, _closed())


def _fail(future: "Future[T]", error: BaseException) -> None:
    """Set the error of a future, without effect if it is done."""
    with suppress(InvalidStateError):
        future.set_exception(error)


def _nothing() -> "Future[None]":
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _closed() -> Disconnected:
    return Disconnected("the session is closed")


F = TypeVar("F")
C = TypeVar("C", bound=type)


def documented_as(function: Callable[..., Any]) -> Callable[[F], F]:
    """Name, parameters and docstring are those of this function; what it returns is another face."""
    return wraps(function, [name for name in WRAPPER_ASSIGNMENTS if name not in ("__module__", "__annotations__")])  # type: ignore[return-value]


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


@mirrors(ResourceManager)
class Numbers:
    """The numbers of a `ResourceManager`, for threads other than its own."""

    _session: ResourceManager

    @property
    def sequence(self) -> int:
        return self._session.sequence

    @property
    def term(self) -> str:
        return self._session.term

    @property
    def unread_count(self) -> int:
        return self._session.unread_count


@mirrors(KeptSession)
class Posting(Sender):
    """The methods of `KeptSession` that never wait, for threads other than its own."""

    def __init__(self, bridge: Bridge[KeptSession], session: KeptSession) -> None:
        self._bridge = bridge
        self._session = session
        self._counting = threading.Lock()
        #: Requests that are on their way to the thread of the session.
        self._posted = 0

    def send(self, request: si.WorkRequest) -> None:
        self._session.check()
        self._count(1)
        if not self._bridge.call_soon(partial(self._send, request)):
            self._count(-1)
            raise self._bridge.ended()

    def _send(self, request: si.WorkRequest) -> None:
        with suppress(Exception):  # iteration raises it, and so does the next call
            self._session.send(request)
        self._count(-1)

    def _count(self, more: int) -> None:
        with self._counting:
            self._posted += more

    @property
    def is_lost(self) -> bool:
        return self._session.is_lost

    @property
    def unanswered_count(self) -> int:
        posted = self._posted  # first: a request that is handed over meanwhile is counted twice rather than not at all
        return posted + self._session.unanswered_count
