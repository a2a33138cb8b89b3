"""The session of a replica: it gets the turns of all partitions from a base of each on, as far as they are durable."""

from __future__ import annotations

from contextlib import suppress

import trio

import ykactor
from ykactor.actors.gateway import Gateway
from ykactor.actors.turn_stream import Dropped, TurnReader
from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.peer import STALLED, Peer
from ykactor.wire.si.codec import MSGPACK
from ykactor.wire.turns import Hello, encode, packed

#: Messages that have more bytes are compressed in a thread.
_LARGE_BYTES = 2**18


class TurnsSession:
    """Sends turns, whatever the subprotocol is, in the form of ``wire.turns``. Messages of the peer have no effect."""

    def __init__(self, peer: Peer, gateway: Gateway) -> None:
        self.peer = peer
        self._gateway = gateway
        #: Around waiting for turns; cancelled by ``stop``.
        self._waiting = trio.CancelScope()
        peer.encoding = MSGPACK
        peer.settle()

    def stop(self) -> None:
        """Send no more turns."""
        self._waiting.cancel()

    async def run(self) -> None:
        """Serve the replica until the connection ends or ``stop`` is called."""
        turns = self._gateway.turns
        assert turns is not None, "the handshake was refused without"
        reader = turns.join()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, nursery.cancel_scope)
                nursery.start_soon(turns.make_bases)
                with self._waiting, suppress(ConnectionClosedError):
                    await self._serve(reader)
                nursery.cancel_scope.cancel()
        finally:
            turns.leave(reader)

    async def _listen(self, session: trio.CancelScope) -> None:
        with suppress(ConnectionClosedError):
            while True:
                await self.peer.receive()
        session.cancel()

    async def _serve(self, reader: TurnReader) -> None:
        await self._send([encode(Hello(ykactor.__version__, str(self._gateway.terms.present)))])
        try:
            while True:
                await self._send(await reader.next())
        except Dropped as dropped:
            await self.peer.drop(STALLED, str(dropped))

    async def _send(self, messages: list[bytes]) -> None:
        is_large = sum(map(len, messages)) > _LARGE_BYTES
        data = await trio.to_thread.run_sync(packed, messages) if is_large else packed(messages)
        await self.peer.send_encoded([data], MSGPACK)
