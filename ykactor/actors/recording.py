"""How the turns of a partition are recorded in a journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ykactor.actors.renewal import History
from ykactor.core.turn.causes import Cause
from ykactor.core.values.ids import PartitionName


class Recording(NamedTuple):
    """What a partition needs to record its turns.

    Attributes:
        room: waits until there is room for what a turn publishes.
        encode: makes the text of a cause.
        history: of all partitions.
        on_failure: called if a partition cannot be made anew, which is a bug; it goes on as it is, and does not try it again.
    """

    room: Callable[[], Awaitable[None]]
    encode: Callable[[Cause], bytes]
    history: History
    on_failure: Callable[[PartitionName, Exception], object]
