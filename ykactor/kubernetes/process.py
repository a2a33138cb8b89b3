"""The process of an adapter, as its parts need it, and its warnings about requests that fail."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, datetime

import trio
from msgspec import Struct

from ykactor.kubernetes.api import ApiError


class Process(Struct, frozen=True):
    """Attributes:
    identity: its name, for the Lease and in Events.
    now: the time for what other machines read; they never compare it with their own clocks.
    say: called with sentences about its course.
    warn: called with sentences that an operator may have to act on.
    rng: for pauses, and to be told from others with the same name.
    """

    identity: str
    now: Callable[[], datetime]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    rng: random.Random


def micro(time: datetime) -> str:
    """A time as the server wants it, always with a fraction."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


#: A server that starts refuses whom it knows, and before it was away: an error is told when it has lasted so long.
PATIENCE_S = 60.0


class Outages:
    """The things that cannot be read, in one warning for all that has one cause: the same status, or no answer.

    Args:
        warn: called with a sentence when something has failed for ``PATIENCE_S``, and again after as long.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        #: When it began, and the status of the last answer, by what is to be read.
        self._failing: dict[str, tuple[float, int]] = {}
        self._told_s: dict[int, float] = {}

    def failed(self, what: str, error: ApiError) -> None:
        """A request has failed; ``what`` is to be read, such as ``pods``."""
        now_s, cause = trio.current_time(), error.status
        since_s, _ = self._failing.get(what, (now_s, cause))
        self._failing[what] = since_s, cause
        if now_s - max(since_s, self._told_s.get(cause, -math.inf)) >= PATIENCE_S:
            self._told_s[cause] = now_s
            failing = ", ".join(each for each, (_, found) in self._failing.items() if found == cause)
            self._warn(f"{failing} cannot be read: {error}")

    def over(self, what: str) -> None:
        """A request has had an answer."""
        self._failing.pop(what, None)
