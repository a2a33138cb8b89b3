"""The encoding of answers: compact JSON with names in a fixed order, and a line feed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ykactor.core.values.parts import PART_MAX, Steps

#: A large body is made and sent in parts of this size.
PART_BYTES = 2**20

_ENCODER = msgspec.json.Encoder(order="deterministic")
#: Written so that a browser never takes an answer for a page. These characters are in texts only.
_ESCAPED = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))


class Pieces(Struct, frozen=True, gc=False):
    """One object that is encoded, which may be too large to be put together at once."""

    pieces: list[bytes]


#: An object that is encoded.
Item = bytes | Pieces


class Shortened(NamedTuple):
    """The items of a list that does not have all: how many older ones are left out."""

    items: list[Item]
    left_out: int


def encode(payload: Any) -> bytes:
    """One answer."""
    return escaped(_ENCODER.encode(payload)) + b"\n"


def encode_part(payload: Any) -> bytes:
    """An item of a list (``list_parts``)."""
    return escaped(_ENCODER.encode(payload))


def encode_each(payloads: Iterable[Any], items: int) -> Steps[list[bytes]]:
    """Items of a list, of which each takes as long as so many other items."""
    found = list[bytes]()
    for payload in payloads:
        found.append(encode_part(payload))
        yield items
    return found


def encode_with(payload: Any, lists: Mapping[str, list[bytes]]) -> Steps[Item]:
    """An object, which has a field of its own, with further ones before it: lists of such items, those that are not empty."""
    pieces, count = [b"{"], 0
    for name, items in lists.items():
        if items:
            pieces += (f'"{name}":['.encode(), b",".join(items[:PART_MAX]))
            for start in range(PART_MAX, len(items), PART_MAX):
                yield PART_MAX
                pieces.append(b",".join((b"", *items[start : start + PART_MAX])))
            pieces.append(b"],")
            count += len(items)
    pieces.append(encode_part(payload)[1:])
    return b"".join(pieces) if count <= PART_MAX else Pieces(pieces)


def object_parts(item: Item) -> Iterator[bytes]:
    """One answer from one object, in parts of about ``PART_BYTES``; each takes less than 1 ms."""
    return _joined((*_pieces(item), b"\n"))


def list_parts(items: Iterable[Item]) -> Iterator[bytes]:
    """One answer from the items of a list, likewise."""
    return _joined(_listed(items))


def joined_lists(lists: Iterable[Sequence[bytes]]) -> Iterator[bytes]:
    """One answer with the items of all answers that ``list_parts`` has made, likewise."""
    return _joined(_listed(items for items in map(_unlisted, lists) if items))


def _unlisted(parts: Sequence[bytes]) -> bytes:
    """The items of a list with their separators."""
    return b"".join(parts)[1:-2]


def _listed(items: Iterable[Item]) -> Iterator[bytes]:
    separator = b"["
    for item in items:
        yield separator
        yield from _pieces(item)
        separator = b","
    yield b"[]\n" if separator == b"[" else b"]\n"


def _pieces(item: Item) -> Sequence[bytes]:
    return (item,) if isinstance(item, bytes) else item.pieces


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    part, size = list[bytes](), 0
    for piece in pieces:
        part.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)


def escaped(text: bytes) -> bytes:
    """JSON without characters that have a meaning in HTML."""
    for character, escape in _ESCAPED:
        if character in text:
            text = text.replace(character, escape)
    return text
