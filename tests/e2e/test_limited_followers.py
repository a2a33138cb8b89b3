"""A follower that is limited to queues, over real sockets, beside one that is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from daemon import application, asks, next_allocated, node
from daemonhere import daemon_here
from msgspec import UNSET, structs
from test_slow_configurations import FIRST, update
from test_websocket import Client
from world import limit, queue, tree

from ykactor.access.model import Identity, Names, Role
from ykactor.actors import subscription
from ykactor.actors.feed import SnapshotError
from ykactor.actors.journal import Stalled
from ykactor.client import connect, follow
from ykactor.client.connection import open_connection
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.cli.story import _collect
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.daemon.daemon import Daemon
from ykactor.surfaces.sessions import feed_session, websocket
from ykactor.surfaces.sessions.feed_session import FeedSession
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS

TEAM_A = Identity(name="a", roles=frozenset([Role.READER]), queues=frozenset({"root.team-a"}), partitions=Names.of(["default"]))
QUEUES = tree(queue("team-a", queue("x"), limits=[limit("alice", vcore=9000)]), queue("secret", queue("hidden")))
REFUSED = {"code": "NOT_PERMITTED", "message": "found a name that does not exist or that you may not see"}


@asynccontextmanager
async def busy_daemon() -> AsyncIterator[tuple[Daemon, str]]:
    """Two teams on one node."""
    async with daemon_here(FIRST) as (daemon, url), connect(url, rm_id="rm-1") as rm:
        await rm.request(update(QUEUES))
        await rm.request(node(vcore=4))
        for name, leaf in (("app-1", "root.team-a.x"), ("secret-1", "root.secret.hidden")):
            await rm.request(application(name, leaf))
        await rm.request(asks("secret-t", of="secret-1", vcore=3))
        await rm.request(asks("t1", "t2", of="app-1", vcore=1))
        assert {key for key, _ in await next_allocated(rm, 2)} == {"secret-t", "t1"}
        yield daemon, url


def limit_sessions(monkeypatch: pytest.MonkeyPatch, identity: Identity = TEAM_A) -> None:
    """Make all further sessions of the feed those of this identity."""

    def limited(*given: object) -> FeedSession:
        return FeedSession(*given[:3], Caller(Role.READER, "here", identity), *given[4:])

    monkeypatch.setattr(websocket, "FeedSession", limited)


async def test_all_pending_asks_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot names every pending ask of what its reader sees, in parts, if that is wanted; concurrent ones do not mix."""
    names = [f"w{number}" for number in range(1200)]
    async with busy_daemon() as (_, url), connect(url, rm_id="rm-1", resume_from="now") as rm:
        await rm.request(asks(*names, of="app-1", vcore=3))
        await rm.request(asks("w-secret", of="secret-1", vcore=3))
        anybody, seen = Identity(name="anybody", roles=frozenset([Role.READER])), {"t2", *names}
        for identity, expected in ((anybody, {*seen, "w-secret"}), (TEAM_A, seen)):
            limit_sessions(monkeypatch, identity)
            found: dict[bool, list[Any]] = {True: [], False: []}

            async def take(wants: bool, into: dict[bool, list[Any]] = found) -> None:
                async with follow(url, from_="snapshot", pending_asks=wants) as messages:
                    into[wants].append((await anext(messages)).partitions[0])

            async with trio.open_nursery() as nursery:
                for wants in (True, False, True, False):
                    nursery.start_soon(take, wants)
            assert all(state.pending_asks is UNSET for state in found[False])
            for state in found[True]:
                taken = state.pending_asks.values()
                assert {key for part in taken for key in part.allocation_keys} == expected
                assert max(len(part.allocation_keys) for part in taken) == 500


class StalledJournal:
    """Tells each session once."""

    def __init__(self, _: object) -> None:
        self._untold = [Stalled(7, "disk full: /secret")]

    def next(self) -> Stalled | None:
        return self._untold.pop() if self._untold else None


@asynccontextmanager
async def follower(url: str) -> AsyncIterator[Client]:
    async with open_connection(url, "/v1/feed") as connection:
        yield Client(connection)


async def read_up_to(client: Client, last: int) -> tuple[list[dict], bytes]:
    """All events from the beginning to number ``last``, and all that was received."""
    events, data = [], b""
    await client.send({"type": "Subscribe", "from": 0})
    while True:
        data += (text := (await client.connection.get_message()).encode())
        message = msgspec.json.decode(text)
        events += message.get("events", [])
        if max([message.get("sequence", 0), *(event["sequence"] for event in events)]) >= last:
            return events, data


