"""The request that opens a websocket: what is refused, how, and that nothing of it is kept, logged or slow."""

import os
import re
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from costs import Calls, Memory
from daemon import real_daemon
from doubles import running_daemon

from ykactor.access.limits import Limits as AccessLimits
from ykactor.surfaces.admission import slots
from ykactor.surfaces.sessions.peer import Limits
from ykactor.surfaces.sessions.websocket import HEAD_BYTES_MAX

SECRET = "Bearer 5ec7e7"


@asynccontextmanager
async def connected(daemon):
    async with await trio.open_tcp_stream("127.0.0.1", int(daemon.url.rpartition(":")[2])) as stream:
        yield stream


def request(*more, without="", line="GET /v1/feed HTTP/1.1", host="127.0.0.1"):
    """A request for a websocket with further headers, without some, or with another first line."""
    headers = [
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: keep-alive, Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Authorization: {SECRET}",
    ]
    kept = [header for header in headers if not (without and header.startswith(without))]
    return "\r\n".join([line, *kept, *more, "", ""]).encode("latin-1")


async def answer(daemon, data):
    """The status and body of the response to these bytes."""
    async with connected(daemon) as stream:
        await stream.send_all(data)
        response = b""
        while received := await stream.receive_some():
            response += received
            if b"101 Switching" in response:
                return 101, ""
        head, _, body = response.decode().partition("\r\n\r\n")
        assert f"Content-Length: {len(body)}" in head
        return int(head.split()[1]), body


REFUSED = {
    "plain HTTP": (request(without="Upgrade"), 426, "this is a websocket server: .* /v1/rm, .* /v1/feed"),
    "another protocol": (request("Upgrade: h2c", without="Upgrade"), 426, "this is a websocket server"),
    "no connection": (request(without="Connection"), 400, "found no header Connection: Upgrade"),
    "no key": (request(without="Sec-WebSocket-Key"), 400, "found no header Sec-WebSocket-Key"),
    "old version": (
        request("Sec-WebSocket-Version: 8", without="Sec-WebSocket-V"),
        426,
        "found no header Sec-WebSocket-Version: 13",
    ),
    "HTTP/1.0": (request(line="GET /v1/feed HTTP/1.0"), 400, "found no valid HTTP/1.1 request"),
    "another method": (request(line="POST /v1/feed HTTP/1.1"), 405, "found another method than GET"),
    "a body": (request("Content-Length: 1"), 400, "found a request with a body"),
    "a body of any length": (request("Transfer-Encoding: chunked"), 400, "found a request with a body"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "found no valid HTTP/1.1 request"),
    "not ASCII": (request("X: \xff"), 400, "found no valid HTTP/1.1 request"),
    "two requests": (request().replace(b"\r\n", b"\n") + request(), 400, "found no valid HTTP/1.1 request"),
    "too long": (request("X: " + "x" * HEAD_BYTES_MAX), 431, "found a request with more than 8192 bytes of headers"),
    "no end": (request()[:-2] + b"X: y\r\n" * 10_000, 431, "found a request with more than 8192 bytes of headers"),
    "no host": (request(without="Host"), 400, "found no valid HTTP/1.1 request"),
    "two hosts": (request("Host: x"), 400, "found no valid HTTP/1.1 request"),
    "an empty host": (request(host=""), 400, "found no valid Host header"),
    "a user in the host": (request(host="a@127.0.0.1"), 400, "found no valid Host header"),
    "a long host": (request(host="a." * 128), 400, "found no valid Host header"),
    "a wrong host": (request(host="xn--b" + "\x41" * 50), 400, "found no valid Host header"),
    "an unknown path": (request(line="GET /5ec7e7 HTTP/1.1"), 404, "found an unknown path, expected /v1/rm, /v1/feed, "),
    "an unknown encoding": (request("Sec-WebSocket-Protocol: 5ec7e7"), 400, "found no known subprotocol, expected ykactor.v1"),
    "two origins": (request("Origin: http://a", "Origin: http://b"), 400, "found a header twice, expected it once: Origin"),
    "two upgrades": (request("Upgrade: websocket"), 400, "found a header twice, expected it once: Upgrade"),
    "two connections": (request("Connection: Upgrade"), 400, "found a header twice, expected it once: Connection"),
    "two keys": (request("Sec-WebSocket-Key: AA=="), 400, "found a header twice, expected it once: Sec-WebSocket-..."),
    "two credentials": (request("Authorization: Basic x"), 400, "found a header twice, expected it once: Authorization"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_requests(name, caplog):
    """Each gets a status and one line, and is logged with the address of the peer, but with nothing that the peer has sent."""
    data, status, sentence = REFUSED[name]
    with caplog.at_level("INFO"):
        async with running_daemon() as daemon:
            found, body = await answer(daemon, data)
            assert (found, body.count("\n")) == (status, 1)
            assert re.match(sentence, body)
    (record,) = caplog.records
    assert record.getMessage() == "handshake_failed"
    assert record.keys["peer"].startswith("127.0.0.1:")
    assert (record.keys["status"], record.keys["reason"]) == (status, body.strip())
    assert "5ec7e7" not in body + repr(record.__dict__)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9081", "[::1]:9081", "[fe80::1%eth0]:9081", "myhost", "my_host.example.", "xn--bcher-kva.example", "A.b"],
)
async def test_hosts_that_programs_may_use(host):
    """Programs send no ``Origin``: they may connect by any name, such as an alias or that of a proxy."""
    async with running_daemon() as daemon:
        assert await answer(daemon, request(host=host)) == (101, "")


async def test_a_request_may_come_in_pieces():
    """The daemon waits for the rest of a request, and takes what came with it as the first bytes of the websocket."""
    async with running_daemon() as daemon, connected(daemon) as stream:
        for position in range(len(request())):
            await stream.send_all(request()[position : position + 1])
            await trio.lowlevel.checkpoint()
        assert b"101 Switching" in await stream.receive_some()
    ping = b"\x89\x80\x00\x00\x00\x00"
    async with running_daemon() as daemon, connected(daemon) as stream:
        await stream.send_all(request() + ping)
        response = b""
        while b"\x8a\x00" not in response:
            response += await stream.receive_some()


async def test_what_follows_a_request_is_not_gathered():
    """A peer that sends megabytes before it has an answer costs no memory, whatever its request is."""
    part = bytes(2**16)
    async with running_daemon(limits=Limits(close_s=0.2)) as daemon:
        for first in (request(), request(host=""), b"x: " * 100, b""):
            with Memory() as memory:
                async with connected(daemon) as stream:
                    with suppress(trio.BrokenResourceError):
                        await stream.send_all(first)
                        for _ in range(500):
                            await stream.send_all(part)
            assert memory.peak < 2 * 2**20, first


async def test_a_long_host_is_refused_at_once():
    """The library would decode it, letter by letter."""
    async with running_daemon() as daemon:
        counts = []
        for host in "xn--b", "xn--b" + "b" * 7000:
            with Calls() as calls:
                assert (await answer(daemon, request(host=host)))[0] >= 400
            counts.append(calls.count)
    assert counts[1] < 2 * counts[0]


async def test_a_flood_of_refusals_leaves_the_log_readable(caplog, mock_clock):
    """A few lines are written in a second; a later one has the number of those that were left out."""
    with caplog.at_level("INFO"):
        async with running_daemon() as daemon:
            for _ in range(20):
                await answer(daemon, b"\n\n\r\n\r\n")
            mock_clock.jump(1)
            await answer(daemon, b"\n\n\r\n\r\n")
    assert [record.keys.get("left_out") for record in caplog.records] == [None, None, None, 17]


# ---- web pages


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("http://127.0.0.1:9080", "127.0.0.1:9081", 101),
        ("http://localhost", "localhost:9081", 101),
        ("https://[::1]:9080", "[::1]:9081", 101),
        ("http://192.0.2.7", "192.0.2.7:9081", 101),
        (f"http://{socket.gethostname()}", f"{socket.gethostname()}:9081", 101),
        ("http://Scheduler.example:9080", "scheduler.EXAMPLE", 101),
        ("http://rebound.example", "rebound.example:9081", 403),
        ("http://rebound.example:9081", "rebound.example:9081", 403),
        ("http://evil.example", "127.0.0.1:9081", 403),
        ("http://a@127.0.0.1", "127.0.0.1:9081", 403),
        ("http://127.0.0.1.evil.example", "127.0.0.1:9081", 403),
        ("null", "127.0.0.1:9081", 403),
        ("", "127.0.0.1:9081", 403),
    ],
)
async def test_web_pages(origin, host, status):
    """A page may connect to the host that it comes from, by an address or a known name: others may be made to lead here."""
    async with running_daemon(host_names=["scheduler.example"]) as daemon:
        assert (await answer(daemon, request(f"Origin: {origin}", host=host)))[0] == status


