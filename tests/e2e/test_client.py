"""The client over real sockets: requests and answers, resumption, and the commands built on it."""

import inspect
import os
import random
import re
import signal
import socket
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager
from functools import partial

import click
import pytest
import trio
from click.testing import CliRunner
from daemon import real_daemon, run_command, running_command
from doubles import accept_all, counted, running_daemon
from msgspec import structs
from world import make_world, node, queue, tree

import ykactor.client
from ykactor.client import Disconnected, RequestRefused, connect, follow, keep_registered, operate
from ykactor.client import connection as connection_module
from ykactor.core.messages import facts as decisions
from ykactor.core.messages.asks import Ask
from ykactor.surfaces.cli import events as event_commands
from ykactor.surfaces.cli import terminal
from ykactor.surfaces.cli.urls import Destination
from ykactor.surfaces.sessions import websocket
from ykactor.wire.si import messages as si

NODE = si.NodeInfo(node_id="n1", action="CREATE", schedulable_resource={"vcore": "4"})


@pytest.fixture(params=["json", "msgpack"])
def encoding(request):
    return request.param


async def events(follower, count):
    return [await follower.__anext__() for _ in range(count)]


# ---- resource managers


def documented_programs():
    """The indented programs in the package's docstring, from one ``import trio`` to the next."""
    lines = [line for line in inspect.getdoc(ykactor.client).splitlines() if not line or line.startswith("    ")]
    _, *programs = textwrap.dedent("\n".join(lines)).split("import trio\n")
    return ["import trio\n" + program for program in programs]


async def test_the_examples_of_the_documentation_run():
    """The examples in the package's docstring are whole programs that work as they stand, but for the daemon's address."""
    async with running_daemon() as daemon:
        one_task, print_queue = (p.replace("ws://127.0.0.1:9081", daemon.url) for p in documented_programs())
        async with running(sys.executable, "-c", print_queue) as follower:
            await has_follower(daemon)
            async with running(sys.executable, "-c", one_task) as rm:
                assert await read_line(rm) == "runs on n1\n"
                assert await rm.wait() == 0
            assert "queue_name='root.default'" in await read_line(follower)


async def test_request_waits_for_its_ack(encoding):
    """``request`` returns the ``Ack`` once everything it caused has arrived, which is then iterated over."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", encoding=encoding) as rm:
            ack = await rm.request(si.NodeRequest(nodes=[NODE]))
            assert ack.sequence == rm.sequence == 4
            response = await rm.__anext__()
            assert response == si.NodeResponse(sequence=3, accepted=[si.AcceptedNode(node_id="n1")])


async def test_concurrent_requests_get_their_own_answers():
    """Several tasks share one session; each gets the answer to its own request, and iteration the rest."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm, trio.open_nursery() as nursery:
            acks = []

            async def ask():
                acks.append(await rm.request(si.NodeRequest(nodes=[NODE])))

            for _ in range(20):
                nursery.start_soon(ask)
            seen = [type(await rm.__anext__()) for _ in range(20)]
            assert seen == [si.NodeResponse] * 20
        assert len({ack.id for ack in acks}) == 20


async def test_refused_request_raises():
    """A mistake comes back as an exception with code, sentence and path; the session goes on."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            with pytest.raises(RequestRefused) as error:
                await rm.request(si.NodeRequest(nodes=[si.NodeInfo(node_id="", action="CREATE")]))
            assert (error.value.code, error.value.path) == ("EMPTY_ID", "nodes[0].nodeID")
            await rm.request(si.NodeRequest(nodes=[NODE]))


async def test_send_does_not_wait():
    """``send`` leaves the answer, also an ``Ack``, to the iteration."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.send(si.NodeRequest(id="mine", nodes=[NODE]))
            answers = [await rm.__anext__() for _ in range(2)]
            assert [type(answer) for answer in answers] == [si.NodeResponse, si.Ack]
            assert answers[1].id == "mine"


