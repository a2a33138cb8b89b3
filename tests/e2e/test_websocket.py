"""The websocket server over real sockets, with doubles for the partitions."""

import re
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
import trio
from doubles import counted, running_daemon
from shown import Shown
from trio_websocket import ConnectionClosed
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage
from wsproto.frame_protocol import FrameProtocol

from ykactor.access.limits import Limits as AccessLimits
from ykactor.actors.commands import Publication
from ykactor.client import Disconnected, RequestRefused
from ykactor.client.connection import open_connection
from ykactor.core.messages import submissions as messages
from ykactor.core.messages.facts import ApplicationAdded, NodeRemoved
from ykactor.surfaces.sessions.feed_session import FeedSession
from ykactor.surfaces.sessions.peer import Limits
from ykactor.surfaces.sessions.rm_requests import RequestHandler

REGISTER = {"type": "RegisterResourceManagerRequest", "rmID": "rm-1", "id": "r"}
NODE = {"nodeID": "n1", "action": "CREATE", "schedulableResource": {"vcore": "4"}}
APP = {"applicationID": "app-1", "queueName": "root.a"}
#: What a partition hears when nobody is connected, or somebody who only sends requests; and of a registration of the latter.
NOBODY = [messages.SetPredicateService(False), messages.WantSchedulingStates(False)]
AFRESH = [messages.Reset(), *NOBODY]
ASK = {"allocationKey": "t1", "applicationID": "app-1", "resourcePerAlloc": {"vcore": 1000}}


class Client:
    """The raw protocol: JSON objects in and out."""

    def __init__(self, connection):
        self.connection = connection

    async def send(self, message):
        raw = message if isinstance(message, str | bytes) else msgspec.json.encode(message).decode()
        await self.connection.send_message(raw)

    async def receive(self):
        return msgspec.json.decode(await self.connection.get_message())

    async def ask(self, message):
        await self.send(message)
        return await self.receive()

    async def subscribe(self, **fields):
        """Subscribe and take the confirmation; its sequence number."""
        answer = await self.ask({"type": "Subscribe", **fields})
        assert answer["type"] == "Bookmark"
        return answer["sequence"]

    async def closed(self):
        """Wait until the server closes; its reason."""
        while True:
            try:
                await self.connection.get_message()
            except ConnectionClosed as error:
                return error.reason


@asynccontextmanager
async def client(daemon, path, **options):
    async with open_connection(daemon.url, path, **options) as connection:
        yield Client(connection)


@asynccontextmanager
async def registered(daemon, **fields):
    async with client(daemon, "/v1/rm") as rm:
        await rm.send({**REGISTER, **fields})
        answers = [await rm.receive(), await rm.receive()]
        assert [a["type"] for a in answers] == ["RegisterResourceManagerResponse", "Ack"]
        yield rm


async def test_what_a_resource_manager_tells_of_itself_is_kept():
    """The REST API shows it (`/ws/v1/clusters`)."""
    async with running_daemon() as daemon, registered(daemon, buildInfo={"buildVersion": "1"}):
        assert daemon.outboxes.current.build_info == {"buildVersion": "1"}


# ---- handshake


@pytest.mark.parametrize(
    ("path", "options", "status"),
    [
        ("/", {}, 404),
        ("/v1/nothing", {}, 404),
        ("/v1/rm", {"subprotocols": ["soap"]}, 400),
        ("/v1/rm", {"login": Shown(others=((b"Origin", b"http://evil.example"),))}, 403),
        ("/v1/feed", {"login": Shown(others=((b"Origin", b"null"),))}, 403),
        ("/v1/feed", {"login": Shown(others=((b"Origin", b"http://[broken"),))}, 403),
        ("/v1/feed", {"login": Shown(others=((b"Origin", b"\xff\xfe"),))}, 400),
    ],
)
async def test_refused_handshakes(path, options, status):
    """Wrong path, unknown subprotocol and pages of other hosts get an HTTP status and a sentence."""
    async with running_daemon() as daemon:
        with pytest.raises((Disconnected, RequestRefused)) as error:
            async with client(daemon, path, **options):
                pass
        assert error.value.__cause__.status_code == status
        assert error.value.__cause__.body.endswith(b"\n")


async def test_page_of_the_same_host_may_connect():
    """The daemon's own pages have another port but the same host."""
    async with running_daemon() as daemon:
        own = Shown(others=((b"Origin", b"http://127.0.0.1:9080"),))
        async with client(daemon, "/v1/feed?x=1", login=own) as page:
            await page.send({"type": "Subscribe", "from": "snapshot"})
            assert (await page.receive())["type"] == "Snapshot"


async def test_too_many_sessions_are_refused_until_one_ends():
    """Sessions are bounded: one too many gets 503, and its place is free again when another one leaves."""
    async with running_daemon(in_force=lambda: AccessLimits(total_sessions=4)) as daemon:
        async with client(daemon, "/v1/feed"):
            with pytest.raises(Disconnected, match="the server replied 503 1 sessions on /v1/feed of "):
                async with client(daemon, "/v1/feed"):
                    pass
        await wait_for_place(daemon)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/rm HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /v1/rm HTTP/1.1\r\nHost: \xff\xff\r\nUpgrade: websocket\r\nConnection: \xff\r\n\r\n",
        b"GET /v1/r",
        b"",
    ],
)
async def test_strange_handshakes_end(request_bytes):
    """Plain HTTP, other protocols, half a request and silence end within the handshake's deadline and harm nobody."""
    async with running_daemon(in_force=lambda: AccessLimits(handshake_seconds=1)) as daemon:
        async with await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2])) as stream:
            await stream.send_all(request_bytes)
            while await stream.receive_some():
                pass
        async with registered(daemon):
            pass


