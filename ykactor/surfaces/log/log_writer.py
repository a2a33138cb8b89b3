"""A stream for the log that never blocks: a thread writes what is queued, and what finds no place in the queue is counted.

A pipe that nobody reads would otherwise stop the scheduler as soon as the pipe is full.
"""

import logging
import os
import queue
import threading
from contextlib import suppress

from ykactor.surfaces.log.logs import get_logger, log_event

log = get_logger(__name__)

#: The descriptor of standard error, and how long the end of a command waits for the log to be written there.
STANDARD_ERROR = 2
LOG_CLOSE_S = 1.0

#: Lines that wait to be written, and their characters; further ones are lost. A line has some hundred characters.
LINES_MAX = 4096
CHARACTERS_MAX = 2**24
#: Lines that are written at once, so that a busy scheduler does not slow the log down to a line per switch of threads.
BATCH_MAX = 256


class LogWriter:
    """Writes lines to a file descriptor, in the order of ``write``; the end of a gap has a line with the number of lost lines.

    The thread uses the descriptor and no file object: a thread that is stuck in a file object has its lock, and the interpreter
    needs the lock of standard error to exit.
    """

    def __init__(self, descriptor: int, lines_max: int = LINES_MAX, characters_max: int = CHARACTERS_MAX) -> None:
        self._descriptor = descriptor
        self._lines: queue.Queue[str | None] = queue.Queue(lines_max)
        self._few = lines_max // 2
        self._characters_max = characters_max
        # Counts with one writer each, instead of some with a lock: of what was queued and written, and of what was lost.
        self._characters_in = 0
        self._characters_out = 0
        self._lost_in_queue = 0
        self._lost_in_thread = 0
        self._reported = 0
        # The interpreter does not wait for a daemon thread.
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
        self._thread.start()

    def write(self, line: str, /) -> None:
        """Queue a line, or count it as lost. Never waits. Calls must not overlap, which the lock of a log handler ensures."""
        if self._characters_in - self._characters_out + len(line) > self._characters_max:
            self._lost_in_queue += 1
            return
        try:
            self._lines.put_nowait(line)
            self._characters_in += len(line)
        except queue.Full:
            self._lost_in_queue += 1

    def flush(self) -> None:
        """Nothing: the thread writes as soon as it can."""

    def isatty(self) -> bool:
        """True if the lines go to a terminal."""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def close(self, patience_s: float) -> None:
        """Write what is queued, but wait no longer than ``patience_s`` for room in the queue and as long for the thread."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=patience_s)
            self._thread.join(patience_s)

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch = self._take()
            is_open = batch[-1] is not None
            lines = [line for line in batch if line is not None]
            is_written = self._write_all(lines)
            self._characters_out += sum(map(len, lines))
            if is_written:  # else the line that reports it would be lost as well, and need another one
                self._report_lost()

    def _take(self) -> list[str | None]:
        """Wait for lines; None, which ends the log, is the last one."""
        batch = [self._lines.get()]
        with suppress(queue.Empty):
            while batch[-1] is not None and len(batch) < BATCH_MAX:
                batch.append(self._lines.get_nowait())
        return batch

    def _write_all(self, lines: list[str]) -> bool:
        """Write lines; returns False if they are lost."""
        data = memoryview("".join(lines).encode(errors="backslashreplace"))
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # nobody can read it any more, or the disk is full
            self._lost_in_thread += len(lines)
            return False
        return True

    def _report_lost(self) -> None:
        """Log how many lines were lost, when half of the queue is free again: a slow reader gets few such lines."""
        lost = self._lost_in_queue + self._lost_in_thread
        if lost > self._reported and self._lines.qsize() <= self._few:
            count, self._reported = lost - self._reported, lost
            log_event(log, logging.ERROR, "log_lines_lost", lines=count)
