"""A browser that logs in with a token once: what its cookie opens, for which page, and what ends it."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest
import trio
from daemon import RunningDaemon, new_token, node, real_daemon, run_command
from restdaemon import Answer
from restdaemon import request as ask_once
from test_rest import ask
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from ykactor.client import connect
from ykactor.surfaces.sessions.websocket import REVOKED

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
OTHER = 12345
ACCESS = """
identities:
  - {name: viewer, roles: [reader]}
  - {name: ops, roles: [operator]}
  - {name: rm, roles: [rm], rmIDs: [rm]}
"""


@asynccontextmanager
async def guarded(tmp_path: Path, *arguments: str | Path) -> AsyncIterator[tuple[RunningDaemon, dict[str, str]]]:
    """A daemon with an access file, and a token for each identity."""
    access = tmp_path / "access.yaml"
    access.write_text(ACCESS)
    tokens = {name: new_token(name, access) for name in ("viewer", "ops", "rm")}
    async with real_daemon("--access", access, *arguments, http="127.0.0.1:0") as daemon:
        yield daemon, tokens


async def logged_in(daemon: RunningDaemon, token: str) -> tuple[str, Answer]:
    """The header ``Cookie`` after a login of the page."""
    answer = await ask(daemon, "/ws/v1/login", "POST", Authorization=f"Bearer {token}", Origin=daemon.http)
    return answer.headers.get("set-cookie", "").partition(";")[0], answer


@asynccontextmanager
async def websocket(daemon: RunningDaemon, path: str, **headers: str) -> AsyncIterator[WebSocketConnection]:
    """Open a websocket like a page."""
    shown = [(name.encode(), value.encode()) for name, value in headers.items()]
    stream = await trio.open_tcp_stream("127.0.0.1", urlsplit(daemon.url).port or 0)
    async with stream, trio.open_nursery() as nursery:
        protocols = ["ykactor.v1.json"]
        yield await wrap_client_stream(nursery, stream, "127.0.0.1", path, subprotocols=protocols, extra_headers=shown)
        nursery.cancel_scope.cancel()


async def refusal_of(daemon: RunningDaemon, path: str, **headers: str) -> int:
    """The status with which a request for a websocket is refused."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    shown = upgrade | {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} | headers
    answer = await trio.to_thread.run_sync(partial(ask_once, urlsplit(daemon.url).port, "GET", path, shown))
    return answer.status


async def request(connection: WebSocketConnection, message: dict[str, object]) -> dict[str, object]:
    await connection.send_message(msgspec.json.encode(message).decode())
    answer: dict[str, object] = msgspec.json.decode(await connection.get_message())
    return answer


async def test_a_page_logs_in_once(tmp_path: Path) -> None:
    """SE-98: the cookie is enough for everything that the page, and a UI of the same origin, reads and does."""
    (tmp_path / "ui").mkdir()
    (tmp_path / "ui" / "index.html").write_text("another UI")
    async with guarded(tmp_path, "--web-root", tmp_path / "ui") as (daemon, tokens):
        assert (await ask(daemon, "/ui/")).status == 200
        assert (await ask(daemon, "/ws/v1/partitions")).status == 401
        cookie, answer = await logged_in(daemon, tokens["ops"])
        assert (answer.status, answer.content["isLoggedIn"], answer.headers["cache-control"]) == (200, True, "no-store")
        attributes = answer.headers["set-cookie"].split("; ")[1:]
        assert attributes == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"]
        assert tokens["ops"] not in str(answer.headers)
        assert (await ask(daemon, "/")).body == b"another UI"
        assert (await ask(daemon, "/ws/v1/partitions", Cookie=cookie, Sec_Fetch_Site="same-origin")).status == 200
        session = (await ask(daemon, "/ws/v1/session", Cookie=cookie)).content
        assert (session["name"], session["isLoggedIn"]) == ("ops", True)
        async with connect(daemon.url, rm_id="rm", token=tokens["rm"]) as rm:
            await rm.request(node("n1"))
        async with websocket(daemon, "/v1/operator", Cookie=cookie, Origin=daemon.http) as operator:
            drain = {"nodeID": "n1", "action": "DRAIN_NODE", "attributes": {}}
            acknowledged = await request(operator, {"type": "NodeRequest", "nodes": [drain], "id": "1"})
            assert acknowledged["type"] == "Ack"


async def test_no_other_page_can_use_it(tmp_path: Path) -> None:
    """SE-99: not a page of another port of the host, to which browsers send the cookie too, and none whose page is not told."""
    async with guarded(tmp_path) as (daemon, tokens):
        cookie, _ = await logged_in(daemon, tokens["ops"])
        for origin in ("http://127.0.0.1:1", "http://localhost:9080", "https://evil.example", "null", ""):
            assert (await ask(daemon, "/ws/v1/partitions", Cookie=cookie, Origin=origin)).status == 401
            assert await refusal_of(daemon, "/v1/operator", Cookie=cookie, Origin=origin) == 401
        assert await refusal_of(daemon, "/v1/operator", Cookie=cookie) == 401
        for site in ("same-site", "cross-site"):
            assert (await ask(daemon, "/ws/v1/partitions", Cookie=cookie, Sec_Fetch_Site=site)).status in (401, 403)
        assert (await ask(daemon, "/ws/v1/logout", "POST", Cookie=cookie)).status == 401
        assert (await ask(daemon, "/ws/v1/session", Cookie=cookie)).status == 200


