"""Encrypted connections: what the two senders and the reader of one may rely on, over real sockets."""

import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime

import openssl
import pytest
import trio
from certificates import Authority

from ykactor.access.credentials import Credentials
from ykactor.surfaces.net.frames import Frames, FrameStore
from ykactor.surfaces.net.transports import CHUNK_BYTES, FrameStream, TlsError, TlsTransport

LIMIT_S = 180.0
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    return authority.files(authority.ca).context


@contextmanager
def transport(context: ssl.SSLContext) -> Iterator[tuple[TlsTransport, socket.socket]]:
    """A transport whose socket takes little, and the other end."""
    here, there = socket.socketpair()
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with here, there:
        yield TlsTransport(trio.SocketStream(trio.socket.from_stdlib_socket(here)), context, trio.Lock()), there


Pair = tuple[TlsTransport, trio.SSLStream[trio.SocketStream]]


@asynccontextmanager
async def connected(context: ssl.SSLContext, client: ssl.SSLContext) -> AsyncIterator[Pair]:
    """The two ends of a connection."""
    with transport(context) as (here, there), trio.fail_after(LIMIT_S):
        stream = trio.SSLStream(trio.SocketStream(trio.socket.from_stdlib_socket(there)), client, server_hostname="localhost")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(here.open)
            await stream.do_handshake()
        yield here, stream


def client_of(authority: Authority, version: ssl.TLSVersion) -> ssl.SSLContext:
    client = authority.client()
    client.maximum_version = version
    return client


def text_of(number: int) -> bytes:
    return b"%d " % number * 30_000


async def read(stream: trio.abc.ReceiveStream, count: int) -> bytes:
    received = b""
    while len(received) < count:
        data = await stream.receive_some()
        assert data, f"the connection ended after {len(received)} bytes"
        received += data
    return received


