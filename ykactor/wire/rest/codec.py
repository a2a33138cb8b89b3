"""How answers are written: compact JSON with names in a fixed order, and a line feed at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

#: A large body is made and sent in parts of this size.
PART_BYTES = 2**20

_ENCODER = msgspec.json.Encoder(order="deterministic")
#: Written so that a browser never takes an answer for a page. These characters are in texts only.
_ESCAPED = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))


def encode(payload: Any) -> bytes:
    """One answer."""
    return escaped(_ENCODER.encode(payload)) + b"\n"


def encode_part(payload: Any) -> bytes:
    """An item of a list (``list_parts``)."""
    return escaped(_ENCODER.encode(payload))


def encode_with(payload: Any, lists: Mapping[str, list[bytes]]) -> bytes:
    """An object, which has a field of its own, with further ones before it: lists of such items, those that are not empty."""
    parts = [b"{"]
    for name, items in lists.items():
        if items:
            parts += (f'"{name}":['.encode(), b",".join(items), b"],")
    return b"".join((*parts, encode_part(payload)[1:]))


def list_parts(items: Iterable[bytes]) -> Iterator[bytes]:
    """One answer from the items of a list, in parts of about ``PART_BYTES``; each takes less than 1 ms."""
    part, size, separator = [b"["], 0, b""
    for item in items:
        part += (separator, item)
        size += len(item)
        separator = b","
        if size >= PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
    part.append(b"]\n")
    yield b"".join(part)


def escaped(text: bytes) -> bytes:
    """JSON without characters that have a meaning in HTML."""
    for character, escape in _ESCAPED:
        if character in text:
            text = text.replace(character, escape)
    return text
