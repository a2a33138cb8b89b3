"""Bad input on both sockets of a daemon: a clear answer, nothing changed, everybody else goes on."""

import json
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import msgspec
import pytest
import trio
from daemon import application, asks, next_allocated, node, real_daemon, state_of
from daemonhere import daemon_here
from trio_websocket import ConnectionClosed

from ykactor.client import connect, follow
from ykactor.client.connection import open_connection

INT64_MAX = 2**63 - 1


class RawPeer:
    """Sends whatever it is told to, and hears what comes back as plain mappings."""

    def __init__(self, connection, encoding):
        self.connection = connection
        self._library = msgspec.json if encoding == "json" else msgspec.msgpack

    async def send(self, message):
        """Bytes and text as they are, anything else encoded."""
        if not isinstance(message, str | bytes):
            message = self._library.encode(message)
            message = message.decode() if self._library is msgspec.json else message
        await self.connection.send_message(message)

    async def hear(self):
        return self._library.decode(await self.connection.get_message())

    async def ask(self, message):
        """Send a message; returns the answers up to the ``Ack`` or ``ErrorResponse``, which is the last one."""
        await self.send(message)
        heard = [await self.hear()]
        while heard[-1]["type"] not in ("Ack", "ErrorResponse"):
            heard.append(await self.hear())
        return heard

    async def closed(self):
        """The code with which the daemon closes."""
        try:
            while True:
                await self.connection.get_message()
        except ConnectionClosed as closed:
            return closed.reason.code


@asynccontextmanager
async def raw_peer(daemon, path="/v1/rm", encoding="json"):
    async with open_connection(daemon.url, path, subprotocols=[f"ykactor.v1.{encoding}"]) as connection:
        yield RawPeer(connection, encoding)


class BusyDaemon(NamedTuple):
    """A daemon with one node, one application, one ask that runs and one that waits; its resource manager has left."""

    url: str
    #: The sequence number of the last answer that its resource manager has.
    known: int

    async def state(self):
        return await state_of(self.url)


@asynccontextmanager
async def busy_daemon():
    """A daemon with some state, in this process, because so many are started."""
    async with daemon_here() as (_, url):
        yield await occupied(url)


async def occupied(url):
    async with connect(url, rm_id="rm-1") as rm:
        await rm.request(node("n1", vcore=4000))
        await rm.request(application())
        await rm.request(asks("t1"))
        await rm.request(asks("t2", vcore=9000))
        await next_allocated(rm)
        return BusyDaemon(url, rm.sequence)


@pytest.fixture(autouse=True)
def _no_traceback(caplog):
    """Whatever comes, the daemon expects it."""
    yield
    assert [record for record in caplog.get_records("call") if record.exc_info] == []


@asynccontextmanager
async def resumed(daemon, encoding="json"):
    """A raw session of that resource manager."""
    async with raw_peer(daemon, encoding=encoding) as peer:
        await peer.ask(registration(daemon))
        yield peer


def registration(daemon):
    return {"type": "RegisterResourceManagerRequest", "rmID": "rm-1", "resumeFrom": daemon.known, "id": "again"}


async def settled_state(daemon):
    """The state without what may differ: refused applications are listed for a while."""
    state = await daemon.state()
    listed = state["applications"]
    return state | {"applications": {name: entry for name, entry in listed.items() if entry["state"] != "Rejected"}}


def nodes(**fields):
    return {"type": "NodeRequest", "id": "1", "nodes": [{"nodeID": "n2", "action": "CREATE"} | fields]}


def apps(**fields):
    app = {"applicationID": "app-2", "queueName": "root.default", "ugi": {"user": "alice"}, "tags": {"namespace": "default"}}
    return {"type": "ApplicationRequest", "id": "1", "new": [app | fields]}


def tasks(**fields):
    ask = {"allocationKey": "t9", "applicationID": "app-1", "resourcePerAlloc": {"vcore": 1}}
    return {"type": "AllocationRequest", "id": "1", "allocations": [ask | fields]}