async def test_refused_registration_raises():
    """Another resource manager, a bad configuration and unknown numbers refuse the registration itself."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1"):
            pass
        for options, code in [
            ({"rm_id": "rm-2"}, "ALREADY_REGISTERED"),
            ({"rm_id": "rm-1", "config": "bad"}, "BAD_CONFIG"),
            ({"rm_id": "rm-1", "resume_from": 99}, "RESYNC_REQUIRED"),
        ]:
            with pytest.raises(RequestRefused) as error:
                async with connect(daemon.url, **options):
                    pass
            assert error.value.code == code


@pytest.mark.parametrize("before", ["json", "msgpack"])
@pytest.mark.parametrize("after", ["json", "msgpack"])
async def test_resume_brings_what_was_missed(before, after):
    """After a lost connection ``resume_from`` brings every message behind it, once, in whatever encoding it resumes."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", encoding=before) as rm:
            await rm.send(si.NodeRequest(nodes=[NODE]))
            await rm.send(si.NodeRequest(nodes=[NODE]))
            assert (await rm.__anext__()).sequence == 3
            known = rm.sequence
        while daemon.outboxes.current.sequence < 4:
            await trio.lowlevel.checkpoint()
        async with connect(daemon.url, rm_id="rm-1", resume_from=known, encoding=after) as rm:
            assert (await rm.__anext__()).sequence == 4
            await rm.request(si.NodeRequest(nodes=[NODE]))
            assert (await rm.__anext__()).sequence == 7


async def test_the_term_is_told_before_the_registration():
    """EV-55: it is that of the registration; who does not want this daemon leaves its registration as it was."""
    told = []

    def refuse(term):
        raise LookupError(term)

    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1", before_registering=told.append) as rm:
            assert told == [rm.term]
            with pytest.raises(LookupError, match=rm.term):
                async with connect(daemon.url, rm_id="rm-1", before_registering=refuse):
                    raise AssertionError
            with pytest.RaisesGroup(LookupError):
                async with keep_registered(daemon.url, rm_id="rm-1", before_registering=refuse):
                    await trio.sleep_forever()
            await rm.request(si.NodeRequest(nodes=[NODE]))  # it was not replaced


@pytest.mark.parametrize("error", [LookupError("so"), SystemExit("so")], ids=repr)
async def test_what_the_body_of_a_session_raises_is_in_no_exception_group(error):
    """So that ``sys.exit`` in it ends a program with one line."""
    async with running_daemon() as daemon:
        opened = (
            connect(daemon.url, rm_id="rm-1"),
            keep_registered(daemon.url, rm_id="rm-1"),
            operate(daemon.url),
            follow(daemon.url),
        )
        for session in opened:
            with pytest.raises(type(error), match=r"^so$"):
                async with session:
                    raise error


async def test_a_daemon_that_does_not_tell_its_term(monkeypatch):
    """One of version 0.2, or one behind a proxy that drops the header, is served all the same."""
    monkeypatch.setattr(websocket, "TERM_HEADER", b"x-dropped")
    told = []
    async with running_daemon() as daemon, connect(daemon.url, rm_id="rm-1", before_registering=told.append) as rm:
        assert told == [""]
        await rm.request(si.NodeRequest(nodes=[NODE]))


