"""What the log says of the journal: that it is not written, and again while that lasts, and that it is written again."""

from __future__ import annotations

import logging

import trio

from ykactor.actors.journal import Journal
from ykactor.actors.ring import Ring
from ykactor.surfaces.server.logs import get_logger, log_event

log = get_logger(__name__)

#: How often the log says again that the journal is not written.
REPEAT_S = 60.0


class JournalLog:
    """Logs each change of ``journal.stalled``; ``ring`` has the number of the newest event, and of the newest durable one."""

    def __init__(self, journal: Journal, ring: Ring) -> None:
        self._journal = journal
        self._ring = ring
        self._logged_at = trio.current_time()
        journal.watch(self._log)

    async def run(self) -> None:
        """Log a journal that is not written every ``REPEAT_S``, until cancelled."""
        while True:
            await trio.sleep_until(self._logged_at + REPEAT_S)
            if trio.current_time() < self._logged_at + REPEAT_S:
                continue  # there was a change meanwhile
            if self._journal.stalled is None:
                self._logged_at = trio.current_time()
            else:
                self._log()

    def _log(self) -> None:
        self._logged_at = trio.current_time()
        stalled = self._journal.stalled
        if stalled is None:
            log_event(log, logging.INFO, "journal_resumed", seq=self._ring.sequence)
        else:
            log_event(log, logging.ERROR, "journal_stalled", seq=self._ring.durable, reason=stalled.reason)
