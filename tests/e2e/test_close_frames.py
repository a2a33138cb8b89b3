"""The close frame reaches a peer that goes on sending: what the daemon has not read does not reset the connection before."""

import pytest
import trio
from callers import IDENTITIES, SECRETS, access, control_of
from doubles import running_daemon
from wsproto.frame_protocol import FrameProtocol, Opcode

from ykactor.surfaces.sessions.connection import FRAMES_MAX
from ykactor.surfaces.sessions.peer import Limits

#: More than the kernel keeps for a connection: the daemon has to read, or the peer cannot go on.
FLOOD_BYTES = 2**23


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be slow."""
    monkeypatch.setattr("ykactor.surfaces.net.transports.LINGER_S", 60)


def frames(opcode: Opcode, payload: bytes, *, fin: bool) -> bytes:
    protocol = FrameProtocol(client=True, extensions=[])
    return bytes(protocol._serialize_frame(opcode, payload, fin=fin))


async def opened(url: str, path: str) -> trio.SocketStream:
    """A websocket without a library, which would read the close frame while it sends."""
    stream = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
    head = [
        f"GET {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Authorization: Bearer {SECRETS['reader']}",
    ]
    await stream.send_all("\r\n".join([*head, "", ""]).encode())
    response = b""
    while not response.endswith(b"\r\n\r\n"):
        response += await stream.receive_some(1)
    assert b" 101 " in response
    return stream


async def code_after(stream: trio.SocketStream, flood: bytes) -> int:
    """Send all of it, and only then read; the code of the close frame, which is the last one."""
    await stream.send_all(flood)
    received = b""
    while data := await stream.receive_some(2**16):
        received += data
    protocol = FrameProtocol(client=True, extensions=[])
    protocol.receive_bytes(received)
    codes = [int(frame.payload[0]) for frame in protocol.received_frames() if frame.opcode is Opcode.CLOSE]
    (code,) = codes
    return code


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.CONTINUATION])
async def test_of_a_limit_that_the_peer_exceeds(opcode: Opcode) -> None:
    """1008 for too many pings, and for too many frames of a message."""
    first = frames(Opcode.TEXT, b"x", fin=False)
    frame = frames(opcode, b"x" * 100, fin=opcode is Opcode.PING)
    async with running_daemon() as daemon, await opened(daemon.url, "/v1/feed") as stream:
        assert len(frame) * FRAMES_MAX < FLOOD_BYTES
        assert await code_after(stream, first + frame * (FLOOD_BYTES // len(frame))) == 1008


async def test_of_a_revocation() -> None:
    """4005 (SE-68), whether the session reads at the moment or waits because too much has come."""
    control = control_of()
    message = frames(Opcode.TEXT, b'{"type":"Subscribe"}', fin=True)
    async with running_daemon(admit=control.admit, limits=Limits(close_s=0.2)) as daemon, trio.open_nursery() as nursery:
        nursery.start_soon(control.run)
        async with await opened(daemon.url, "/v1/feed") as stream:
            await stream.send_all(message * 1000)
            control.replace(access({name: keys for name, keys in IDENTITIES.items() if name != "reader"}))
            assert await code_after(stream, message * (FLOOD_BYTES // len(message))) == 4005
        nursery.cancel_scope.cancel()
