"""The views of subscribers that may not see everything; who sees what is decided elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

import trio

from ykactor.actors.driving import drive, pause
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.values.parts import PART_MAX, Steps


class View(Protocol):
    """Equal views show the same, so their subscribers share batches and snapshots."""

    def __hash__(self) -> int: ...

    def of_event(self, event: Any) -> Any | None:
        """The event itself, a new one with less in it, or None: the event is hidden."""

    def of_state(self, state: PartitionStatus) -> Steps[PartitionStatus]:
        """The part of a partition's state that is shown; the state stays as it is."""

    def shows_partition(self, partition: str) -> bool:
        """True if anything of the partition is shown."""


class SeenStates:
    """The states of a snapshot as views show them: made once for each view, while other tasks run."""

    def __init__(self) -> None:
        self._made: dict[View, list[PartitionStatus]] = {}
        self._turn = trio.Lock()

    async def of(self, states: Sequence[PartitionStatus], view: View) -> list[PartitionStatus]:
        """The states of the snapshot as the view shows them."""
        async with self._turn:
            if view not in self._made:
                shown = [state for state in states if view.shows_partition(state.name)]
                self._made[view] = [await drive(view.of_state(state)) for state in shown]
            return self._made[view]


async def forget(states: Iterable[PartitionStatus]) -> None:
    """Free states that nobody needs any more, a part at a time: all at once takes long."""
    for state in states:
        for section in (getattr(state, name) for name in state.__struct_fields__):
            while isinstance(section, dict) and section:
                for name in list(islice(section, PART_MAX)):
                    del section[name]
                await pause()