# ---- bad messages

Q = "BAD_QUANTITY"
GARBAGE = [
    ("", "MALFORMED"),
    ("{", "MALFORMED"),
    ("[" * 100_000, "WRONG_TYPE"),
    ('{"type": ' * 100_000, "MALFORMED"),
    (b"\xff\xfe", "MALFORMED"),
    ("null", "WRONG_TYPE"),
    ("[]", "WRONG_TYPE"),
    ("{}", "MISSING_FIELD"),
    ('{"type": "Nonsense"}', "UNKNOWN_TYPE"),
    ('{"type": 7}', "WRONG_TYPE"),
]
RM_GARBAGE = [
    *GARBAGE,
    ('{"type": "NodeRequest", "nodes": {}}', "WRONG_TYPE"),
    ('{"type": "NodeRequest", "nodes": [{"nodeID": 5, "action": "CREATE"}]}', "WRONG_TYPE"),
    ('{"type": "NodeRequest", "nodes": [{"nodeID": "", "action": "CREATE"}]}', "EMPTY_ID"),
    ('{"type": "NodeRequest", "nodes": [], "nodes": []}', "DUPLICATE_KEY"),
    ('{"type": "NodeRequest", "colour": 1}', "UNKNOWN_FIELD"),
    ('{"type": "AllocationRequest", "allocations": [{"allocationKey": "t", "resourcePerAlloc": {"vcore": 1e30}}]}', Q),
    ('{"type": "TerminateApplication", "applicationID": "a"}', "REFUSED"),
    ('{"type": "MoveApplication", "applicationID": "a", "queueName": "q"}', "REFUSED"),
    ('{"type": "ScheduleRequest"}', "NOT_MANUAL"),
    ('{"type": "RegisterResourceManagerRequest", "rmID": "rm-2"}', "ALREADY_REGISTERED"),
]
FEED_GARBAGE = [
    *GARBAGE[:5],
    ('{"type": "Subscribe", "from": "yesterday"}', "UNKNOWN_NAME"),
    ('{"type": "Subscribe", "from": 1.5}', "WRONG_TYPE"),
    ('{"type": "Subscribe", "from": -1}', "RESYNC_REQUIRED"),
    ('{"type": "Subscribe", "from": 1000000}', "RESYNC_REQUIRED"),
    ('{"type": "Subscribe", "queues": "root"}', "WRONG_TYPE"),
    ('{"type": "Subscribe", "kinds": [], "kinds": []}', "DUPLICATE_KEY"),
    ('{"type": "Subscribe", "from": 0, "instance": 7}', "WRONG_TYPE"),
    ("{}", "MISSING_FIELD"),
]


async def test_bad_requests_are_answered_and_the_session_goes_on():
    """Each mistake of a resource manager costs one message: it is answered with a code, nothing happens, work goes on."""
    async with running_daemon() as daemon:
        async with registered(daemon) as rm:
            for garbage, code in RM_GARBAGE * 2:
                answer = await rm.ask(garbage)
                assert (answer["type"], answer["code"]) == ("ErrorResponse", code), garbage
            assert daemon.doubles["default"].received == AFRESH
            assert (await rm.ask({"type": "NodeRequest", "nodes": [NODE]}))["type"] == "NodeResponse"


async def test_bad_subscriptions_are_answered_and_the_session_goes_on():
    """The same holds for followers."""
    async with running_daemon() as daemon:
        async with client(daemon, "/v1/feed") as follower:
            for garbage, code in FEED_GARBAGE * 2:
                answer = await follower.ask(garbage)
                assert (answer["type"], answer["code"]) == ("ErrorResponse", code), garbage
            assert (await follower.ask({"type": "Subscribe", "from": "snapshot"}))["type"] == "Snapshot"


async def test_a_huge_message_of_a_follower_closes_the_session():
    """A message above the limit, which is one of its own for followers, is not gathered in memory: the session ends with 1009."""
    async with running_daemon(limits=Limits(subscription_bytes_max=10_000)) as daemon, client(daemon, "/v1/feed") as peer:
        await peer.send("x" * 1_000_000)
        assert (await peer.closed()).code == 1009


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed"])
async def test_garbage_frames_end_only_their_session(path):
    """Bytes that are not websocket frames end the connection and nothing else."""
    async with running_daemon() as daemon:
        async with client(daemon, path) as peer:
            await peer.connection._stream.send_all(b"\xff" * 100)
            assert (await peer.closed()).code == 1006  # the library just hangs up
        async with registered(daemon):
            pass


async def test_msgpack_is_spoken_when_asked_for():
    """The subprotocol picks the encoding; text is then as malformed as any garbage."""
    async with running_daemon() as daemon:
        async with client(daemon, "/v1/rm", subprotocols=["x", "ykactor.v1.msgpack"]) as rm:
            assert rm.connection.subprotocol == "ykactor.v1.msgpack"
            await rm.send(msgspec.msgpack.encode(REGISTER))
            answer = msgspec.msgpack.decode(await rm.connection.get_message())
            assert answer == {"type": "RegisterResourceManagerResponse", "sequence": 1, "term": answer["term"]}
            acknowledged = msgspec.msgpack.decode(await rm.connection.get_message())
            expected = {"type": "Ack", "sequence": 2, "id": acknowledged["id"], "term": answer["term"], "turns": {"default": 0}}
            assert acknowledged == expected
            await rm.send("{}")
            assert msgspec.msgpack.decode(await rm.connection.get_message())["code"] in ("MALFORMED", "WRONG_TYPE")


