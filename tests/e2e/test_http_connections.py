"""How requests and answers follow each other on one connection of the REST API."""

import re

import pytest
import trio
from restdaemon import rest_daemon

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
        "HTTP/1.0": (b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + LAST, [200]),
        "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + LAST, [400]),
    }.values(),
)
async def test_answers_follow_requests(monkeypatch: pytest.MonkeyPatch, sent: bytes, statuses: list[int]) -> None:
    """SE-91, SE-96: in their order, each to its end; where that is unknown, the connection ends."""
    monkeypatch.setattr("ykactor.surfaces.http.configuration.BODY_S", 0.3)
    async with rest_daemon() as rest:
        answer = await rest.send(sent)
        assert [int(status) for status in re.findall(rb"HTTP/1.1 (\d+) \r\n", answer)] == statuses


async def test_requests_that_come_together_are_not_answered_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others run between two answers, however many requests have come in one piece."""
    monkeypatch.setattr("ykactor.surfaces.http.server.BURST", 1000)
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
