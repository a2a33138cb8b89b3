"""Websockets and the REST API decide alike who comes in; the REST API does so first, and lets nobody have all places."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from callers import IDENTITIES, SECRETS, access, control_of, credentials
from doubles import running_daemon
from msgspec import structs
from restdaemon import Rest, rest_daemon

from ykactor.access.credentials import Credentials
from ykactor.access.model import Role
from ykactor.core.messages.facts import Audited
from ykactor.surfaces.admission import slots
from ykactor.surfaces.admission.caller import Admit, Caller
from ykactor.surfaces.http import connections
from ykactor.surfaces.sessions import websocket

GOOD = f"Authorization: Bearer {SECRETS['reader']}"
UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


async def first_line(port: int, *lines: str) -> str:
    """The status line of the answer to a request."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all("\r\n".join([*lines, "", ""]).encode())
        return bytes(await stream.receive_some()).decode().partition("\r\n")[0]


@asynccontextmanager
async def both(**options: Any) -> AsyncIterator[Callable[..., Any]]:
    """A function that returns the statuses of a websocket and of a request of the REST API with these headers."""
    async with running_daemon(**options) as daemon, rest_daemon(**options) as rest:

        async def statuses(*headers: str, host: str = "127.0.0.1") -> tuple[int, int]:
            port = int(daemon.url.rpartition(":")[2])
            found = await first_line(port, "GET /v1/feed HTTP/1.1", f"Host: {host}", *UPGRADE, *headers)
            second = await first_line(rest.port, "GET /ws/v1/clusters HTTP/1.1", f"Host: {host}", *headers)
            return int(found.split()[1]), int(second.split()[1])

        yield statuses


def beside_a_certificate() -> Admit:
    """Lets in who shows a good certificate, and whatever its request has."""
    control = control_of()

    def admit(role: Role, shown: Credentials, origin: str) -> Caller:
        certificate = credentials("reader", "certificate").certificate
        return control.admit(role, structs.replace(shown, certificate=certificate), origin)

    return admit


async def test_another_scheme_is_a_bad_bearer() -> None:
    """SE-2: also beside a good proof; where no proof is needed nobody looks at it."""
    async with both(admit=beside_a_certificate()) as statuses:
        assert await statuses() == (101, 200)
        assert await statuses(GOOD) == (101, 200)
        for header in ("Basic eDp5", "Bearer", "x", "Negotiate a.b.c"):
            assert await statuses(f"Authorization: {header}") == (401, 401), header
    async with both() as statuses:
        assert await statuses("Authorization: Basic eDp5") == (101, 200)