async def test_a_follower_gets_its_own_events_and_all_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-80, SE-81, SE-86: the same events with the same numbers as without a limit, but only the own ones; bookmarks go on."""
    async with busy_daemon() as (daemon, url):
        last = daemon.feed.ring.durable
        async with follower(url) as client:
            all_events, data = await read_up_to(client, last)
            assert b"secret" in data
        limit_sessions(monkeypatch)
        async with follower(url) as client:
            events, data = await read_up_to(client, last)
        assert b"secret" not in data
        own = [event for event in all_events if event.get("queueName", "").startswith("root.team-a")]
        assert [event["sequence"] for event in events] == [event["sequence"] for event in own]
        assert [event for event in events if event["type"] != "REQUEST"] == [event for event in own if event["type"] != "REQUEST"]
        assert {"APP", "NODE", "QUEUE", "USERGROUP"} <= {event["type"] for event in events}


@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_a_snapshot_is_of_the_own_queues(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-84: also if many ask for it together, who get the same."""
    async with busy_daemon() as (_, url):
        limit_sessions(monkeypatch)
        found = []

        async def read() -> None:
            async with open_connection(url, "/v1/feed", subprotocols=[encoding]) as connection:
                await connection.send_message(ENCODINGS[encoding].encode(si.Subscribe(from_="snapshot")))
                found.append(await connection.get_message())

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(read)
    assert len(set(found)) == 1
    assert "secret" not in str(found[0])
    snapshot = ENCODINGS[encoding].decode_feed(found[0])
    (partition,) = snapshot.partitions
    assert list(partition.queues) == ["root.team-a", "root.team-a.x"]
    assert list(partition.applications) == ["app-1"]


async def test_a_snapshot_comes_in_parts_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """EV-62, SE-84: each part has one entry here; together they are the snapshot of the own queues."""
    monkeypatch.setattr(feed_session, "MESSAGE_BYTES", 1)
    async with busy_daemon() as (_, url):
        limit_sessions(monkeypatch)
        async with follower(url) as client:
            (whole,) = (await client.ask({"type": "Subscribe", "from": "snapshot"}))["partitions"]
            message = await client.ask({"type": "Subscribe", "from": "snapshot", "inParts": True})
            found = {"queues": {}, "applications": {}}
            while message["type"] == "SnapshotPart":
                ((section, entries),) = ((name, message[name]) for name in found if name in message)
                assert len(entries) == 1
                found[section] |= entries
                message = msgspec.json.decode(await client.connection.get_message())
    (rest,) = message["partitions"]
    assert rest == {**whole, "queues": {}, "applications": {}}
    assert {**rest, **found} == whole


async def test_a_story_ends_where_the_last_event_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The story tells what is shown of own applications, and that nothing is known of others: both without waiting for more."""
    async with busy_daemon() as (_, url):
        limit_sessions(monkeypatch)
        with trio.fail_after(60):
            own = await _collect("app-1", Destination(url))
            assert any(" APP_NEW " in line for line in own)
            assert own[-2] == "now: application app-1 is Starting in root.team-a.x"
            assert await _collect("secret-1", Destination(url)) == []
            assert (await _collect("t1", Destination(url)))[-1] == "now: t1 runs on n1"
            of_node = await _collect("n1", Destination(url))
            assert " NODE_ALLOC " in of_node[0]
            assert of_node[-1] == "now: n1 is not shown, if it is there"


async def test_names_outside_the_view_are_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-85: whether a queue or partition exists or not, the answer is the same, and no other name is in it."""
    limit_sessions(monkeypatch)
    async with busy_daemon() as (_, url), follower(url) as client:
        for field, names in (("queues", ["root.secret", "root.none", "root", "none", "", "root.team-ab"]), ("partitions", ["x"])):
            for name in names:
                answer = await client.ask({"type": "Subscribe", field: [name]})
                assert answer == {"type": "ErrorResponse", **REFUSED, "path": f"{field}[0]"}
        confirmed = await client.ask({"type": "Subscribe", "queues": ["ROOT.Team-A.", "root.team-a.later"]})
        assert confirmed["missingQueues"] == ["root.team-a.later"]


async def test_names_are_compared_without_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-80: of queues and partitions."""
    limit_sessions(monkeypatch)
    async with busy_daemon() as (_, url), follower(url) as client:
        await client.subscribe(**{"from": 0, "partitions": ["DEFAULT"], "queues": ["ROOT.team-A.x"], "kinds": ["QUEUE_APP"]})
        (event,) = (await client.receive())["events"]
        assert (event["objectID"], event["referenceID"]) == ("root.team-a.x", "app-1")


async def test_queues_of_hidden_partitions_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-85: that a queue is there in another partition is not told."""
    limit_sessions(monkeypatch, structs.replace(TEAM_A, partitions=Names.of(["gpu"])))
    async with busy_daemon() as (_, url), follower(url) as client:
        confirmed = await client.ask({"type": "Subscribe", "queues": ["root.team-a"]})
        assert confirmed["missingQueues"] == ["root.team-a"]
        assert (await client.ask({"type": "Subscribe", "from": "snapshot"}))["partitions"] == []


async def test_failures_are_told_without_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-85: what went wrong may name paths of the machine, or other partitions."""
    async with busy_daemon() as (daemon, url):

        async def fail(**_: bool) -> None:
            raise SnapshotError("no answer from partition secret")

        daemon.feed.snapshot = fail
        monkeypatch.setattr(subscription, "Notices", StalledJournal)
        for is_limited in (False, True):
            if is_limited:
                limit_sessions(monkeypatch)
            async with follower(url) as client:
                refused = await client.ask({"type": "Subscribe", "from": "snapshot"})
                assert (refused["code"], "secret" in refused["message"]) == ("UNAVAILABLE", not is_limited)
                await client.subscribe()
                status = await client.receive()
                assert (status["type"], status["sinceNano"]) == ("JournalStatus", 7)
                assert ("reason" not in status) is is_limited
