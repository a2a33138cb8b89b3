"""Order of requests and answers on one connection of the REST API."""

import re
import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from restdaemon import rest_daemon
from starlette.types import Receive, Scope, Send

from ykactor.surfaces.http import server
from ykactor.surfaces.http.connections import Connection
from ykactor.surfaces.http.replies import Streamed, Write
from ykactor.surfaces.net.transports import Transport

HOST = b"Host: localhost\r\n"
LIVE = b"GET /livez HTTP/1.1\r\n" + HOST + b"\r\n"
LAST = b"GET /livez HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
VALIDATE = b"POST /ws/v1/validate-conf HTTP/1.1\r\n" + HOST
UPGRADES = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
BODY = b"5\r\na: 1\n\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "statuses"),
    {
        "one after the other": (LIVE + LIVE + LAST, [200, 200, 200]),
        "an answer without a body": (b"HEAD /ws/v1/clusters HTTP/1.1\r\n" + HOST + b"\r\n" + LAST, [200, 200]),
        "a body that nobody reads": (
            b"GET /livez HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc" + LAST,
            [200, 200],
        ),
        "a body in chunks": (VALIDATE + b"Transfer-Encoding: chunked\r\n\r\n" + BODY + LAST, [200, 200]),
        "a body with the request that announces it": (
            VALIDATE + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\na: 1\n" + LAST,
            [200, 200],
        ),
        "who waits until a body is wanted": (
            VALIDATE + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
            [100, 408],
        ),
        "who waits for that in HTTP/1.0, which does not know it": (
            b"POST /ws/v1/validate-conf HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
            [408],
        ),
        "a wrong body": (VALIDATE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + LAST, [400]),
        "a wrong second request": (LIVE + b"nonsense\r\n\r\n" + LAST, [200, 400]),
        "an upgrade": (b"GET /livez HTTP/1.1\r\n" + HOST + UPGRADES + b"\r\n" + LAST, [200, 200]),
        "HTTP/1.0": (b"GET /livez HTTP/1.0\r\n\r\n" + LAST, [200]),
        "HTTP/1.0 that goes on": (b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2 + LAST, [200, 200, 200]),
        "HTTP/1.0, an answer without an end of its own": (
            b"GET /debug/fullstatedump HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + LAST,
            [200],
        ),
        "a later minor version": (b"GET /livez HTTP/1.2\r\n" + HOST + b"\r\n" + LAST, [200, 200]),
        "another major version": (b"GET /livez HTTP/3.0\r\n" + HOST + b"\r\n" + LAST, [505]),
        "an unknown encoding": (VALIDATE + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + BODY + LAST, [501]),
        "two spaces": (b"GET  /livez HTTP/1.1\r\n" + HOST + b"\r\n" + LAST, [400]),
        "the whole server": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n" + LAST, [200, 200]),
        "who announces too much, and waits until it is wanted": (
            VALIDATE + b"Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n",
            [413],
        ),
        "who announces too much": (VALIDATE + b"Content-Length: 999999999\r\n\r\nab", [413]),
        "as to a proxy, without a path": (b"GET http://localhost?a HTTP/1.1\r\n" + HOST + b"\r\n" + LAST, [200, 200]),
        "a body that has not come and nobody waits for": (
            b"POST /ws/v1/clusters HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nab",
            [405],
        ),
        "as to a proxy": (b"GET http://localhost/livez HTTP/1.1\r\n" + HOST + b"\r\n" + LAST, [200, 200]),
        "as to a proxy, another host": (
            b"GET http://other.example/ws/v1/clusters HTTP/1.1\r\n" + HOST + b"\r\n" + LAST,
            [403, 200],
        ),
        "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + LAST, [505]),
    }.values(),
)
async def test_answers_follow_requests(monkeypatch: pytest.MonkeyPatch, sent: bytes, statuses: list[int]) -> None:
    """SE-91, SE-96: in their order, each to its end; where that is unknown, the connection ends."""
    monkeypatch.setattr("ykactor.surfaces.http.body.BODY_S", 0.3)
    async with rest_daemon() as rest:
        answer = await rest.send(sent)
        assert [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) \r\n", answer)] == statuses
        assert answer.count(b"connection: close\r\n") <= 1
        assert b"connection: close\r\n" in answer.rpartition(b"HTTP/1.1 ")[2]


async def test_requests_that_come_together_are_not_answered_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others run between two answers, however many requests have come in one piece."""
    monkeypatch.setattr("ykactor.surfaces.admission.slots.BURST", 1000)
    turns: list[int] = [0]

    async def count() -> None:
        while True:
            turns[0] += 1
            await trio.lowlevel.checkpoint()

    async with rest_daemon() as rest, trio.open_nursery() as nursery:
        nursery.start_soon(count)
        before = turns[0]
        answer = await rest.send(LIVE * 200 + LAST)
        assert answer.count(b"HTTP/1.1 200 ") == 201
        assert turns[0] - before >= 150
        nursery.cancel_scope.cancel()


async def test_a_body_is_not_asked_for_within_an_answer() -> None:
    """SE-91: who reads a stream of events and announces a body is answered by the stream alone."""
    async with rest_daemon() as rest, await trio.open_tcp_stream("127.0.0.1", rest.port) as stream:
        await stream.send_all(
            b"GET /ws/v1/events/stream HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
        found = b""
        with trio.move_on_after(0.5):
            while True:
                found += await stream.receive_some()
        assert b"InstanceUUID" in found
        assert found.count(b"HTTP/1.1 ") == 1


async def test_an_answer_that_was_not_sent_whole_is_not_ended() -> None:
    """SE-91: who has stopped to send, and then reads, must not take a part of it for all, or the next answer for its rest."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def produce(write: Write) -> None:
            for _ in range(8):
                await write(bytes(2**20))

        await Streamed(produce, {"Content-Type": "text/plain"})(scope, receive, send)

    async def send_large(_: int, send: Callable[[], Awaitable[None]]) -> None:
        await send()

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            waits = trio.lowlevel.wait_readable
            await Connection(Transport(stream), app, "http", {}, waits, trio.Event(), send_large).serve()

    ours, its = trio.socket.socketpair()
    async with trio.open_nursery() as nursery, trio.SocketStream(its) as client:
        nursery.start_soon(serve, trio.SocketStream(ours))
        await client.send_all(LIVE + LIVE)
        await trio.testing.wait_all_tasks_blocked()
        await client.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        found = b"".join([part async for part in client])
    assert found.count(b"HTTP/1.1 200 ") == 1
    assert not found.endswith(b"0\r\n\r\n")


async def test_a_peer_that_has_vanished_is_noticed() -> None:
    """SE-96: also one that only waits; the system asks whether it is there."""
    async with rest_daemon() as rest, await trio.open_tcp_stream("127.0.0.1", rest.port) as stream:
        server._notice_its_end(stream)
        assert stream.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT
        assert [stream.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [60, 10, 6]
