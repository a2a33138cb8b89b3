"""When people should read that requests to the API server fail."""

from __future__ import annotations

from collections.abc import Callable

import trio

#: A server that starts refuses whom it knows, and before it was away: an error is told when it has lasted so long.
PATIENCE_S = 60.0


class Outage:
    """Requests for one purpose that fail.

    Args:
        warn: called with a sentence when they have failed for ``PATIENCE_S``, and again after as long.
        what: how the sentence begins, such as ``pods cannot be read``.
    """

    def __init__(self, warn: Callable[[str], None], what: str) -> None:
        self._warn = warn
        self._what = what
        self._since_s: float | None = None

    def failed(self, error: Exception) -> None:
        """A request has failed."""
        now_s = trio.current_time()
        if self._since_s is None:
            self._since_s = now_s
        elif now_s - self._since_s >= PATIENCE_S:
            self._since_s = now_s
            self._warn(f"{self._what}: {error}")

    def over(self) -> None:
        """A request has had an answer."""
        self._since_s = None