async def test_names_are_given_on_the_command_line():
    """``serve --host-name`` may be given several times."""
    async with real_daemon("--host-name", "one.example", "--host-name", "Two.example") as daemon:
        for host, status in (("one.example", 101), ("two.example", 101), ("three.example", 403)):
            assert (await answer(daemon, request(f"Origin: http://{host}", host=host)))[0] == status


# ---- slots


async def test_a_burst_finds_no_more_slots_than_there_are():
    """A slot is taken before the answer is sent: of requests at the same moment as many are accepted as there are slots."""
    async with running_daemon(in_force=lambda: AccessLimits(total_sessions=16)) as daemon, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(connected(daemon)) for _ in range(20)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        for stream in streams:
            os.write(stream.socket.fileno(), request())  # without a step of the event loop between them
        statuses = [(await stream.receive_some())[9:12] for stream in streams]
    assert sorted(statuses) == [b"101"] * 2 + [b"503"] * 18


async def test_no_network_keeps_others_out(caplog, monkeypatch):
    """SE-91: of connections of one network in their handshake the oldest ends when it is one too many, and nobody is kept out."""
    monkeypatch.setattr(slots, "HANDSHAKES_MAX", 8)
    async with running_daemon() as daemon, AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(connected(daemon)) for _ in range(2)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        third = await stack.enter_async_context(connected(daemon))
        assert await first.receive_some() == b""
        (record,) = [record for record in caplog.records if record.getMessage() == "connection_refused"]
        expected = r"2 connections in their handshake of [\w./ ]+ are open, no more are allowed: a quarter of what others leave"
        assert re.match(expected, record.keys["reason"])
        for stream in (second, third):
            await stream.send_all(request())
            assert b"101 Switching" in await stream.receive_some()
        assert await answer(daemon, request()) == (101, "")