async def test_replaced_session_is_told_so():
    """The older session of an rmID ends with ``Disconnected`` and the reason."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as old, connect(daemon.url, rm_id="rm-1"):
            with pytest.raises(Disconnected, match="a newer session of rm-1 has registered"):
                await old.__anext__()


@pytest.fixture
def impatient(monkeypatch):
    """Followers do not wait for a daemon to come up."""
    monkeypatch.setattr("ykactor.client.follower.FIRST_CONNECT_S", 0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("url", ["ws://127.0.0.1:1", "http://127.0.0.1", "nonsense", "ws://"])
async def test_no_daemon_there(url):
    """A daemon that does not listen, or a wrong URL, raises an exception that names the URL, on both kinds of connection."""
    with pytest.raises((Disconnected, ValueError), match=url):
        async with connect(url, rm_id="rm-1"):
            pass
    with pytest.raises((Disconnected, ValueError), match=url):
        async with follow(url) as follower:
            await follower.__anext__()


HANGUPS = {
    "at once": b"",
    "in the middle of its answer": b"HTTP/1.1 101 Switching Protocols\r\n",
    "with a refusal of no length": b"HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\n\r\nbusy",
    "with something else": b"SSH-2.0-OpenSSH_9.2p1\r\n",
}


@pytest.mark.parametrize("answer", HANGUPS.values(), ids=HANGUPS)
async def test_server_that_hangs_up_is_noticed_at_once(monkeypatch, answer):
    """A server that closes during the handshake is not waited for as one that is slow is."""
    monkeypatch.setattr(connection_module, "CONNECT_S", 3600)

    async def hang_up(stream):
        await stream.receive_some()
        await stream.send_all(answer)

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, hang_up, 0, host="127.0.0.1"))
        with trio.fail_after(180):
            with pytest.raises(Disconnected, match="the connection was closed during the handshake"):
                async with connect(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}", rm_id="rm-1"):
                    pass
        nursery.cancel_scope.cancel()


STRANGERS = {
    "of no HTTP": b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    "without a token": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "of another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    "with two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
}


@pytest.mark.parametrize("answer", STRANGERS.values(), ids=STRANGERS)
async def test_server_of_something_else_is_named_as_such(answer):
    """An answer that opens no websocket is an error in words, not one of a library, although the connection stays open."""

    async def answering(stream):
        await stream.receive_some()
        await stream.send_all(answer)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, answering, 0, host="127.0.0.1"))
        with pytest.raises(Disconnected, match="the answer opens no websocket: is this the address of serve --ws"):
            async with connect(f"ws://127.0.0.1:{listener.socket.getsockname()[1]}", rm_id="rm-1"):
                pass
        nursery.cancel_scope.cancel()


async def test_exceptions_of_the_body_pass_as_they_are():
    """Neither context manager wraps what the user's code raises."""
    async with running_daemon() as daemon:
        for make in (partial(connect, rm_id="rm-1"), follow):
            with pytest.raises(KeyError):
                async with make(daemon.url):
                    raise KeyError("mine")


# ---- followers


async def test_follow_from_now_misses_nothing(encoding):
    """A follower sees all events after ``async with follow(...)`` was entered, in order and without gaps."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm, follow(daemon.url, encoding=encoding) as follower:
            for _ in range(3):
                await rm.request(si.NodeRequest(nodes=[NODE]))
            seen = await events(follower, 6)
            assert [event.sequence for event in seen] == [1, 2, 3, 4, 5, 6]
            assert {type(event) for event in seen} == {si.EventRecord}


async def test_follow_with_filters_and_snapshot():
    """A snapshot comes first, filters hold for what follows."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm, follow(daemon.url, from_="snapshot", kinds=["APP"]) as follower:
            await rm.request(si.NodeRequest(nodes=[NODE]))
            await rm.request(si.ApplicationRequest(new=[si.AddApplicationRequest(application_id="app-1")]))
            snapshot, event = await events(follower, 2)
            assert snapshot.partitions == [counted("default", 0)]
            assert (event.object_id, event.sequence) == ("app-1", 3)


async def test_lagged_follower_is_told():
    """Events that are gone are named."""
    async with running_daemon(ring_max=2) as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            for _ in range(3):
                await rm.request(si.NodeRequest(nodes=[NODE]))
        async with follow(daemon.url, from_=0) as follower:
            assert await follower.__anext__() == si.Lagged(from_=1, to=4)
            assert [event.sequence for event in await events(follower, 2)] == [5, 6]


async def test_wrong_subscription_raises():
    """A refusal of the daemon is raised by the iteration, not tried again."""
    async with running_daemon() as daemon:
        async with follow(daemon.url, from_=77) as follower:
            with pytest.raises(RequestRefused) as error:
                await follower.__anext__()
            assert error.value.code == "RESYNC_REQUIRED"


async def has_follower(daemon):
    """Wait until somebody waits for events."""
    while not daemon.feed.fan_out.waiting:
        await trio.lowlevel.checkpoint()


async def test_a_number_of_another_run_brings_the_state():
    """Events of another daemon are not taken for what follows: its state comes, with the reason (EV-55)."""
    async with running_daemon() as daemon, running_daemon() as other:
        async with follow(daemon.url) as follower:
            known = follower.term
        async with follow(daemon.url, from_=0, term=known) as follower:
            assert follower.term == known
        said: list[str] = []
        async with follow(other.url, from_=0, term=known, on_connection=said.append) as follower:
            instead = await follower.__anext__()
            assert isinstance(instead, si.Snapshot)
            assert instead.term == follower.term != known
        why = "the daemon has begun anew, or goes on from another state directory"
        assert instead.reason == f"found term {known}, which this history does not have: {why}"
        rest = "so its present state comes first, and events may be missing"
        assert said == [f"connected to {other.url}: all events after number 0; {instead.reason}, {rest}"]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


