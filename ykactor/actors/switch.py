"""The two-phase switch of several partitions to another configuration."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from ykactor.core.values.ids import PartitionName


class TwoPhaseSwitch:
    """A two-phase commit: these partitions change to another configuration together or not at all.

    Prepare: each partition reports, between two decisions, whether it can change, and waits. Its report stays valid because the
    partition does nothing else meanwhile. Commit: if all partitions can change, all do; otherwise none does. There is no
    deadlock: the coordinator waits only for the partitions, and no partition waits for another one before it has prepared.
    """

    def __init__(self, partitions: Iterable[PartitionName]) -> None:
        #: None for a partition that has not prepared yet.
        self._objections: dict[PartitionName, str | None] = dict.fromkeys(partitions)
        self._unfinished = set(self._objections)
        self._prepared, self._committed, self._finished = trio.Event(), trio.Event(), trio.Event()
        self._is_accepted = False
        if not self._objections:
            self._prepared.set()
            self._finished.set()

    async def prepare(self, partition: PartitionName, objection: str) -> bool:
        """Report why a partition cannot change, or "". Waits for the decision; returns whether all partitions change."""
        self._objections[partition] = objection
        if None not in self._objections.values():
            self._prepared.set()
        await self._committed.wait()
        return self._is_accepted

    async def outcome(self) -> str:
        """Wait for all partitions; returns their objections in order, one per line, or "" if there are none."""
        await self._prepared.wait()
        return "\n".join(filter(None, self._objections.values()))

    def commit(self, *, accepted: bool) -> None:
        """Decide; only the first decision counts."""
        if not self._committed.is_set():
            self._is_accepted = accepted
            self._committed.set()

    def finish(self, partition: PartitionName) -> None:
        """Report that a partition has published its change, or does not change."""
        self._unfinished.discard(partition)
        if not self._unfinished:
            self._finished.set()

    async def finished(self) -> None:
        """Wait until all partitions have finished."""
        await self._finished.wait()