def releases(**fields):
    return {"type": "AllocationRequest", "id": "1", "releases": {"allocationsToRelease": [fields]}}


#: Refused as a whole: the message, code and path of the answer.
REFUSED = [
    ({"type": "Nonsense", "id": "1"}, "UNKNOWN_TYPE", "type"),
    ({"id": "1"}, "MISSING_FIELD", "type"),
    ({"type": "RegisterResourceManagerRequest", "id": "1", "rmID": "rm-2"}, "ALREADY_REGISTERED", ""),
    ({"type": "RegisterResourceManagerRequest", "id": "1"}, "MISSING_FIELD", "rmID"),
    (nodes(nodeID=7), "WRONG_TYPE", "nodes[0].nodeID"),
    (nodes(nodeID=""), None, "nodes[0].nodeID"),
    (nodes(colour="red"), "UNKNOWN_FIELD", "nodes[0].colour"),
    (nodes(schedulableResource={"vcore": 1.5}), "BAD_QUANTITY", "nodes[0].schedulableResource.vcore"),
    (nodes(schedulableResource={"vcore": True}), "BAD_QUANTITY", "nodes[0].schedulableResource.vcore"),
    (nodes(schedulableResource=[1]), "WRONG_TYPE", "nodes[0].schedulableResource"),
    (apps(applicationID=""), None, "new[0].applicationID"),
    (apps(ugi="alice"), "WRONG_TYPE", "new[0].ugi"),
    (tasks(allocationKey=""), None, "allocations[0].allocationKey"),
    (tasks(allocationKey=None), "WRONG_TYPE", "allocations[0].allocationKey"),
    (tasks(priority=2**31), "OUT_OF_RANGE", "allocations[0].priority"),
    (tasks(resourcePerAlloc={"vcore": INT64_MAX + 1}), "BAD_QUANTITY", "allocations[0].resourcePerAlloc.vcore"),
    (releases(applicationID="app-1", terminationType="DULL"), "UNKNOWN_NAME", "releases.allocationsToRelease[0].terminationType"),
    ({"type": "UpdateConfigurationRequest", "id": "1", "config": "partitions: 3"}, "CONFIG_REFUSED", "config"),
    ({"type": "UpdateConfigurationRequest", "id": "1", "ifChecksum": "ABC"}, "CHECKSUM_MISMATCH", "ifChecksum"),
    ({"type": "ScheduleRequest", "id": "1", "steps": 1}, "NOT_MANUAL", ""),
    ({"type": "TerminateApplication", "id": "1", "applicationID": "nobody"}, "REFUSED", ""),
    ({"type": "TerminateApplication", "id": "1", "applicationID": ""}, "EMPTY_ID", "applicationID"),
    ({"type": "TerminateApplication", "id": "1", "applicationID": "app-1", "partitionName": "gpu"}, "REFUSED", "partitionName"),
    ({"type": "MoveApplication", "id": "1", "applicationID": "app-1"}, "MISSING_FIELD", "queueName"),
    ({"type": "MoveApplication", "id": "1", "applicationID": "app-1", "queueName": ""}, "EMPTY_ID", "queueName"),
    ({"type": "MoveApplication", "id": "1", "applicationID": "app-1", "queueName": "root.nowhere"}, "REFUSED", ""),
    ({"type": "TerminateApplication", "id": "1", "applicationID": "app-1", "ugi": {}}, "EMPTY_ID", "ugi.user"),
    ({"type": "TerminateApplication", "id": "1", "applicationID": "app-1", "ugi": {"user": "eve"}}, "REFUSED", ""),
]