async def test_daemon_that_is_not_up_yet_is_waited_for(monkeypatch):
    """The follower tries again while nothing listens, and sees what happens once the daemon is there."""
    port, attempts = free_port(), []
    is_tried = trio.Event()
    open_stream = connection_module.open_stream

    async def counted(url, login):
        if attempts:
            is_tried.set()
        attempts.append(url)
        return await open_stream(url, login)

    monkeypatch.setattr(connection_module, "open_stream", counted)
    is_seen = trio.Event()

    async def watch():
        async with follow(f"ws://127.0.0.1:{port}", from_=0) as follower:
            await events(follower, 2)
            is_seen.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await is_tried.wait()
        async with running_daemon(port=port) as daemon, connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(si.NodeRequest(nodes=[NODE]))
            await is_seen.wait()


async def test_daemon_that_does_not_come_up_is_given_up(monkeypatch):
    """The follower says at first that nothing listens; after ``FIRST_CONNECT_S`` this is raised, with what to start."""
    monkeypatch.setattr("ykactor.client.follower.FIRST_CONNECT_S", 0.3)
    began = trio.current_time()
    url = f"ws://127.0.0.1:{free_port()}"
    told = []
    async with follow(url, on_connection=told.append) as follower:
        with pytest.raises(Disconnected) as raised:
            await follower.__anext__()
    assert trio.current_time() - began >= 0.3
    nothing = f"{url}: nothing listens there, start a daemon with ykactor serve --ws {url.removeprefix('ws://')}"
    assert str(raised.value) == nothing
    assert told == [f"waiting up to 0.3 s for a daemon: {nothing}"]


async def test_nobody_at_several_addresses_is_told_without_advice() -> None:
    """The error of several addresses without a listener names them all."""
    urls = f"ws://127.0.0.1:{free_port()},ws://127.0.0.1:{free_port()}"
    with pytest.raises(Disconnected) as raised:
        async with connection_module.open_connection(urls, "/v1/feed"):
            pytest.fail("nobody is there")
    assert str(raised.value) == f"{urls}: nothing listens at any of these addresses"


async def test_who_does_not_wait_is_refused_at_once(autojump_clock):
    """A follower with ``waits=False`` raises at once that nothing listens."""
    began = trio.current_time()
    async with follow(f"ws://127.0.0.1:{free_port()}", waits=False) as follower:
        with pytest.raises(Disconnected, match="nothing listens there"):
            await follower.__anext__()
    assert trio.current_time() == began


@pytest.mark.parametrize("from_", ["now", "snapshot"])
async def test_queues_that_do_not_exist_yet_are_said(from_):
    """A mistyped queue below a known one looks like one that appears later."""
    told = []
    async with (
        running_daemon() as daemon,
        follow(daemon.url, from_=from_, queues=["root.x", "root.a"], on_connection=told.append),
    ):
        assert told[0].endswith("only of queue root.x or root.a; there is no queue root.x yet")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "all events from now on"),
        ({"from_": "snapshot"}, "the present state, then all events"),
        ({"from_": 0}, "all events after number 0"),
        (
            {"queues": ["root.a", "root.p"], "applications": ["app-1"], "kinds": ["APP"], "partitions": ["default"]},
            "events from now on, only of partition default, of queue root.a or root.p, of application app-1, of kind APP",
        ),
    ],
)
async def test_what_is_followed_is_said(options, expected):
    """The first sentence names the daemon, where the events begin, and the filters."""
    told = []
    async with running_daemon() as daemon, follow(daemon.url, on_connection=told.append, **options):
        assert told == [f"connected to {daemon.url}: {expected}"]