async def written(frames: FrameStream, packed: Frames) -> None:
    """Write without waiting, again and again until all is taken."""
    frames.write(packed)
    while not frames.flush():  # noqa: ASYNC110  # a socket that has room sets no event
        await trio.sleep(0.001)


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_arrives_in_order(authority: Authority, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    """Writes without waiting and sends with waiting share one order, much larger than what the socket takes."""
    sent = b"".join(map(text_of, range(40)))
    async with connected(context, client_of(authority, version)) as (here, there), trio.open_nursery() as nursery:
        frames, store = FrameStream(here), FrameStore()

        async def send() -> None:
            for number in range(40):
                if number % 3:
                    await frames.send_all(text_of(number))
                elif number % 2:
                    frames.write(store.put(text_of(number), is_text=True))
                else:
                    await written(frames, store.put(text_of(number), is_text=True))
            await frames.send_all(b"")

        nursery.start_soon(send)
        headers = sum(len(store.put(text_of(number), is_text=True).read()) - len(text_of(number)) for number in range(0, 40, 3))
        received = await read(there, len(sent) + headers)
    for number in range(40):
        at = received.index(text_of(number))
        assert at <= 10, "nothing but the header of a frame comes in between"
        received = received[at + len(text_of(number)) :]
    assert received == b""


@pytest.mark.parametrize("version", VERSIONS)
async def test_both_ways_at_once(authority: Authority, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    """Megabytes each way: neither side waits for the other to read first."""
    data = bytes(range(256)) * 2**13
    async with connected(context, client_of(authority, version)) as (here, there), trio.open_nursery() as nursery:
        for sender in (here, there):
            nursery.start_soon(sender.send_all, data)
        assert await read(here, len(data)) == data
        assert await read(there, len(data)) == data


async def test_who_does_not_read_costs_little(authority: Authority, context: ssl.SSLContext) -> None:
    """SE-90: however much is written, only a chunk is encrypted ahead; all of it comes when the client reads again."""
    async with connected(context, authority.client()) as (here, there):
        frames, store = FrameStream(here), FrameStore()
        packed = [store.put(text_of(number), is_text=True) for number in range(30)]
        for each in packed:
            frames.write(each)
            assert not frames.flush()
        assert CHUNK_BYTES / 2 < len(here._unsent) + here._outgoing.pending < CHUNK_BYTES + 2000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(frames.send_all, b"")
            whole = b"".join(each.read() for each in packed)
            assert await read(there, len(whole)) == whole


async def test_a_short_write_needs_no_second_flush(authority: Authority, context: ssl.SSLContext) -> None:
    """A flush that says that nothing is left has given the socket all."""
    async with connected(context, authority.client()) as (here, there):
        frames = FrameStream(here)
        frames.write(FrameStore().put(b"hello", is_text=True))
        assert frames.flush()
        assert await there.receive_some() == b"\x81\x05hello"


@pytest.mark.skipif(not openssl.IS_THERE, reason="needs the library of OpenSSL")
async def test_new_keys(context: ssl.SSLContext) -> None:
    """RFC 8446, 4.6.3: a client may ask for new keys at any time; both directions go on."""
    with transport(context) as (here, there), trio.fail_after(LIMIT_S):

        def play() -> bytes:
            client = openssl.OpenSslClient(there)
            received = b""
            for _ in range(3):
                client.update_keys()
                client.write(b"hello")
                received += client.read(5)
            client.close()
            return received

        async def echo() -> None:
            await here.open()
            for _ in range(3):
                await here.send_all(await read(here, 5))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(echo)
            assert await trio.to_thread.run_sync(play) == b"hello" * 3


@pytest.mark.skipif(not openssl.IS_THERE, reason="needs the library of OpenSSL")
async def test_a_flood_of_new_keys(context: ssl.SSLContext) -> None:
    """SE-34: TLS answers each of them; a client that does not read the answers is dropped, before they take much memory."""
    with transport(context) as (here, there), trio.fail_after(LIMIT_S):

        def flood() -> None:
            client = openssl.OpenSslClient(there)
            with suppress(ConnectionError):
                for _ in range(50_000):
                    client.update_keys()
            client.close()
            there.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, flood)
            await here.open()
            with pytest.raises(trio.BrokenResourceError, match="does not read them"):
                await here.receive_some()
            assert len(here._unsent) + here._outgoing.pending < 4 * CHUNK_BYTES
            await here.aclose()


async def test_the_end_is_said(authority: Authority, context: ssl.SSLContext) -> None:
    """The client can tell an end from a connection that was cut; so can the daemon, and takes both as the end."""
    async with connected(context, authority.client()) as (here, there):
        await here.aclose()
        assert await there.receive_some() == b""
    async with connected(context, authority.client()) as (here, there), trio.open_nursery() as nursery:
        nursery.start_soon(here.finish)
        assert await there.receive_some() == b""
        await there.transport_stream.aclose()
    async with connected(context, authority.client()) as (here, there):
        await there.aclose()
        assert await here.receive_some() == b""
    async with connected(context, authority.client()) as (here, there):
        await there.transport_stream.aclose()
        assert await here.receive_some() == b""


async def test_a_damaged_record_is_the_end(authority: Authority, context: ssl.SSLContext) -> None:
    """A record that cannot be decrypted breaks the connection, also for the senders."""
    async with connected(context, authority.client()) as (here, there):
        await there.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with pytest.raises(trio.BrokenResourceError):
            await here.receive_some()
        with pytest.raises(trio.BrokenResourceError):
            await here.send_all(b"hello")
        frames = FrameStream(here)
        frames.write(FrameStore().put(b"hello", is_text=True))
        assert not frames.flush()


async def test_a_closed_socket_is_the_end(authority: Authority, context: ssl.SSLContext) -> None:
    """The flush leaves everything, as without TLS, and senders and receivers get an exception of trio."""
    async with connected(context, authority.client()) as (here, _):
        await here.aclose()
        frames = FrameStream(here)
        frames.write(FrameStore().put(b"hello", is_text=True))
        assert not frames.flush()
        with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
            await here.send_all(b"hello")
        with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
            await here.receive_some()


# ---- the handshake


async def refusal(context: ssl.SSLContext, data: bytes) -> tuple[str, bytes]:
    """The reason for which a client that sends this is refused, and the bytes that it gets."""
    with transport(context) as (here, there), trio.fail_after(LIMIT_S):
        there.sendall(data)
        with pytest.raises(TlsError) as refused:
            await here.open()
        await here.aclose()
        return str(refused.value), there.recv(1000)


async def test_what_is_no_tls(context: ssl.SSLContext) -> None:
    """SE-34: refused at the first bytes."""
    assert (await refusal(context, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == "found no valid TLS: http request"
    assert (await refusal(context, bytes(100)))[0].startswith("found no valid TLS: ")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_old_versions(context: ssl.SSLContext) -> None:
    """SE-30: TLS 1.1 is refused with an alert, which says why."""
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        old.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    reason, alert = await refusal(context, outgoing.read())
    assert reason == "found no valid TLS: unsupported protocol"
    assert alert[0] == 21


async def test_a_connection_that_ends_in_the_handshake(context: ssl.SSLContext) -> None:
    """The connection is broken, like one that ends later; nothing is said about it."""
    with transport(context) as (here, there):
        there.close()
        with pytest.raises(trio.BrokenResourceError):
            await here.open()
        await here.aclose()


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_names_of_a_client(authority: Authority, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    """SE-7, SE-33: all names of its certificate; none without one."""
    client = authority.client("ci.example", "ci@example.org", common_name="ci")
    client.maximum_version = version
    async with connected(context, client) as (here, _):
        assert here.credentials.certificate == ("DNS:ci.example", "email:ci@example.org", "CN:ci")
    async with connected(context, authority.client()) as (here, _):
        assert here.credentials.certificate == ()


async def test_an_authority_below_another_one(authority: Authority) -> None:
    """SE-33: only what the file has counts: neither its sisters nor the authority above it."""
    named, sister = authority.below("named"), authority.below("sister")
    context = authority.files(named.ca).context
    client = named.client("ci.example")
    client.load_verify_locations(authority.ca)
    async with connected(context, client) as (here, _):
        assert here.credentials.certificate == ("DNS:ci.example",)
    for other in (sister.client("ci.example"), authority.client("ci.example")):
        other.load_verify_locations(authority.ca)
        assert (await client_refusal(context, other)).startswith("the certificate of the client is refused: ")


async def test_a_certificate_that_is_not_for_clients(authority: Authority, context: ssl.SSLContext) -> None:
    """SE-33: that of a web server of the same company is none."""
    expected = "the certificate of the client is refused: unsuitable certificate purpose"
    assert await client_refusal(context, authority.for_servers("ci.example")) == expected


async def client_refusal(context: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """The reason for which a client is refused."""
    with transport(context) as (here, there), trio.fail_after(LIMIT_S):
        stream = trio.SSLStream(trio.SocketStream(trio.socket.from_stdlib_socket(there)), client, server_hostname="localhost")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.do_handshake)
            with pytest.raises(TlsError) as refused:
                await here.open()
        await here.aclose()
    return str(refused.value)


@pytest.mark.parametrize("version", VERSIONS)
async def test_there_are_no_tickets(authority: Authority, context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    """SE-30: what a certificate has proved is not handed out."""
    async with connected(context, client_of(authority, version)) as (here, there):
        await here.send_all(b"hello")
        assert await there.receive_some() == b"hello"
        assert not there._ssl_object.session.has_ticket


async def test_a_connection_that_is_taken_up(authority: Authority, context: ssl.SSLContext) -> None:
    """SE-30, SE-33: by its number in TLS 1.2, the client is the same, and its certificate expires as before."""
    client = authority.client("ci.example", not_after=datetime(2200, 1, 1, tzinfo=UTC))
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    first, session = await shown_in_session(context, client, None)
    second, again = await shown_in_session(context, client, session)
    assert session.id == again.id
    assert first == second
    assert first.certificate == ("DNS:ci.example",)
    assert first.certificate_expires_ns == 7258118400 * 10**9


async def shown_in_session(
    context: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[Credentials, ssl.SSLSession]:
    """The credentials that the client of a new connection shows, and the session that it may take up later."""
    with transport(context) as (here, there), trio.fail_after(LIMIT_S):

        def shake_hands() -> ssl.SSLSession:
            with client.wrap_socket(there, server_hostname="localhost", session=session) as encrypted:
                assert encrypted.session_reused is (session is not None)
                return encrypted.session

        async with trio.open_nursery() as nursery:
            nursery.start_soon(here.open)
            kept = await trio.to_thread.run_sync(shake_hands)
        await here.aclose()
        return here.credentials, kept
