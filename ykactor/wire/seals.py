"""Seals of the messages between a daemon and its replicas and standbys.

The checksum of a message counts the messages before it in its direction of a connection. So a message that was damaged on its
way, is missing, comes twice, or out of its order is found out, whatever is between the two. It is no protection from who does
that on purpose: that is what TLS is for.
"""

from __future__ import annotations

import zlib

_BYTES = 4


class DamagedError(Exception):
    """A message is not the one that was sent next."""


class Seal:
    """Seals all messages that are sent in one direction, or opens all that come."""

    def __init__(self) -> None:
        self._count = 0

    def close(self, data: bytes) -> bytes:
        """Seal the next message. Cost: 1 ms for each MB."""
        return self._next(data).to_bytes(_BYTES) + data

    def open(self, sealed: bytes | str) -> bytes:
        """The next message.

        Raises:
            DamagedError: see there.
        """
        data = sealed[_BYTES:] if isinstance(sealed, bytes) else b""
        if self.close(data) != sealed:
            raise DamagedError(f"message {self._count} was damaged on its way, or another one is missing")
        return data

    def _next(self, data: bytes) -> int:
        self._count += 1
        return zlib.crc32(data, self._count)