# ---- registration


async def test_nothing_happens_before_registration():
    """The first message must register; until then everything else is refused and nothing reaches a partition."""
    async with running_daemon() as daemon:
        async with client(daemon, "/v1/rm") as rm:
            answer = await rm.ask({"type": "NodeRequest", "id": "7", "nodes": [NODE]})
            assert (answer["code"], answer["id"]) == ("NOT_REGISTERED", "7")
            assert (await rm.ask("{"))["code"] == "MALFORMED"
            assert daemon.doubles["default"].received == []
            assert (await rm.ask(REGISTER))["type"] == "RegisterResourceManagerResponse"


async def test_another_resource_manager_is_refused():
    """SC-142: only one rmID at a time, and it keeps its place when its session ends."""
    async with running_daemon("default", "gpu") as daemon:
        async with registered(daemon):
            pass
        async with client(daemon, "/v1/rm") as rm:
            answer = await rm.ask({**REGISTER, "rmID": "rm-2"})
            assert answer["code"] == "ALREADY_REGISTERED"
            expected = (
                r"found rm-2: RM rm-1 has been registered before and holds this daemon until it deregisters; it has not been "
                r"connected at least since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ; 'ykactor rm release rm-1' drops its nodes and "
                r"applications and lets another one register"
            )
            assert re.fullmatch(expected, answer["message"])
            assert daemon.outboxes.current.rm_id == "rm-1"


async def test_newer_session_replaces_the_older():
    """One session at a time for an rmID: the older one is closed with a reason."""
    async with running_daemon() as daemon:
        async with registered(daemon) as old, registered(daemon) as new:
            reason = await old.closed()
            assert (reason.code, reason.reason) == (4001, "a newer session of rm-1 has registered")
            assert (await new.ask({"type": "NodeRequest", "nodes": [NODE]}))["type"] == "NodeResponse"


async def test_partition_that_never_answers_keeps_no_place():
    """A session that has ended is gone, even if its requests are still being worked on."""
    async with running_daemon(in_force=lambda: AccessLimits(total_sessions=4)) as daemon:
        async with registered(daemon) as rm:
            daemon.doubles["default"].resume = trio.Event()
            await rm.send({"type": "NodeRequest", "id": "lost", "nodes": [NODE]})
        await wait_for_place(daemon)


async def wait_for_place(daemon):
    while True:
        try:
            async with client(daemon, "/v1/feed"):
                return
        except Disconnected:
            await trio.lowlevel.checkpoint()


async def test_ping_into_a_closing_session_is_no_failure(caplog):
    """A peer that goes on pinging while we wait for its goodbye is cut off, and nobody is alarmed."""
    async with running_daemon(limits=Limits(close_s=0.2)) as daemon:
        register = msgspec.json.encode(REGISTER).decode()
        async with never_reads(daemon, register, path="/v1/rm") as old:
            while daemon.outboxes.current is None or daemon.outboxes.current.reader is None:
                await trio.lowlevel.checkpoint()
            async with registered(daemon):
                ping = FrameProtocol(client=True, extensions=[]).ping(b"still here")
                await send_until_dropped(old, ping)
    assert caplog.records == []


async def test_fresh_registration_resets_every_partition():
    """SC-141: without ``resumeFrom`` all that was known is dropped first."""
    async with running_daemon("default", "gpu") as daemon:
        async with registered(daemon) as rm:
            await rm.ask({"type": "NodeRequest", "nodes": [NODE]})
        async with registered(daemon):
            assert daemon.doubles["gpu"].received == AFRESH * 2
            assert daemon.doubles["default"].received[-3:] == AFRESH


@pytest.mark.parametrize(
    ("field", "kind"),
    [("answersPredicates", messages.SetPredicateService), ("wantsSchedulingStates", messages.WantSchedulingStates)],
)
async def test_who_is_connected(field, kind):
    """SC-120, AP-146: partitions hear with every registration what it answers and wants, and when its session ends that nobody
    does; a newer session has the last word.
    """
    async with running_daemon() as daemon:
        heard = daemon.doubles["default"].received

        def told():
            return [submission == kind(True) for submission in heard if isinstance(submission, kind)]

        async with registered(daemon, **{field: True}):
            async with registered(daemon, resumeFrom=2, **{field: True}):
                pass
            while len(told()) < 3:
                await trio.lowlevel.checkpoint()
            assert told() == [True, True, False]
            async with registered(daemon, **{field: True}), registered(daemon):
                pass
        async with registered(daemon, resumeFrom=8):
            assert told() == [True, True, False, True, False, False]


async def test_resume_sends_what_was_missed():
    """A session with ``resumeFrom`` keeps the state and gets each message behind that number again, then new ones."""
    async with running_daemon() as daemon:
        async with registered(daemon) as rm:  # 1 and 2
            for number in range(3):  # 3, 5, 7 with their acks
                await rm.send({"type": "NodeRequest", "id": f"q{number}", "nodes": [NODE]})
            for _ in range(2):
                await rm.receive()
        async with client(daemon, "/v1/rm") as rm:
            await rm.send({**REGISTER, "resumeFrom": 4})
            answers = [await rm.receive() for _ in range(6)]
            assert [a["sequence"] for a in answers] == [5, 6, 7, 8, 9, 10]
            assert [a["type"] for a in answers[-2:]] == ["RegisterResourceManagerResponse", "Ack"]
        assert daemon.doubles["default"].received.count(messages.Reset()) == 1


