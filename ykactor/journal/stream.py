"""The messages of ``/v1/journal``: what a standby needs to keep a copy of a journal (DU-20).

A standby sends ``Join``, and ``Durable`` with the newest transaction that it has on its disk. A daemon answers ``Refused``, or
``Following`` and then data in parts: a copy of the rest of the history (``copying``) after ``Copy``, otherwise transactions. A
standby that runs the turns sends ``WantBases``. One that takes over sends ``HandOver``, and is sent ``Ended`` when no other
transaction will follow.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from ykactor.journal.terms import Beginning

#: Bytes of a part.
PART_BYTES = 2**20


class _Message(Struct, frozen=True, tag=True):
    """A message of the stream."""


class Join(_Message, frozen=True):
    """The journal of a standby.

    Attributes:
        version: of the tables (``schema.VERSION``).
        number: its newest transaction; 0 if there is none.
        beginnings: of its terms, the oldest first.
    """

    version: int
    number: int
    beginnings: list[Beginning]


class Durable(_Message, frozen=True):
    """The standby has the transactions up to this number on its disk."""

    number: int


class WantBases(_Message, frozen=True):
    """The standby lacks a base of a partition, from which it could run the turns."""


class HandOver(_Message, frozen=True):
    """The standby takes over when the daemon has ended in good order."""


class Ended(_Message, frozen=True):
    """The daemon has nothing more to write, and tells nobody anything more."""


class Refused(_Message, frozen=True):
    """The daemon does not let this journal follow: trying again changes nothing.

    Attributes:
        ends: whether the daemon ends, because this journal has taken over for it.
        outrun_in: the term in which the daemon itself has taken over the history that this journal has taken over; "" otherwise.
    """

    reason: str
    ends: bool = False
    outrun_in: str = ""


class Following(_Message, frozen=True):
    """The history that the standby follows from now on: its terms, and the newest transaction at this moment."""

    beginnings: list[Beginning]
    number: int


class Copy(_Message, frozen=True):
    """The next data is a copy of the rest of the history, of so many bytes."""

    size: int


class Part(_Message, frozen=True):
    """A part of the data: of a transaction, unless ``Copy`` came before."""

    data: bytes
    is_last: bool = True


ToDaemon = Join | Durable | WantBases | HandOver
ToStandby = Refused | Following | Copy | Part | Ended

_ENCODER = msgspec.msgpack.Encoder()
_FROM_STANDBY: msgspec.msgpack.Decoder[ToDaemon] = msgspec.msgpack.Decoder(ToDaemon)
_FROM_DAEMON: msgspec.msgpack.Decoder[ToStandby] = msgspec.msgpack.Decoder(ToStandby)


def encode(message: ToDaemon | ToStandby) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(message)


def from_standby(data: bytes) -> ToDaemon:
    """The message of a standby. Raises:  msgspec.DecodeError."""
    return _FROM_STANDBY.decode(data)


def from_daemon(data: bytes) -> ToStandby:
    """The message of a daemon. Raises:  msgspec.DecodeError."""
    return _FROM_DAEMON.decode(data)


def parts(data: bytes) -> Iterator[bytes]:
    """The messages that send data."""
    for start in range(0, max(1, len(data)), PART_BYTES):
        end = start + PART_BYTES
        yield encode(Part(data[start:end], is_last=end >= len(data)))
