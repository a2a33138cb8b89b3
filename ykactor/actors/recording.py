"""The recording of the turns of partitions in a journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import Struct

from ykactor.core.turn.causes import Cause
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.times import NEVER


class History(Struct):
    """The history of all partitions.

    Attributes:
        keep_bytes, keep_ns: how much of it is kept, compressed, and for how long.
        written: the bytes of turns that were recorded so far, not compressed.
    """

    keep_bytes: int = NEVER
    keep_ns: int = NEVER
    written: int = 0


class Recording(NamedTuple):
    """The things that a partition needs to record its turns.

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