@pytest.mark.parametrize("resume_from", [-1, 3, 2**62])
async def test_resume_from_an_unknown_number_is_refused(resume_from):
    """``RESYNC_REQUIRED``: the numbers are not ours; the session ends, and another one may register afresh."""
    async with running_daemon() as daemon:
        async with registered(daemon):
            pass
        async with client(daemon, "/v1/rm") as rm:
            assert (await rm.ask({**REGISTER, "resumeFrom": resume_from}))["code"] == "RESYNC_REQUIRED"
            assert (await rm.closed()).code == 4007
        async with registered(daemon):
            pass


async def test_resume_without_registration_is_refused():
    """A daemon that has just started knows no numbers."""
    async with running_daemon() as daemon:
        async with client(daemon, "/v1/rm") as rm:
            assert (await rm.ask({**REGISTER, "resumeFrom": 0}))["code"] == "RESYNC_REQUIRED"


async def test_registration_with_a_bad_configuration_changes_nothing():
    """SC-140: the error names its cause, nothing is kept or reset."""
    async with running_daemon() as daemon:
        async with client(daemon, "/v1/rm") as rm:
            answer = await rm.ask({**REGISTER, "config": "bad"})
            assert (answer["code"], answer["path"]) == ("BAD_CONFIG", "config")
            assert answer["message"].startswith("registration of RM failed: ")
            assert daemon.outboxes.current is None
            assert daemon.doubles["default"].received == []
        async with client(daemon, "/v1/rm") as rm:
            await rm.ask({**REGISTER, "config": "good"})
            assert daemon.configs == ["good"]


# ---- requests


async def test_ack_comes_behind_everything_that_the_request_caused():
    """``Ack`` is the last message about a request, in the order of the requests, also over several partitions."""
    async with running_daemon("default", "gpu") as daemon:
        async with registered(daemon) as rm:
            on_gpu = {**NODE, "nodeID": "g1", "attributes": {"si/node-partition": "gpu"}}
            await rm.send({"type": "NodeRequest", "id": "1", "nodes": [NODE, on_gpu]})
            await rm.send({"type": "ApplicationRequest", "id": "2", "new": [APP]})
            await rm.send({"type": "AllocationRequest", "id": "3", "allocations": [ASK]})
            answers = [await rm.receive() for _ in range(7)]
            assert [a["sequence"] for a in answers] == list(range(3, 10))
            place = {a["id"]: n for n, a in enumerate(answers) if a["type"] == "Ack"}
            assert list(place) == ["1", "2", "3"]
            kinds = [a["type"] for a in answers]
            assert kinds[: place["1"]].count("NodeResponse") == 2
            assert kinds.index("ApplicationResponse") < place["2"]
            assert kinds.index("AllocationResponse") < place["3"]


async def test_request_without_id_gets_no_ack():
    """``id`` is optional, and with it the acknowledgement."""
    async with running_daemon() as daemon:
        async with registered(daemon) as rm:
            await rm.send({"type": "NodeRequest", "nodes": [NODE]})
            await rm.send({"type": "NodeRequest", "id": "x"})
            received = [await rm.receive() for _ in range(2)]
            assert {(message["type"], message.get("id")) for message in received} == {("NodeResponse", None), ("Ack", "x")}


async def test_entries_for_an_unknown_partition_are_rejected_one_by_one():
    """A partition that does not exist is no mistake of the whole request (AP-10, AP-100)."""
    async with running_daemon() as daemon:
        async with registered(daemon) as rm:
            lost = {**APP, "applicationID": "app-2", "partitionName": "lost"}
            await rm.send({"type": "ApplicationRequest", "id": "1", "new": [APP, lost]})
            answers = [await rm.receive() for _ in range(3)]
            assert answers[-1]["type"] == "Ack"
            rejected = [r for a in answers[:2] for r in a.get("rejected", ())]
            accepted = [r["applicationID"] for a in answers[:2] for r in a.get("accepted", ())]
            assert accepted == ["app-1"]
            assert rejected == [
                {
                    "applicationID": "app-2",
                    "reason": "Failed to add application app-2 to partition lost, partition doesn't exist",
                    "code": "NO_PARTITION",
                }
            ]


async def test_configuration_updates():
    """A good configuration is acknowledged, a bad one and a wrong ``ifChecksum`` are refused with a reason."""
    async with running_daemon() as daemon:
        async with registered(daemon) as rm:
            update = {"type": "UpdateConfigurationRequest", "id": "u"}
            assert (await rm.ask({**update, "config": "one", "ifChecksum": "sum"}))["type"] == "Ack"
            refused = await rm.ask({**update, "config": "bad"})
            assert (refused["id"], refused["message"].partition(":")[0]) == ("u", "update of configuration failed")
            assert (await rm.ask({**update, "config": "two", "ifChecksum": "old"}))["code"] == "CHECKSUM_MISMATCH"
            assert daemon.configs == ["one"]


async def test_manual_steps():
    """``ScheduleRequest`` runs cycles of a daemon that was started with ``--manual``."""
    async with running_daemon(manual=True) as daemon:
        async with registered(daemon) as rm:
            assert (await rm.ask({"type": "ScheduleRequest", "id": "s", "steps": 3}))["type"] == "Ack"
            assert (await rm.ask({"type": "ScheduleRequest", "id": "s", "steps": 0}))["code"] == "OUT_OF_RANGE"
            assert daemon.steps == 3


