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

import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from functools import partial
from math import inf
from time import monotonic
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
_LATE = "found no message within {} s"


def _result(future: "Future[T]") -> T:
    """Wait for it; who is interrupted does not want it any more."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class Messages(Generic[T]):
    """Iterates over what a trio client yields. Several threads may; each message goes to one of them."""

    def __init__(self, bridge: Bridge[Any], following: Callable[[], Awaitable[T]]) -> None:
        self._bridge = bridge
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
                self._next = self._bridge.call(self._following)
            wait([self._next], None if end is None else max(0.0, end - monotonic()))
            if not self._next.done():
                raise TimeoutError(_LATE.format(timeout))
            taken, self._next = self._next, None
        finally:
            self._turn.release()
        return taken.result()


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
class ResourceManager(Received[si.Response], Numbers):
    """The blocking flavour of `ykactor.client.ResourceManager`."""

    def __init__(self, bridge: Bridge[client.ResourceManager], session: client.ResourceManager) -> None:
        super().__init__(bridge, session.__anext__)
        self._session = session

    def send(self, request: si.Request) -> None:
        _result(self._bridge.call(partial(self._session.send, request)))

    def request(self, request: si.Request) -> si.Ack:
        return _result(self._bridge.call(partial(self._session.request, request)))

    def send_all(self, requests: Iterable[R]) -> Messages[Answered[R]]:
        return Messages(self._bridge, self._session.send_all(requests).__anext__)

    def answer(
        self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str], *, uses: int | None = None
    ) -> None:
        self.send(predicate_answers(asked, refusal, uses))

    def hand_back(self, allocation: si.Allocation) -> si.Ack:
        return _result(self._bridge.call(partial(self._session.hand_back, allocation)))


@mirrors(client.KeptSession)
class KeptSession(Received[si.Response | client.Refusal], Posting):
    """The blocking flavour of `ykactor.client.KeptSession`."""

    def __init__(self, bridge: Bridge[client.KeptSession], session: client.KeptSession) -> None:
        super().__init__(bridge, session.__anext__)
        Posting.__init__(self, bridge, session)


@mirrors(client.Follower)
class Follower(Received[client.FollowedMessage]):
    """The blocking flavour of `ykactor.client.Follower`."""

    def __init__(self, bridge: Bridge[client.Follower], session: client.Follower) -> None:
        super().__init__(bridge, session.__anext__)
        self._session = session

    @property
    def term(self) -> str:
        return self._session.term


@mirrors(client.Operator)
class Operator:
    """The blocking flavour of `ykactor.client.Operator`."""

    def __init__(self, bridge: Bridge[client.Operator], session: client.Operator) -> None:
        self._bridge = bridge
        self._session = session

    def request(self, request: si.OperatorRequest) -> si.Ack:
        return _result(self._bridge.call(partial(self._session.request, request)))


def _bridged(
    opener: Callable[P, AbstractAsyncContextManager[S]], face: Callable[[Bridge[S], S], F]
) -> Callable[P, AbstractContextManager[F]]:
    """The function of the trio client, with these parameters, that yields the blocking flavour of its session."""

    @documented_as(opener)
    @contextmanager
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[F]:
        bridge = Bridge(opener(*args, **kwargs))
        try:
            yield face(bridge, bridge.opened.result())
        finally:
            if not sys.is_finalizing():  # the interpreter ends, and its thread does not run any more
                bridge.close().result()

    return opened


def _asked(question: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """The function of the trio client that has one answer, with these parameters."""

    @documented_as(question)
    def asked(*args: P.args, **kwargs: P.kwargs) -> T:
        bridge = Bridge(nullcontext())
        try:
            bridge.opened.result()
            return _result(bridge.call(partial(question, *args, **kwargs)))
        finally:
            bridge.close().result()

    return asked


connect = _bridged(client.connect, ResourceManager)
keep_registered = _bridged(client.keep_registered, KeptSession)
follow = _bridged(client.follow, Follower)
operate = _bridged(client.operate, Operator)
read_configuration = _asked(client.read_configuration)
check_health = _asked(client.check_health)
read_usage = _asked(client.read_usage)
