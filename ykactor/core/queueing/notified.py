"""What waiting asks and applications were told last; ``remarks`` finds out what is new."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.asks import Ask
from ykactor.core.values.ids import AllocationKey

#: An ask does not fit what is left to its user or group, or to its queue.
OVER_LIMIT, OVER_QUOTA = 1, 2
#: An application may not start because of ``maxapplications`` of a queue, or of a limit.
HELD_BY_QUEUE, HELD_BY_LIMIT = 4, 8


class NotifiedAsks:
    """The waiting asks of one shape of one application by what they were told: 0 is nothing bad, 1 to 3 are the bits above.

    Made when the first of them is told something, so that nobody pays for it whose asks always fit.
    """

    __slots__ = ("asks",)

    def __init__(self, asks: Iterable[Ask]) -> None:
        self.asks: tuple[dict[AllocationKey, Ask], ...] = ({ask.spec.allocation_key: ask for ask in asks}, {}, {}, {})

    def add(self, ask: Ask) -> None:
        """An ask waits that was told nothing."""
        self.asks[0][ask.spec.allocation_key] = ask

    def drop(self, ask: Ask) -> int:
        """The ask waits here no more; answers what it was told."""
        key = ask.spec.allocation_key
        before = next(bits for bits, asks in enumerate(self.asks) if key in asks)
        del self.asks[before][key]
        return before