async def test_full_inbox_becomes_back_pressure_and_loses_nothing():
    """A partition that is busy makes the session wait; every request is handled once it goes on."""
    async with running_daemon() as daemon:
        async with registered(daemon) as rm:
            double = daemon.doubles["default"]
            double.resume = trio.Event()
            async with trio.open_nursery() as nursery:

                async def send_many():
                    for number in range(500):
                        await rm.send({"type": "NodeRequest", "id": str(number), "nodes": [NODE]})

                nursery.start_soon(send_many)
                while double.inbox.senders_waiting() == 0:
                    await trio.lowlevel.checkpoint()
                double.resume.set()
                acks = []
                while len(acks) < 500:
                    answer = await rm.receive()
                    if answer["type"] == "Ack":
                        acks.append(int(answer["id"]))
            assert acks == list(range(500))


async def test_accepted_request_is_acknowledged_to_the_session_that_resumes():
    """A connection that is lost before the ``Ack`` loses no ``Ack``: it waits in the outbox."""
    async with running_daemon() as daemon:
        double = daemon.doubles["default"]
        async with registered(daemon) as rm:
            double.resume = trio.Event()
            await rm.send({"type": "NodeRequest", "id": "lost", "nodes": [NODE]})
            while not double.resume.statistics().tasks_waiting:
                await trio.lowlevel.checkpoint()
        double.resume.set()
        async with client(daemon, "/v1/rm") as rm:
            await rm.send({**REGISTER, "resumeFrom": 2})
            ids = [(await rm.receive()).get("id") for _ in range(4)]
            assert sorted(filter(None, ids)) == ["lost", "r"]


# ---- the feed


async def test_snapshot_then_events():
    """``from: snapshot`` gives the state at one number and then every event behind it."""
    async with running_daemon("default", "gpu") as daemon:
        async with registered(daemon) as rm, client(daemon, "/v1/feed") as follower:
            await rm.ask({"type": "NodeRequest", "nodes": [NODE]})
            snapshot = await follower.ask({"type": "Subscribe", "from": "snapshot"})
            assert snapshot == {
                "type": "Snapshot",
                "sequence": 2,
                "term": snapshot["term"],
                "instance": snapshot["term"],
                "partitions": msgspec.to_builtins([counted("default", 2), counted("gpu", 0)]),
                "cycles": {"default": {}, "gpu": {}},
                "resourceManager": {"rmID": "rm-1", "connected": True, "since": 0},
            }
            await rm.ask({"type": "ApplicationRequest", "new": [APP]})
            events = await follower.receive()
            assert events["type"] == "Events"
            assert [e["sequence"] for e in events["events"]] == [3, 4]
            assert events["events"][0] == {
                "sequence": 3,
                "type": "APP",
                "objectID": "app-1",
                "eventChangeType": "ADD",
                "eventChangeDetail": "APP_NEW",
                "timestampNano": 0,
                "partition": "default",
                "queueName": "root.a",
            }


async def test_from_is_after_this_number():
    """EV-46: who asks for the event to come gets it; a number beyond is refused."""
    async with running_daemon() as daemon, registered(daemon) as rm, client(daemon, "/v1/feed") as follower:
        await rm.ask({"type": "NodeRequest", "nodes": [NODE]})
        newest = await follower.subscribe()
        assert newest > 0
        assert await follower.subscribe(**{"from": newest}) == newest
        term = (await follower.ask({"type": "Subscribe"}))["term"]
        assert (await follower.ask({"type": "Subscribe", "from": newest + 2}))["code"] == "RESYNC_REQUIRED"
        for fields in ({}, {"term": term}):
            assert await follower.subscribe(**{"from": newest + 1, **fields}) == newest
        await rm.ask({"type": "ApplicationRequest", "new": [APP]})
        assert (await follower.receive())["events"][0]["sequence"] == newest + 1


async def test_numbers_of_another_run_are_refused():
    """EV-55: clients of version 0.2 name the term as ``instance``; a number of another run would mean other events."""
    async with running_daemon() as daemon, running_daemon() as other:
        runs = []
        for each in (daemon, daemon, other):
            async with client(each, "/v1/feed") as follower:
                bookmark = await follower.ask({"type": "Subscribe"})
                snapshot = await follower.ask({"type": "Subscribe", "from": "snapshot"})
                assert bookmark["instance"] == snapshot["instance"] != ""
                runs.append(bookmark["instance"])
        assert runs[0] == runs[1] != runs[2]
        async with client(daemon, "/v1/feed") as follower:
            answer = await follower.ask({"type": "Subscribe", "from": 0, "instance": runs[2]})
            assert (answer["type"], answer["code"], answer["path"]) == ("ErrorResponse", "RESYNC_REQUIRED", "instance")
            for instance in ("", runs[0]):
                assert await follower.subscribe(**{"from": 0, "instance": instance}) == 0
            # where no number is given, there is nothing to misunderstand
            assert (await follower.ask({"type": "Subscribe", "from": "now", "instance": runs[2]}))["instance"] == runs[0]


async def test_an_unknown_filter_is_refused_with_what_exists():
    """A kind that no event has, and a queue that is below no queue, would never match an event."""
    async with running_daemon() as daemon, client(daemon, "/v1/feed") as follower:
        refused = await follower.ask({"type": "Subscribe", "kinds": ["APP_RUNING"]})
        assert refused["message"].startswith(
            "found 'APP_RUNING', expected a type (AUDIT, APP, NODE, QUEUE, REQUEST, USERGROUP) or a detail ("
        )
        assert ", APP_RUNNING, " in refused["message"]
        refused = await follower.ask({"type": "Subscribe", "queues": ["default"]})
        assert refused["message"] == "found 'default', expected root, root.a, root.p, root.p.b or a queue below one of them"


