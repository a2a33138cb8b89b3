"""Follows the files of TLS: what they say holds for new connections (SE-32)."""

from __future__ import annotations

import logging
from pathlib import Path

import trio

from ykactor.access import moments
from ykactor.actors.clock import Clock
from ykactor.surfaces.server.logs import get_logger, log_event
from ykactor.surfaces.server.tls_files import TlsFileError, TlsFiles
from ykactor.surfaces.server.watcher import SHORTAGES, FileWatcher, TryAgainError

log = get_logger(__name__)


class TlsWatcher(FileWatcher):
    """Watches a certificate, its key and the authorities of clients."""

    def __init__(self, files: TlsFiles, clock: Clock) -> None:
        super().__init__("tls", files.cert, files.content)
        self._files = files
        self._clock = clock
        self._log_applied()

    def directories(self) -> set[Path]:
        return self._files.directories()

    def read(self) -> bytes:
        return self._files.read()

    async def deliver(self, content: bytes) -> bytes:
        """Wrong files change nothing, and are logged: often one of them was replaced, and the next one follows."""
        try:
            await trio.to_thread.run_sync(self._files.load, abandon_on_cancel=True)
        except (TlsFileError, OSError) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                raise TryAgainError from None
            log_event(log, logging.ERROR, "tls_refused", path=self.path, reason=str(error))
        else:
            self._log_applied()
        return self._files.content

    def _log_applied(self) -> None:
        files = self._files
        log_event(log, logging.INFO, "tls_applied", path=files.cert, expires=moments.shown(files.expires))
        for warning in files.warnings(moments.at(self._clock.now_ns())):
            log_event(log, logging.WARNING, "tls_warning", reason=warning)
