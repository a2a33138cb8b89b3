"""Followers of the feed, which go on by number with each daemon."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
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
        self._instance = ""
        self._has_lost = False

    async def follow(self, url: str, rng: random.Random) -> None:
        """Go on, sometimes with some events that were seen before."""
        begin = max(0, len(self.seen) - rng.choice((0, 0, 10, 100)))
        with until_disconnected():
            if self._has_lost:
                await self._is_refused(url, begin)
                self._instance, self._has_lost = "", False
            async with follow(url, from_=begin, instance=self._instance, encoding=self._encoding) as messages:
                self._instance = messages.instance
                async for message in messages:
                    self._take(message)

    async def _is_refused(self, url: str, begin: int) -> None:
        """Numbers of before the loss are not valid any more: a follower begins with a snapshot."""
        with pytest.raises(RequestRefused, match="RESYNC_REQUIRED"):
            async with follow(url, from_=begin, instance=self._instance, encoding=self._encoding) as messages:
                await messages.__anext__()

    def lose(self, events: list[bytes]) -> int:
        """The journal has lost the newest events, and has these. Returns how many of those that were seen are lost."""
        lost = max(0, len(self.seen) - len(events))
        assert self.seen[: len(events)] == events[: len(self.seen)]
        self._has_lost, self.seen = bool(self._instance), events
        return lost

    def _take(self, message: Any) -> None:
        assert isinstance(message, si.EventRecord), f"found {message}, expected an event"
        data = msgspec.json.encode(message)
        if message.sequence <= len(self.seen):
            assert data == self.seen[message.sequence - 1]
        else:
            assert message.sequence == len(self.seen) + 1
            self.seen.append(data)

    def check(self, events: list[bytes]) -> None:
        """What was seen is a beginning of what the journal holds."""
        assert len(self.seen) <= len(events), f"event {len(self.seen)} was seen, the newest one kept is {len(events)}"
        assert self.seen == events[: len(self.seen)]


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


def _placed(partitions: list[dict[str, Any]]) -> Placed:
    """What runs on each node of a snapshot."""
    applications = [application for partition in partitions for application in partition["applications"].values()]
    waiting = {entry["allocationKey"] for application in applications for entry in application.get("replacing", [])}
    return {
        (partition["name"], node_id): set(node["allocations"]) - waiting
        for partition in partitions
        for node_id, node in partition["nodes"].items()
    }