#: Taken, and each entry answered or passed over: the message and a text in its refusal ("": there is none).
REJECTED = [
    (nodes(nodeID="n1", schedulableResource={"vcore": 1}), "n1"),
    (nodes(action="EXPLODE"), "nodes[0].action: found 'EXPLODE'"),  # AP-143
    (nodes(schedulableResource={"vcore": "much"}), "nodes[0].schedulableResource.vcore"),
    (tasks(resourcePerAlloc={"vcore": "-1"}), "allocations[0].resourcePerAlloc.vcore"),
    (tasks(resourcePerAlloc={"memory": "9Ei9"}), "allocations[0].resourcePerAlloc.memory"),
    (apps(placeholderAsk={"vcore": "x"}), "new[0].placeholderAsk.vcore"),
    (nodes(attributes={"si/node-partition": "gpu"}), "failed to find partition"),
    (nodes(nodeID="nobody", action="UPDATE", schedulableResource={"vcore": 1}), ""),
    (nodes(nodeID="nobody", action="DECOMISSION"), ""),
    (apps(applicationID="app-1"), "app-1"),
    (apps(ugi={}), "empty user"),
    (apps(ugi={"user": "a b\n"}), "invalid username"),
    (apps(partitionName="gpu"), "partition"),
    (tasks(allocationKey="t9", applicationID="nobody"), "nobody"),
    (tasks(applicationID=""), ""),
    (tasks(nodeID="nowhere"), "nowhere"),
    (tasks(resourcePerAlloc={}), "resource"),
    (tasks(resourcePerAlloc={"vcore": -1}), "resource"),
    (tasks(resourcePerAlloc={"vcore": -(2**63)}), "resource"),
    (tasks(resourcePerAlloc={"vcore": 0}), "resource"),
    (tasks(partitionName="gpu"), "partition"),
    (tasks(allocationTags={"zone": "x" * 100_000}), "allocations[0].allocationTags.zone: found 100000 bytes"),  # AP-138
    (tasks(allocationKey="x" * 100_000), "allocations[0].allocationKey: found 100000 bytes"),
    (apps(ugi={"user": "x" * 100_000}), "new[0].ugi.user: found 100000 bytes"),
    (nodes(nodeID="x" * 100_000), "nodes[0].nodeID: found 100000 bytes"),
    (releases(applicationID="nobody", allocationKey="t1"), ""),
    (releases(applicationID="app-1", allocationKey="t77"), ""),
    ({"type": "ApplicationRequest", "id": "1", "remove": [{"applicationID": "nobody"}]}, ""),
]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_refused_messages_change_nothing(encoding):
    """A wrong message is answered with its id, a code and the path of the mistake; the session and everybody else go on."""
    async with busy_daemon() as daemon, resumed(daemon, encoding) as rm:
        before = await daemon.state()
        below = tasks(resourcePerAlloc={"vcore": -(2**63) - 1})
        more = [(below, "BAD_QUANTITY", "allocations[0].resourcePerAlloc.vcore")]  # msgpack cannot say it
        for message, code, path in REFUSED + (more if encoding == "json" else []):
            (answer,) = await rm.ask(message)
            assert (answer["type"], answer.get("path", ""), answer.get("id", "")) == ("ErrorResponse", path, "1"), message
            assert code in (None, answer["code"]), answer
            assert answer["message"], message
            assert await daemon.state() == before, message
        assert [entry["type"] for entry in await rm.ask(nodes(schedulableResource={"vcore": 1}))] == ["NodeResponse", "Ack"]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_rejected_entries_change_nothing(encoding):
    """An entry that only the owner of a fact can refuse is rejected with a reason, or passed over as in the SI."""
    async with busy_daemon() as daemon, resumed(daemon, encoding) as rm:
        before = await settled_state(daemon)
        for message, reason in REJECTED:
            *told, ack = await rm.ask(message)
            turns = {name: ack[name] for name in ("turns",) if name in ack}  # of partitions that got a part of it
            assert ack == {"type": "Ack", "id": "1", "sequence": ack["sequence"], **turns}, message
            rejections = [name for answer in told for name in answer.get("rejected", []) + answer.get("rejectedAllocations", [])]
            if reason:
                (rejection,) = rejections
                assert reason in rejection["reason"], rejection
                assert rejection["code"] not in ("", "UNKNOWN"), rejection
            assert await settled_state(daemon) == before, message


