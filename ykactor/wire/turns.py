"""The messages of ``/v1/turns``: what a replica needs to run the turns of a daemon (DU-19).

A websocket message is a list of these messages in msgpack, compressed with zlib. The first one is ``Hello``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Protocol

import msgspec
from msgspec import Struct

from ykactor.core.values.ids import PartitionName

#: Of compression: more saves few bytes and costs much more time.
_LEVEL = 1


class _Message(Struct, frozen=True, tag=True):
    """A message of the stream."""


class Hello(_Message, frozen=True):
    """The daemon; another version may decide otherwise.

    Attributes:
        term: to which the numbers of events belong.
    """

    version: str
    term: str


class Base(_Message, frozen=True):
    """The state of a partition before its next turn (``core.records.base``)."""

    partition: PartitionName
    state: bytes


class Renewed(_Message, frozen=True):
    """The daemon has made a partition anew from its own rows before its next turn."""

    partition: PartitionName


class Turn(_Message, frozen=True):
    """A turn.

    Attributes:
        number: counts the turns of the partition.
        now_ns: the Unix time of the turn.
        cause: for ``wire.history.decode_cause``.
        checksum: CRC-32 of its facts, as ``wire.history.encode_facts`` makes them.
    """

    partition: PartitionName
    number: int
    now_ns: int
    cause: bytes
    checksum: int


TurnMessage = Hello | Base | Renewed | Turn

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[TurnMessage])


class UnreadableTurnsError(Exception):
    """A message is damaged, or of a later version."""


class Recorded(Protocol):
    """A recorded turn (``actors.commands.TurnRecord``)."""

    @property
    def number(self) -> int: ...
    @property
    def now_ns(self) -> int: ...
    @property
    def cause(self) -> bytes: ...


class EncodedTurns:
    """Encodes the messages of the stream for the feed (``actors.turn_stream.TurnFormat``)."""

    def base(self, partition: PartitionName, state: bytes) -> bytes:
        """Encode the state of a partition before its next turn."""
        return encode(Base(partition, state))

    def renewed(self, partition: PartitionName) -> bytes:
        """Encode that a partition was made anew from its own rows before its next turn."""
        return encode(Renewed(partition))

    def turn(self, partition: PartitionName, turn: Recorded, facts: list[bytes]) -> bytes:
        """Encode a turn with the checksum of its facts, which are in any number of JSON arrays."""
        return encode(Turn(partition, turn.number, turn.now_ns, turn.cause, checksum_of(facts)))


def encode(message: TurnMessage) -> bytes:
    """One message, for ``packed``."""
    return _ENCODER.encode(message)


def packed(messages: list[bytes]) -> bytes:
    """Encoded messages as one websocket message. Cost: 10 ms for each MB."""
    return zlib.compress(b"".join([_header(len(messages)), *messages]), _LEVEL)


def unpacked(data: bytes) -> list[TurnMessage]:
    """The messages that were packed.

    Raises:
        UnreadableTurnsError: see there.
    """
    try:
        return _DECODER.decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError) as error:
        raise UnreadableTurnsError(f"found a message of turns that cannot be read: {error}") from None


def checksum_of(facts: Iterable[bytes]) -> int:
    """The checksum of facts in any number of JSON arrays that have at least one fact each, as if they were in one array."""
    found = zlib.crc32(b"[")
    for number, part in enumerate(facts):
        found = zlib.crc32(memoryview(part)[1:-1], zlib.crc32(b",", found) if number else found)
    return zlib.crc32(b"]", found)


def _header(count: int) -> bytes:
    """The beginning of a list of so many items in msgpack."""
    return b"\xdd" + count.to_bytes(4, "big")
