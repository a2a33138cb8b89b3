"""The messages of ``/v1/turns``: what a replica needs to run the turns of a daemon and to show what it shows (DU-19).

A websocket message is a list of these messages in msgpack, compressed with zlib. The first one is ``Hello``. Each event is in one
of three: in a ``Turn``, which has it when it is run; in ``Facts``; or in ``Past``. A replica sends ``Wanted`` and ``Refused``,
not compressed. The answer to its first one begins with ``Resumed``, if the copies that it has go on, otherwise with ``Past``.

``/v1/bases``, from which a what-if begins, sends ``Hello``, ``Process``, and a ``Base`` of each partition that this names.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Struct

from ykactor.core.inspection.process_status import Registration, StandbysStatus, UnconfirmedStatus
from ykactor.core.messages.acts import Act
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.states import PartitionState
from ykactor.core.values.ids import PartitionName
from ykactor.wire.build import BUILD
from ykactor.wire.history import encode_facts
from ykactor.wire.si.messages import EventRecord

#: Of compression: more saves few bytes and costs much more time.
_LEVEL = 1


class OtherBuildError(Exception):
    """The daemon has another build than this process."""


class _Message(Struct, frozen=True, tag=True):
    """A message of the stream."""


class Hello(_Message, frozen=True):
    """The daemon; another build may decide otherwise.

    Attributes:
        build: see ``ykactor.wire.build``.
        terms: of its history, the oldest first; each with the number of its first event. The last one is the present.
        started_ns, now_ns: the Unix times at which it was started, and at which this was sent.
        turns_before: of each partition, the number of its last turn before the present term.
    """

    build: str
    terms: list[tuple[str, int]]
    started_ns: int
    now_ns: int
    turns_before: Mapping[str, int] = {}

    def check_build(self, url: str) -> None:
        """Raises: OtherBuildError: the daemon at this address has another build."""
        if self.build != BUILD:
            found = f"found a daemon of build {self.build}, expected {BUILD}"
            raise OtherBuildError(f"{url}: {found}: another build may decide otherwise")


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
        first_event: the number of its first event; without events, of the one that comes next.
    """

    partition: PartitionName
    number: int
    now_ns: int
    cause: bytes
    checksum: int
    first_event: int


class Facts(_Message, frozen=True):
    """Facts of no turn, or of a turn that this replica cannot run: it has no base of the partition yet.

    Attributes:
        facts: for ``wire.history.decode_facts``.
        first_event: as of ``Turn``.
        turn: its number; 0 for facts of no turn.
    """

    partition: PartitionName
    facts: bytes
    first_event: int
    turn: int = 0


class Past(_Message, frozen=True):
    """Events of before; the daemon has none any more between those of ``Wanted`` and the first one."""

    first_event: int
    events: list[EventRecord]


class Process(_Message, frozen=True):
    """The status of the daemon beside its partitions, as readers are shown it; sent on some changes, and each second.

    It follows the configuration that was in force then, if that was another one than before.

    Attributes:
        partitions: by name, in their order: the state, and since when.
        registration: the resource manager; None if none is registered.
        problems: what keeps the daemon from serving, a sentence each.
        stalled: since which Unix time the journal cannot be written, and why; None if it can.
        checks: of what is beside the partitions: name, description, and the problem, if there is one.
        standbys: those of the journal; None if there can be none.
        unconfirmed: the configuration that awaits confirmation; None if none does.
        cycles: of each partition, how long they take there (``TurnTimes.of_cycles``).
        measured: metrics of the process, as a text of Prometheus.
        turns: of each partition, the number of the newest turn of which the rest is no older; it may come later.
    """

    partitions: Mapping[PartitionName, tuple[PartitionState, int]]
    registration: Registration | None
    problems: list[str]
    stalled: tuple[int, str] | None = None
    checks: list[tuple[str, str, str]] = []
    standbys: StandbysStatus | None = None
    unconfirmed: UnconfirmedStatus | None = None
    cycles: Mapping[PartitionName, dict[str, float]] = {}
    measured: bytes = b""
    turns: Mapping[str, int] = {}


class Configuration(_Message, frozen=True):
    """The configuration in force; sent at first, and when there is another one."""

    text: str
    checksum: str


class Resumed(_Message, frozen=True):
    """The copies of ``Wanted`` go on: all turns and facts follow that have come after its event."""


class LastTurn(Struct, frozen=True):
    """The last turn that a copy has run; each field as of ``Turn``."""

    number: int
    now_ns: int
    checksum: int
    first_event: int


class Wanted(_Message, frozen=True):
    """The first message of a replica, and again when it has lost a copy.

    Attributes:
        after_event: the number of the newest event that it has; what follows is sent again, as far as it is still kept.
        lost: the partition of which it needs another base; "" for none.
        copies: the partitions of which it has a copy from an earlier connection.
    """

    after_event: int
    lost: str = ""
    copies: dict[PartitionName, LastTurn] = {}


class Refused(_Message, frozen=True):
    """A refusal at a replica, or several of one origin, which the daemon audits (SE-74); each field as of ``Audited``."""

    who: str
    origin: str
    role: str
    act: Act
    target: str
    refusal: str
    times: Annotated[int, Meta(ge=1, le=2**53)] = 1


TurnMessage = Hello | Base | Renewed | Turn | Facts | Past | Resumed | Process | Configuration

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[TurnMessage])
_REPLICA_DECODER = msgspec.msgpack.Decoder(Wanted | Refused)


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

    def encode(self, facts: Sequence[Fact]) -> bytes:
        """Encode facts as a JSON array."""
        return encode_facts(facts)

    def base(self, partition: PartitionName, state: bytes) -> bytes:
        """Encode the state of a partition before its next turn."""
        return encode(Base(partition, state))

    def renewed(self, partition: PartitionName) -> bytes:
        """Encode that a partition was made anew from its own rows before its next turn."""
        return encode(Renewed(partition))

    def turn(self, partition: PartitionName, turn: Recorded, facts: list[bytes], first_event: int) -> bytes:
        """Encode a turn with the checksum of its facts, which are in any number of JSON arrays."""
        return encode(Turn(partition, turn.number, turn.now_ns, turn.cause, checksum_of(facts), first_event))

    def facts(self, partition: PartitionName, turn: Recorded | None, facts: list[bytes], first_event: int) -> bytes:
        """Encode the facts themselves."""
        joined = b"[%b]" % b",".join([memoryview(part)[1:-1] for part in facts])
        return encode(Facts(partition, joined, first_event, 0 if turn is None else turn.number))


def encode(message: TurnMessage | Wanted | Refused) -> bytes:
    """One message, for ``packed``; those of a replica are sent as they are."""
    return _ENCODER.encode(message)


def decode_of_replica(data: str | bytes) -> Wanted | Refused:
    """A message of a replica.

    Raises:
        UnreadableTurnsError: it is another one.
    """
    try:
        found: Wanted | Refused = _REPLICA_DECODER.decode(data if isinstance(data, bytes) else b"")
    except msgspec.DecodeError as error:
        raise UnreadableTurnsError(f"found a message that cannot be read: {error}, expected Wanted or Refused") from None
    return found


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
