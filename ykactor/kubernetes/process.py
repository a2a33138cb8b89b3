"""The process of an adapter, as its parts need it."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime

from msgspec import Struct


class Process(Struct, frozen=True):
    """Attributes:
    identity: its name, for the Lease and in Events.
    now: the time for what other machines read; they never compare it with their own clocks.
    say: called with sentences about its course.
    warn: called with sentences that an operator may have to act on.
    rng: for pauses.
    """

    identity: str
    now: Callable[[], datetime]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    rng: random.Random
