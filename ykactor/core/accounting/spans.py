"""Amounts times the seconds of many spans, by day: a span costs the same however many days it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct, field

from ykactor.core.accounting.account import DAY_S, Account
from ykactor.core.values.resources import Resource, add_to, pruned


class Spans:
    """Sums of spans of Unix seconds."""

    __slots__ = ("_parts", "_steps")

    def __init__(self) -> None:
        #: By day, the part of spans that begin or end on that day.
        self._parts: dict[int, Resource] = {}
        #: By day, the change of what other spans contribute to each day from this one on.
        self._steps: dict[int, Resource] = {}

    def add(self, resource: Resource, since_s: int, until_s: int) -> None:
        """Add ``resource`` for each second from ``since_s`` up to ``until_s``."""
        if since_s >= until_s:
            return
        first, last = since_s // DAY_S, until_s // DAY_S
        if first == last:
            _add(self._parts, first, resource, until_s - since_s)
            return
        _add(self._parts, first, resource, (first + 1) * DAY_S - since_s)
        _add(self._parts, last, resource, until_s - last * DAY_S)
        if first + 1 < last:
            _add(self._steps, first + 1, resource, DAY_S)
            _add(self._steps, last, resource, -DAY_S)

    def by_day(self) -> Iterator[tuple[int, Resource]]:
        """The parts of each day, one or two, which must not be changed."""
        yield from self._parts.items()
        level: Resource = {}
        for day, until in pairwise(sorted(self._steps)):
            total = dict(level)
            add_to(total, self._steps[day])
            level = pruned(total)
            for each in range(day, until if level else day):
                yield each, level


def _add(days: dict[int, Resource], day: int, resource: Resource, seconds: int) -> None:
    if seconds:
        add_to(days.setdefault(day, {}), {name: quantity * seconds for name, quantity in resource.items() if quantity})


class Lasting(Struct, eq=False):
    """Spans of what the tasks of one application have used, waited for and lost, as ``Account``."""

    allocated: Spans = field(default_factory=Spans)
    waited: Spans = field(default_factory=Spans)
    lost: Spans = field(default_factory=Spans)

    def by_day(self) -> Iterator[tuple[int, Account]]:
        """Parts of the accounts of each day, like ``Spans.by_day``."""
        for day, amounts in self.allocated.by_day():
            yield day, Account(allocated=amounts)
        for day, amounts in self.waited.by_day():
            yield day, Account(waited=amounts)
        for day, amounts in self.lost.by_day():
            yield day, Account(lost=amounts)
