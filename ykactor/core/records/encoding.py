"""Rows as text: compact JSON, the key as an array that begins with the partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, defstruct, structs

from ykactor.core.messages.asks import Ask, AskRow
from ykactor.core.messages.changed import Key
from ykactor.core.records.rows import ROWS
from ykactor.core.values.ids import PartitionName

S = TypeVar("S", bound=Struct)

_ENCODER = msgspec.json.Encoder()
_KEYS = msgspec.json.Decoder(tuple[str | int, ...])


class UnreadableRowError(Exception):
    """A row is malformed for its kind."""


class Decoder(Generic[S]):
    """Makes rows or facts of a class from their text, also from that of journals before version 4, which have an ``AskRow``."""

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        asks = [(each.name, AskRow) for each in structs.fields(kind) if each.type is Ask]
        self._earlier = msgspec.json.Decoder(defstruct(kind.__name__, asks, bases=(kind,), kw_only=True)) if asks else None

    def decode(self, data: bytes | msgspec.Raw) -> S:
        """The row or fact. Raises:  msgspec.DecodeError if the text is not one of this class."""
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError:
            with suppress(msgspec.ValidationError):
                if self._earlier is not None:
                    fields = structs.asdict(self._earlier.decode(data)).items()
                    return self._kind(**{name: each.ask() if type(each) is AskRow else each for name, each in fields})
            raise


_DECODERS: dict[str, Decoder[Struct]] = {kind: Decoder(row) for kind, row in ROWS.items()}


def encode(partition: PartitionName, rows: Iterable[tuple[Key, Struct | None]]) -> bytes:
    """Rows of a partition as text: a line with the key of each, and one with the row, which is "null" for None."""
    lines: list[object] = []
    for key, row in rows:
        lines += ((partition, *key), row)
    return _ENCODER.encode_lines(lines)


def pairs(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The key and the row of each row in a text that ``encode`` made."""
    lines = text.split(b"\n")
    return zip(lines[::2], lines[1::2], strict=False)


def prefix_of(partition: PartitionName) -> bytes:
    """The beginning of the keys of a partition."""
    return _ENCODER.encode((partition,))[:-1] + b","


def partition_of(key: bytes) -> PartitionName:
    """The partition of a key.

    Raises:
        UnreadableRowError: the key is damaged.
    """
    try:
        return PartitionName(str(_KEYS.decode(key)[0]))
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError) as error:
        raise UnreadableRowError(f"row {key.decode(errors='replace')}: {type(error).__name__} {error}") from error


def decode(key: bytes, data: bytes) -> tuple[PartitionName, Key, Struct]:
    """The partition, the key and the row of a text.

    Raises:
        UnreadableRowError: the key or the row is damaged, or is of a kind that this version does not know.
    """
    try:
        partition, *rest = _KEYS.decode(key)
        decoder = _DECODERS.get(str(rest[0]))
        if decoder is None:
            raise UnreadableRowError(f"row {key.decode()}: found the kind {rest[0]}, expected one that this version knows")
        return PartitionName(str(partition)), tuple(rest), decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise UnreadableRowError(f"row {key.decode(errors='replace')}: {type(error).__name__} {error}") from error
