"""The interface to systemd: notifications, watchdog and socket activation.

It reads the environment that systemd sets (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)) and sends datagrams such as
``READY=1``. Without systemd it does nothing.
"""

import logging
import math
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import trio

from ykactor.surfaces.log.logs import get_logger, log_event

log = get_logger(__name__)

#: The first inherited descriptor, by definition (SD_LISTEN_FDS_START).
LISTEN_FDS_START = 3
#: The time in which a start must make progress. To check a journal of 1 GB takes about 1 s, without any sign of progress.
EXTENSION_S = 120.0


@dataclass(frozen=True)
class Notifier:
    """Sends the state of the daemon to systemd; each method sends one datagram and never waits.

    If a datagram cannot be sent, this is logged and has no other effect: it must not stop the scheduler.
    """

    #: The path of the notify socket, ``@name`` for an abstract one; None if there is none: then all methods do nothing.
    address: str | None

    @classmethod
    def from_environment(cls) -> "Notifier":
        """The notifier for ``NOTIFY_SOCKET``; if that is not set or empty, the notifier does nothing."""
        return cls(os.environ.get("NOTIFY_SOCKET") or None)

    def ready(self, status: str) -> None:
        """The daemon serves: after the start, and after each reload. ``status`` as in ``status()``."""
        self._send("READY=1", _status_line(status))

    def status(self, text: str) -> None:
        """One line of text, which ``systemctl status`` shows."""
        self._send(_status_line(text))

    def reloading(self) -> None:
        """A reload begins; ``ready`` ends it. systemd 253 and newer need the time to match it with their request."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def extend_timeout(self, seconds: float) -> None:
        """The start takes at least ``seconds`` more."""
        self._send(f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")

    def watchdog(self) -> None:
        """The daemon makes progress; see ``feed_watchdog``."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The daemon is shutting down."""
        self._send("STOPPING=1")

    def _send(self, *assignments: str) -> None:
        if self.address is None:
            return
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto("\n".join(assignments).encode(), address)
        except OSError as error:
            log_event(log, logging.WARNING, "notify_failed", state=assignments[0], error=str(error))


class Extension:
    """Asks for more time for a start that makes progress; one that hangs is ended by systemd.

    Args:
        now_s: the present time of a clock that never goes back.
    """

    def __init__(self, notifier: Notifier, now_s: Callable[[], float] = time.monotonic) -> None:
        self._notifier = notifier
        self._now_s = now_s
        self._next_s = -math.inf

    def on_progress(self) -> None:
        """Called at least every few seconds; cheap, because systemd is asked seldom."""
        now_s = self._now_s()
        if now_s >= self._next_s:
            self._next_s = now_s + EXTENSION_S / 4
            self._notifier.extend_timeout(EXTENSION_S)


def _status_line(text: str) -> str:
    # A line break would start another assignment.
    return "STATUS=" + " ".join(text.split())


def watchdog_interval_s() -> float | None:
    """The interval for feeding the watchdog: half its limit, in seconds; None if there is no watchdog for this process."""
    limit_us = os.environ.get("WATCHDOG_USEC")
    if not limit_us or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(limit_us) / 1_000_000 / 2


async def feed_watchdog(notifier: Notifier, progress: Callable[[], int], is_idle: Callable[[], bool]) -> None:
    """Feed the watchdog while the partitions make progress; returns at once if there is no watchdog.

    A timer alone would only prove that the event loop runs. Here the watchdog is not fed if a cycle hangs while messages wait,
    and systemd restarts the daemon. So a single cycle must end within half the limit.

    Args:
        progress: the number of cycles that have ended, in all partitions together.
        is_idle: whether all inboxes are empty and no cycle runs, or the partitions wait for the disk.
    """
    interval_s = watchdog_interval_s()
    if interval_s is None:
        return
    seen = progress()
    while True:
        await trio.sleep(interval_s)
        now = progress()
        if now != seen or is_idle():
            notifier.watchdog()
        else:
            log_event(log, logging.WARNING, "watchdog_starved", progress=now, interval_s=interval_s)
        seen = now


def listen_fds() -> list[tuple[str, socket.socket]]:
    """The listening sockets that systemd opened for this process, with their ``FileDescriptorName``; none without activation.

    The caller owns the sockets. Call this once only: a second call would return the same descriptors in other socket objects.
    Without names in the environment the name is ``unknown``, as in sd_listen_fds_with_names(3).
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(os.environ.get("LISTEN_FDS", "0"))
    names = os.environ.get("LISTEN_FDNAMES", ":".join(["unknown"] * count)).split(":")
    opened = []
    for name, fd in zip(names, range(LISTEN_FDS_START, LISTEN_FDS_START + count), strict=True):
        os.set_inheritable(fd, False)
        opened.append((name, socket.socket(fileno=fd)))
    return opened
