"""What a service tells systemd, and what it is given: notify socket, watchdog, socket activation. Called by ``serve``.

In: the environment that systemd sets (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)). Out: datagrams such as
``READY=1``. Without systemd everything here does nothing.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import trio

from ykactor.surfaces.server.logs import get_logger, log_event

log = get_logger(__name__)

#: The first inherited descriptor, by definition (SD_LISTEN_FDS_START).
LISTEN_FDS_START = 3


@dataclass(frozen=True)
class Notifier:
    """Sends our state to systemd; each method is one datagram and never waits.

    A notice that cannot be delivered is logged and forgotten: losing it must not take the scheduler down.
    """

    #: Path of the notify socket, ``@name`` for an abstract one; None: nobody listens and all methods do nothing.
    address: str | None

    @classmethod
    def from_environment(cls) -> "Notifier":
        """The notifier for ``NOTIFY_SOCKET``; one that does nothing when it is unset or empty."""
        return cls(os.environ.get("NOTIFY_SOCKET") or None)

    def ready(self, status: str) -> None:
        """We serve: after start, and again when a reload is over. ``status`` is one line for people."""
        self._send("READY=1", _status_line(status))

    def status(self, text: str) -> None:
        """One line for people, shown by ``systemctl status``."""
        self._send(_status_line(text))

    def reloading(self) -> None:
        """A reload begins; ``ready`` ends it. The time lets systemd 253+ match it with the reload it asked for."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def watchdog(self) -> None:
        """We are alive; see ``feed_watchdog``."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """We shut down on purpose."""
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


def _status_line(text: str) -> str:
    # A line break would start another assignment.
    return "STATUS=" + " ".join(text.split())


def watchdog_interval_s() -> float | None:
    """How often to feed the watchdog: half its limit, in seconds; None when there is none or not for this process."""
    limit_us = os.environ.get("WATCHDOG_USEC")
    if not limit_us or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(limit_us) / 1_000_000 / 2


async def feed_watchdog(notifier: Notifier, progress: Callable[[], int], is_idle: Callable[[], bool]) -> None:
    """Feed the watchdog while the partition gets on with its work; returns at once when there is no watchdog.

    A timer of its own would prove only that the event loop turns. Here a cycle that hangs while messages wait starves
    the watchdog, and systemd restarts us. So a single cycle must end within half the limit.

    Args:
        progress: a number that moves whenever a cycle ends (of all partitions together).
        is_idle: whether nothing waits in any inbox and no cycle runs.
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
    """The listening sockets that systemd opened for us, each with its ``FileDescriptorName``; none without activation.

    The caller owns them and asks once: a second call would own the same descriptors again. A name that is not told is
    ``unknown``, as in sd_listen_fds_with_names(3).
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
