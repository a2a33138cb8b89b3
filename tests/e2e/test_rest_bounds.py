"""Robustness of the REST API (SE-96): too much, too slow, too large, too many, and nonsense."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from doubles import FakeDaemon, accept_all
from restdaemon import Rest, application, asks, node, rest_daemon
from starlette.requests import Request

from ykactor.access.model import Identity
from ykactor.actors.commands import Read, read_partition
from ykactor.actors.mailbox import Mailbox
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import PART_MAX, Steps, paced
from ykactor.surfaces.admission import slots
from ykactor.surfaces.files.helper_process import HelperProcessError
from ykactor.surfaces.http import app, body, configuration, connections, load, published, replies
from ykactor.surfaces.http.published import Published, ReadBudget
from ykactor.surfaces.http.readings import applications, partitions, usage
from ykactor.surfaces.http.readings.look import Look
from ykactor.surfaces.http.readings.partitions import attributes
from ykactor.surfaces.http.replies import pieces
from ykactor.surfaces.net import requests
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.rest.codec import PART_BYTES, Pieces
from ykactor.wire.si import messages as si
from ykactor.wire.si.lengths import shortened

GET = b"GET /ws/v1/clusters HTTP/1.1\r\nHost: localhost\r\n"


async def is_well(rest: Rest) -> bool:
    """True if the daemon answers others."""
    answer = await rest.ask("/ws/v1/clusters")
    assert answer.status == 200, answer.body
    return True


async def test_pipelined_requests_are_answered_in_order() -> None:
    """One at a time."""
    async with rest_daemon() as rest:
        second = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        found = await rest.send((GET + b"\r\n") * 20 + second)
        assert found.count(b"HTTP/1.1 200") == 21
        assert found.endswith(b"ok\n")


async def test_who_never_finishes_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: a head without end, a body without end, and nothing at all."""
    async with rest_daemon() as rest:
        with monkeypatch.context() as soon:
            soon.setattr(connections, "IDLE_S", 0.2)
            assert await rest.send(b"") == b""
            assert await rest.send(GET) == b""
        monkeypatch.setattr(body, "BODY_S", 0.2)
        post = b"POST /ws/v1/validate-conf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\npart"
        assert (await rest.send(post)).startswith(b"HTTP/1.1 408")
        assert await is_well(rest)


async def test_a_head_that_comes_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: it has no more time than one that does not come."""
    async with rest_daemon() as rest:
        with monkeypatch.context() as soon:
            soon.setattr(connections, "IDLE_S", 0.3)
            async with await trio.open_tcp_stream("127.0.0.1", rest.port) as stream:
                with trio.fail_after(60), pytest.raises(trio.BrokenResourceError):
                    await byte_by_byte(stream, GET + b"X: " + b"x" * 5000)
        assert await is_well(rest)


async def byte_by_byte(stream: trio.SocketStream, data: bytes) -> None:
    for byte in data:
        await stream.send_all(bytes([byte]))
        await trio.sleep(0.02)


async def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head, and a body: with 413 before all of it has arrived."""
    monkeypatch.setattr(configuration, "CONFIG_MAX", 1000)
    async with rest_daemon() as rest:
        assert (await rest.send(GET + b"X: " + b"x" * requests.HEAD_BYTES_MAX)).startswith(b"HTTP/1.1 431")
        answer = await rest.send(
            b"POST /ws/v1/validate-conf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 2000
        )
        assert answer.startswith(b"HTTP/1.1 413")
        assert await is_well(rest)