async def test_an_error_of_the_daemon_ends_one_connection_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SE-91: whatever was not thought of ends neither service, and the log says where it was, without what it quotes."""

    async def fails(_: object) -> None:
        raise RuntimeError(SECRETS["reader"])

    async with both() as statuses:
        with monkeypatch.context() as patched:
            patched.setattr(websocket, "read_head", fails)
            patched.setattr(connections.Connection, "serve", fails)
            with pytest.raises(IndexError):  # there is no answer
                await statuses()
        assert await statuses() == (101, 200)
    assert "connection_failed" in caplog.messages
    assert SECRETS["reader"] not in caplog.text


async def test_what_decides_is_there_once() -> None:
    """SE-61: else a proxy could take another one than the daemon."""
    async with both(admit=control_of().admit) as statuses:
        for header in (GOOD, "Origin: http://127.0.0.1"):
            assert await statuses(GOOD, header, header) == (400, 400)


@pytest.mark.parametrize(("page", "host", "may"), [
    ("http://127.0.0.1:9080", "127.0.0.1:9081", True),
    ("http://localhost:3000", "127.0.0.1:9081", True),  # a UI in development
    ("http://[::1]", "localhost", True),
    ("https://queues.example", "queues.example:9081", True),
    ("http://192.0.2.7:1", "192.0.2.7:9081", True),
    ("http://192.0.2.7", "127.0.0.1:9081", False),  # an address is no proof of being this machine
    ("http://[2001:db8::1]", "localhost", False),
    ("http://rebound.example", "rebound.example", False),
    ("https://evil.example", "127.0.0.1", False),
    ("http://localhost.evil.example", "localhost", False),
    ("null", "127.0.0.1", False),
])  # fmt: skip
async def test_pages(page: str, host: str, may: bool) -> None:
    """SE-89: a page of this machine or of the host that it calls, and that host is none whose name could lead elsewhere."""
    async with both(host_names=["queues.example"]) as statuses:
        assert await statuses(f"Origin: {page}", host=host) == ((101, 200) if may else (403, 403))


NOWHERE = [
    ("GET", "/none"), ("POST", "/none"), ("OPTIONS", "/none"),
    ("GET", "/ws/v1/Clusters"), ("GET", "/ws//v1/clusters"),
    ("DELETE", "/ws/v1/clusters"), ("POST", "/ws/v1/config"), ("HEAD", "/ws/v1/validate-conf"),
    ("GET", "/ws/v1/partition/none/queues"),
]  # fmt: skip


async def test_nobody_learns_which_paths_there_are(tmp_path: Any) -> None:
    """SE-60: 404, 405 and where another path is meant come after who asks is known; a web UI changes nothing."""
    (tmp_path / "page.html").write_text("x")
    for web_root in (None, tmp_path):
        async with rest_daemon(admit=control_of().admit, web_root=web_root) as rest:
            answers = {
                ((found := await rest.ask(path, method)).status, found.headers["www-authenticate"]) for method, path in NOWHERE
            }
            assert answers == {(401, "Bearer")}
            shown = {"Authorization": f"Bearer {SECRETS['metrics']}"}
            assert (await rest.ask("/none", **shown)).status == 404
            shown = {"Authorization": f"Bearer {SECRETS['reader']}"}
            assert {(await rest.ask(path, method, **shown)).status for method, path in NOWHERE} == {301, 404, 405}


async def test_what_needs_no_proof() -> None:
    """SE-60, SE-62: whether the daemon lives, what its interface is, and whether a browser may show a proof."""
    async with rest_daemon(admit=control_of().admit) as rest:
        for path in ("/livez", "/readyz", "/openapi.json"):
            assert (await rest.ask(path)).status == 200
        assert "Authorization" in (await rest.ask("/ws/v1/clusters", "OPTIONS")).headers["access-control-allow-headers"]


async def test_who_is_refused_is_not_reviewed(caplog: pytest.LogCaptureFixture) -> None:
    """SE-68: no session ends that never began, however long somebody holds who was refused."""
    caplog.set_level(logging.INFO)
    control, held = control_of(), list[Caller]()

    def admit(role: Role, shown: Credentials, origin: str) -> Caller:
        held.append(control.admit(role, shown, origin))
        return held[-1]

    async with both(admit=admit) as statuses, trio.open_nursery() as nursery:
        assert await statuses(f"Authorization: Bearer {SECRETS['metrics']}") == (403, 403)
        assert await statuses(GOOD, "Sec-WebSocket-Protocol: none") == (400, 200)
        await trio.testing.wait_all_tasks_blocked(0.01)  # the answers are sent to their ends
        nursery.start_soon(control.run)
        control.replace(access(secrets={}))
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    assert len(held) == 4
    assert "access_ended" not in caplog.messages


# ---- the slots of connections


class Line:
    """A connection that stays open."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def send(self, text: str) -> None:
        await self._stream.send_all(text.encode())

    async def receive(self) -> str:
        return (await self._stream.receive_some()).decode()

    async def ask(self, name: str, path: str = "/ws/v1/clusters") -> str:
        """The answer to a request of an identity."""
        lines = (f"GET {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {SECRETS.get(name, name)}", "", "")
        await self.send("\r\n".join(lines))
        return await self.receive()

    async def ends(self) -> None:
        while await self._stream.receive_some():
            pass


async def line_to(rest: Rest, held: AsyncExitStack) -> Line:
    return Line(await held.enter_async_context(await trio.open_tcp_stream("127.0.0.1", rest.port)))


def heard_by(rest: Rest) -> list[Audited]:
    heard: list[Audited] = []

    async def tell(fact: Audited) -> None:
        heard.append(fact)

    rest.daemon.audit._tell = tell  # type: ignore[method-assign]
    return heard


async def test_no_identity_takes_all_connections() -> None:
    """SE-49, SE-96: one too many gets 503 with the limit, and ends; others are served, and so is who has ended one."""
    some = "roles: [reader], limits: {connections: 2}"
    control = control_of(access({**IDENTITIES, "reader": some, "rm": "roles: [rm, reader], rmIDs: [x]"}))
    async with rest_daemon(admit=control.admit) as rest, AsyncExitStack() as held:
        heard = heard_by(rest)
        async with await trio.open_tcp_stream("127.0.0.1", rest.port) as stream:
            for line in (Line(stream), await line_to(rest, held)):
                assert (await line.ask("reader")).startswith("HTTP/1.1 200")
                assert (await line.ask("reader")).startswith("HTTP/1.1 200")  # counted once
            full, reason = await line_to(rest, held), "limit connections = 2 of identity reader: so many are open"
            answer = await full.ask("reader")
            assert answer.startswith("HTTP/1.1 503")
            assert reason in answer
            await full.ends()
            assert (await (await line_to(rest, held)).ask("rm")).startswith("HTTP/1.1 200")
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert [(fact.who, fact.refusal) for fact in heard] == [("reader", reason)]
        with trio.fail_after(180):
            while not (await (await line_to(rest, held)).ask("reader")).startswith("HTTP/1.1 200"):
                pass


