"""The shipped configuration of a reverse proxy, with a real one in front of a daemon with an access file."""

import re
import shutil
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path

import msgspec
import pytest
import trio
from certificates import Authority
from daemon import LIMIT_S, RunningDaemon
from restdaemon import Answer
from test_page_login import guarded
from trio_websocket import wrap_client_stream

from ykactor.client import tls_context

NAME = "ui.example.com"
ROOT = Path(__file__).parents[2]
CHAPTER = ROOT / "ykactor" / "handbook" / "rest.md"
CONFIG = ROOT / "config" / "nginx.conf"
pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")


class Proxy:
    """nginx in front of a daemon.

    Attributes:
        origin: of its pages.
    """

    def __init__(self, port: int, trusted: ssl.SSLContext) -> None:
        self.port = port
        self.origin = f"https://{NAME}"
        self._trusted = trusted

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        return await trio.to_thread.run_sync(partial(self._ask, path, method, shown))

    def _ask(self, path: str, method: str, headers: dict[str, str]) -> Answer:
        connection = HTTPSConnection("localhost", self.port, timeout=60, context=self._trusted)
        try:
            connection.request(method, path, headers={"Host": NAME, **headers})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    async def first_message(self, path: str, message: object, **headers: str) -> dict[str, object]:
        """The daemon's answer to a message on a websocket."""
        stream = trio.SSLStream(await trio.open_tcp_stream("127.0.0.1", self.port), self._trusted, server_hostname="localhost")
        shown = [(name.encode(), value.encode()) for name, value in headers.items()]
        async with stream, trio.open_nursery() as nursery:
            connection = await wrap_client_stream(
                nursery,
                stream,
                NAME,
                path,
                subprotocols=["ykactor.v1.json"],
                extra_headers=shown,
            )
            await connection.send_message(msgspec.json.encode(message).decode())
            answer: dict[str, object] = msgspec.json.decode(await connection.get_message())
            nursery.cancel_scope.cancel()
        return answer


@asynccontextmanager
async def proxied(daemon: RunningDaemon, directory: Path, more: str = "") -> AsyncIterator[Proxy]:
    """nginx with the shipped file: other addresses and files, and nothing else but ``more`` in its locations."""
    authority = Authority(directory)
    authority.write()
    port = free_port()
    text = re.sub("proxy_pass .*;", rf"\g<0>\n{more}", CONFIG.read_text())
    for pattern, value in (
        (r"listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        (r"ssl_certificate \S+;", f"ssl_certificate {authority.cert};"),
        (r"ssl_certificate_key \S+;", f"ssl_certificate_key {authority.key};"),
        (r"http://127\.0\.0\.1:9080", daemon.http),
        (r"http://127\.0\.0\.1:9081", daemon.url.replace("ws://", "http://")),
    ):
        text, count = re.subn(pattern, value, text)
        assert count > 0, pattern
    (directory / "server.conf").write_text(text)
    paths = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (directory / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log; events {{}}\n"
        f"http {{ access_log off; {paths} include {directory}/server.conf; }}\n"
    )
    process = await trio.lowlevel.open_process(["nginx", "-p", str(directory), "-c", str(directory / "nginx.conf")])
    try:
        with trio.fail_after(LIMIT_S):
            await listens(port)
        yield Proxy(port, tls_context(authority.ca))
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


async def listens(port: int) -> None:
    while True:
        try:
            await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
        except OSError:
            await trio.sleep(0.02)
        else:
            return


async def test_one_name_for_all(tmp_path: Path) -> None:
    """SE-97 to SE-99: people log in at the proxy; the cookie is then enough for the UI, the page and its websockets."""
    (tmp_path / "ui").mkdir()
    (tmp_path / "ui" / "index.html").write_text("another UI")
    options = "--host-name", NAME, "--web-root", tmp_path / "ui"
    async with guarded(tmp_path, *options) as (daemon, tokens), proxied(daemon, tmp_path) as proxy:
        assert (await proxy.ask("/")).body == b"another UI"
        page = await proxy.ask("/ui/")
        websockets = f"wss://{NAME}"
        assert f"connect-src 'self' {websockets};" in page.headers["content-security-policy"]
        assert (await proxy.ask("/ws/v1/partitions")).status == 401
        token = f"Bearer {tokens['ops']}"
        answer = await proxy.ask("/ws/v1/login", "POST", Authorization=token, Origin=proxy.origin, Sec_Fetch_Site="same-origin")
        cookie, *attributes = answer.headers["set-cookie"].split("; ")
        assert attributes == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict", "Secure"]
        assert (await proxy.ask("/ws/v1/session", Cookie=cookie)).content["websockets"] == websockets
        assert (await proxy.ask("/ws/v1/partitions", Cookie=cookie, Sec_Fetch_Site="same-origin")).status == 200
        subscribe = {"type": "Subscribe", "from": "snapshot"}
        found = await proxy.first_message("/v1/feed", subscribe, Cookie=cookie, Origin=proxy.origin)
        assert found["type"] == "Snapshot"
        assert (await proxy.ask("/ws/v1/partitions", Cookie=cookie, Origin=f"{proxy.origin}:9090")).status == 401


async def test_a_proxy_that_lets_people_in_by_itself(tmp_path: Path) -> None:
    """The snippet in the handbook works for a UI that shows nothing: the proxy asks for a password, and shows a token itself."""
    (snippet,) = re.findall(r"```nginx\n(.*?)```", CHAPTER.read_text(), re.DOTALL)
    (tmp_path / "people").write_text("ann:{PLAIN}secret\n")
    async with guarded(tmp_path, "--host-name", NAME) as (daemon, tokens):
        more = snippet.replace("/etc/nginx/people", str(tmp_path / "people")).replace("yk_...", tokens["viewer"])
        async with proxied(daemon, tmp_path, more) as proxy:
            assert (await proxy.ask("/ws/v1/partitions")).status == 401
            known = "Basic " + b64encode(b"ann:secret").decode()
            assert (await proxy.ask("/ws/v1/partitions", Authorization=known)).status == 200
            assert (await proxy.ask("/ws/v1/session", Authorization=known)).content["name"] == "viewer"
            subscribe = {"type": "Subscribe", "from": "snapshot"}
            found = await proxy.first_message("/v1/feed", subscribe, Authorization=known, Origin=proxy.origin)
            assert found["type"] == "Snapshot"