async def test_an_error_of_the_daemon_ends_one_connection(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SE-93, SE-10: others are served; the log is short, and has nothing of the request."""

    async def fail(request: Request, *_: object) -> None:
        raise RuntimeError(request.headers["x"])

    async with rest_daemon() as rest:
        with monkeypatch.context() as failing:
            failing.setattr(app, "_let_in", fail)
            for _ in range(3):
                assert (await rest.send(GET + b"X: secret\r\n\r\n")).startswith(b"HTTP/1.1 500")
        assert await is_well(rest)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == ["connection_failed"]
    assert "secret" not in repr([vars(record) for record in caplog.records])


async def test_connections_beyond_the_limit_get_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96; when one ends, there is room."""
    monkeypatch.setattr(slots, "READERS_MAX", 1)
    async with rest_daemon() as rest:
        async with await trio.open_tcp_stream("127.0.0.1", rest.port) as first:
            await first.send_all(GET + b"\r\n")
            assert (await first.receive_some(2**16)).startswith(b"HTTP/1.1 200")
            assert (await rest.send(GET + b"\r\n")).startswith(b"HTTP/1.1 503")
        while (await rest.send(GET + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 503"):
            pass


async def test_validations_beyond_the_limit_get_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a process."""
    monkeypatch.setattr(configuration, "VALIDATIONS_MAX", 0)
    async with rest_daemon() as rest:
        assert (await rest.ask("/ws/v1/validate-conf", "POST", b"")).status == 503


async def test_a_partition_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that waits for the disk means 503 for each request; nothing is read for them later."""
    looks = list[object]()
    monkeypatch.setattr(partitions, "all_nodes", looks.append)
    async with rest_daemon() as rest:
        ended = trio.Event()

        def hold(*_: object) -> object:
            while not ended.is_set():
                yield PART_MAX

        async def ask() -> None:
            answer = await rest.ask("/ws/v1/partition/default/nodes")
            assert (answer.status, "has not answered" in answer.content["message"]) == (503, True)

        await rest.daemon.partitions["default"].put(Read(hold, lambda _: None))
        with monkeypatch.context() as soon:
            soon.setattr(published, "ANSWER_S", 0.3)
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(ask)
        ended.set()
        await rest.read("partitions")
        assert looks == []


async def test_nobody_waits_longer_because_others_wait(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: who asks a partition that does not answer is told so after the same time, however many ask."""

    class Silent(Published):
        async def _read(self, *_: Any) -> replies.Page:
            await trio.sleep_forever()
            raise AssertionError

    of_daemon = Silent(FakeDaemon(("default",), accept_all, 10, manual=False))
    since_s = trio.current_time()

    async def ask(number: int) -> None:
        with pytest.raises(RefusedError, match="has not answered"):
            await of_daemon.page(request_of("reader"), "default", ("nodes", number % 2), attributes)
        assert trio.current_time() - since_s == published.ANSWER_S

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, number)


async def test_pages_are_shared_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several simultaneous readers makes the page; the oldest pages are forgotten."""
    monkeypatch.setattr(published, "_PAGES_MAX", 2)
    kept, made = published.Pages(), list[str]()

    async def make() -> replies.Page:
        made.append("")
        await trio.lowlevel.checkpoint()
        return replies.Page(200, [b"x"])

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(kept.get, ("a",), make)
    assert len(made) == 1
    for key in ("b", "c", "a"):
        await kept.get((key,), make)
    assert len(made) == 4


async def test_a_page_is_compressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask for it at the same time: each has a thread, and the same bytes."""
    compressed = list[list[bytes]]()
    monkeypatch.setattr(replies, "_zipped", lambda parts: compressed.append(parts) or (parts, 0.1))
    page = replies.Page(200, [b"x"])
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(page.zipped)
    assert compressed == [[b"x"]]


def test_large_bodies_are_sent_in_pieces() -> None:
    """The pieces have about 1 MiB, and are no copies; what is empty is not sent."""
    large = b"x" * (3 * PART_BYTES + 1)
    found = pieces([b"small", b"", large])
    assert [*map(bytes, found)] == [b"small", *[b"x" * PART_BYTES] * 3, b"x"]
    assert {piece.obj for piece in found if isinstance(piece, memoryview)} == {large}


async def test_readers_take_a_small_part(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: after a burst, what was taken is made up for before more is; one reads at a time."""
    of_all, since_s = ReadBudget(), trio.current_time()

    async def read_much() -> None:
        for _ in range(10):
            async with of_all.queue.first():
                await trio.sleep(0.5)
                of_all.charge(0.5, published.READ_SHARE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_much)
        nursery.start_soon(read_much)
    taken_s = trio.current_time() - since_s
    assert 10 - published.BURST_S - 0.5 <= taken_s * published.READ_SHARE <= 10
    assert not of_all.may_renew(0, "reader")


async def test_a_node_with_thousands_of_tasks_is_read_in_steps() -> None:
    """Others run in between, whoever asks for it."""
    async with rest_daemon('partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]') as rest:
        node_info = si.NodeInfo(node_id="n1", action="CREATE", schedulable_resource={"vcore": 10**9})
        await rest.submit(si.NodeRequest(nodes=[node_info]), application("app", "root.a"), asks("app", 2000))
        found = await rest.read("partition/default/node/n1")
        assert sorted(task["allocationKey"] for task in found["allocations"]) == sorted(f"app-{i}" for i in range(2000))
        steps = list[int]()

        def counted(core: object, state: object, now_ns: int) -> object:
            steps.append(sum(1 for _ in paced(partitions.node(Look(core, state, now_ns, None), "n1"))))
            yield PART_MAX

        await read_partition(rest.daemon.partitions["default"], counted)
        assert steps[0] >= 40


async def test_an_application_with_thousands_of_asks_is_read_in_pieces() -> None:
    """Answers about the application have pieces of the usual size, alone and among all."""
    async with rest_daemon('partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]') as rest:
        await rest.submit(application("app", "root.a"), application("small", "root.a"), asks("app", 7500), asks("small", 1))
        alone = await rest.ask("/ws/v1/partition/default/application/app")
        assert len(alone.body) > PART_BYTES
        among_all, small = await rest.read("partition/default/queue/root.a/applications")
        for found in alone.content, among_all:
            assert sorted(ask["allocationKey"] for ask in found["requests"]) == sorted(f"app-{i}" for i in range(7500))
        assert small["applicationID"] == "small"
        steps = list[object]()

        def read(core: PartitionCore, state: SchedulerState, now_ns: int) -> Steps[None]:
            found = paced(applications.one(Look(core, state, now_ns, None), "app"))
            while True:
                try:
                    steps.append(next(found))
                except StopIteration as end:
                    steps.append(end.value)
                    return
                yield PART_MAX

        await read_partition(rest.daemon.partitions["default"], read)
        *_, item = steps
        assert isinstance(item, Pieces)
        assert max(map(len, item.pieces)) < PART_BYTES


async def test_an_older_page_is_shown_while_readers_may_not_take_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: nobody waits for what was made before, and nobody makes it too often."""
    async with rest_daemon() as rest:
        assert (await rest.ask("/ws/v1/partition/default/nodes")).content == []
        await rest.submit(node("n1"))
        with trio.fail_after(60):
            while (await rest.ask("/ws/v1/partition/default/nodes")).content == []:
                pass
        monkeypatch.setattr(ReadBudget, "may_renew", lambda *_: False)
        await rest.submit(node("n2"))
        await trio.sleep(1)
        shown = await rest.ask("/ws/v1/partition/default/nodes")
        assert (len(shown.content), int(shown.headers["age"]) >= 1) == (1, True)
        monkeypatch.setattr(published, "STALE_S", 0)
        with trio.fail_after(60):
            while len((await rest.ask("/ws/v1/partition/default/nodes")).content) == 1:
                pass
        one = await rest.ask("/ws/v1/partition/default/node/n2")
        assert (one.status, "age" in one.headers) == (200, False)


async def test_nobody_waits_for_pages_that_were_made_before(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SE-96: pages of which all together take longer than readers may are older, up to two minutes, and in turn made again."""
    monkeypatch.setattr(load.LoopLoad, "is_busy", lambda _: True)

    class Slow(Published):
        async def _read(self, *given: Any) -> replies.Page:
            await trio.sleep(0.2)
            given[-1].seconds = 0.2
            return replies.Page(200, [b"x"], 0.2)

    of_daemon = Slow(FakeDaemon(("default",), accept_all, 10, manual=False))
    ages_s, waits_s = list[float](), list[float]()
    for second in range(400):
        for number in range(4):
            since_s = trio.current_time()
            page = await of_daemon.page(request_of("reader"), "default", (number,), attributes)
            waits_s.append(trio.current_time() - since_s)
            ages_s.append(page.age_s)
        await trio.sleep_until(second)
    assert 20 < max(ages_s) <= published.STALE_MAX_S
    assert max(waits_s[200:]) < 1


async def test_who_has_written_is_shown_no_page_of_before(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DU-24: a page that is made while it is asked for may have been read before the turn that who asks has been told."""
    daemon, turn = FakeDaemon(("default",), accept_all, 10, manual=False), 1
    monkeypatch.setattr(daemon, "turn_of", lambda _: turn)

    class Slow(Published):
        async def _read(self, *_: Any) -> replies.Page:
            read = turn
            await trio.sleep(1)
            return replies.Page(200, [b"x"], 0.2, read)

    of_daemon, asked = Slow(daemon), request_of("reader")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(of_daemon.page, request_of("reader"), "default", ("nodes",), attributes)
        await trio.sleep(0.5)
        turn = 2
        asked.scope["turns asked"] = {"default": turn}
        assert (await of_daemon.page(asked, "default", ("nodes",), attributes)).turn == turn


async def test_a_page_of_another_partition_with_this_name_is_not_shown(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DU-24: one that has left and comes again, or a copy of another history, has other turns with these numbers."""
    daemon = FakeDaemon(("default",), accept_all, 10, manual=False)
    monkeypatch.setattr(daemon, "turn_of", lambda _: 9)

    class Numbered(Published):
        async def _read(self, *_: Any) -> replies.Page:
            return replies.Page(200, [b"x"], 0.2, 5)

    of_daemon, asked = Numbered(daemon), request_of("reader")
    asked.scope["turns asked"] = {"default": 5}
    page = await of_daemon.page(asked, "default", ("nodes",), attributes)
    assert await of_daemon.page(asked, "default", ("nodes",), attributes) is page
    daemon.partitions["default"] = Mailbox("partition default", 1)
    assert await of_daemon.page(asked, "default", ("nodes",), attributes) is not page


def request_of(name: str) -> Request:
    """A request of this identity, that was let in."""
    identity = Identity(name=name, roles=frozenset())
    return Request({"type": "http", "caller": SimpleNamespace(identity=identity)})


@pytest.mark.parametrize(("is_busy", "share"), [(False, published.IDLE_SHARE), (True, published.READ_SHARE)])
async def test_identities_take_turns(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, is_busy: bool, share: float
) -> None:
    """SE-96: a client that asks all the time for what nobody else wants takes nothing of others, also if it asks for the same:
    nobody waits longer than for one answer of each of the two, and what they take is made up for.
    """
    monkeypatch.setattr(load.LoopLoad, "is_busy", lambda _: is_busy)

    class Slow(Published):
        async def _read(self, *given: Any) -> replies.Page:
            await trio.sleep(0.05)
            given[-1].seconds = 0.05
            return replies.Page(200, [b"x"], 0.05)

    of_daemon, ages_s, refused = Slow(FakeDaemon(("default",), accept_all, 10, manual=False)), list[float](), list[int]()

    async def ask_for_everything(number: int) -> None:
        for key in itertools.count():
            try:
                await of_daemon.page(request_of("greedy"), "default", ("users" if key % 5 == 0 else (number, key),), attributes)
            except RefusedError as error:
                refused.append(error.status)

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(ask_for_everything, number)
        for _ in range(300):
            with trio.fail_after(2 * 0.05 / share + 0.1):
                ages_s.append((await of_daemon.page(request_of("reader"), "default", ("users",), attributes)).age_s)
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert max(ages_s) <= published.STALE_MAX_S
    assert set(refused) == {503}


async def test_what_was_cut_off_is_charged(autojump_clock: trio.testing.MockClock) -> None:
    """SE-96: a reading that takes too long has taken what it took."""

    class Slow(Published):
        async def _read(self, *given: Any) -> replies.Page:
            given[-1].seconds = 50
            await trio.sleep(published.ANSWER_S + 1)
            raise AssertionError

    of_daemon = Slow(FakeDaemon(("default",), accept_all, 10, manual=False))
    with pytest.raises(RefusedError, match="has not answered"):
        await of_daemon.page(request_of("reader"), "default", ("users",), attributes)
    assert not of_daemon._budget("default").may_renew(1, "reader")


async def test_a_defect_of_a_reading_is_no_missing_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-93: it is an error of the daemon."""

    def defect(_: object) -> object:
        raise KeyError("secret")

    monkeypatch.setattr(usage, "users", defect)
    async with rest_daemon() as rest:
        assert (await rest.ask("/ws/v1/partition/default/usage/users")).status == 500
        assert (await rest.ask("/ws/v1/partition/other/usage/users")).status == 404


CANNOT_READ = {
    "late": (trio.TooSlowError(), "the process that reads the configuration took longer than 180 s, expected less"),
    "failed": (HelperProcessError("exit status 3"), "the process that reads the configuration failed: exit status 3"),
    "wrong": (ValueError("found half of a frame"), "the process that reads the configuration failed: found half of a frame"),
    "long": (HelperProcessError("x" * 10**6), f"the process that reads the configuration failed: {shortened('x' * 10**6)}"),
}


@pytest.mark.parametrize("how", CANNOT_READ)
async def test_a_configuration_that_cannot_be_read_now(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Another process reads it, and fails or takes too long: nothing is wrong with this one, and the answer says what is."""
    error, expected = CANNOT_READ[how]

    async def fails(*_: object, **__: object) -> bytes:
        raise error

    monkeypatch.setattr(configuration, "is_small", lambda _: False)
    monkeypatch.setattr(configuration, "in_helper_process", fails)
    monkeypatch.setattr(configuration, "load_config", fails)
    async with rest_daemon() as rest:
        for answer in await rest.ask("/ws/v1/config"), await rest.ask("/ws/v1/validate-conf", "POST", b""):
            assert (answer.status, answer.content["message"]) == (503, expected)


async def test_large_answers_are_taken_fast_enough(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """SE-96: one is in memory until the last has taken it; who is slow for a while only is served."""

    class Slowly:
        seconds = 0.0

        async def answer(self, _: bytes) -> None:
            await trio.sleep(self.seconds)

    transport = Slowly()
    line = connections.Line(transport)  # type: ignore[arg-type]
    part, due_s, began_s = bytes(connections.BYTES_PER_S_MIN), list[float](), trio.current_time()

    async def look() -> None:
        while True:
            await trio.sleep(0.5)
            due_s.append(line.due_s - trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        for transport.seconds in (8, *[0] * 10, 8, *[2] * 2):  # type: ignore[misc]
            await line.send(part)
        assert min(due_s) > 0
        for transport.seconds in [2] * 4:  # type: ignore[misc]
            await line.send(part)
        assert min(due_s) < 0
        nursery.cancel_scope.cancel()
    assert trio.current_time() < began_s + 60


async def test_how_busy_the_loop_is(autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is busy if it worked, or waited for a processor, for more than half of the last long enough time."""
    worked_s = waited_s = 0.0
    monkeypatch.setattr(load, "worked_and_waited_s", lambda: (worked_s, waited_s))
    of_loop = load.LoopLoad()
    for slept_s, worked, waited, expected, own in (
        (0.1, 0.08, 0.0, True, 1.0),
        (0.01, 0.0, 0.0, True, 1.0),
        (0.09, 0.04, 0.0, False, 1.0),
        (0.06, 0.05, 0.0, True, 1.0),
        (0.1, 0.02, 0.06, True, 0.4),
        (0.1, 0.01, 0.01, False, 0.9),
        (0.1, 0.0, 0.1, True, 0.1),
        (9, 1, 0.0, False, 1.0),
    ):
        await trio.sleep(slept_s)
        worked_s += worked
        waited_s += waited
        assert of_loop.is_busy() is expected
        assert of_loop.own() == pytest.approx(own)


async def test_other_protocols_change_nothing() -> None:
    """Upgrades to websockets and to HTTP/2, and HTTP/2 from the beginning: an answer or an end, and others are served."""
    upgrade = GET + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nUpgrade: h2c\r\n\r\n"
    websocket = GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    websocket += b"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    prior = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    async with rest_daemon() as rest:
        for data in (upgrade, upgrade + b"\x00" * 100, websocket, prior, prior + b"\xff" * 100, b"\x16\x03\x01" * 50):
            with trio.move_on_after(0.2):
                await rest.send(data)
        assert await is_well(rest)


#: Pieces of requests, of which nonsense is made.
PIECES = [
    b"GET ", b"POST ", b"HEAD ", b"OPTIONS ", b"/", b"//", b"/ws/v1/", b"clusters", b"partition/default/", b"queues", b"%",
    b"queue/root", b"%25", b"%00", b"\x00", b"\xff", b"?", b"&count=", b"=", b"-1", b"9" * 30, b" HTTP/1.1", b" HTTP/1.0",
    b" HTTP/2", b"\n", b"\r", b"Host: localhost", b"Host: x@y", b"Content-Length: 5", b"Content-Length: -5", b"Connection: close",
    b"Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n", b"Expect: 100-continue", b"Upgrade: h2c", b"events/batch",
    b"Accept-Encoding: gzip;q=", b"Authorization: Bearer ", b"Origin: null", b"validate-conf", b"applications/active?status=new",
    b"\r\n\r\n", b"\r\n", b"%2F",
]  # fmt: skip


async def test_nonsense_harms_nobody(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: 1,500 requests made of pieces; each gets an answer or an end, none is an error of the daemon."""
    monkeypatch.setattr(slots, "REQUESTS_PER_S", 100_000)
    chance = random.Random(7)
    async with rest_daemon() as rest:
        await rest.submit(node("n1"))
        for _ in range(15):
            async with trio.open_nursery() as nursery:
                for _ in range(100):
                    nursery.start_soon(_send_and_end, rest, _nonsense(chance))
        assert await is_well(rest)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def _nonsense(chance: random.Random) -> bytes:
    path = b"".join(chance.choices(PIECES, k=chance.randint(1, 6)))
    headers = b"\r\n".join(chance.choices(PIECES, k=chance.randint(0, 4)))
    whole = b"GET /ws/v1/" + path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n"
    return whole if chance.random() < 0.8 else b"".join(chance.choices(PIECES, k=20))


async def _send_and_end(rest: Rest, data: bytes) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", rest.port)
    async with stream:
        try:
            await stream.send_all(data)
            await stream.send_eof()
            with trio.move_on_after(1):  # a stream of events has no end
                async for _ in stream:
                    pass
        except trio.BrokenResourceError:
            pass
