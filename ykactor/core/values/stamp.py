"""A stamp: tells if an earlier result still holds."""

from collections.abc import Callable


class Stamp:
    """Remembers the change counters at which something was computed.

    Args:
        counters: reads the counters of everything that the result depends on; each counts up with every change.
    """

    def __init__(self, counters: Callable[[], tuple[int, ...]]) -> None:
        self._counters = counters
        self._at: tuple[int, ...] | None = None

    def is_current(self) -> bool:
        """True if no counter has changed since ``renew``; False before the first ``renew``."""
        return self._at == self._counters()

    def renew(self) -> None:
        """Note that the result was computed now."""
        self._at = self._counters()