@pytest.mark.parametrize("name", ["vcore", "memory"])
async def test_numbers_at_the_limits_of_int64(name):
    """Sums of 2^63-1 and more are shown as 2^63-1; when they are gone all is as before (QU-1, QU-43)."""
    async with busy_daemon() as daemon, resumed(daemon) as rm:
        before = await daemon.state()
        huge = {name: INT64_MAX}
        for key in ("huge-1", "huge-2"):
            await rm.ask(tasks(allocationKey=key, resourcePerAlloc=huge))
        assert (await daemon.state())["queues"]["root"]["pending"][name] == INT64_MAX
        for key in ("huge-1", "huge-2"):
            await rm.ask(releases(applicationID="app-1", allocationKey=key))
        assert await daemon.state() == before
        for node_id in ("big-1", "big-2"):
            await rm.ask(nodes(nodeID=node_id, schedulableResource={"gpu": INT64_MAX}))
        for node_id in ("big-1", "big-2"):
            await rm.ask(nodes(nodeID=node_id, action="DECOMISSION"))
        assert await daemon.state() == before
        await rm.ask(tasks(allocationKey="ran", nodeID="n1", resourcePerAlloc=huge))
        await rm.ask(releases(applicationID="app-1", allocationKey="ran"))
        after = await daemon.state()
        assert after["nodes"]["n1"]["allocated"] == before["nodes"]["n1"]["allocated"]
        assert after["queues"] == before["queues"]


#: What the last one is called depends on the socket.
MALFORMED = ["", "{", "[" * 100_000, "null", "[]", '"text"', b"\xff\xfe", b"", '{"type": "NodeRequest", "id": "", "id": ""}']


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed"])
@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_malformed_messages(path, encoding):
    """Text, binary frames and nothing at all, on either protocol, before and after registration: one answer for each."""
    async with busy_daemon() as daemon:
        before = await daemon.state()
        async with raw_peer(daemon, path, encoding) as peer:
            for _ in range(2):
                for message in MALFORMED:
                    (answer,) = await peer.ask(message)
                    assert answer["type"] == "ErrorResponse", message
                    assert answer["code"] in ("MALFORMED", "WRONG_TYPE", "DUPLICATE_KEY", "UNKNOWN_TYPE"), answer
                if path == "/v1/rm":
                    await peer.ask(registration(daemon))
                else:
                    await peer.send({"type": "Subscribe"})
                    assert (await peer.hear())["type"] == "Bookmark"
        assert await daemon.state() == before


async def test_repeated_keys_are_refused():
    """JSON that names a key twice, at any depth, is refused with its path and applied to nothing."""
    ask = '{"allocationKey": "t9", "applicationID": "app-1", "resourcePerAlloc": {"vcore": 1, "vcore": 2}}'
    async with busy_daemon() as daemon, resumed(daemon) as rm:
        before = await daemon.state()
        (answer,) = await rm.ask('{"type": "AllocationRequest", "id": "1", "allocations": [' + ask + "]}")
        assert (answer["code"], answer["path"]) == ("DUPLICATE_KEY", "allocations[0].resourcePerAlloc.vcore")
        assert await daemon.state() == before


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed"])
async def test_a_message_of_30_mib(path):
    """The message is not taken in: the session ends with 1009, everybody else goes on, and the sender may come back."""
    async with busy_daemon() as daemon, follow(daemon.url, kinds=["NODE"]) as events:
        before = await daemon.state()
        async with raw_peer(daemon, path) as peer, trio.open_nursery() as nursery:
            nursery.start_soon(send_as_far_as_it_goes, peer, json.dumps(nodes(nodeID="n" * 30 * 2**20)))
            assert await peer.closed() == 1009
            nursery.cancel_scope.cancel()
        assert await daemon.state() == before
        async with resumed(daemon) as rm:
            await rm.ask(nodes(nodeID="n3"))
        assert (await events.__anext__()).object_id == "n3"


async def send_as_far_as_it_goes(peer, message):
    with suppress(ConnectionClosed):
        await peer.send(message)


