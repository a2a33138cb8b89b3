"""Clients of the REST API below the level of requests, and their admission."""

import socket
from pathlib import Path

import pytest
import trio
from daemon import RunningDaemon, new_token, real_daemon

SECRET = "yk_" + "s" * 43
_UPGRADE = f"""GET /ws/v1/partitions HTTP/1.1
Host: 127.0.0.1
Authorization: Bearer {SECRET}
Upgrade: websocket
Connection: Upgrade
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==
"""


def _exchange(url: str, data: bytes) -> bytes:
    host, _, port = url.partition("://")[2].partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as sock:
        sock.sendall(data)
        answer = b""
        while received := sock.recv(2**16):
            answer += received
        return answer


async def exchange(daemon: RunningDaemon, data: str) -> str:
    """Send data and return all that comes until the end of the connection."""
    sent = data.replace("\n", "\r\n").encode()
    return (await trio.to_thread.run_sync(_exchange, daemon.http, sent)).decode("latin-1")


def request(*headers: str, host: str = "localhost") -> str:
    return "\n".join(("GET /ws/v1/partitions HTTP/1.1", f"Host: {host}", *headers, "Connection: close", "", ""))


async def test_an_upgrade_to_websockets_is_not_followed() -> None:
    """SE-93, SE-10: it is answered as if it was not asked for, whatever comes after it; nothing is an error of the daemon."""
    async with real_daemon(http="127.0.0.1:0") as daemon:
        for rest in "\nGET / HTTP/1.1\n\n", "Content-Length: 5\n\nab", "Transfer-Encoding: chunked\n\nzz\n":
            for _ in range(3):
                answer = await exchange(daemon, _UPGRADE + rest)
                assert answer.startswith(("HTTP/1.1 200 ", "HTTP/1.1 400 "))
        assert (await exchange(daemon, request())).startswith("HTTP/1.1 200 ")
        assert not [line for line in daemon.lines if line["level"] == "error"]
        assert SECRET not in repr(daemon.lines)


@pytest.mark.parametrize("begin", ["PRI * HTTP/2.0\n\nSM\n\n", request("Upgrade: h2c")], ids=["known", "upgrade"])
async def test_http2_is_not_served(begin: str) -> None:
    """SE-91: there a client could let an answer wait for ever. The connection ends with the first answer."""
    async with real_daemon(http="127.0.0.1:0") as daemon:
        answer = await exchange(daemon, begin)
        assert answer.startswith(("HTTP/1.1 200 ", "HTTP/1.1 505 "))
        assert "\r\nconnection: close\r\n" in answer


async def test_pages_of_others_read_nothing() -> None:
    """SE-89: a page of another host, or one under a name that an attacker has made to lead here; pages of this host may."""
    async with real_daemon("--host-name", "queues.example", http="127.0.0.1:0") as daemon:

        async def status(host: str, *headers: str) -> str:
            return (await exchange(daemon, request(*headers, host=host))).split()[1]

        for host in "localhost:9080", "127.0.0.1", "[::1]:80", "Queues.Example":
            assert await status(host) == "200"
        assert await status("localhost", "Origin: http://localhost:3000") == "200"
        for page in "https://evil.example", "null", "http://localhost.evil.example":
            assert await status("localhost", f"Origin: {page}") == "403"
        assert await status("evil.example") == "403"
        assert await status("evil.example", "Origin: http://evil.example") == "403"
        assert await status("a@localhost") == "400"


async def test_who_is_not_let_in_is_told(tmp_path: Path) -> None:
    """SE-60, SE-74: log and audit have the reason, the client has not; nobody has what was shown."""
    file = tmp_path / "access.yaml"
    file.write_text("identities: [{name: ci, roles: [metrics]}]\n")
    secret = new_token("ci", file)
    async with real_daemon("--access", file, http="127.0.0.1:0") as daemon:
        answers = [await exchange(daemon, request(f"Authorization: Bearer {each}")) for each in (SECRET, secret)]
        assert [answer.split()[1] for answer in answers] == ["401", "403"]
        assert "unknown" not in answers[0]
        await daemon.wait_logged("audited", 2)
        await daemon.wait_logged("request_refused", 2)
        told = [[line for line in daemon.lines if line["event"] == event] for event in ("request_refused", "audited")]
        unknown, lacking = "the token is unknown: it was revoked, or never made", "without the role reader"
        who = "ci does not have the role reader, which /ws/v1/partitions needs"
        assert [(line["status"], line["reason"]) for line in told[0]] == [(401, unknown), (403, who)]
        assert [(line["who"], line["act"], line["target"], line["refusal"]) for line in told[1]] == [
            ("", "CONNECT", "/ws/v1/partitions", unknown),
            ("ci", "CONNECT", "/ws/v1/partitions", lacking),
        ]
        assert SECRET not in repr(daemon.lines)
        assert secret not in repr(daemon.lines)
