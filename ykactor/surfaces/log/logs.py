"""The log, with the ``logging`` module of the standard library; the command line configures it once.

The name of an event is a fixed past-tense word; everything variable is a key: ``log_event(log, logging.INFO, "config_applied",
seq=4)``. The log is for people; programs use the event feed. The core does not log: it returns facts, and its callers log them.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO

import msgspec
import trio

from ykactor.core.values.printable import printable, printable_json, printable_lines

#: Syslog priorities, the ``<6>`` that journald reads from the start of a line (sd-daemon(3)).
PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
COLOURS = {logging.DEBUG: "2", logging.INFO: "32", logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "1;31"}

_encoder = msgspec.json.Encoder(enc_hook=str)


def get_logger(name: str) -> logging.Logger:
    """The logger of a module; pass ``__name__``."""
    return logging.getLogger(name)


log = get_logger(__name__)


def log_event(logger: logging.Logger, level: int, event: str, /, **keys: object) -> None:
    """Log one event with its keys.

    Args:
        level: ``debug`` for each ask, ``info`` for each cycle and lifecycle change, ``warning`` if an operator may want to act,
            ``error`` for a bug or a loss.
        event: a past-tense word such as ``cycle_finished``.
        keys: always with the same names: partition, cycle, seq, queue, app, alloc, node, session. Not time, level, logger and
            event, which every line has.
    """
    if logger.isEnabledFor(level):
        # Made here: ``logger.log`` looks for the place of the call, which takes as long as all the rest, and is not shown.
        record = logging.LogRecord(logger.name, level, "", 0, event, None, None)
        # All keys in one attribute: otherwise a key ``name`` or ``args`` would clash with attributes of the record.
        record.__dict__["keys"] = keys
        logger.handle(record)


def configure(level: str, stream: TextIO | LogWriter, *, for_people: bool = False) -> None:
    """Send all logs to ``stream``: coloured text if it is a terminal, otherwise a JSON object per line.

    Another call replaces the configuration.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``, for this package; for libraries it is always ``warning``.
        for_people: text without colours instead of JSON, between lines that people read.

    Raises:
        ValueError: there is no such level.
    """
    handler = logging.StreamHandler(stream)
    if stream.isatty() or for_people:
        handler.setFormatter(_TextFormatter(has_colours=stream.isatty()))
    else:
        handler.setFormatter(_JSONFormatter(journal=_is_journal(stream)))
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no line has them
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("ykactor").setLevel(level.upper())


def _is_journal(stream: TextIO | LogWriter) -> bool:
    """True if ``stream`` is the one that systemd connected to the journal.

    Compares device and inode with ``JOURNAL_STREAM``, because children with redirected output inherit the variable
    (systemd.exec(5)).
    """
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # a stream in memory
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class _JSONFormatter(logging.Formatter):
    """``{"time": ..., "level": "info", "logger": ..., "event": ..., keys...}``, all on one line."""

    def __init__(self, *, journal: bool) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_keys(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        text = printable_json(_encoder.encode(line).decode())
        return f"<{PRIORITIES.get(record.levelno, 6)}>{text}" if self._journal else text


class _TextFormatter(logging.Formatter):
    """``12:00:00 info    config_applied queues=4``, on terminals the level in colour."""

    def __init__(self, *, has_colours: bool) -> None:
        super().__init__()
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = f"{record.levelname.lower():<8}"
        if self._has_colours:
            level = f"\033[{COLOURS.get(record.levelno, '0')}m{level}\033[0m"
        keys = (f"{key}={_plain(value)}" for key, value in _keys(record).items())
        words = [clock, level, printable(record.getMessage()), *keys]
        text = " ".join(words)
        return f"{text}\n{printable_lines(self.formatException(record.exc_info))}" if record.exc_info else text


def _keys(record: logging.LogRecord) -> dict[str, object]:
    """The keys of ``log_event``; none for records of libraries."""
    keys: dict[str, object] = getattr(record, "keys", {})
    return keys


def _plain(value: object) -> str:
    """``value`` for a terminal: quoted if it has blanks or control characters, which could affect the terminal."""
    text = str(value)
    return text if text.isprintable() and text and " " not in text else repr(text)


# ---- rate-limited lines about events that remote peers can trigger


class LimitedLog:
    """Logs one event, at most ``lines`` times within ``within_s`` seconds.

    After a pause the next line has the key ``left_out``: the number of lines that were not written before it.
    """

    def __init__(self, logger: logging.Logger, level: int, event: str, *, lines: int, within_s: float) -> None:
        self._logger = logger
        self._level = level
        self._event = event
        self._lines_max = lines
        self._within_s = within_s
        self._began_s = trio.current_time()
        self._lines = 0
        self._left_out = 0

    def log(self, **keys: object) -> None:
        """Log the event with these keys (``logs.log_event``), or count it."""
        now_s = trio.current_time()
        if now_s - self._began_s >= self._within_s:
            self._began_s, self._lines = now_s, 0
        if self._lines == self._lines_max:
            self._left_out += 1
            return
        self._lines += 1
        if self._left_out:
            keys["left_out"] = self._left_out
            self._left_out = 0
        log_event(self._logger, self._level, self._event, **keys)


def raised_at(errors: BaseException) -> str:
    """The places at which errors were raised. Their texts may quote a request, which has credentials."""
    if isinstance(errors, BaseExceptionGroup):
        return ", ".join(map(raised_at, errors.exceptions))
    *_, place = traceback.extract_tb(errors.__traceback__)
    return f"{type(errors).__name__} in {place.name}, line {place.lineno} of {place.filename}"


# ---- a stream that never blocks: a pipe that nobody reads would otherwise stop the scheduler as soon as the pipe is full

#: The descriptors of standard output and standard error, and how long the end of a command waits for lines to be written there.
STANDARD_OUTPUT = 1
STANDARD_ERROR = 2
LOG_CLOSE_S = 1.0

#: Lines that wait to be written, and their characters; further ones are lost. A line has some hundred characters.
LINES_MAX = 4096
CHARACTERS_MAX = 2**24
#: Lines that are written at once.
BATCH_MAX = 256
#: Of a window of time, this many lines are written as they come; what comes after them gathers until its end, so a busy event
#: loop does not hand the interpreter's lock over to the thread for each line.
FEW_LINES = 8
WINDOW_S = 0.2


class LogWriter:
    """Writes lines to a file descriptor, in the order of ``write``; the end of a gap has a line with the number of lost lines.

    The thread uses the descriptor and no file object: a thread that is stuck in a file object has its lock, and the interpreter
    needs the lock of standard error to exit.
    """

    def __init__(self, descriptor: int, lines_max: int = LINES_MAX, characters_max: int = CHARACTERS_MAX) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lines_max = lines_max
        self._characters_max = characters_max
        # Counts with one writer each, instead of some with a lock: of what was queued and written, and of what was lost.
        self._characters_in = 0
        self._characters_out = 0
        self._lost_in_queue = 0
        self._lost_in_thread = 0
        self._reported = 0
        #: Used by the thread only: the end of the present window, and the lines that were written in it.
        self._window_ends_s = 0.0
        self._written_in_window = 0
        # The interpreter does not wait for a daemon thread.
        self._thread = threading.Thread(target=self._run, name="log writer", daemon=True)
        self._thread.start()

    def write(self, line: str, /) -> None:
        """Queue a line, or count it as lost. Never waits. Calls must not overlap, which the lock of a log handler ensures."""
        waiting = self._characters_in - self._characters_out
        if self._lines.qsize() >= self._lines_max or waiting + len(line) > self._characters_max:
            self._lost_in_queue += 1
            return
        self._characters_in += len(line)
        self._lines.put(line)

    def flush(self) -> None:
        """Nothing: the thread writes as soon as it can."""

    def isatty(self) -> bool:
        """True if the lines go to a terminal."""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def close(self, patience_s: float) -> None:
        """Write what is queued, but wait no longer than ``patience_s``."""
        self._lines.put(None)
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
            if is_open and len(batch) < BATCH_MAX:
                self._gather(len(batch))

    def _gather(self, count: int) -> None:
        """So many lines were written: if they were not few in this window, let others gather until its end."""
        now_s = time.monotonic()
        if now_s >= self._window_ends_s:
            self._window_ends_s, self._written_in_window = now_s + WINDOW_S, 0
        self._written_in_window += count
        if self._written_in_window > FEW_LINES:
            time.sleep(self._window_ends_s - now_s)

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
        if lost > self._reported and self._lines.qsize() <= self._lines_max // 2:
            count, self._reported = lost - self._reported, lost
            log_event(log, logging.ERROR, "log_lines_lost", lines=count)
