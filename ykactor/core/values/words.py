"""Numbers and names in sentences."""

from __future__ import annotations

from collections.abc import Sequence

#: Names in one sentence; of more only the number is told.
NAMES_MAX = 3


def plural(count: int, noun: str) -> str:
    """``1 queue``, ``2 queues``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def some(names: Sequence[str], most: int = NAMES_MAX) -> str:
    """The first of these names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
