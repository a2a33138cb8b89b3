"""Peers that write bytes to a socket, right ones and wrong ones."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio
from target import Target


class Received(NamedTuple):
    """A frame of the daemon."""

    opcode: int
    payload: bytes


class RawPeer:
    """A connection to the daemon, with the frames that come from there.

    Attributes:
        socket: what the connection goes over.
    """

    def __init__(self, socket: trio.SocketStream, tls: ssl.SSLContext | None) -> None:
        self.socket = socket
        self.stream: trio.abc.Stream = socket
        if tls is not None:
            self.stream = trio.SSLStream(socket, tls, server_hostname="localhost", https_compatible=True)
        self._data = bytearray()

    async def accepted(self) -> None:
        """Read the answer to the handshake, which must be that of a websocket."""
        while b"\r\n\r\n" not in self._data:
            await self._read()
        head, _, rest = bytes(self._data).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        self._data[:] = rest

    async def receive(self) -> Received:
        """The next frame; ``trio.BrokenResourceError`` at the end of the connection."""
        while (found := self._take()) is None:
            await self._read()
        return found

    def _take(self) -> Received | None:
        data = self._data
        if len(data) < 2:
            return None
        length, start = data[1], 2
        if length >= 126:
            start = 4 if length == 126 else 10
            length = int.from_bytes(data[2:start])
        if len(data) < start + length:
            return None
        found = Received(data[0] & 0x0F, bytes(data[start : start + length]))
        del data[: start + length]
        return found

    async def _read(self) -> None:
        received = await self.stream.receive_some(2**16)
        if not received:
            raise trio.BrokenResourceError("the daemon has closed the connection")
        self._data += received


@asynccontextmanager
async def raw_peer(abused: Target, *, buffer_bytes: int | None = None) -> AsyncIterator[RawPeer]:
    """A connection on which nothing was sent yet.

    Args:
        buffer_bytes: the size of its receive buffer.
    """
    socket = trio.socket.socket()
    if buffer_bytes is not None:
        socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, buffer_bytes)
    await socket.connect(("127.0.0.1", abused.port))
    peer = RawPeer(trio.SocketStream(socket), abused.login.tls)
    async with peer.stream:
        yield peer


async def until_closed(peer: RawPeer) -> None:
    """Read to the end of the connection."""
    while True:
        try:
            if not await peer.stream.receive_some(2**16):
                return
        except trio.BrokenResourceError:
            return


def reset(peer: RawPeer, rng: random.Random) -> None:
    """Let the connection end with a reset, half of the times."""
    if rng.random() < 0.5:
        peer.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
