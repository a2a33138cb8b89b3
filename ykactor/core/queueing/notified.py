"""What was last reported of pending asks and applications; ``state.pending_reasons`` finds out what is new."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.asks import Ask
from ykactor.core.values.ids import AllocationKey

#: An ask exceeds what the limits of its user or group leave, or what its queues leave.
OVER_LIMIT, OVER_QUOTA = 1, 2
#: An application may not start because of ``maxapplications`` of a queue, or of a limit.
HELD_BY_QUEUE, HELD_BY_LIMIT = 4, 8


class NotifiedAsks:
    """The asks of one ``AskQueue`` by what was last reported of them: 0 is "fits", 1 to 3 are the bits above.

    Created at the first report, so that asks which always fit cost nothing.
    """

    __slots__ = ("asks",)

    def __init__(self, asks: Iterable[Ask]) -> None:
        self.asks: tuple[dict[AllocationKey, Ask], ...] = ({ask.spec.allocation_key: ask for ask in asks}, {}, {}, {})

    def add(self, ask: Ask) -> None:
        """Add an ask of which nothing was reported."""
        self.asks[0][ask.spec.allocation_key] = ask

    def drop(self, ask: Ask) -> int:
        """Remove an ask. Returns what was last reported of it."""
        key = ask.spec.allocation_key
        before = next(bits for bits, asks in enumerate(self.asks) if key in asks)
        del self.asks[before][key]
        return before
