"""Sessions that outlive connections: they connect again, with growing pauses."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from typing import Generic, Self, TypeVar

import trio

from ykactor.client.errors import Disconnected, RequestRefused
from ykactor.wire.si.protocol_error import ProtocolError

T = TypeVar("T")

#: The first and the longest pause before the next attempt; the actual pause is random, at least half of it.
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0
#: After a session that has lasted so long, the next attempt to connect is like the first one. Whatever ends sessions at once,
#: such as a daemon that dies of what it is told, is tried less and less often.
LASTING_S = 10.0

#: Called with a sentence when there is a connection, when it is lost, and when it is restored.
OnConnection = Callable[[str], object]


def backoff_s(attempts: int, first_s: float, most_s: float, rng: random.Random) -> float:
    """Seconds before the next attempt, after the first and so many others: twice as long each time, and random, at least half."""
    return min(most_s, first_s * 2.0 ** min(attempts, 16)) * rng.uniform(0.5, 1)


def silently(sentence: str) -> None:
    """An ``OnConnection`` that does nothing."""


class ReconnectingSession(ABC, Generic[T]):
    """A session over one connection after another, which `run` opens. Iterate over it."""

    def __init__(self, rng: random.Random, on_connection: OnConnection) -> None:
        self._rng = rng
        self._on_connection = on_connection
        #: Whether a connection was lost, or could not be made, and there is no other yet.
        self.is_lost = False
        #: The number of attempts in a row that have led to nothing.
        self._attempt = 0
        #: When the present connection was opened.
        self._opened_s = inf
        self._messages_in, self._messages = trio.open_memory_channel[T](0)
        self._failure: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await self._messages.receive()
        except trio.EndOfChannel:
            raise self._failure or Disconnected("the session is closed") from None

    async def run(self) -> None:
        """Stay connected. Returns only after a failure, which iteration raises."""
        try:
            while True:
                self._opened_s = inf
                await self._connect()
                if trio.current_time() - self._opened_s >= LASTING_S:
                    self._attempt = 0
                await trio.sleep(backoff_s(self._attempt, BACKOFF_FIRST_S, BACKOFF_MAX_S, self._rng))
                self._attempt += 1
        except (Disconnected, RequestRefused, ProtocolError, ValueError) as error:
            self._failure = error
        finally:
            # When it is cancelled, the block in which the session was opened has ended; other tasks may still wait for messages.
            self.is_lost = True
            self._messages_in.close()

    @abstractmethod
    async def _connect(self) -> None:
        """Open a connection, and use it until it is lost, or was not made and may be tried again."""

    def _on_lost(self, sentence: str) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._on_connection(sentence)
