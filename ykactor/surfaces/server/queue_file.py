"""The queue file of a daemon: its changes are followed, and it is read again on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio

from ykactor.core.messages.kinds import Act
from ykactor.surfaces.server.audit import Audit
from ykactor.surfaces.server.logs import get_logger
from ykactor.surfaces.server.reloading import Reloading
from ykactor.surfaces.server.systemd import Notifier
from ykactor.surfaces.server.watcher import ConfigWatcher, TryAgainError
from ykactor.wire.si.codec import ProtocolError

log = get_logger(__name__)


class QueueFile:
    """Puts the content of the file into force.

    Args:
        path: None: there is no file.

    Attributes:
        watcher: of the file; None while it is not followed.
    """

    def __init__(self, path: Path | None, reloading: Reloading, audit: Audit) -> None:
        self._path = path
        self._reloading = reloading
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

    async def _on_changed(self, path: Path, notifier: Notifier, status: Callable[[], str], text: str, is_asked: bool) -> None:
        """A valid file is applied between two cycles; another changes nothing, is logged and is reported as an event (CF-52)."""
        before = self._reloading.config.checksum
        notifier.reloading()
        try:
            await self._reloading.apply_file(text, str(path), is_asked=is_asked)
        except ProtocolError as error:  # logged
            if error.code == "UNAVAILABLE":
                raise TryAgainError from None
        except trio.ClosedResourceError:
            pass  # the daemon stops
        finally:
            notifier.ready(status())
        after = self._reloading.config.checksum
        if after != before:
            await self._audit.changed_file(Act.CONFIGURE, path, before, after)

    async def read_again(self) -> str:
        """As ``Gateway.reload_file``."""
        if self.watcher is None:
            raise ProtocolError("REFUSED", _NO_FILE)
        async with self.watcher.turn:
            try:
                text = (await self.watcher.read_complete()).decode()
            except (OSError, UnicodeDecodeError) as error:
                raise ProtocolError("UNAVAILABLE", f"the queue file cannot be read: {error}") from None
            if not text:  # for the daemon it would be the built-in configuration
                raise ProtocolError("UNAVAILABLE", "the queue file is empty")
            return await self._reloading.apply_file(text, str(self._path), is_asked=True)


_NO_FILE = "the daemon has no queue file to read again"