@ROOT_ONLY
async def test_no_other_user_can_use_it(tmp_path: Path) -> None:
    """SE-99: a server of another user on another port gets the cookie from the browser, and can name any page itself."""
    async with guarded(tmp_path) as (daemon, tokens):
        cookie, _ = await logged_in(daemon, tokens["ops"])
        request = f"GET /ws/v1/session HTTP/1.0\r\nOrigin: {daemon.http}\r\nCookie: {cookie}\r\n\r\n".encode()
        for uid, status in ((0, b"200"), (OTHER, b"401")):
            os.seteuid(uid)
            try:
                client = socket.socket()
            finally:
                os.seteuid(0)
            async with trio.SocketStream(trio.socket.from_stdlib_socket(client)) as stream:
                await stream.socket.connect(("127.0.0.1", urlsplit(daemon.http).port))
                await stream.send_all(request)
                assert (await stream.receive_some()).split()[1] == status


async def test_only_a_page_of_the_daemon_logs_in(tmp_path: Path) -> None:
    """SE-98: with a token that is one, of an identity that may read; a cookie makes no further cookie."""
    async with guarded(tmp_path) as (daemon, tokens):
        shown = {"Authorization": f"Bearer {tokens['viewer']}"}
        for headers in (
            {},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": daemon.http, "Sec_Fetch_Site": "same-site"},
        ):
            answer = await ask(daemon, "/ws/v1/login", "POST", **shown, **headers)
            assert (answer.status, "set-cookie" in answer.headers) == (403, False)
            found = "only a page of this daemon may log in" if headers else "found no header Origin, expected that of a page"
            assert found in answer.body.decode()
        cookie, answer = await logged_in(daemon, "yk_" + "x" * 43)
        assert (answer.status, cookie) == (401, "")
        cookie, answer = await logged_in(daemon, tokens["rm"])
        assert (answer.status, cookie) == (403, "")
        cookie, _ = await logged_in(daemon, tokens["viewer"])
        again = await ask(daemon, "/ws/v1/login", "POST", Cookie=cookie, Origin=daemon.http)
        assert "set-cookie" not in again.headers


async def closed_with(connection: WebSocketConnection) -> int | None:
    """The code with which a connection ends."""
    with trio.fail_after(60):
        try:
            while True:
                await connection.get_message()
        except ConnectionClosed as closed:
            return closed.reason.code if closed.reason else None


@pytest.mark.parametrize("way", ["log out", "revoke", "log in again"])
async def test_a_login_ends_with_what_it_has_opened(tmp_path: Path, way: str) -> None:
    """SE-68, SE-98: its websockets are closed, and the cookie is worth nothing, when the page logs out or the token is gone."""
    async with guarded(tmp_path) as (daemon, tokens):
        cookie, _ = await logged_in(daemon, tokens["viewer"])
        async with websocket(daemon, "/v1/feed", Cookie=cookie, Origin=daemon.http) as follower:
            assert (await request(follower, {"type": "Subscribe", "from": "now"}))["type"] == "Bookmark"
            if way == "log out":
                answer = await ask(daemon, "/ws/v1/logout", "POST", Cookie=cookie, Origin=daemon.http)
                assert ("isLoggedIn" in answer.content, "Max-Age=0" in answer.headers["set-cookie"]) == (False, True)
            elif way == "revoke":
                access = tmp_path / "access.yaml"
                ids = (await run_command("token", "list", "--access", access, "-o", "name"))[0].split()
                await run_command("token", "revoke", ids[0], "--access", access)
            else:
                token = f"Bearer {tokens['viewer']}"
                await ask(daemon, "/ws/v1/login", "POST", Authorization=token, Origin=daemon.http, Cookie=cookie)
            assert await closed_with(follower) == REVOKED
        assert (await ask(daemon, "/ws/v1/session", Cookie=cookie)).status == 401


async def test_the_daemon_keeps_no_login_for_the_next_one(tmp_path: Path) -> None:
    """SE-98: a cookie of a daemon that has ended is worth nothing; its name is not that of the next one."""
    async with guarded(tmp_path) as (daemon, tokens):
        cookie, _ = await logged_in(daemon, tokens["viewer"])
    access = tmp_path / "access.yaml"
    async with real_daemon("--access", access, http="127.0.0.1:0") as daemon:
        other, _ = await logged_in(daemon, tokens["viewer"])
        assert cookie.partition("=")[0] != other.partition("=")[0]
        assert (await ask(daemon, "/ws/v1/session", Cookie=cookie)).status == 401
        assert (await ask(daemon, "/ws/v1/session", Cookie=f"{cookie}; {other}")).status == 200


async def test_without_an_access_file_nobody_logs_in() -> None:
    """SE-98: there is nothing to show, and no cookie for it."""
    async with real_daemon(http="127.0.0.1:0") as daemon:
        answer = await ask(daemon, "/ws/v1/login", "POST", Origin=daemon.http)
        assert (answer.status, "set-cookie" in answer.headers) == (200, False)