async def test_who_has_shown_nothing_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: of connections that have not shown whose they are a further one ends the oldest; what has shown it has its slot."""
    monkeypatch.setattr(slots, "UNPROVEN_MAX", 8)
    async with rest_daemon(admit=control_of().admit) as rest, AsyncExitStack() as held:
        heard = heard_by(rest)
        reader = await line_to(rest, held)
        assert (await reader.ask("reader")).startswith("HTTP/1.1 200")
        first, second = await line_to(rest, held), await line_to(rest, held)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await (await line_to(rest, held)).ask("reader")).startswith("HTTP/1.1 200")
        await first.ends()
        assert (await second.ask("reader")).startswith("HTTP/1.1 200")
        assert (await reader.ask("reader")).startswith("HTTP/1.1 200")
        await trio.testing.wait_all_tasks_blocked(0.01)
        (fact,) = heard
        assert (fact.who, fact.target) == ("", "connection")
        assert fact.refusal.startswith("2 connections that have not shown whose they are of ")


async def test_crowds_without_proof_shut_out_neither_probes_nor_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: 260 of them that say nothing, and 260 that have asked what needs no proof and keep their connection."""
    monkeypatch.setattr(connections, "IDLE_S", 1000)
    async with rest_daemon(admit=control_of().admit) as rest, AsyncExitStack() as held:
        for number in range(520):
            line = await line_to(rest, held)
            if number % 2:
                await line.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"ok" in await rest.send(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await (await line_to(rest, held)).ask("reader")).startswith("HTTP/1.1 200")
        scrape = await line_to(rest, held)
        assert (await scrape.ask("metrics", "/ws/v1/metrics")).startswith("HTTP/1.1 200")


async def test_a_crowd_of_probes_does_not_slow_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: what needs no proof has a pace of its own, and so have metrics: the others go on beside a crowd that has to wait."""
    monkeypatch.setattr(slots, "REQUESTS_PER_S", 3)
    monkeypatch.setattr(slots, "BURST", 1)
    answered = 0

    async def probe(line: Line) -> None:
        nonlocal answered
        await line.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await line.receive()
        answered += 1

    async with rest_daemon(admit=control_of().admit) as rest, AsyncExitStack() as held, trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(probe, await line_to(rest, held))
        await trio.testing.wait_all_tasks_blocked(0.01)
        reader = await line_to(rest, held)
        for _ in range(3):
            assert (await reader.ask("reader")).startswith("HTTP/1.1 200")
            assert (await (await line_to(rest, held)).ask("metrics", "/ws/v1/metrics")).startswith("HTTP/1.1 200")
        assert answered < 80
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("kind", "name"), [("READERS_MAX", "reader"), ("METRICS_MAX", "metrics")])
async def test_no_identity_takes_all_slots_of_a_kind(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    """SE-96: one has a quarter of what the others leave, and the others have theirs."""
    monkeypatch.setattr(slots, kind, 8)
    path = "/ws/v1/metrics" if name == "metrics" else "/ws/v1/clusters"
    control = control_of(access({**IDENTITIES, "rm": "roles: [rm, reader], rmIDs: [x]"}))
    async with rest_daemon(admit=control.admit) as rest, AsyncExitStack() as held:
        for _ in range(2):
            assert (await (await line_to(rest, held)).ask(name, path)).startswith("HTTP/1.1 200")
        refused = await (await line_to(rest, held)).ask(name, path)
        assert refused.startswith("HTTP/1.1 503")
        assert f"of identity {name} are open, no more are allowed" in refused
        assert (await (await line_to(rest, held)).ask("rm", path)).startswith("HTTP/1.1 200")


async def test_who_shows_no_proof_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-96: others may have it."""
    monkeypatch.setattr(connections, "IDLE_S", 1000)  # it is not idleness that ends the connection
    async with rest_daemon(admit=control_of().admit) as rest, AsyncExitStack() as held:
        nobody = await line_to(rest, held)
        assert (await nobody.ask("stranger")).startswith("HTTP/1.1 401")
        with trio.fail_after(180):
            await nobody.ends()