@pytest.mark.parametrize("from_", ["now", "snapshot"])
async def test_a_queue_that_may_appear_later_is_allowed(from_):
    """The confirmation names the queues that do not exist yet; they have events when placement or a reload creates them."""
    async with running_daemon() as daemon, client(daemon, "/v1/feed") as follower:
        confirmed = await follower.ask({"type": "Subscribe", "from": from_, "queues": ["root.P.new.x", "root.p.b", "root.c"]})
        assert confirmed["missingQueues"] == ["root.p.new.x", "root.c"]
        assert "missingQueues" not in await follower.ask({"type": "Subscribe", "from": from_, "queues": ["root.p"]})


async def test_a_further_subscribe_replaces_the_one_before():
    """A follower that has lagged asks for a snapshot on the connection that it has; filters are replaced too."""
    async with running_daemon() as daemon:
        async with registered(daemon) as rm, client(daemon, "/v1/feed") as follower:
            await rm.ask({"type": "NodeRequest", "nodes": [NODE]})
            await rm.ask({"type": "ApplicationRequest", "new": [APP]})
            assert await follower.subscribe(**{"from": 0}) == 0
            assert len((await follower.receive())["events"]) == 4
            await follower.subscribe(**{"from": 1, "kinds": ["QUEUE"], "queues": ["ROOT."]})
            events = await follower.receive()
            assert [e["objectID"] for e in events["events"]] == ["root.a"]
            assert (await follower.ask({"type": "Subscribe", "from": "snapshot"}))["sequence"] == 4


async def test_lagged_follower_is_told_and_goes_on():
    """Events that the ring no longer holds are named, what it holds follows."""
    async with running_daemon(ring_max=4) as daemon:
        async with registered(daemon) as rm, client(daemon, "/v1/feed") as follower:
            for _ in range(3):
                await rm.ask({"type": "NodeRequest", "nodes": [NODE]})
            assert await follower.subscribe(**{"from": 0}) == 0
            assert await follower.receive() == {"type": "Lagged", "from": 1, "to": 2}
            assert [e["sequence"] for e in (await follower.receive())["events"]] == [3, 4, 5, 6]


@asynccontextmanager
async def never_reads(daemon, *sent, path="/v1/feed", buffer_bytes=4096):
    """The evil double: shakes hands, says its words and then never reads from its small socket."""
    async with await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2])) as stream:
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, buffer_bytes)
        protocol = WSConnection(ConnectionType.CLIENT)
        await stream.send_all(protocol.send(Request(host="127.0.0.1", target=path)))
        protocol.receive_data(await stream.receive_some())
        assert [type(event) for event in protocol.events()] == [AcceptConnection]
        for message in sent:
            await stream.send_all(protocol.send(TextMessage(message)))
        yield stream


def frame(text):
    """A text message as a client sends it."""
    return FrameProtocol(client=True, extensions=[]).send_data(text)


async def send_until_dropped(stream, data):
    """Send until the other end has given up the connection."""
    while True:
        try:
            await stream.send_all(data)
        except trio.BrokenResourceError:
            return


async def test_subscriber_that_never_reads_is_dropped_and_slows_nobody():
    """The session of such a subscriber ends at the send deadline; meanwhile all others see each event."""
    async with (
        running_daemon(limits=Limits(send_s=2, close_s=0.1)) as daemon,
        never_reads(daemon, '{"type": "Subscribe"}') as evil,
        registered(daemon) as rm,
        client(daemon, "/v1/feed") as follower,
    ):
        assert await follower.subscribe() == 0
        nodes = [{**NODE, "nodeID": "n" * 200} for _ in range(200)]
        seen = 0
        for _ in range(50):
            await rm.send({"type": "NodeRequest", "id": "x", "nodes": nodes})
            while (await rm.receive())["type"] != "Ack":
                pass
            while seen < daemon.feed.ring.sequence:
                events = (await follower.receive())["events"]
                assert events[0]["sequence"] == seen + 1
                seen = events[-1]["sequence"]
        assert seen == 50 * 200 * 2
        await send_until_dropped(evil, frame('{"type": "Subscribe"}'))


async def test_garbage_without_end_is_bounded():
    """A peer that sends garbage and never reads the answers is not read for ever: it is dropped at the send deadline."""
    async with running_daemon(limits=Limits(send_s=0.3, close_s=0.1)) as daemon:
        async with never_reads(daemon) as evil:
            await send_until_dropped(evil, frame("{" * 100) * 100)


# ---- stopping

GOODBYE = (1001, "the daemon stops")
REMOVED = [NodeRemoved(0, "n1")] * 100


async def goodbye(peer):
    """Wait for the close: its code and reason."""
    reason = await peer.closed()
    return reason.code, reason.reason


