"""The places of sessions: how many may be open on each path, and of each identity (SE-48)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ykactor.access.limits import RESERVED_SESSIONS, Limits
from ykactor.access.model import Identity
from ykactor.core.messages.held_limits import exceeded
from ykactor.surfaces.server.handshake import FEED_PATH


class Places:
    """Counts the sessions that are open. None of a path can take the place of another path.

    Args:
        in_force: the limits, as they are now.
    """

    def __init__(self, in_force: Callable[[], Limits]) -> None:
        self._in_force = in_force
        #: Sessions by path, by identity, and by both.
        self._open: Counter[tuple[str, str]] = Counter()

    def refusal(self, path: str, identity: Identity) -> str:
        """Why there is no place for one more session; "" if there is."""
        name, limits = identity.name, identity.limits
        if self._open["", name] >= limits.sessions:
            return exceeded("sessions", limits.sessions, name, "so many are open")
        if path != FEED_PATH:
            full = f"{RESERVED_SESSIONS} sessions are open on {path}, no more are allowed"
            return full if self._open[path, ""] >= RESERVED_SESSIONS else ""
        if self._open[path, name] >= limits.subscriptions:
            return exceeded("subscriptions", limits.subscriptions, name, "so many are open")
        most = self._in_force().total_sessions
        if self._open[path, ""] >= most - 2 * RESERVED_SESSIONS:
            return f"limit totalSessions = {most}: followers have all but the {2 * RESERVED_SESSIONS} that are for others"
        return ""

    @contextmanager
    def taken(self, path: str, identity: Identity) -> Iterator[None]:
        """The session takes up a place within this block."""
        keys = (path, ""), ("", identity.name), (path, identity.name)
        self._open.update(keys)
        try:
            yield
        finally:
            self._open.subtract(keys)
            self._open = +self._open  # without those of which there are none any more
