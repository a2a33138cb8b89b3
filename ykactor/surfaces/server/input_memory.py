"""The memory of what peers have sent and sessions have not finished, for the whole daemon."""

from collections.abc import Callable
from typing import Protocol


class Reader(Protocol):
    """A connection that gathers messages of its peer."""

    def refuse(self, code: int, reason: str) -> None:
        """Drop the peer, and forget what it has sent (``InputMemory.forget``)."""


#: The close code: the peer may try again later.
TRY_AGAIN_LATER = 1013


class InputMemory:
    """Counts the bytes of all input, and drops the peer with the most of it when there is too much.

    So a few peers that never finish their messages cannot keep others from sending: they are the ones that hold most.
    Requests that partitions have not finished count too (``Backlog``), but are taken and never dropped; a session holds a bounded
    part of them.

    Args:
        bytes_max: the limit ``waitingBytes`` (SE-48), as it is now.
    """

    def __init__(self, bytes_max: Callable[[], int]) -> None:
        self._bytes_max = bytes_max
        #: Bytes of each reader, and of all of them and of requests.
        self._held: dict[Reader, int] = {}
        self._total = 0

    def add(self, reader: Reader, size: int) -> None:
        """``reader`` has got bytes of a message. May drop it, or another one."""
        self._held[reader] = self._held.get(reader, 0) + size
        self._total += size
        bytes_max = self._bytes_max()
        while self._total > bytes_max and any(self._held.values()):
            largest = max(self._held, key=self._held.__getitem__)
            largest.refuse(TRY_AGAIN_LATER, f"limit waitingBytes = {bytes_max}: all peers have sent more, this one most")

    def release(self, reader: Reader, size: int) -> None:
        """A message of ``reader`` has been handled."""
        if reader in self._held:
            self._held[reader] -= size
            self._total -= size

    def forget(self, reader: Reader) -> None:
        """The connection of ``reader`` has ended."""
        self._total -= self._held.pop(reader, 0)

    def add_requests(self, size: int) -> None:
        """Requests of this size are waited for; a negative one: no more."""
        self._total += size
