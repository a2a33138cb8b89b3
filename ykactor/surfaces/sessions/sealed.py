"""The peer of a session whose messages are sealed: a replica or a standby."""

from __future__ import annotations

from ykactor.surfaces.sessions.connection import ConnectionClosedError
from ykactor.surfaces.sessions.peer import Peer
from ykactor.wire.seals import DamagedError, Seal
from ykactor.wire.si.codec import MSGPACK

#: The close code for a message that cannot be read (RFC 6455: "invalid data").
INVALID = 1007


class SealedPeer:
    """Sends and receives sealed messages, whatever the subprotocol is; one task sends at a time."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._sent, self._received = Seal(), Seal()
        peer.encoding = MSGPACK

    async def send(self, data: bytes) -> None:
        """Send a message. Raises:  ConnectionClosedError."""
        await self._peer.send_encoded([self._sent.close(data)], MSGPACK)

    async def receive(self) -> bytes:
        """Receive the next message. Raises:  ConnectionClosedError, also if it is not the one that was sent next."""
        try:
            return self._received.open(await self._peer.receive())
        except DamagedError as error:
            await self._peer.drop(INVALID, str(error))
            raise ConnectionClosedError from None
