"""Follows the access file: what it says holds from when it, or a file that it names, was changed (SE-67)."""

from __future__ import annotations

import logging
from pathlib import Path

import trio

from ykactor.actors.clock import Clock
from ykactor.surfaces.access_file import AccessFile
from ykactor.surfaces.server.access_control import AccessControl
from ykactor.surfaces.server.audit import Audit
from ykactor.surfaces.server.logs import get_logger, log_event
from ykactor.surfaces.server.watcher import SHORTAGES, FileWatcher, TryAgainError
from ykactor.wire.queuefile.text import ConfigError

log = get_logger(__name__)

#: The number of mistakes of one file that are logged one by one.
MISTAKES_LOGGED_MAX = 200


class AccessWatcher(FileWatcher):
    """Watches an access file and the files that it names.

    Attributes:
        control: whom the file lets in.
        audit: where changes are told; set by the daemon.
    """

    audit: Audit | None = None

    def __init__(self, file: AccessFile, clock: Clock) -> None:
        super().__init__("access", file.path, file.content)
        self.control = AccessControl(file.access, clock)
        self._file = file
        log_applied(file)

    def directories(self) -> set[Path]:
        return self._file.directories()

    def read(self) -> bytes:
        return self._file.read()

    async def deliver(self, content: bytes, *, is_asked: bool) -> bytes:
        """A wrong file changes nothing, and is logged."""
        before = self.control.access
        try:
            # In a thread, because a name service that says who a user is may take seconds.
            self.control.replace(await trio.to_thread.run_sync(self._file.load, abandon_on_cancel=True))
        except (ConfigError, OSError) as error:
            if self._file.lacks(SHORTAGES):
                raise TryAgainError from None
            _log_refused(self._file, str(error).splitlines())
        else:
            log_applied(self._file)
            if self.audit is not None:
                await self.audit.access_changed(self.path, before, self.control.access)
        return self._file.content


def log_applied(file: AccessFile) -> None:
    """What an operator may want to know of an access file that is in force from now on."""
    access = file.access
    log_event(
        log,
        logging.INFO,
        "access_applied",
        path=file.path,
        identities=len(access.identities),
        tokens=len(access.tokens.all),
    )
    for warning in access.warnings:
        log_event(log, logging.WARNING, "access_warning", reason=warning)


def _log_refused(file: AccessFile, mistakes: list[str]) -> None:
    if len(mistakes) > MISTAKES_LOGGED_MAX:
        mistakes[MISTAKES_LOGGED_MAX:] = [f"and {len(mistakes) - MISTAKES_LOGGED_MAX} more"]
    for mistake in mistakes:
        log_event(log, logging.ERROR, "access_refused", path=file.path, reason=mistake)
