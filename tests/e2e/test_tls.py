"""A daemon with TLS: who gets in, what is refused, and what one client can do to others; real sockets and certificates."""

import logging
import random
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import trio
from callers import SECRETS, access, control_of
from certificates import Authority
from daemon import node
from doubles import FakeDaemon, running_daemon
from trio_websocket import ConnectionClosed

from ykactor.access.credentials import Credentials
from ykactor.access.limits import Limits as AccessLimits
from ykactor.actors.clock import Clock
from ykactor.actors.commands import Publication
from ykactor.client import Disconnected, RequestRefused, connect, follow, operate
from ykactor.client.connection import open_connection
from ykactor.client.login import Login
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.surfaces.admission.access_control import PROOF_GONE, AccessControl
from ykactor.surfaces.files.tls_files import TlsFiles
from ykactor.surfaces.sessions.peer import Limits
from ykactor.surfaces.sessions.websocket import REVOKED
from ykactor.wire.si import messages as si


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> TlsFiles:
    return authority.files(authority.ca)


def url_of(daemon: FakeDaemon) -> str:
    return daemon.url.replace("127.0.0.1", "localhost")


def port_of(daemon: FakeDaemon) -> int:
    return int(daemon.url.rpartition(":")[2])


async def register(url: str, **login: object) -> None:
    async with connect(url, rm_id="rm-1", **login) as rm:
        await rm.request(node())


# ---- who gets in


async def test_every_client_speaks_tls(authority: Authority, tls: TlsFiles) -> None:
    """SE-30: resource managers, followers and operators; what a client connects to says so."""
    async with running_daemon(tls=tls) as daemon:
        assert daemon.url.startswith("wss://127.0.0.1:")
        await register(url_of(daemon), tls=authority.client())
        async with follow(url_of(daemon), from_="snapshot", tls=authority.client()) as events:
            assert isinstance(await anext(events), si.Snapshot)
        async with operate(url_of(daemon), tls=authority.client()):
            pass
        with pytest.raises(Disconnected):
            await register(daemon.url.replace("wss", "ws"))


async def test_a_certificate_is_an_identity(authority: Authority, tls: TlsFiles) -> None:
    """SE-33: it proves what the access file says of its names, and nothing else; a token does as well."""
    async with running_daemon(tls=tls, admit=control_of().admit) as daemon:
        url = url_of(daemon)
        await register(url, tls=authority.client("rm"))
        await register(url, tls=authority.client(), token=SECRETS["rm"])
        with pytest.raises(RequestRefused, match="NOT_PERMITTED"):
            await register(url, tls=authority.client("reader"))
        for client in (authority.client(), authority.client("stranger"), authority.client(common_name="rm")):
            with pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
                await register(url, tls=client)
        with pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
            await register(url, tls=authority.client("rm"), token=SECRETS["reader"])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_of_another_authority(
    authority: Authority, tls: TlsFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture, version: ssl.TLSVersion
) -> None:
    """SE-33: refused before anything is read, also beside a good token; log and audit have the reason."""
    caplog.set_level(logging.INFO)
    client = Authority(tmp_path).client("rm")
    client.load_verify_locations(authority.ca)
    client.maximum_version = version
    async with running_daemon(tls=tls, admit=control_of().admit) as daemon:
        with pytest.raises((Disconnected, RequestRefused)):
            await register(url_of(daemon), tls=client, token=SECRETS["rm"])
        while not any("audited" in message for message in caplog.messages):  # noqa: ASYNC110  # the log sets no event
            await trio.sleep(0.01)
        assert daemon.doubles["default"].received == []
    found = {record.getMessage(): record.__dict__.get("keys", {}) for record in caplog.records}
    reason = "the certificate of the client is refused: self-signed certificate in certificate chain"
    assert found["handshake_failed"]["reason"] == reason
    assert (found["audited"]["act"], found["audited"]["refusal"]) == (Act.CONNECT, reason)


async def test_a_certificate_that_expires(authority: Authority, tls: TlsFiles) -> None:
    """SE-33, SE-68: the session ends with it, as with any other proof."""
    end = datetime(2200, 1, 1, tzinfo=UTC)
    control = AccessControl(access(), clock_at(end - timedelta(hours=1)))
    login = Login(tls=authority.client("reader", not_after=end))
    async with running_daemon(tls=tls, admit=control.admit) as daemon, trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        async with open_connection(url_of(daemon), "/v1/feed", login=login) as connection:
            control.clock = clock_at(end)
            control.replace(control.access)
            with pytest.raises(ConnectionClosed) as ended:
                await connection.get_message()
        assert (ended.value.reason.code, ended.value.reason.reason) == (REVOKED, PROOF_GONE)
        nursery.cancel_scope.cancel()


def clock_at(moment: datetime) -> Clock:
    return Clock(int(moment.timestamp()) * 10**9)