async def test_two_resource_managers():
    """A second one is refused while the first is registered; a new session of the first replaces its old one."""
    async with busy_daemon() as daemon, resumed(daemon) as old:
        before = await daemon.state()
        async with raw_peer(daemon) as other:
            (answer,) = await other.ask({"type": "RegisterResourceManagerRequest", "rmID": "rm-2", "id": "1"})
            assert answer["code"] == "ALREADY_REGISTERED"
            assert await other.closed() == 4007
        assert await daemon.state() == before
        async with resumed(daemon) as new:
            assert await old.closed() == 4001
            assert (await new.ask(nodes(nodeID="n3")))[-1]["type"] == "Ack"


async def test_a_flood_harms_nobody_else():
    """A resource manager that sends without end and never reads is slowed or dropped; others are served meanwhile."""
    async with real_daemon() as process:
        daemon = await occupied(process.url)
        flood = tasks(resourcePerAlloc={"vcore": 100_000})
        async with follow(daemon.url, kinds=["APP_REQUEST"]) as events, trio.open_nursery() as nursery:
            sent = []
            nursery.start_soon(pour, daemon, flood, sent)
            for _ in range(3):
                count = len(sent)
                while len(sent) < count + 40:
                    await trio.lowlevel.checkpoint()
                assert "n1" in (await daemon.state())["nodes"]
                await events.__anext__()
            nursery.cancel_scope.cancel()
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(node("n1"))
        assert set((await daemon.state())["nodes"]) == {"n1"}
        assert process.noise == ""


async def pour(daemon, message, sent):
    """Send the same request with ever new keys, many in each message, and read nothing."""
    async with open_connection(daemon.url, "/v1/rm") as connection:
        await connection.send_message(json.dumps(registration(daemon)))
        ask = message["allocations"][0]
        while True:
            batch = [ask | {"allocationKey": f"{len(sent)}-{number}"} for number in range(50)]
            await connection.send_message(json.dumps(message | {"allocations": batch}))
            sent.append(None)


#: Subscriptions that are refused: the message, code and path of the answer.
REFUSED_SUBSCRIPTIONS = [
    ({"type": "Subscribe", "from": "yesterday"}, "UNKNOWN_NAME", "from"),
    ({"type": "Subscribe", "from": -1}, "RESYNC_REQUIRED", "from"),
    ({"type": "Subscribe", "from": 10**9}, "RESYNC_REQUIRED", "from"),
    ({"type": "Subscribe", "from": 1.5}, "WRONG_TYPE", "from"),
    ({"type": "Subscribe", "queues": "root"}, "WRONG_TYPE", "queues"),
    ({"type": "Subscribe", "kinds": [1]}, "WRONG_TYPE", "kinds[0]"),
    ({"type": "Subscribe", "kinds": ["APP", "app"]}, "UNKNOWN_NAME", "kinds[1]"),
    ({"type": "Subscribe", "queues": ["root", "rot.a"]}, "UNKNOWN_NAME", "queues[1]"),
    ({"type": "Subscribe", "queues": [""]}, "UNKNOWN_NAME", "queues[0]"),
    ({"type": "Subscribe", "colour": "red"}, "UNKNOWN_FIELD", "colour"),
    ({"type": "NodeRequest"}, "UNKNOWN_TYPE", "type"),
]


@pytest.mark.parametrize("encoding", ["json", "msgpack"])
async def test_refused_subscriptions(encoding):
    """A wrong subscription is answered with code and path; the follower may try again and the one it had goes on."""
    async with busy_daemon() as daemon, raw_peer(daemon, "/v1/feed", encoding) as follower, resumed(daemon) as rm:
        await follower.send({"type": "Subscribe"})
        assert (await follower.hear())["type"] == "Bookmark"
        for message, code, path in REFUSED_SUBSCRIPTIONS:
            (answer,) = await follower.ask(message)
            assert (answer["type"], answer.get("path", "")) == ("ErrorResponse", path), (message, answer)
            assert code in (None, answer["code"]), answer
        await rm.ask(nodes(nodeID="n3"))
        told = await follower.hear()
        assert {event["objectID"] for event in told["events"]} == {"n3"}
