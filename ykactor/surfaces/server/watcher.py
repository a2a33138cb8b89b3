"""The config watcher: calls ``changed`` with the new text when the queue file changes on disk, or on ``reload`` (SIGHUP).

The text may be an invalid configuration: the watcher does not check it.

The *directory* of the file is watched. A watch on the file itself follows its inode: it misses a file that is renamed into
place, and Kubernetes' switch of the ``..data`` link. An event only causes the file to be read; the text is delivered if it
differs from the last one. There are no events for changes behind a link into another directory, on network file systems (set
``WATCHFILES_FORCE_POLLING``), and after the directory itself was replaced. ``reload`` works in all of these cases.
"""

import errno
import hashlib
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import trio
from watchfiles import awatch

from ykactor.surfaces.server.files import read_regular
from ykactor.surfaces.server.logs import get_logger, log_event

log = get_logger(__name__)

#: A file is complete when it has the same content twice, this many seconds apart.
SETTLE_S = 0.1
#: The interval at which the thread of watchfiles checks for events and for ``stop``. This takes 0.15 ms of CPU time per second
#: (0.8 ms with the library's default of 50).
STEP_MS = 200
#: What the process or the machine lacks for a while: it says nothing about the file, and no event says when it is over.
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
#: The time before the file is read again after a shortage; it doubles up to the maximum.
RETRY_S = 1.0
RETRY_MAX_S = 30.0


class EmptyFileError(Exception):
    """The file is empty."""


class TryAgainError(Exception):
    """The text could not be applied, for a reason that may pass by itself and is logged."""


class ConfigWatcher:
    """A running watcher; started by ``watch_config``."""

    def __init__(self, path: Path, known: str, changed: Callable[[str], Awaitable[None]]) -> None:
        self._path = path
        self._changed = changed
        self._digest = _digest(known.encode())
        self._is_forced = False
        #: Why the file could not be read the last time, so that this is logged once, and again on ``reload``.
        self._trouble = ""
        # One slot: several triggers become one, and a trigger during a delivery is not lost.
        self._triggers_in, self._triggers = trio.open_memory_channel[None](1)

    def reload(self) -> None:
        """Deliver the file even if it did not change. Never waits; does nothing after ``stop``."""
        self._is_forced = True
        self._trouble = ""  # whoever asks for a reload is told that the file still cannot be read
        self._trigger()

    def _trigger(self) -> None:
        with suppress(trio.WouldBlock, trio.ClosedResourceError):
            self._triggers_in.send_nowait(None)

    async def _watch_directory(self, stop: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        """Trigger a read for each file system event, until ``stop``; then close the channel."""
        with self._triggers_in:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_set_when_cancelled, stop)
                # awatch starts watching before its first checkpoint, so before the task that waits for started() continues.
                task_status.started()
                # No filter, because the default one ignores some directories by name. No timeout, because ``stop`` ends it.
                events = awatch(
                    self._path.parent, watch_filter=None, step=STEP_MS, rust_timeout=0, stop_event=stop, recursive=False
                )
                async for _ in events:
                    self._trigger()
                nursery.cancel_scope.cancel()

    async def _deliver(self) -> None:
        """For each trigger, and after a shortage: read the file, and deliver it if it differs from the last delivery."""
        # The file may have changed after the caller read it and before the watch started.
        self._trigger()
        retry_s = RETRY_S
        wait_s = math.inf
        with suppress(trio.EndOfChannel):
            while True:
                with trio.move_on_after(wait_s):
                    await self._triggers.receive()
                is_forced, self._is_forced = self._is_forced, False
                if await self._deliver_once(is_forced):
                    retry_s, wait_s = RETRY_S, math.inf
                else:
                    self._is_forced |= is_forced
                    retry_s, wait_s = min(2 * retry_s, RETRY_MAX_S), retry_s

    async def _deliver_once(self, is_forced: bool) -> bool:
        """Returns False if something lacked that may be there later."""
        try:
            content = await self.read_complete()
            text = content.decode()
            if not text:  # the writer truncated it first, or the disk is full
                raise EmptyFileError("the file is empty")
        except (OSError, UnicodeDecodeError, EmptyFileError) as error:
            self._log_trouble(error)
            return not (isinstance(error, OSError) and error.errno in SHORTAGES)
        self._trouble = ""
        digest = _digest(content)
        if not is_forced and digest == self._digest:
            return True
        log_event(log, logging.INFO, "config_read", path=self._path, sha256=digest, reload=is_forced)
        try:
            await self._changed(text)
        except TryAgainError:
            return False
        self._digest = digest
        return True

    async def read_complete(self) -> bytes:
        """The content when the writer seems to have finished; a writer that pauses longer should rename its file into place."""
        content = await self._read()
        while True:
            await trio.sleep(SETTLE_S)
            before, content = content, await self._read()
            if content == before:
                return content

    async def _read(self) -> bytes:
        # A network file system that does not answer holds up the thread, but not the end of the daemon.
        return await trio.to_thread.run_sync(read_regular, self._path, abandon_on_cancel=True)

    def _log_trouble(self, error: Exception) -> None:
        if str(error) != self._trouble:
            self._trouble = str(error)
            event = "config_vanished" if isinstance(error, FileNotFoundError) else "config_unreadable"
            outcome = "the running configuration stays in force"
            log_event(log, logging.WARNING, event, path=self._path, error=self._trouble, outcome=outcome)


async def watch_config(
    path: Path,
    known: str,
    changed: Callable[[str], Awaitable[None]],
    *,
    stop: trio.Event,
    task_status: trio.TaskStatus[ConfigWatcher] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Call ``changed`` with the text of the file whenever it differs from the last one, until ``stop`` is set.

    Calls of ``changed`` do not overlap: all changes during a call cause one further call, with the newest text. If the file is
    missing or cannot be read, this is logged once, and again on ``reload``, and watching continues. After a shortage, such as
    of file descriptors, it is read again in a while, as after a ``TryAgainError`` of ``changed``. ``nursery.start`` returns the
    ``ConfigWatcher``.

    Args:
        path: the queue file; its directory must exist.
        known: the text that the caller has already read and applied.
        changed: applies a text; an exception other than ``TryAgainError`` ends the watcher.
        stop: ends the watcher within about 0.2 s, after a call under way; also set when the watcher is cancelled.
    """
    watcher = ConfigWatcher(path, known, changed)
    async with trio.open_nursery() as nursery:
        await nursery.start(watcher._watch_directory, stop)
        task_status.started(watcher)
        await watcher._deliver()


async def _set_when_cancelled(stop: trio.Event) -> None:
    # Only ``stop`` ends the thread of watchfiles: without it a cancelled awatch would wait some seconds for the thread.
    try:
        await trio.sleep_forever()
    finally:
        stop.set()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
