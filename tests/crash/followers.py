"""Followers of the feed, which go on by number with each daemon."""

from __future__ import annotations

import random
from collections import Counter
from itertools import takewhile
from typing import Any

import msgspec
import trio
from kept import Placed
from process import until_disconnected

from ykactor.client import RequestRefused, follow
from ykactor.wire.si import messages as si


class Trail:
    """A follower that keeps every event; ``seen[0]`` is event 1."""

    def __init__(self, encoding: str) -> None:
        self.seen: list[bytes] = []
        self._encoding = encoding
        #: The term of the last daemon.
        self._term = ""
        #: The events with which it has not gone on yet since some were lost; None if none were.
        self._before_loss: list[bytes] | None = None
        self.counts: Counter[str] = Counter()

    async def follow(self, url: str, rng: random.Random) -> None:
        """Go on, sometimes with some events that were seen before."""
        with until_disconnected():
            if self._before_loss is not None:
                await self._find_out(url, self._before_loss)
            begin = max(0, len(self.seen) - rng.choice((0, 0, 10, 100)))
            async with follow(url, from_=begin, term=self._term, encoding=self._encoding) as messages:
                self._term = messages.term
                async for message in messages:
                    self._take(message)
                    self._term = messages.term

    async def _find_out(self, url: str, before: list[bytes]) -> None:
        """A follower that has seen what is not there gets the state, with the reason (EV-55)."""
        answers: list[str] = []
        number, say = len(before), answers.append
        async with follow(url, from_=number, term=self._term, encoding=self._encoding, on_connection=say) as messages:
            connected = [line for line in answers if line.startswith("connected")]
            if not connected:  # the daemon was killed before it answered
                await anext(messages)  # raises Disconnected
            (answer,) = connected
            begins_anew = "its present state comes first" in answer
            is_there = before == self.seen[:number]
            assert begins_anew or is_there, f"of {number} events some are lost: {answer}"
            self._term = messages.term
        self.counts["begins with the state"] += begins_anew
        self._before_loss = None

    def lose(self, events: list[bytes]) -> int:
        """The journal has lost some events, and has these. Returns how many of those that were seen are lost."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.seen, events, strict=False)))
        lost = len(self.seen) - same
        if self._before_loss is None and self._term:
            self._before_loss = self.seen
        self.seen = list(events)
        return lost

    def _take(self, message: Any) -> None:
        if isinstance(message, si.JournalStatus):  # it has no number
            return
        assert isinstance(message, si.EventRecord), f"found {message}, expected an event"
        data = msgspec.json.encode(message)
        if message.sequence <= len(self.seen):
            assert data == self.seen[message.sequence - 1]
        else:
            assert message.sequence == len(self.seen) + 1
            self.seen.append(data)

    def check(self, events: list[bytes]) -> None:
        """Check that the events seen are the first ones of the journal."""
        assert len(self.seen) <= len(events), f"event {len(self.seen)} was seen, the newest one kept is {len(events)}"
        assert self.seen == events[: len(self.seen)]


class ReplicaTrail(Trail):
    """A follower of a replica, which need not have what came before it was started: this is told as ``Lagged``."""

    def _take(self, message: Any) -> None:
        match message:
            case si.Lagged(to=to):
                self.seen += [_UNTOLD] * (to - len(self.seen))
            case si.EventRecord(sequence=sequence) if sequence <= len(self.seen) and self.seen[sequence - 1] is _UNTOLD:
                self.seen[sequence - 1] = msgspec.json.encode(message)
            case _:
                super()._take(message)

    @property
    def told(self) -> int:
        """The number of events that it has been told."""
        return sum(event is not _UNTOLD for event in self.seen)

    def check(self, events: list[bytes]) -> None:
        """Check that the journal has each event that was seen."""
        super().check([_UNTOLD if seen is _UNTOLD else event for seen, event in zip(self.seen, events, strict=False)])


#: In the place of an event that a replica did not have.
_UNTOLD = b"untold"


async def look(url: str, found: list[tuple[int, Placed]]) -> None:
    """Take snapshots again and again: the number of the last event before each, and what runs on each node."""
    with until_disconnected():
        while True:
            async with follow(url, from_="snapshot") as messages:
                try:
                    state = await messages.__anext__()
                except RequestRefused as refused:
                    assert refused.code == "UNAVAILABLE"  # noqa: PT017 (the daemon stops)
                    return
            assert isinstance(state, si.Snapshot)
            found.append((state.sequence, _placed(state.partitions)))
            await trio.sleep(0.02)


def _placed(partitions: list[si.PartitionStatus]) -> Placed:
    """The allocations on each node of a snapshot."""
    applications = [application for partition in partitions for application in partition.applications.values()]
    waiting = {entry.allocation_key for application in applications for entry in application.replacing or ()}
    return {
        (partition.name, node_id): set(node.allocations) - waiting
        for partition in partitions
        for node_id, node in (partition.nodes or {}).items()
    }