async def test_lost_connection_is_resumed_without_gap_or_repetition(monkeypatch):
    """However often the connection is cut, the follower sees every event once."""
    monkeypatch.setattr("ykactor.client.reconnecting.BACKOFF_FIRST_S", 0.01)
    monkeypatch.setattr("ykactor.client.reconnecting.LASTING_S", 0)
    told = []
    async with running_daemon() as daemon:
        async with cutting_proxy(address_of(daemon)) as proxy, connect(daemon.url, rm_id="rm-1") as rm:
            async with follow(proxy.url, rng=random.Random(1), on_connection=told.append) as follower:
                seen = []
                for _ in range(10):
                    await rm.request(si.NodeRequest(nodes=[NODE]))
                    proxy.cut()
                    await rm.request(si.NodeRequest(nodes=[NODE]))
                    seen += [event.sequence for event in await events(follower, 4)]
                assert seen == list(range(1, 41))
    connected, lost, back = told[:3]
    assert connected == f"connected to {proxy.url}: all events from now on"
    assert lost.startswith("connection lost, trying to connect again: ")
    assert re.fullmatch(r"connection restored: resumed after event [012], no event is missing", back)


@pytest.mark.parametrize("nodes_count", [0, 1, 20])
async def test_daemon_that_starts_anew_gives_its_state(monkeypatch, nodes_count):
    """Behind a restart the follower gets a snapshot and goes on from there, also when the new run has come further."""
    monkeypatch.setattr("ykactor.client.reconnecting.BACKOFF_FIRST_S", 0.01)
    told = []
    async with running_daemon() as first, running_daemon() as second:
        async with connect(second.url, rm_id="rm-1") as rm:
            for _ in range(nodes_count):
                await rm.request(si.NodeRequest(nodes=[NODE]))
            async with cutting_proxy(address_of(first)) as proxy, connect(first.url, rm_id="rm-1") as first_rm:
                async with follow(proxy.url, rng=random.Random(1), on_connection=told.append) as follower:
                    await first_rm.request(si.NodeRequest(nodes=[NODE]))
                    await events(follower, 2)
                    proxy.target = address_of(second)
                    proxy.cut()
                    snapshot = await follower.__anext__()
                    assert (snapshot.sequence, snapshot.partitions) == (
                        2 * nodes_count,
                        [counted("default", 2 * nodes_count)],
                    )
                    await rm.request(si.NodeRequest(nodes=[NODE]))
                    assert [event.sequence - snapshot.sequence for event in await events(follower, 2)] == [1, 2]
    _, lost, back = told
    assert lost.startswith("connection lost, trying to connect again: ")
    assert back.startswith("connection restored: found term 1-")
    assert back.endswith("or goes on from another state directory; events may be missing, its present state follows")


async def test_follow_tells_of_its_connection_on_standard_error():
    """Lost and back again are said beside the events, not among them."""
    async with running_daemon() as daemon, cutting_proxy(address_of(daemon)) as proxy:
        async with connect(daemon.url, rm_id="rm-1") as rm, running_command("follow", proxy.url) as process:
            await has_follower(daemon)
            await rm.request(si.NodeRequest(nodes=[NODE]))
            assert " NODE " in await read_line(process) + await read_line(process)
            proxy.cut()
            assert (await read_line(process, process.stderr)) == f"connected to {proxy.url}: all events from now on\n"
            assert (await read_line(process, process.stderr)).startswith("connection lost, trying to connect again: ")
            assert (await read_line(process, process.stderr)).endswith(" resumed after event 2, no event is missing\n")
            await rm.request(si.NodeRequest(nodes=[NODE]))
            assert " 3 NODE " in await read_line(process)


def address_of(daemon):
    return "127.0.0.1", int(daemon.url.rpartition(":")[2])


class cutting_proxy:  # noqa: N801
    """Forwards TCP connections until they are cut."""

    def __init__(self, target):
        self.target = target
        self._cuts = []

    async def __aenter__(self):
        self._nursery_context = trio.open_nursery()
        self._nursery = await self._nursery_context.__aenter__()
        listeners = await self._nursery.start(partial(trio.serve_tcp, self._forward, 0, host="127.0.0.1"))
        self.url = f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        return self

    async def __aexit__(self, *exception):
        self._nursery.cancel_scope.cancel()
        return await self._nursery_context.__aexit__(*exception)

    def cut(self):
        for scope in self._cuts:
            scope.cancel()
        self._cuts.clear()

    async def _forward(self, near):
        async with await trio.open_tcp_stream(*self.target) as far, trio.open_nursery() as nursery:
            self._cuts.append(nursery.cancel_scope)
            nursery.start_soon(self._copy, near, far)
            await self._copy(far, near)
            nursery.cancel_scope.cancel()

    async def _copy(self, source, sink):
        try:
            async for data in source:
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


