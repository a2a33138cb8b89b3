"""How several partitions change together or not at all.

Each partition comes to the ballot between two decisions, says whether it can follow, and waits there for the outcome: what it
said stays true, because nothing happens to it meanwhile. Whoever holds the ballot waits for nothing but these votes, and no
partition waits for another on its way to it, so nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from ykactor.core.values.ids import PartitionName


class Ballot:
    """One vote of these partitions."""

    def __init__(self, voters: Iterable[PartitionName]) -> None:
        #: None before the vote.
        self._votes: dict[PartitionName, str | None] = dict.fromkeys(voters)
        self._complete = trio.Event()
        self._decided = trio.Event()
        self._accepted = False
        if not self._votes:
            self._complete.set()

    async def vote(self, voter: PartitionName, objection: str) -> bool:
        """A partition's vote: why it cannot follow, or "". Answers whether all change."""
        self._votes[voter] = objection
        if None not in self._votes.values():
            self._complete.set()
        await self._decided.wait()
        return self._accepted

    async def outcome(self) -> str:
        """Wait for every vote; the objections in the order of the voters, one per line, or "" if all agree."""
        await self._complete.wait()
        return "\n".join(filter(None, self._votes.values()))

    def decide(self, *, accepted: bool) -> None:
        """Let everybody go on; only the first decision counts."""
        if not self._decided.is_set():
            self._accepted = accepted
            self._decided.set()
