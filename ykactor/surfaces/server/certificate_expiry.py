"""Warns that the certificate of the daemon is about to expire (SE-35)."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable

import trio

from ykactor.access import moments
from ykactor.actors.clock import Clock
from ykactor.core.values.times import DAY_NS
from ykactor.surfaces.server.logs import get_logger, log_event
from ykactor.surfaces.server.tls_files import TlsFiles

log = get_logger(__name__)

#: So many days before it expires.
DAYS = (30, 7, 1)


class CertificateExpiry:
    """Warns at each of these moments once.

    Args:
        tell: tells the audit, with the text.
    """

    def __init__(self, files: TlsFiles, clock: Clock, tell: Callable[[str], Awaitable[None]]) -> None:
        self._files = files
        self._clock = clock
        self._tell = tell
        self._replaced = trio.Event()
        #: The last moment of which was warned, and when the certificate expires.
        self._warned = (0, 0)

    def replaced(self) -> None:
        """The files were read again."""
        self._replaced.set()

    async def run(self) -> None:
        """Warn until cancelled."""
        while True:
            self._replaced = trio.Event()
            expires_ns, now_ns = moments.unix_ns(self._files.expires), self._clock.corrected_ns()
            dues = [expires_ns - days * DAY_NS for days in DAYS]
            await self._warn(max((due for due in dues if due <= now_ns), default=0), expires_ns, now_ns)
            next_s = min((self._clock.corrected_to_trio(due) for due in dues if due > now_ns), default=math.inf)
            with trio.move_on_at(next_s):
                await self._replaced.wait()

    async def _warn(self, due_ns: int, expires_ns: int, now_ns: int) -> None:
        """Warn of a moment that has come. Of a certificate that has expired ``TlsFiles.warnings`` tells."""
        if due_ns == 0 or now_ns >= expires_ns or self._warned == (due_ns, expires_ns):
            return
        self._warned = due_ns, expires_ns
        days = math.ceil((expires_ns - now_ns) / DAY_NS)
        text = f"the certificate expires at {moments.shown(self._files.expires)}, in {days} {'day' if days == 1 else 'days'}"
        log_event(log, logging.WARNING, "tls_warning", reason=f"{self._files.cert}: {text}")
        await self._tell(text)