# ---- commands


def rejecting(submission):
    """A script with something of everything for the eye."""
    if isinstance(submission, Ask) and submission.allocation_key == "bad":
        return [decisions.AllocationRejected(0, submission.allocation_key, "app-1", "no such\nthing")]
    return accept_all(submission)


SCENARIO = """
name: small
config: "queues of this scenario"
messages:
  - {at: 0, type: NodeRequest, nodes: [{nodeID: n1, action: CREATE, schedulableResource: {vcore: "4", memory: 8Gi}}]}
  - {at: 0, type: ApplicationRequest, new: [{applicationID: app-1, queueName: root.a}]}
  - {at: 2, type: AllocationRequest, allocations: [
      {allocationKey: t1, applicationID: app-1, resourcePerAlloc: {vcore: "1"}}, {allocationKey: bad, applicationID: app-1}]}
  - {at: 3, type: TerminateApplication, applicationID: app-1}
until: 5
"""


async def run_in_thread(command, *arguments):
    """Run a command in a thread beside the daemon; what it printed."""
    return await trio.to_thread.run_sync(partial(CliRunner().invoke, command, [str(a) for a in arguments]))


async def test_submit_sends_a_scenario_and_prints_the_answers(scenario):
    """``submit`` plays a scenario into a running daemon, one line an answer, whatever it has, and ends with a summary."""
    async with running_daemon(script=rejecting) as daemon:
        output, errors = await run_command("submit", scenario, "--url", daemon.url, "--speed", "100")
    assert errors == ""
    assert daemon.configs == []
    lines = [line.split(maxsplit=1)[1] for line in output.splitlines()[:-1]]
    assert lines == [
        "node n1 accepted",
        "application app-1 accepted in root.a",
        "allocated t1 of app-1 on n1",
        "rejected bad of app-1: no such thing",
        "refused TerminateApplication: REFUSED: no such thing",
    ]
    counts = "4 requests sent, 1 refused; 1 allocated, 0 released; rejected: 1 ask, 0 applications"
    assert output.splitlines()[-1] == f"small: {counts}"


@pytest.mark.usefixtures("impatient")
async def test_follow_without_a_daemon_says_so():
    """The command prints one line that names the URL, without a traceback, and has exit code 1."""
    result = await run_in_thread(event_commands.follow_command, "ws://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ws://127.0.0.1:1: ")


def test_an_unknown_host_is_said_in_words(monkeypatch):
    """The message leaves out the number of the error, which says nothing to people."""

    async def unknown(*_):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(connection_module, "open_stream", unknown)

    async def open_it():
        async with connection_module.open_connection("ws://nowhere:1", "/v1/feed"):
            pass

    with pytest.raises(Disconnected, match=r"^ws://nowhere:1: Name or service not known$"):
        trio.run(open_it)


async def test_a_killed_daemon_is_said_in_words():
    """A connection that ends without a close frame has no reason: it is said what that means."""
    async with real_daemon() as daemon, connect(daemon.url, rm_id="rm-1") as rm:
        daemon.process.kill()
        with pytest.raises(Disconnected, match=r"^the connection was lost without a reason: the daemon was killed or"):
            await anext(rm)


def test_a_snapshot_is_one_readable_line():
    """The text counts the state; the JSON has it whole."""
    world = make_world(tree(queue("a")), [node("n1", vcore=1)])
    snapshot = si.Snapshot(sequence=7, term="i", partitions=[world.shown()])
    line = click.unstyle(event_commands.as_text(snapshot))
    assert line.startswith("state after event 7: 2 queues, 1 node, 0 applications (")
    assert '"root.a"' in terminal.on_one_line(snapshot)


def test_a_follower_reads_that_events_wait_for_the_disk():
    """The text says since when events wait and why, and later that they come again."""
    stalled = si.JournalStatus(writable=False, since_nano=10**9, reason="no room")
    assert click.unstyle(event_commands.as_text(stalled)) == (
        "no events since 1970-01-01T00:00:01.000Z: the daemon cannot write its journal: no room"
    )
    assert click.unstyle(event_commands.as_text(si.JournalStatus(writable=True))) == "the daemon writes its journal again"