async def test_without_authorities_nobody_is_asked(authority: Authority, tmp_path: Path) -> None:
    """SE-33: a certificate that is offered is not looked at then."""
    shown: list[Credentials] = []
    admit = control_of().admit

    def noting(role: object, credentials: Credentials, origin: str) -> object:
        shown.append(credentials)
        return admit(role, credentials, origin)

    other = Authority(tmp_path)
    async with running_daemon(tls=other.files(), admit=noting) as daemon:
        with pytest.raises(RequestRefused, match="NOT_AUTHENTICATED"):
            await register(url_of(daemon), tls=other.client("rm"))
    assert [credentials.certificate for credentials in shown] == [()]


# ---- a renewed certificate


async def test_a_session_outlives_its_certificate(tmp_path: Path) -> None:
    """SE-32: a new certificate is for new connections; those before go on with theirs."""
    old = Authority(tmp_path)
    files = old.files()
    async with running_daemon(tls=files) as daemon:
        async with connect(url_of(daemon), rm_id="rm-1", tls=old.client()) as rm:
            new = Authority(tmp_path, "new")
            new.write()
            files.load()
            with pytest.raises(Disconnected, match="the certificate of the daemon is refused"):
                await register(url_of(daemon), tls=old.client())
            async with follow(url_of(daemon), from_="snapshot", tls=new.client()) as events:
                await anext(events)
            await rm.request(node())


# ---- large and slow


async def test_large_messages(authority: Authority, tls: TlsFiles) -> None:
    """Messages of megabytes arrive, in both directions at once."""
    name = "n" * 2000
    async with running_daemon(tls=tls, ring_max=10_000) as daemon:
        async with follow(url_of(daemon), from_="snapshot", tls=authority.client()) as events:
            assert isinstance(await anext(events), si.Snapshot)
            async with connect(url_of(daemon), rm_id="rm-1", tls=authority.client()) as rm:
                nodes = [si.NodeInfo(node_id=f"{name}{number}", action="CREATE") for number in range(2000)]
                await rm.request(si.NodeRequest(nodes=nodes))
                seen = {message.object_id async for message in up_to(events, f"{name}1999")}
    assert seen == {f"{name}{number}" for number in range(2000)}


async def up_to(events, last):
    """The events up to the first one of an object."""
    async for message in events:
        if isinstance(message, si.EventRecord):
            yield message
            if message.object_id == last:
                return


async def test_a_stalled_follower(authority: Authority, tls: TlsFiles, caplog: pytest.LogCaptureFixture) -> None:
    """SE-90: it is dropped, and those who read get all events meanwhile."""
    caplog.set_level(logging.INFO)
    async with running_daemon(tls=tls, ring_max=50, limits=Limits(send_s=0.5, close_s=0.3)) as daemon:
        stream = await raw_stream(daemon, authority, buffer_bytes=4096)
        await stream.send_all(upgrade() + subscribe())
        assert b"101 Switching" in await stream.receive_some()
        async with follow(url_of(daemon), from_="snapshot", kinds=["APP"], tls=authority.client()) as events:
            assert isinstance(await anext(events), si.Snapshot)
            sent = 0
            while sent <= 50 or not any("peer_dropped" in message for message in caplog.messages):
                sent += 1
                fact = ApplicationAdded(0, f"{sent}".ljust(30_000, "a"), "root.a", "alice")
                await daemon.feed.inbox.put(Publication("default", [fact]))
                assert (await anext(events)).object_id == fact.application_id
        (line,) = [record.__dict__["keys"] for record in caplog.records if record.getMessage() == "peer_dropped"]
        assert (line["code"], line["path"]) == (4004, "/v1/feed")
        await trio.aclose_forcefully(stream)


async def raw_stream(daemon: FakeDaemon, authority: Authority, buffer_bytes: int = 2**16) -> trio.SSLStream[trio.SocketStream]:
    """A connection with a small receive buffer."""
    sock = trio.socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    await sock.connect(("127.0.0.1", port_of(daemon)))
    stream = trio.SSLStream(trio.SocketStream(sock), authority.client(), server_hostname="localhost")
    await stream.do_handshake()
    return stream


