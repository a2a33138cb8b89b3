"""Lines of commands that others wait for."""

from __future__ import annotations

from ykactor.core.values.printable import printable
from ykactor.surfaces.log.logs import LOG_CLOSE_S, LogWriter


class Printer:
    """Prints lines for people to a descriptor, and never waits for who reads them: what finds no room is lost (``LogWriter``)."""

    def __init__(self, descriptor: int) -> None:
        self._writer = LogWriter(descriptor)

    def say(self, line: str) -> None:
        """Print a line, as the function ``say`` does."""
        self._writer.write(f"{printable(line)}\n")

    def close(self) -> None:
        """Print what is left, but wait no longer than a log does at its end."""
        self._writer.close(LOG_CLOSE_S)
