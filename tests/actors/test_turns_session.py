"""A daemon sends a replica what it lacks; no sockets (DU-22)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ykactor.access.model import Identity, Role
from ykactor.actors.feed import FeedActor
from ykactor.actors.journal import History
from ykactor.actors.mailbox import Mailbox
from ykactor.actors.partition import Standing
from ykactor.actors.turn_stream import Moment, TurnStream
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Audited
from ykactor.core.messages.states import PartitionState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import PART_MAX
from ykactor.journal.store import Store
from ykactor.journal.terms import Terms
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.sessions import turns_session
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.turns_session import BasesSession, TurnsSession, bases_queue
from ykactor.wire.seals import Seal
from ykactor.wire.si.events import events
from ykactor.wire.turns import EncodedTurns, Past, Refused, Wanted, encode, unpacked

DEFAULT = PartitionName("default")


def session_of(peer: object, gateway: object, audit: object = None) -> TurnsSession:
    caller = Caller(Role.REPLICA, "10.0.0.2:4711", Identity(name="copy", roles=frozenset([Role.REPLICA])))
    return TurnsSession(cast("Any", peer), cast("Any", gateway), caller, cast("Any", audit))


class SlowPeer:
    """A replica. Before it has read the first message, others have filled the ring of the feed."""

    def __init__(self, feed: FeedActor, goes_on_at: int) -> None:
        self.sent: list[Past] = []
        self._seal = Seal()
        self._feed = feed
        self._goes_on_at = goes_on_at

    def connected(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def send_encoded(self, messages: list[bytes], _: object) -> None:
        for message in messages:
            self.sent += cast("list[Past]", unpacked(self._seal.open(message)))
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
    session = session_of(peer, SimpleNamespace(feed=feed, partitions={DEFAULT: None}))
    await session._send_past(after)
    assert [past.first_event for past in peer.sent] == firsts


class GonePeer:
    """A replica that says what it wants, and whose connection ends a second later."""

    async def receive(self) -> bytes:
        return Seal().close(encode(Wanted(0)))

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
    """The session ends with its connection: one after the other would be left, as long as nothing becomes durable."""
    journal = SimpleNamespace(flushed=trio.sleep_forever, history=History())
    stream = TurnStream(cast("Any", journal), {}, EncodedTurns())

    async def published(_: PartitionName) -> None:
        pass

    feed = SimpleNamespace(published=published, journal=journal)
    gateway = SimpleNamespace(
        feed=feed, partitions={DEFAULT: None}, turns=stream, terms=Terms.first(), started_ns=0, now_ns=lambda: 0, turns_before={}
    )
    with trio.fail_after(60), pytest.RaisesGroup(ConnectionClosedError):
        await session_of(GonePeer(), gateway).run()


async def test_many_replicas_that_come_back_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread reads the missed turns of all: with one for each the event loop would wait for all of them."""
    steps, may_go_on = list[str](), threading.Event()

    class Missed:
        def __init__(self, *_: object) -> None:
            self.last: dict[PartitionName, Moment] = {}

        def parts(self) -> Iterator[list[bytes]]:
            steps.append("begin")
            may_go_on.wait()
            steps.append("end")
            yield [b""]

    async def published(_: PartitionName) -> None:
        pass

    async def send_encoded(*_: object) -> None:
        pass

    monkeypatch.setattr(turns_session, "MissedTurns", Missed)
    Store.open(tmp_path, "off", now_ns=0).close()
    stream = TurnStream(None, {}, EncodedTurns())
    gateway = SimpleNamespace(
        feed=SimpleNamespace(published=published, journal=None),
        partitions={DEFAULT: None},
        turns=stream,
        standbys=SimpleNamespace(number=0, directory=tmp_path),
    )
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            session = session_of(SimpleNamespace(connected=nullcontext, send_encoded=send_encoded), gateway)
            nursery.start_soon(session._send_missed, stream.join(), Wanted(0))
        await wait_all_tasks_blocked()
        may_go_on.set()
    assert steps == 10 * ["begin", "end"]


class Refusing:
    """A replica that tells of refusals without a pause; and the audit, which notes when it was told of them."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._seal = Seal()
        self.told: list[tuple[float, str, Audited]] = []

    async def receive(self) -> bytes:
        if not self._left:
            raise ConnectionClosedError
        self._left -= 1
        return self._seal.close(encode(Refused("eve", "10.0.0.9:1", "reader", Act.CONNECT, "/ws/v1/config", "no", 7)))

    async def refused_elsewhere(self, place: str, fact: Audited) -> None:
        self.told.append((trio.current_time(), place, fact))


async def test_a_replica_that_refuses_very_often(autojump_clock: MockClock) -> None:
    """SE-74: what it tells is audited at a pace, so it fills nothing here."""
    refusing, began_s = Refusing(200), trio.current_time()
    with pytest.raises(ConnectionClosedError):
        await session_of(refusing, None, refusing)._listen(cast("Any", None))
    at_s = [at_s - began_s for at_s, _, _ in refusing.told]
    assert len(at_s) == 200
    assert at_s[99] == 0
    assert 9.5 < at_s[-1] < 10.5
    _, place, fact = refusing.told[0]
    assert (place, fact.who, fact.times) == ("at the replica copy from 10.0.0.2:4711", "eve", 7)


class Askers:
    """The daemon that what-ifs ask, whose partition has a base of 30 MB."""

    def __init__(self) -> None:
        self.got: list[tuple[str, float]] = []
        self._queue = bases_queue()
        self._inbox: Mailbox[Any] = Mailbox("partition default", 10)
        feed = SimpleNamespace(published=self._published, journal=None, stalling=None)
        self._gateway = SimpleNamespace(
            partitions={DEFAULT: self._inbox},
            feed=feed,
            standing=lambda _: Standing(PartitionState.ACTIVE, 0),
            registration=None,
            standbys_status=None,
            unconfirmed=None,
            health=SimpleNamespace(problems=list, surroundings=list),
            terms=Terms.first(),
            started_ns=0,
            now_ns=lambda: 0,
        )

    async def _published(self, _: PartitionName) -> None:
        pass

    async def serve(self) -> None:
        while True:
            (await self._inbox.get()).done(bytes(30_000_000))

    async def ask(self, name: str) -> None:
        peer = SimpleNamespace(settle=lambda: None, connected=nullcontext, send_encoded=self._sent)
        await BasesSession(cast("Any", peer), cast("Any", self._gateway), name, self._queue).run()
        self.got.append((name, trio.current_time()))

    async def _sent(self, *_: object) -> None:
        pass


async def test_bases_have_a_pace_and_callers_have_turns(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """SE-100: who asks for them without end takes little time of the daemon, and nobody who asks once waits for all that."""
    askers, began_s = Askers(), trio.current_time()
    nursery.start_soon(askers.serve)
    async with trio.open_nursery() as asking:
        for _ in range(6):
            asking.start_soon(askers.ask, "eve")
        await wait_all_tasks_blocked()
        asking.start_soon(askers.ask, "alice")
    at_s = [at_s - began_s for _, at_s in askers.got]
    assert at_s[2] < 1
    assert 299 < at_s[3] < 301
    assert at_s[-1] > 3 * 299
    assert [name for name, _ in askers.got].index("alice") <= 4