EVENT = si.EventRecord(
    sequence=12,
    type="APP",
    object_id="app-1",
    event_change_type="ADD",
    event_change_detail="APP_ALLOC",
    timestamp_nano=1_500_000_000,
    reference_id="t1",
    partition="default",
    queue_name="root.a",
    resource={"vcore": 500, "memory": 2 << 30, "nvidia.com/gpu": 2},
)


def test_follow_prints_one_aligned_line_an_event():
    """Time, sequence, type, change, detail, object, reference, resources that people can read, message."""
    line = event_commands.event_line(EVENT)
    words = "1970-01-01T00:00:01.500Z 12 APP ADD APP_ALLOC app-1 t1 vcore 0.5, memory 2Gi, nvidia.com/gpu 2"
    assert line.split() == words.split()
    other = event_commands.event_line(structs.replace(EVENT, object_id="another-name", sequence=123456))
    assert other.index("t1") == line.index("t1")


async def test_follow_command_prints_json_lines():
    """``-o json`` writes each message as one JSON object, for other programs."""
    async with running_daemon() as daemon:
        async with connect(daemon.url, rm_id="rm-1") as rm:
            await rm.request(si.NodeRequest(nodes=[NODE]))
            await rm.request(si.ApplicationRequest(new=[si.AddApplicationRequest(application_id="app-1")]))
        lines = []
        with trio.CancelScope() as scope:

            def write(line):
                lines.append(line)
                if len(lines) == 2:
                    scope.cancel()

            await event_commands.print_messages(
                Destination(daemon.url), si.Subscribe(from_=0, kinds=["QUEUE", "APP"]), terminal.on_one_line, write
            )
    assert [line.count("\n") for line in lines] == [0, 0]
    assert lines[0].startswith('{"sequence":3,"type":"APP","objectID":"app-1"')


async def test_interrupted_commands_end_cleanly(scenario):
    """Ctrl-C is the usual end: exit code 130, no traceback, and ``submit`` says how far it came."""
    async with running_daemon() as daemon:
        follower = running_command("follow", daemon.url, "--from", "0")
        submitter = running_command("submit", scenario, "--url", daemon.url, "--speed", "0.001")
        async with follower as follow_process, submitter as submit_process:
            submitted = [await read_line(submit_process) for _ in range(2)]
            followed = [await read_line(follow_process) for _ in range(2)]
            for process in (follow_process, submit_process):
                process.send_signal(signal.SIGINT)
                assert await process.wait() == 130
            assert [line.split()[1] for line in submitted] == ["node", "application"]
            assert [line.split()[3:5] for line in followed] == [["SET", "NODE_SCHEDULABLE"], ["ADD", "-"]]
            summary = (await submit_process.stdout.receive_some()).decode()
            assert re.match(r"small: interrupted after \d+\.\d of .* s, 2 of \d requests sent, 0 refused; 0 allocated", summary)
            assert (await follow_process.stderr.receive_some()).startswith(b"connected to ")
            assert await follow_process.stderr.receive_some() == b""
            assert await submit_process.stderr.receive_some() == b""


@asynccontextmanager
async def running(*command):
    """A process with piped output that does not outlive the block."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = await trio.lowlevel.open_process(command, **pipes, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    async with process.stdout, process.stderr:
        try:
            yield process
        finally:
            process.kill()
            await process.wait()


async def read_line(process, stream=None):
    """The next line of its output, or of this stream of it."""
    line = b""
    while not line.endswith(b"\n"):
        line += await (stream or process.stdout).receive_some(1)
        assert line, await process.stderr.receive_some()
    return line.decode()


async def test_an_address_that_lets_nobody_in_is_passed_over() -> None:
    """A daemon that begins, or that is none, may listen at the first of several addresses; of all that fail each is told."""

    async def unavailable(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 503 \r\nContent-Length: 12\r\nConnection: close\r\n\r\nnot yet here")
        await stream.aclose()

    async with running_daemon() as daemon, trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, unavailable, [listener])
        first = f"ws://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with connection_module.open_connection(f"{first},{daemon.url}", "/v1/feed"):
            pass
        with pytest.raises(Disconnected) as raised:
            async with connection_module.open_connection(f"{first},{first}", "/v1/feed"):
                pytest.fail("nobody is let in")
        assert str(raised.value) == f"{first}: the server replied 503 not yet here; {first}: the server replied 503 not yet here"
        nursery.cancel_scope.cancel()
