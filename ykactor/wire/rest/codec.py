"""How answers are written: compact JSON with names in a fixed order, and a line feed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="deterministic")
#: Written so that a browser never takes an answer for a page. These characters are in texts only.
_ESCAPED = ((b"<", rb"\u003c"), (b">", rb"\u003e"), (b"&", rb"\u0026"))


def encode(payload: Any) -> bytes:
    """One answer."""
    return escaped(_ENCODER.encode(payload)) + b"\n"


def encode_part(payload: Any) -> bytes:
    """An item of a list (``as_list``)."""
    return escaped(_ENCODER.encode(payload))


def as_list(parts: Sequence[bytes]) -> bytes:
    """One answer from the items of a list. Cost: 0.3 ms for each MB, which are copied once."""
    return b"".join([b"[", *islice(chain.from_iterable((b",", part) for part in parts), 1, None), b"]\n"])


def escaped(text: bytes) -> bytes:
    """JSON without characters that have a meaning in HTML."""
    for character, escape in _ESCAPED:
        if character in text:
            text = text.replace(character, escape)
    return text
