"""The state of a running partition, as its readers see it."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.states import PartitionState


class Standing(Struct, frozen=True):
    """A state, and the Unix time at which the partition entered it."""

    state: PartitionState
    since_ns: int
