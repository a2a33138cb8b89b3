"""Mappings that note their rows themselves (``changed``).

This file is not among the compiled ones, whose classes cannot take methods away from ``dict``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class KeptRows(dict[K, V]):
    """A mapping of which each item is a row: whoever sets or removes one notes its key, without saying so.

    A value that is changed in place is set again.
    """

    __slots__ = ("_note",)

    def __init__(self, note: Callable[[K], object]) -> None:
        super().__init__()
        self._note = note

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self._note(key)

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        self._note(key)

    def pop(self, key: K) -> V:  # type: ignore[override]
        """Remove a row, which must be there; returns its value."""
        self._note(key)
        return super().pop(key)

    def discard(self, key: K) -> V | None:
        """Remove a row if it is there; returns its value."""
        return self.pop(key) if key in self else None

    def clear(self) -> None:
        """Remove all rows."""
        for key in self:
            self._note(key)
        super().clear()

    def restore(self, rows: Iterable[tuple[K, V]]) -> None:
        """Add rows that are in the state already: nothing is noted."""
        super().update(rows)

    # What nobody needs would change rows that are not noted.
    popitem = setdefault = update = __ior__ = None  # type: ignore[assignment]
