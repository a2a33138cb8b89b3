"""A priority queue of candidates, some of them parked: not offered again until something grows."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from ykactor.core.values.sorted_list import SortedList, SortKey


class Candidate(Protocol):
    """What a ``SchedulingQueue`` orders."""

    #: The position in the order, or None while not in it; written by the ``SchedulingQueue`` only.
    sort_key: SortKey | None
    #: Whether it is not offered until it is woken; written by the ``SchedulingQueue`` only.
    parked: bool


C = TypeVar("C", bound=Candidate)


class SchedulingQueue(Generic[C]):
    """Candidates in the order of their keys, some of them parked."""

    __slots__ = ("_parked", "_ready")

    def __init__(self) -> None:
        self._ready: SortedList[C] = SortedList()
        self._parked: dict[C, None] = {}

    def put(self, candidate: C, key: SortKey | None) -> None:
        """Give ``candidate`` the position ``key``; None takes it out. A parked candidate stays parked."""
        old = candidate.sort_key
        if old == key:
            return
        candidate.sort_key = key
        if candidate.parked:
            if key is None:
                candidate.parked = False
                self._parked.pop(candidate, None)
            return
        ready = self._ready
        if old is None:
            assert key is not None
            ready.add(key, candidate)
        elif key is None:
            ready.remove(old)
        elif ready.first() is not candidate or not ready.first_moves_to(key):
            ready.remove(old)
            ready.add(key, candidate)

    def first(self) -> C | None:
        """The best candidate that is not parked; None if all are."""
        return self._ready.peek()

    def park(self, candidate: C, *, is_woken_alone: bool = False) -> None:
        """Do not offer ``candidate`` until it is woken; it must be in the order and not be parked.

        Args:
            is_woken_alone: ``wake_all`` does not wake it.
        """
        assert candidate.sort_key is not None
        self._ready.remove(candidate.sort_key)
        candidate.parked = True
        if not is_woken_alone:
            self._parked[candidate] = None

    def wake(self, candidate: C) -> None:
        """Offer ``candidate`` again."""
        if candidate.parked:
            assert candidate.sort_key is not None
            candidate.parked = False
            self._parked.pop(candidate, None)
            self._ready.add(candidate.sort_key, candidate)

    def wake_all(self) -> list[C]:
        """Offer the parked candidates again, without those that are woken alone. Returns them."""
        woken = list(self._parked)
        if woken:
            self._ready.add_all((candidate.sort_key, candidate) for candidate in woken if candidate.sort_key is not None)
            for candidate in woken:
                candidate.parked = False
            self._parked.clear()
        return woken

    def has_ready(self) -> bool:
        """Whether some candidate is not parked."""
        return bool(self._ready)
