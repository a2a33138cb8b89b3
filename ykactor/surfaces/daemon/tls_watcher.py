"""Follows the files of TLS: what they say holds for new connections (SE-32)."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from ykactor.access import moments
from ykactor.actors.clock import Clock
from ykactor.core.values.times import DAY_NS, S_NS
from ykactor.core.values.words import plural
from ykactor.surfaces.admission.audit import AuditLog
from ykactor.surfaces.files.tls_files import TlsFileError, TlsFiles
from ykactor.surfaces.files.watcher import SHORTAGES, FileWatcher, TryAgainError
from ykactor.surfaces.log.logs import get_logger, log_event

log = get_logger(__name__)


class TlsWatcher(FileWatcher):
    """Watches a certificate, its key and the authorities of clients, and when the certificate expires.

    Attributes:
        audit: where that is told; set by the daemon.
    """

    audit: AuditLog | None = None
    refusal = ""

    def __init__(self, files: TlsFiles, clock: Clock) -> None:
        super().__init__("tls", files.cert, files.content)
        self._files = files
        self._clock = clock
        self._expiry = CertificateExpiry(files, clock, self._tell)
        self._log_applied()

    async def run(self, stop: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expiry.run)
            await super().run(stop, task_status=task_status)
            nursery.cancel_scope.cancel()

    async def _tell(self, text: str) -> None:
        if self.audit is not None:
            await self.audit.certificate_expires(self.path, text)

    def expires_s(self) -> float:
        """The Unix time at which the certificate expires, in seconds."""
        return moments.unix_ns(self._files.expires) / S_NS

    def directories(self) -> set[Path]:
        return self._files.directories()

    def read(self) -> bytes:
        return self._files.read()

    async def deliver(self, content: bytes, *, is_asked: bool) -> bytes:
        """Wrong files change nothing, and are logged: often one of them was replaced, and the next one follows."""
        try:
            await trio.to_thread.run_sync(self._files.load, abandon_on_cancel=True)
        except (TlsFileError, OSError) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                raise TryAgainError from None
            self.refusal = str(error)
            log_event(log, logging.ERROR, "tls_refused", path=self.path, reason=self.refusal)
        else:
            self.refusal = ""
            self._log_applied()
            self._expiry.replaced()
        return self._files.content

    def _log_applied(self) -> None:
        files = self._files
        log_event(log, logging.INFO, "tls_applied", path=files.cert, expires=moments.shown(files.expires))
        for warning in files.warnings(moments.at(self._clock.corrected_ns())):
            log_event(log, logging.WARNING, "tls_warning", reason=warning)


# ---- warnings before the certificate of the daemon expires (SE-35)

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
        days = plural(math.ceil((expires_ns - now_ns) / DAY_NS), "day")
        text = f"the certificate expires at {moments.shown(self._files.expires)}, in {days}"
        log_event(log, logging.WARNING, "tls_warning", reason=f"{self._files.cert}: {text}")
        await self._tell(text)
