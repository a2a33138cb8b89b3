"""A daemon sends a replica what it lacks; no sockets (DU-22)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from ykactor.actors.feed import FeedActor
from ykactor.actors.turn_stream import TurnStream
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import PART_MAX
from ykactor.journal.terms import Terms
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.turns_session import TurnsSession
from ykactor.wire.si.events import events
from ykactor.wire.turns import EncodedTurns, Past, Wanted, encode, unpacked

DEFAULT = PartitionName("default")


class SlowPeer:
    """A replica. Before it has read the first message, others have filled the ring of the feed."""

    def __init__(self, feed: FeedActor, goes_on_at: int) -> None:
        self.sent: list[Past] = []
        self._feed = feed
        self._goes_on_at = goes_on_at

    def connected(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def send_encoded(self, messages: list[bytes], _: object) -> None:
        for message in messages:
            self.sent += cast("list[Past]", unpacked(message))
        if self._feed.ring.sequence < self._goes_on_at:
            self._feed.ring.skip_to(self._goes_on_at)


@pytest.mark.parametrize(("after", "firsts"), [(0, [1, PART_MAX + 3]), (2**64 - 1, [PART_MAX + 3])])
async def test_events_of_before_end_where_turns_begin(nursery: trio.Nursery, after: int, firsts: list[int]) -> None:
    """Events that the ring has lost meanwhile come with turns, and are not left out as lost; nor are later ones."""
    delivery = SimpleNamespace(render=events, deliver=lambda *_: None, mentioned=lambda _: set())
    feed = FeedActor(cast("Any", delivery), {})
    nursery.start_soon(feed.run)
    fact, newest = Audited(1, "me", "here", "", Act.CONNECT, "x"), PART_MAX + 2
    feed.restore([events(fact, DEFAULT, number)[0] for number in range(1, newest + 1)], newest)
    peer = SlowPeer(feed, newest + PART_MAX)
    session = TurnsSession(cast("Any", peer), cast("Any", SimpleNamespace(feed=feed, partitions={DEFAULT: None})))
    await session._send_past(after)
    assert [past.first_event for past in peer.sent] == firsts


class GonePeer:
    """A replica that says what it wants, and whose connection ends a second later."""

    async def receive(self) -> bytes:
        return encode(Wanted(0))

    async def send_encoded(self, *_: object) -> None:
        pass

    def settle(self) -> None:
        pass

    @contextmanager
    def connected(self) -> Iterator[None]:
        with trio.move_on_after(1) as scope:
            yield
        if scope.cancelled_caught:
            raise ConnectionClosedError


async def test_a_replica_that_goes_while_the_disk_stands_still(autojump_clock: MockClock) -> None:
    """Its session ends with its connection: one after the other would be left, as long as nothing becomes durable."""
    journal = SimpleNamespace(flushed=trio.sleep_forever)
    stream = TurnStream(cast("Any", journal), {}, EncodedTurns())

    async def published(_: PartitionName) -> None:
        pass

    feed = SimpleNamespace(published=published, journal=journal)
    gateway = SimpleNamespace(
        feed=feed, partitions={DEFAULT: None}, turns=stream, terms=Terms.first(), started_ns=0, now_ns=lambda: 0, turns_before={}
    )
    with trio.fail_after(60), pytest.RaisesGroup(ConnectionClosedError):
        await TurnsSession(cast("Any", GonePeer()), cast("Any", gateway)).run()