def upgrade() -> bytes:
    return (
        b"GET /v1/feed HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )


def subscribe() -> bytes:
    text = b'{"type": "Subscribe"}'
    return bytes((0x81, 0x80 | len(text), 0, 0, 0, 0)) + text


# ---- handshakes


def hello() -> bytes:
    """The first bytes of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("data", [b"GET /v1/feed HTTP/1.1\r\nHost: x\r\n\r\n", bytes(100), b"\x16\x03\x01\x00\x05aaaaa"])
async def test_what_is_no_tls(tls: TlsFiles, caplog: pytest.LogCaptureFixture, data: bytes) -> None:
    """SE-34: the connection ends at once, with a line in the log and no traceback."""
    caplog.set_level(logging.INFO)
    async with running_daemon(
        tls=tls, limits=Limits(close_s=60.0), in_force=partial(AccessLimits, handshake_seconds=60)
    ) as daemon:
        with trio.fail_after(60):
            for _ in range(3):
                async with await trio.open_tcp_stream("127.0.0.1", port_of(daemon)) as stream:
                    await stream.send_all(data)
                    await until_end(stream)
    lines = [record for record in caplog.records if record.getMessage() == "handshake_failed"]
    assert lines
    assert all(line.__dict__["keys"]["reason"].startswith("found no valid TLS: ") for line in lines)
    assert not [record for record in caplog.records if record.exc_info]


async def until_end(stream: trio.SocketStream) -> None:
    while await stream.receive_some():
        pass


@pytest.mark.parametrize("begins_with", [lambda: b"", lambda: hello()[:50], hello, lambda: b"x" * 3])
async def test_a_slow_handshake(tls: TlsFiles, begins_with: Callable[[], bytes]) -> None:
    """SE-34: nothing, or a part of a handshake, ends within the time for the request."""
    async with running_daemon(tls=tls, limits=Limits(close_s=0.1), in_force=partial(AccessLimits, handshake_seconds=1)) as daemon:
        async with await trio.open_tcp_stream("127.0.0.1", port_of(daemon)) as stream:
            await stream.send_all(begins_with())
            with trio.fail_after(60):
                await until_end(stream)


async def test_unfinished_handshakes_keep_nobody_out(authority: Authority, tls: TlsFiles) -> None:
    """SE-34: a hundred that have begun, and a hundred at once that go on to their end."""
    begun, client, answers = hello(), authority.client(), []
    async with running_daemon(tls=tls, in_force=partial(AccessLimits, handshake_seconds=60)) as daemon, AsyncExitStack() as stack:
        for stream in await streams_to(daemon, 100, stack):
            await stream.send_all(begun[:100])
        with trio.fail_after(60):
            await register(url_of(daemon), tls=client)

            async def ask(tcp: trio.SocketStream) -> None:
                stream = trio.SSLStream(tcp, client, server_hostname="localhost")
                await stream.send_all(upgrade())
                answers.append(await stream.receive_some())

            async with trio.open_nursery() as nursery:
                for stream in await streams_to(daemon, 100, stack):
                    nursery.start_soon(ask, stream)
        assert [answer[:12] for answer in answers] == [b"HTTP/1.1 101"] * 100


async def streams_to(daemon: FakeDaemon, count: int, stack: AsyncExitStack) -> list[trio.SocketStream]:
    return [await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port_of(daemon))) for _ in range(count)]


async def test_one_handshake_computes_at_a_time(tls: TlsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """SE-34: however many begin at once, other tasks run between two of them."""
    ticks, steps = [0], []

    class Noting(ssl.SSLObject):
        def do_handshake(self) -> None:
            steps.append(ticks[0])
            super().do_handshake()

    async def tick() -> None:
        while True:
            ticks[0] += 1
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(tls.context, "sslobject_class", Noting)
    async with running_daemon(tls=tls) as daemon, AsyncExitStack() as stack, trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        streams = await streams_to(daemon, 50, stack)
        begun = hello()
        async with trio.open_nursery() as sending:
            for stream in streams:
                sending.start_soon(stream.send_all, begun)
        for stream in streams:
            await stream.receive_some()
        nursery.cancel_scope.cancel()
    assert len(steps) == 50
    assert max(map(steps.count, steps)) <= 2, "trio lets the tasks of two rounds run in any order"


async def test_mutants_of_handshakes(authority: Authority, tls: TlsFiles, caplog: pytest.LogCaptureFixture) -> None:
    """SE-93: whatever comes instead of a handshake, or of what follows it, ends at most its own connection."""
    rng, begun = random.Random(1), hello()
    async with running_daemon(tls=tls) as daemon:
        for number in range(300):
            async with AsyncExitStack() as stack:
                if number % 3:
                    (stream,) = await streams_to(daemon, 1, stack)
                    await stream.send_all(mutant(begun, rng))
                else:
                    encrypted = await raw_stream(daemon, authority)
                    stream = await stack.enter_async_context(encrypted.transport_stream)
                    await stream.send_all(mutant(b"\x17\x03\x03\x00\x40" + rng.randbytes(0x40), rng))
                with trio.move_on_after(0.001 * (number % 4)), suppress(trio.BrokenResourceError):
                    await until_end(stream)
        await register(url_of(daemon), tls=authority.client())
    assert not [record for record in caplog.records if record.exc_info]


def mutant(data: bytes, rng: random.Random) -> bytes:
    """The same with some bytes changed, doubled or left out."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 20))):
        at = rng.randrange(len(changed))
        match rng.randrange(3):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                changed[at:at] = changed[at : at + rng.randrange(50)]
            case 2:
                del changed[at : min(at + rng.randrange(5), len(changed) - 1)]
    return bytes(changed)
