"""The requests of a resource manager that have no answer yet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import trio

from ykactor.actors.journal import Journal
from ykactor.actors.receipts import Accepted


class Requests:
    """The requests that have no answer yet.

    Args:
        journal: keeps receipts; None: nothing is kept.
    """

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self._numbers = count(1)
        #: By number: the session that accepted the request.
        self._open: dict[int, object] = {}
        self._fewer = trio.lowlevel.ParkingLot()

    def accept(self, request_id: str, session: object) -> Accepted:
        """A session has accepted a request and will answer it."""
        accepted = Accepted(next(self._numbers), request_id)
        self._open[accepted.number] = session
        return accepted

    def answered(self, accepted: Accepted) -> None:
        """The answer has just been posted; both become durable together."""
        self._open.pop(accepted.number, None)
        self._fewer.unpark_all()
        self.forget(accepted.keys())

    def leave(self, session: object) -> None:
        """The session answers no more requests."""
        self._open = {number: other for number, other in self._open.items() if other is not session}
        self._fewer.unpark_all()

    def forget(self, keys: Iterable[bytes]) -> None:
        """Delete receipts."""
        if self._journal is not None:
            for key in keys:
                self._journal.note(key, None)

    async def all_answered(self) -> None:
        """Wait until each accepted request is answered, or will never be."""
        while self._open:
            await self._fewer.park()
