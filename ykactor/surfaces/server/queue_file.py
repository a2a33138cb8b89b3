"""The queue file of a daemon: its changes are followed, and it is read again on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from ykactor.core.messages.kinds import Act
from ykactor.surfaces.server.audit import Audit
from ykactor.surfaces.server.daemon_rows import DaemonRows
from ykactor.surfaces.server.logs import get_logger
from ykactor.surfaces.server.systemd import Notifier
from ykactor.surfaces.server.watcher import ConfigWatcher, TryAgainError
from ykactor.wire.si.codec import ProtocolError

log = get_logger(__name__)


class QueueFile:
    """Puts the content of the file into force.

    Args:
        path: None: there is no file.
        apply: puts a text into force (``Daemon.apply_config``).
        checksum: that of the configuration in force.

    Attributes:
        watcher: of the file; None while it is not followed.
    """

    def __init__(
        self,
        path: Path | None,
        apply: Callable[[str, str, str], Awaitable[str]],
        checksum: Callable[[], str],
        rows: DaemonRows,
        audit: Audit,
    ) -> None:
        self._path = path
        self._apply = apply
        self._checksum = checksum
        self._rows = rows
        self._audit = audit
        self.watcher: ConfigWatcher | None = None

    async def follow(
        self, nursery: trio.Nursery, notifier: Notifier, status: Callable[[], str], known: str, stopping: trio.Event
    ) -> None:
        """Apply changes as a task of the nursery, until ``stopping``; returns when the file is watched.

        Args:
            status: of the daemon, for systemd.
            known: the text that was read last.
        """
        if self._path is not None:
            changed = partial(self._on_changed, self._path, notifier, status)
            self.watcher = ConfigWatcher(self._path, known, changed)
            await nursery.start(self.watcher.run, stopping, name="config watcher")

    async def _on_changed(self, path: Path, notifier: Notifier, status: Callable[[], str], text: str) -> None:
        """A valid file is applied between two cycles; another changes nothing, is logged and is reported as an event (CF-52)."""
        before = self._checksum()
        notifier.reloading()
        try:
            self._rows.note_file(await self._apply(text, "", str(path)))
        except ProtocolError as error:  # logged
            if error.code == "UNAVAILABLE":
                raise TryAgainError from None
            if error.code == "INTERRUPTED":
                self._rows.note_file(self._checksum())
        except trio.ClosedResourceError:
            pass  # the daemon stops
        finally:
            notifier.ready(status())
        if self._checksum() != before:
            await self._audit.changed_file(Act.CONFIGURE, path, before, self._checksum())

    async def read_again(self) -> str:
        """As ``Gateway.reload_file``."""
        if self.watcher is None:
            raise ProtocolError("REFUSED", _NO_FILE)
        try:
            text = (await self.watcher.read_complete()).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ProtocolError("UNAVAILABLE", f"the queue file cannot be read: {error}") from None
        if not text:  # for the daemon it would be the built-in configuration
            raise ProtocolError("UNAVAILABLE", "the queue file is empty")
        checksum = await self._apply(text, "", str(self._path))
        self._rows.note_file(checksum)
        return checksum


_NO_FILE = "the daemon has no queue file to read again"
