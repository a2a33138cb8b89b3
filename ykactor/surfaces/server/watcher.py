"""The config watcher actor: the queue file changes on disk, and its new text goes to whoever applies it.

In: file system events of the file's directory, and ``reload`` (SIGHUP). Out: ``changed(text)``. Whether the text is a
valid configuration is the receiver's business.

The *directory* is watched, because a watch on the file follows its inode and misses files renamed into place (it saw
one replacement of three) and Kubernetes' swap of the ``..data`` link. Every event is only a nudge: what counts is
whether the content differs. Not seen: changes behind a link into a directory elsewhere, on network file systems (set
``WATCHFILES_FORCE_POLLING``), or after the directory itself was replaced. ``reload`` works in all of them.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import trio
from watchfiles import awatch

from ykactor.surfaces.server.files import read_regular
from ykactor.surfaces.server.logs import get_logger, log_event

log = get_logger(__name__)

#: A file has settled when two looks this far apart read the same.
SETTLE_S = 0.1
#: How often the thread of watchfiles looks for events and for ``stop``. While idle it takes 0.15 ms of CPU a second
#: (0.8 ms at the library's 50).
STEP_MS = 200


class EmptyFileError(Exception):
    """The file has nothing in it."""


class ConfigWatcher:
    """The running watcher, as its starter sees it; ``watch_config`` makes it."""

    def __init__(self, path: Path, known: str, changed: Callable[[str], Awaitable[None]]) -> None:
        self._path = path
        self._changed = changed
        self._digest = _digest(known.encode())
        self._is_forced = False
        #: Why the file could not be read the last time, to say it once.
        self._trouble = ""
        # One slot: nudges coalesce, and none that arrives during a delivery is lost.
        self._send_nudge, self._nudges = trio.open_memory_channel[None](1)

    def reload(self) -> None:
        """Deliver the file even if it did not change: the operator asked. Never waits; does nothing after ``stop``."""
        self._is_forced = True
        self._nudge()

    def _nudge(self) -> None:
        with suppress(trio.WouldBlock, trio.ClosedResourceError):
            self._send_nudge.send_nowait(None)

    async def _watch_directory(self, stop: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        """Turn file system events into nudges until ``stop``; then no more nudges come."""
        with self._send_nudge:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_set_when_cancelled, stop)
                # awatch places its watch before its first checkpoint, so our starter runs only after that.
                task_status.started()
                # No filter: the default one ignores directories by name. No timeout: ``stop`` is enough to end it.
                events = awatch(
                    self._path.parent, watch_filter=None, step=STEP_MS, rust_timeout=0, stop_event=stop, recursive=False
                )
                async for _ in events:
                    self._nudge()
                nursery.cancel_scope.cancel()

    async def _deliver(self) -> None:
        """For each nudge: if the settled file differs from what was delivered before, deliver it."""
        # The file may have changed between the caller's reading and our watch.
        self._nudge()
        async for _ in self._nudges:
            is_forced, self._is_forced = self._is_forced, False
            try:
                content = await self._read_settled()
                text = content.decode()
                if not text:  # a writer that truncates first, or a full disk: never what somebody wants to be in force
                    raise EmptyFileError("the file is empty")
            except (OSError, UnicodeDecodeError, EmptyFileError) as error:
                self._note_trouble(error)
                continue
            self._trouble = ""
            digest = _digest(content)
            if is_forced or digest != self._digest:
                self._digest = digest
                log_event(log, logging.INFO, "config_read", path=self._path, sha256=digest, reload=is_forced)
                await self._changed(text)

    async def _read_settled(self) -> bytes:
        """The file's content when its writer seems to be done; one that pauses longer should rename into place."""
        content = await trio.to_thread.run_sync(read_regular, self._path)
        while True:
            await trio.sleep(SETTLE_S)
            before, content = content, await trio.to_thread.run_sync(read_regular, self._path)
            if content == before:
                return content

    def _note_trouble(self, error: Exception) -> None:
        if str(error) != self._trouble:
            self._trouble = str(error)
            event = "config_vanished" if isinstance(error, FileNotFoundError) else "config_misread"
            log_event(log, logging.WARNING, event, path=self._path, error=self._trouble)


async def watch_config(
    path: Path,
    known: str,
    changed: Callable[[str], Awaitable[None]],
    *,
    stop: trio.Event,
    task_status: trio.TaskStatus[ConfigWatcher] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call ``changed`` with the file's text whenever it differs from the text before, until ``stop`` is set.

    Deliveries do not overlap: changes during one come as one afterwards, with the newest text. A file that is gone or
    cannot be read is logged once and stays watched. ``nursery.start`` returns the ``ConfigWatcher``, for ``reload``.

    Args:
        path: the queue file; its directory must exist.
        known: the text that the caller read and applied already.
        changed: applies a text; what it raises ends the watcher.
        stop: ends it within about 0.2 s, after a delivery under way; set as well when the watcher is cancelled.
    """
    watcher = ConfigWatcher(path, known, changed)
    async with trio.open_nursery() as nursery:
        await nursery.start(watcher._watch_directory, stop)
        task_status.started(watcher)
        await watcher._deliver()


async def _set_when_cancelled(stop: trio.Event) -> None:
    # The thread of watchfiles sees nothing but ``stop``: left alone, a cancelled awatch waits for it for seconds.
    try:
        await trio.sleep_forever()
    finally:
        stop.set()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
