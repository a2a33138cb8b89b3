"""Requests of a session that stays registered, from other threads."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ykactor.client.bridge import Bridge
from ykactor.client.kept import KeptSession
from ykactor.client.mirrored import mirrors
from ykactor.client.resource_manager import handed_back, predicate_answers
from ykactor.wire.si import messages as si


@mirrors(KeptSession)
class Posting:
    """What `KeptSession` has that never waits, for the faces of other programs."""

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

    def answer(
        self, asked: si.PredicatesRequest, refusal: Callable[[si.PredicateCheck], str], *, uses: int | None = None
    ) -> None:
        self.send(predicate_answers(asked, refusal, uses))

    def hand_back(self, allocation: si.Allocation) -> None:
        self.send(handed_back(allocation))

    @property
    def is_lost(self) -> bool:
        return self._session.is_lost

    @property
    def unanswered_count(self) -> int:
        posted = self._posted  # first: a request that is handed over meanwhile is counted twice rather than not at all
        return posted + self._session.unanswered_count
