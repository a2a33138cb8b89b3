"""Counters of the sessions of websockets."""

from __future__ import annotations

from collections import Counter

from ykactor.access.model import Role


class SessionCounts:
    """Counts.

    Attributes:
        open: sessions by role.
        waits: how often one had to wait because of its limits.
    """

    def __init__(self) -> None:
        self.open: Counter[Role] = Counter()
        self.waits = 0
