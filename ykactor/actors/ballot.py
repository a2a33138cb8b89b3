"""How several partitions change together or not at all.

Each partition comes to the ballot between two decisions, says whether it can follow, and waits there for the outcome: what it
said stays true, because nothing happens to it meanwhile. Whoever holds the ballot waits for nothing but these votes, and no
partition waits for another on its way to it, so nobody waits in a circle.
"""

from __future__ import annotations

import trio


class Ballot:
    """One vote of ``voters_count`` partitions."""

    def __init__(self, voters_count: int) -> None:
        self._missing_count = voters_count
        self._objections: list[str] = []
        self._complete = trio.Event()
        self._decided = trio.Event()
        self._accepted = False
        if not voters_count:
            self._complete.set()

    async def vote(self, objection: str) -> bool:
        """A partition's vote: why it cannot follow, or "". Answers whether all change."""
        if objection:
            self._objections.append(objection)
        self._missing_count -= 1
        if not self._missing_count:
            self._complete.set()
        await self._decided.wait()
        return self._accepted

    async def outcome(self) -> str:
        """Wait for every vote; the objections, one per line, or "" if all agree."""
        await self._complete.wait()
        return "\n".join(self._objections)

    def decide(self, *, accepted: bool) -> None:
        """Let everybody go on; only the first decision counts."""
        if not self._decided.is_set():
            self._accepted = accepted
            self._decided.set()