async def test_stopping_sends_what_is_there_and_says_goodbye():
    """All numbered messages still arrive when the daemon stops, then each session closes with 1001."""
    async with running_daemon(ring_max=5000) as daemon:
        async with (
            registered(daemon) as rm,
            client(daemon, "/v1/feed") as follower,
            client(daemon, "/v1/feed") as picky,
            client(daemon, "/v1/feed") as silent,
            client(daemon, "/v1/rm") as stranger,
        ):
            await follower.subscribe()
            await picky.subscribe(kinds=["APP"])
            await rm.send({"type": "NodeRequest", "id": "last", "nodes": [NODE] * 1000})
            while daemon.doubles["default"].facts_count < 2000:
                await trio.lowlevel.checkpoint()
            await daemon.feed.inbox.put(Publication("default", [ApplicationAdded(0, "app-9", "root.a", "alice")]))
            await daemon.feed.published("default")
            daemon.stopping.set()
            answers = []
            while {a["type"] for a in answers} != {"NodeResponse", "ApplicationResponse", "Ack"}:
                answers.append(await rm.receive())
            assert [a["sequence"] for a in answers] == list(range(3, 3 + len(answers)))
            assert sum(len(a.get("accepted", ())) for a in answers if a["type"] == "NodeResponse") == 1000
            seen = []
            while len(seen) < daemon.feed.ring.sequence:
                seen += [event["sequence"] for event in (await follower.receive())["events"]]
            assert seen == list(range(1, daemon.feed.ring.sequence + 1))
            assert (await picky.receive())["events"][0]["objectID"] == "app-9"
            for peer in (rm, follower, picky, silent, stranger):
                assert await goodbye(peer) == GOODBYE
        await daemon.stopped.wait()


async def test_stopping_lets_nobody_in():
    """The listener is closed at once; a handshake under way is given up."""
    async with running_daemon() as daemon:
        address = ("127.0.0.1", int(daemon.url.rpartition(":")[2]))
        async with await trio.open_tcp_stream(*address) as slow:
            await slow.send_all(b"GET /v1/r")
            async with registered(daemon):  # by then the server has begun with the one before
                pass
            daemon.stopping.set()
            assert await slow.receive_some() == b""
            await slow.aclose()
            await daemon.stopped.wait()
        with pytest.raises(Disconnected):
            async with client(daemon, "/v1/feed"):
                pass


async def test_stopping_takes_no_more_requests():
    """A request to a session that stops reaches no partition, also when the peer has not yet heard of it."""
    register = msgspec.json.encode(REGISTER).decode()
    request = msgspec.json.encode({"type": "NodeRequest", "id": "late", "nodes": [NODE]}).decode()
    async with running_daemon(limits=Limits(close_s=0.2)) as daemon, never_reads(daemon, register, path="/v1/rm") as peer:
        while daemon.outboxes.current is None or daemon.outboxes.current.reader is None:
            await trio.lowlevel.checkpoint()
        daemon.stopping.set()
        while daemon.outboxes.current.reader is not None:
            await trio.lowlevel.checkpoint()
        await peer.send_all(frame(request))
        await daemon.stopped.wait()
        assert daemon.doubles["default"].received == AFRESH


async def test_stopping_does_not_wait_for_partitions(monkeypatch):
    """A request that no partition has finished gets no ``Ack``; neither it nor a snapshot nobody takes holds the stop up."""
    monkeypatch.setattr("ykactor.surfaces.sessions.websocket.STOP_S", 3600)  # so that nobody is dropped instead
    async with running_daemon() as daemon:
        async with registered(daemon) as rm, client(daemon, "/v1/feed") as follower, client(daemon, "/v1/rm") as newer:
            daemon.doubles["default"].resume = trio.Event()
            await rm.send({"type": "NodeRequest", "id": "lost", "nodes": [NODE]})
            await follower.send({"type": "Subscribe", "from": "snapshot"})
            await newer.send(REGISTER)
            while daemon.doubles["default"].inbox.messages_waiting() < 2:
                await trio.lowlevel.checkpoint()
            daemon.stopping.set()
            assert [await goodbye(peer) for peer in (rm, follower, newer)] == [GOODBYE] * 3
        await daemon.stopped.wait()


async def test_stopping_drops_who_does_not_read(monkeypatch):
    """A time for all: then a peer that never reads is left behind."""
    monkeypatch.setattr("ykactor.surfaces.sessions.websocket.STOP_S", 0.3)
    async with running_daemon() as daemon, never_reads(daemon, '{"type": "Subscribe"}') as evil:
        while not daemon.feed.fan_out.waiting:
            await trio.lowlevel.checkpoint()
        for _ in range(1000):
            await daemon.feed.inbox.put(Publication("default", list(REMOVED)))
        await daemon.feed.published("default")
        began = trio.current_time()
        daemon.stopping.set()
        await daemon.stopped.wait()
        assert trio.current_time() - began > 0.2
        await send_until_dropped(evil, frame("x"))


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "NodeRequest", "nodes": [NODE]},
        {"type": "UpdateConfigurationRequest", "config": "good"},
        {"type": "ScheduleRequest", "steps": 1},
    ],
)
async def test_requests_to_closed_partitions_are_unavailable(request_, caplog):
    """While the daemon stops its partitions are closed first: a request then is answered, not a failure of the session."""
    async with running_daemon(manual=True) as daemon:
        async with registered(daemon) as rm:
            daemon.doubles["default"].inbox.close()
            for _ in range(2):
                answer = await rm.ask({**request_, "id": "late"})
                assert (answer["type"], answer["code"], answer["id"]) == ("ErrorResponse", "UNAVAILABLE", "late")
                assert answer["message"].endswith("not run at the moment, try again later")
    assert caplog.records == []


@asynccontextmanager
async def connections(daemon, count):
    """So many connections at once, none of which has said anything."""
    port = int(daemon.url.rpartition(":")[2])
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port)) for _ in range(count)]


async def test_a_connection_that_ends_without_a_byte_is_noticed():
    """Connections that end at once, or in the middle of the handshake, are done with long before its deadline."""
    async with running_daemon(in_force=lambda: AccessLimits(handshake_seconds=1000)) as daemon:
        async with connections(daemon, 50):
            pass
        async with connections(daemon, 5) as streams:
            for stream in streams:
                await stream.send_all(b"GET /v1/rm HTTP/1.1\r\nHost: x\r\n")
                await stream.send_eof()
                with trio.fail_after(60):
                    while await stream.receive_some():
                        pass


