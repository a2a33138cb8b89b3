"""Watches files on disk: delivers their content when it changes, or on ``reload`` (SIGHUP). The content may be wrong.

The *directory* of a file is watched. A watch on the file itself follows its inode: it misses a file that is renamed into
place, and Kubernetes' switch of the ``..data`` link. An event only causes the file to be read; the content is delivered if it
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

from ykactor.surfaces.files.regular import read_regular
from ykactor.surfaces.log.logs import get_logger, log_event

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


class FileWatcher:
    """Watches a file, and perhaps others that it names.

    Args:
        name: how log events about it begin.
        known: the content that the caller has already read and applied.
    """

    def __init__(self, name: str, path: Path, known: bytes) -> None:
        self.path = path
        self.name = name
        self._known = _digest(known)
        self._is_asked = False
        #: Held while the file is read and delivered, so that what was read first is applied first.
        self.turn = trio.Lock()
        #: Why the file could not be read the last time, so that this is logged once, and again on ``reload``.
        self._trouble = ""
        # One slot: several triggers become one, and a trigger during a delivery is not lost.
        self._triggers_in, self._triggers = trio.open_memory_channel[None](1)
        #: What is watched, and what ends this watch: the daemon stops, or the files are in other directories now.
        self._watched: set[Path] = set()
        self._ended = trio.Event()

    # ---- what each kind of file has of its own

    def directories(self) -> set[Path]:
        """The directories to watch."""
        return {self.path.parent}

    def read(self) -> bytes:
        """The content. Blocks. Raises OSError."""
        raise NotImplementedError

    def check(self, content: bytes) -> None:
        """Raise UnicodeDecodeError or EmptyFileError for a content that is not delivered."""

    async def deliver(self, content: bytes, *, is_asked: bool) -> bytes:
        """Apply a content; returns what was applied, which may be newer.

        Args:
            is_asked: whether somebody asks for it (``reload``); otherwise the content differs from the last one.

        Raises:
            TryAgainError: see there; any other exception ends the watcher.
        """
        raise NotImplementedError

    @property
    def refusal(self) -> str:
        """The reason for which the content that was delivered last was not applied; "" if it was."""
        return ""

    async def ready(self) -> None:
        """Wait until a content may be read and delivered."""

    # ---- watching

    @property
    def problem(self) -> str:
        """The reason for which what is in the file now is not in force; "" if it is."""
        return self._trouble or self.refusal

    def reload(self) -> None:
        """Deliver the file even if it did not change. Never waits; does nothing after ``stop``."""
        self._is_asked = True
        self._trouble = ""  # whoever asks for a reload is told that the file still cannot be read
        self._trigger()

    async def run(self, stop: trio.Event, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch until ``stop`` is set; it is also set when the watcher is cancelled.

        Calls of ``deliver`` do not overlap: all changes during a call cause one further call, with the newest content. If the
        file is missing or cannot be read, this is logged once, and again on ``reload``, and watching continues. After a
        shortage, such as of file descriptors, it is read again in a while, as after a ``TryAgainError``. Ends within about
        0.2 s of ``stop``, after a call under way.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch_directories, stop)
            task_status.started()
            await self._deliver()

    def _trigger(self) -> None:
        with suppress(trio.WouldBlock, trio.ClosedResourceError):
            self._triggers_in.send_nowait(None)

    async def _watch_directories(self, stop: trio.Event, task_status: trio.TaskStatus[None]) -> None:
        """Trigger a read for each file system event, until ``stop``; then close the channel."""
        with self._triggers_in:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_watch, stop)
                # awatch starts watching before its first checkpoint, so before the task that waits for started() continues.
                task_status.started()
                while not stop.is_set():
                    await self._watch()
                nursery.cancel_scope.cancel()

    async def _watch(self) -> None:
        self._ended = trio.Event()
        self._watched = self.directories()
        self._trigger()  # a file may have changed in a directory that was not watched yet
        # No filter, because the default one ignores some directories by name. No timeout, because an event ends it.
        events = awatch(
            *filter(Path.is_dir, self._watched),
            watch_filter=None,
            step=STEP_MS,
            rust_timeout=0,
            stop_event=self._ended,
            recursive=False,
        )
        async for _ in events:
            self._trigger()

    async def _end_watch(self, stop: trio.Event) -> None:
        # Only an event ends the thread of watchfiles: without it a cancelled awatch would wait some seconds for the thread.
        try:
            await stop.wait()
        finally:
            stop.set()
            self._ended.set()

    # ---- delivering

    async def _deliver(self) -> None:
        """Read the file for each trigger, and after a shortage, and deliver it if it differs from the last delivery."""
        retry_s = RETRY_S
        wait_s = math.inf
        with suppress(trio.EndOfChannel):
            while True:
                with trio.move_on_after(wait_s):
                    await self._triggers.receive()
                await self.ready()
                is_asked, self._is_asked = self._is_asked, False
                async with self.turn:
                    is_done = await self._deliver_once(is_asked)
                if is_done:
                    retry_s, wait_s = RETRY_S, math.inf
                else:
                    self._is_asked |= is_asked
                    retry_s, wait_s = min(2 * retry_s, RETRY_MAX_S), retry_s

    async def _deliver_once(self, is_asked: bool) -> bool:
        """Returns False if something lacked that may be there later."""
        try:
            content = await self.read_complete()
            self.check(content)
        except (OSError, UnicodeDecodeError, EmptyFileError) as error:
            self._log_trouble(error)
            return not (isinstance(error, OSError) and error.errno in SHORTAGES)
        self._trouble = ""
        digest = _digest(content)
        if not is_asked and digest == self._known:
            return True
        log_event(log, logging.INFO, f"{self.name}_read", path=self.path, sha256=digest, reload=is_asked)
        try:
            self._known = _digest(await self.deliver(content, is_asked=is_asked))
        except TryAgainError:
            return False
        if self.directories() != self._watched:
            self._ended.set()
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
        return await trio.to_thread.run_sync(self.read, abandon_on_cancel=True)

    def _log_trouble(self, error: Exception) -> None:
        if str(error) != self._trouble:
            self._trouble = str(error)
            event = "vanished" if isinstance(error, FileNotFoundError) else "unreadable"
            outcome = "the running configuration stays in force"
            log_event(log, logging.WARNING, f"{self.name}_{event}", path=self.path, error=self._trouble, outcome=outcome)


class ConfigWatcher(FileWatcher):
    """Watches the queue file.

    Args:
        path: its directory must exist.
        known: the text that the caller has already read and applied.
        changed: applies a text, with ``is_asked`` of ``deliver``; raises as ``deliver``.
        refusal: the present one of the text.
        ready: waits until a text may be applied.
    """

    def __init__(
        self,
        path: Path,
        known: str,
        changed: Callable[[str, bool], Awaitable[None]],
        refusal: Callable[[], str] = str,
        ready: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        super().__init__("config", path, known.encode())
        self._ready = ready
        self._changed = changed
        self._refusal = refusal

    @property
    def refusal(self) -> str:
        return self._refusal()

    async def ready(self) -> None:
        await self._ready()

    def read(self) -> bytes:
        return read_regular(self.path)

    def check(self, content: bytes) -> None:
        if not content.decode():  # the writer truncated it first, or the disk is full
            raise EmptyFileError("the file is empty")

    async def deliver(self, content: bytes, *, is_asked: bool) -> bytes:
        await self._changed(content.decode(), is_asked)
        return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
