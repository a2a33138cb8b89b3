"""A transaction: the batch of changes that it writes, its rows as they are stored, and the packed names by which it is found."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct


class Batch(Struct):
    """The changes and the history of some turns.

    Attributes:
        first_event, first_message: the number of the first; of the next one if there is none in the batch.
        at_ns: the Unix time at which the batch is complete.
        changes: of records, in order, as texts (``change_text``).
        turns: each turn with its facts, as JSON.
        messages: the messages to the resource manager, as they are sent.
        bases: the state of a partition before some of the turns, by their positions in ``turns`` (``core.records.base``).
        names: what the turns are about.
    """

    first_event: int
    first_message: int
    at_ns: int = 0
    changes: list[bytes] = []
    events_count: int = 0
    messages_count: int = 0
    turns: list[bytes] = []
    messages: list[bytes] = []
    bases: dict[int, bytes] = {}
    names: set[str] = set()


def packed_names(names: Iterable[str]) -> bytes:
    """The codes of the names of one transaction, as the table keeps them. Cost: 0.1 us for each."""
    codes = [zlib.crc32(name.encode()) for name in names]
    return struct.pack(f"<{len(codes)}I", *codes)


def packed_name(name: str) -> bytes:
    """The code of a name in ``packed_names``. Another name may have the same one, so what is found has to be looked at."""
    return packed_names([name])


#: More saves few bytes and costs much more time.
_LEVEL = 1
#: The number of columns of the table ``log``.
_COLUMNS = 11


class LogRow(Struct, frozen=True):
    """One transaction of the history.

    Attributes:
        number: 1 for the first transaction of the journal, without gaps.
        at_ns: Unix time of the newest turn.
        first_event: the number of the first event; the next one if ``events_count`` is 0.
        first_message: the same, of the messages to the resource manager.
        first_byte: the size of all earlier rows.
        packed_turns, packed_messages: compressed.
        term: the number of the term in which it was committed (``terms``); 0 of a version that had none.
    """

    number: int
    at_ns: int
    first_event: int
    events_count: int
    first_message: int
    messages_count: int
    first_byte: int
    packed_turns: bytes
    packed_messages: bytes
    term: int

    def turns(self) -> list[bytes]:
        """The JSON of each turn."""
        text = zlib.decompress(self.packed_turns)
        return text.split(b"\n") if text else []

    def messages(self) -> list[bytes]:
        """The msgpack of each message."""
        return msgspec.msgpack.decode(zlib.decompress(self.packed_messages), type=list[bytes])

    @property
    def end_byte(self) -> int:
        """The size of all rows up to this one."""
        return self.first_byte + len(self.packed_turns) + len(self.packed_messages)

    def columns(self) -> tuple[Any, ...]:
        """The columns of the table, with the CRC before the term, which came later and is not in it where there is none."""
        *numbers, turns, messages, term = msgspec.structs.astuple(self)
        checked = [*numbers, term] if term else numbers
        return *numbers, turns, messages, zlib.crc32(messages, zlib.crc32(turns, zlib.crc32(repr(checked).encode()))), term

    @classmethod
    def of(cls, columns: tuple[Any, ...]) -> LogRow:
        """The row with these columns of the table; a version before 3 has no term.

        Raises:  ValueError if they are not those that were written.
        """
        written: tuple[Any, ...] = columns if len(columns) == _COLUMNS else (*columns, 0)
        row = cls(*(*written[:-2], written[-1]))
        if not isinstance(row.packed_turns, bytes) or not isinstance(row.packed_messages, bytes) or row.columns() != written:
            raise ValueError(f"transaction {row.number} is not as it was written")
        return row


def packed_turns(turns: Iterable[bytes]) -> bytes:
    """The value of ``LogRow.turns``, compressed. A turn has no line ends, as it is compact JSON."""
    return zlib.compress(b"\n".join(turns), _LEVEL)


def packed_messages(messages: list[bytes]) -> bytes:
    """The value of ``LogRow.messages``, compressed."""
    return zlib.compress(msgspec.msgpack.encode(messages), _LEVEL)


def base_columns(number: int, position: int, state: bytes) -> tuple[int, int, bytes, int]:
    """The columns of the table ``base``: the state before the turn at a position in a transaction."""
    packed = zlib.compress(state, _LEVEL)
    return number, position, packed, crc_of(number, position, packed)


def mention_columns(number: int, names: Iterable[str]) -> tuple[int, bytes, int]:
    """The columns of the table ``mention``: the names that a transaction is about."""
    packed = packed_names(names)
    return number, packed, crc_of(number, packed)


def change_columns(number: int, texts: list[bytes]) -> tuple[int, bytes, int]:
    """The columns of the table ``change``: the records that a transaction has changed."""
    packed = msgspec.msgpack.encode(texts)
    return number, packed, crc_of(number, packed)


def crc_of(*columns: int | bytes) -> int:
    """The column ``crc`` of all tables but ``record`` and ``log``: it follows these columns, of which the last is bytes."""
    *numbers, data = columns
    assert isinstance(data, bytes)
    return zlib.crc32(data, zlib.crc32(repr(numbers).encode()))


def change_text(key: bytes, data: bytes | None) -> bytes:
    """A changed record as text: a line with its key, and one with the record, which is "null" if it is no more."""
    return b"%b\n%b\n" % (key, b"null" if data is None else data)


def changed_records(text: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Key and record of each change in a text, which may have many."""
    lines = text.split(b"\n")
    return ((key, None if data == b"null" else data) for key, data in zip(lines[::2], lines[1::2], strict=False))


def record_crc(key: bytes, data: bytes) -> int:
    """The column ``crc`` of a record."""
    return zlib.crc32(data, zlib.crc32(key))


class Transaction(Struct, frozen=True, array_like=True):
    """The rows of a transaction, which a standby writes as they are (DU-20).

    Attributes:
        log: the columns of its row in the table ``log``.
        bases: the columns of each row in ``base``.
        mention: the columns of its row in ``mention``; None if it is about nothing that has a name.
        change: the columns of its row in ``change``; None if it has changed no record.
    """

    log: tuple[Any, ...]
    bases: list[tuple[int, int, bytes, int]]
    mention: tuple[int, bytes, int] | None
    change: tuple[int, bytes, int] | None

    @classmethod
    def of(cls, batch: Batch, number: int, first_byte: int, term: int) -> Transaction:
        """The transaction of a batch; the other arguments as in ``LogRow``."""
        row = LogRow(
            number,
            batch.at_ns,
            batch.first_event,
            batch.events_count,
            batch.first_message,
            batch.messages_count,
            first_byte,
            packed_turns(batch.turns),
            packed_messages(batch.messages),
            term,
        )
        bases = [base_columns(number, position, state) for position, state in batch.bases.items()]
        mention = mention_columns(number, batch.names) if batch.names else None
        return cls(row.columns(), bases, mention, change_columns(number, batch.changes) if batch.changes else None)

    @property
    def number(self) -> int:
        """The number of the transaction."""
        return int(self.log[0])

    @property
    def end_byte(self) -> int:
        """The size of all rows and bases up to those of this one."""
        first_byte, turns, messages = self.log[6:9]
        return int(first_byte) + len(turns) + len(messages) + sum(len(state) for _, _, state, _ in self.bases)

    def encode(self) -> bytes:
        """The transaction in msgpack."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Transaction:
        """The transaction that was encoded. Raises:  ValueError if it is not as it was written."""
        found = msgspec.msgpack.decode(data, type=cls)
        LogRow.of(found.log)
        return found