async def test_followers_cannot_take_the_places_of_resource_managers():
    """However many connections are open, in the handshake or as followers, a resource manager gets in."""
    async with running_daemon(in_force=lambda: AccessLimits(total_sessions=24, handshake_seconds=1000)) as daemon:
        async with connections(daemon, 30), AsyncExitStack() as followers:
            for _ in range(3):
                await followers.enter_async_context(client(daemon, "/v1/feed"))
            with pytest.raises(Disconnected, match="503"):
                async with client(daemon, "/v1/feed"):
                    pass
            async with registered(daemon):
                pass


@pytest.mark.parametrize(
    ("path", "wanted"),
    [("/v1/rm", "registration"), ("/v1/feed", "subscription"), ("/v1/operator", "request that may be carried out")],
)
async def test_a_session_that_says_nothing_is_closed(path, wanted):
    """A session that is not used for what it is there for is closed with the reason, and its slot is free again."""
    async with running_daemon(limits=Limits(unused_s=0.2), in_force=lambda: AccessLimits(total_sessions=4)) as daemon:
        for _ in range(2):
            async with client(daemon, path) as silent:
                reason = await silent.closed()
                assert (reason.code, reason.reason) == (4003, f"no {wanted} came within 0.2 s")


async def test_a_peer_that_answers_no_ping_is_dropped():
    """A connection that is only half alive, after its first message too, does not keep its place for ever."""
    async with running_daemon(limits=Limits(ping_s=0.2)) as daemon:
        async with connections(daemon, 1) as (stream,):
            await stream.send_all(
                b"GET /v1/feed HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            with trio.fail_after(60):
                while await stream.receive_some():
                    pass


# ---- a session that is ended says why, to its peer and in the log


def dropped(caplog):
    """Code and reason of each line about a peer that was dropped."""
    return [(r.keys["path"], r.keys["code"], r.keys["reason"]) for r in caplog.records if r.message == "peer_dropped"]


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed"])
async def test_a_failure_of_a_session_is_told_and_logged(path, monkeypatch, caplog):
    """An exception in the code of a session: close code 1011 with a reason, and one line in the log."""

    async def fail(*_):
        raise ZeroDivisionError("an error of our own")

    monkeypatch.setattr(RequestHandler, "on_messages", fail)
    monkeypatch.setattr(FeedSession, "_on_message", fail)
    async with running_daemon() as daemon:
        async with registered(daemon) if path == "/v1/rm" else client(daemon, path) as peer:
            await peer.send({"type": "Subscribe"})
            reason = await peer.closed()
            assert (reason.code, reason.reason) == (1011, "an error of the daemon ended the session, its log has the details")
        await wait_for_place(daemon)
    assert [record.message for record in caplog.records] == ["session_failed"]
    assert "an error of our own" in caplog.text


async def test_a_failed_session_is_no_predicate_service_any_more(monkeypatch):
    """A session that fails leaves as one whose connection ends: nobody answers predicates then."""

    async def fail(*_):
        raise ZeroDivisionError("an error of our own")

    monkeypatch.setattr(RequestHandler, "on_messages", fail)
    async with running_daemon() as daemon, registered(daemon, answersPredicates=True) as rm:
        await rm.send({"type": "NodeRequest"})
        await rm.closed()
        while daemon.doubles["default"].received[-2:] != NOBODY:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("path", ["/v1/rm", "/v1/feed"])
async def test_a_peer_that_does_not_read_is_logged(path, caplog):
    """A follower and a resource manager that read nothing are dropped: the log says why, with the code."""
    caplog.set_level("INFO")
    async with running_daemon(limits=Limits(send_s=0.3, close_s=0.1)) as daemon:
        hello = {"type": "Subscribe"} if path == "/v1/feed" else REGISTER
        huge = ApplicationAdded(0, "a" * 100_000, "root.a", "alice")
        async with never_reads(daemon, msgspec.json.encode(hello).decode(), path=path):
            while not (daemon.feed.fan_out.waiting or daemon.outboxes.current):
                await trio.lowlevel.checkpoint()
            for _ in range(100):
                await daemon.feed.inbox.put(Publication("default", [huge]))
            while not dropped(caplog):
                await trio.lowlevel.checkpoint()
    assert dropped(caplog) == [(path, 4004, "a message was not read within 0.3 s")]


async def test_a_peer_that_reads_too_late_gets_the_reason(caplog):
    """A follower that goes on reading after the deadline gets its message whole, and then the close frame."""
    caplog.set_level("INFO")
    async with running_daemon(limits=Limits(send_s=0.2, close_s=60)) as daemon:
        async with never_reads(daemon, '{"type": "Subscribe"}', buffer_bytes=2**16) as late:
            while not daemon.feed.fan_out.waiting:
                await trio.lowlevel.checkpoint()
            huge = ApplicationAdded(0, "a" * 100_000, "root.a", "alice")
            for _ in range(20):
                await daemon.feed.inbox.put(Publication("default", [huge]))
            await daemon.feed.published("default")
            await trio.sleep(0.5)  # past the deadline; sooner or later, it may not read
            received = b""
            with trio.fail_after(60):
                while b"a message was not read within 0.2 s" not in received[-200:]:
                    received += await late.receive_some()
    assert dropped(caplog) == [("/v1/feed", 4004, "a message was not read within 0.2 s")]
