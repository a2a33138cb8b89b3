"""Where values begin and end in JSON and in MessagePack, found without making anything of them.

msgspec skips a value much faster than Python could. Where it ends is told by the error about what follows.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

#: Bytes of a value that is looked at as a whole.
VALUE_MAX = 2**20
_PART_BYTES = 2**18

#: The error of msgspec for what is behind a value; JSON counts the first byte of it.
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


_Raw = msgspec.json.Decoder[msgspec.Raw] | msgspec.msgpack.Decoder[msgspec.Raw]


class NotFoundError(Exception):
    """There is no value here, or nothing right behind it."""


class TooLargeError(Exception):
    """A value has more than ``VALUE_MAX`` bytes."""


class Opened(NamedTuple):
    """A list or mapping with something in it: where the first item or key begins, and how many follow; -1: not known."""

    first: int
    number: int


class Span(NamedTuple):
    """A value, with the blanks around it.

    Attributes:
        end: where it ends.
        next: where begins what comes next, in the same list or mapping.
        sign: what stands between them; empty if nothing does.
    """

    end: int
    next: int
    sign: bytes = b""

    @property
    def is_last(self) -> bool:
        """Whether the list or mapping is known to end here."""
        return self.sign in (b"]", b"}")


class Syntax(Protocol):
    """How one encoding writes values. ``at`` is a position in ``data``.

    ``span`` and ``closed`` raise ``NotFoundError``.
    """

    def mapping(self, data: bytes, at: int) -> Opened | None:
        """The mapping that begins here, if one does; its keys and values come in turn."""

    def array(self, data: bytes, at: int) -> Opened | None:
        """The list that begins here, if one does."""

    def is_text(self, data: bytes, at: int) -> bool:
        """Whether a text begins here."""

    def span(self, data: bytes, at: int, size_max: int = VALUE_MAX) -> Span:
        """The value that begins here; raises ``TooLargeError`` if it has more bytes."""

    def texts(self, data: bytes, at: int, end: int) -> Iterator[str]:
        """The text that begins here, in parts; ``UnicodeError`` or ``msgspec.DecodeError`` if it is wrong."""

    def closed(self, data: bytes, last: Span) -> Span:
        """A list or mapping, by the last value in it."""

    def head(self, count: int) -> bytes:
        """How a list of so many items begins."""

    def list_of(self, items: bytes, count: int) -> bytes:
        """A list of items that follow each other."""


def _end(decoder: _Raw, data: bytes, at: int, size_max: int, counted: int) -> int:
    """Where a value ends; ``counted`` is what msgspec counts of what is behind it."""
    try:
        decoder.decode(memoryview(data)[at : at + size_max])
    except msgspec.DecodeError as error:
        if match := _TRAILING.search(str(error)):
            return at + int(match[1]) - counted
        if "truncated" not in str(error) or at + size_max >= len(data):
            raise NotFoundError from None
    except RecursionError:
        raise NotFoundError from None
    if at + size_max < len(data):
        raise TooLargeError
    return len(data)


class JsonSyntax:
    """JSON, in UTF-8."""

    _MAPPING = re.compile(rb"[ \t\n\r]*\{(?![ \t\n\r]*\})")
    _ARRAY = re.compile(rb"[ \t\n\r]*\[(?![ \t\n\r]*\])")
    _TEXT = re.compile(rb'[ \t\n\r]*"')
    _BLANKS = re.compile(rb"[ \t\n\r]*")
    #: A part of a text, which cuts no character: neither its bytes, nor an escape, nor the two of a surrogate pair.
    _PART = re.compile(
        rb'(?:[^"\\\x80-\xff]{1,64}+|[\xc0-\xff][\x80-\xbf]++|\\u[dD][89abAB]..\\u....|\\u....|\\[^u]){1,4000}+', re.DOTALL
    )

    def __init__(self) -> None:
        self._raw = msgspec.json.Decoder(msgspec.Raw)

    def mapping(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        found = self._MAPPING.match(data, at, at + VALUE_MAX)
        return None if found is None else Opened(found.end(), -1)

    def array(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        found = self._ARRAY.match(data, at, at + VALUE_MAX)
        return None if found is None else Opened(found.end(), -1)

    def is_text(self, data: bytes, at: int) -> bool:
        """See ``Syntax``."""
        return self._TEXT.match(data, at, at + VALUE_MAX) is not None

    def texts(self, data: bytes, at: int, end: int) -> Iterator[str]:
        """See ``Syntax``."""
        at = data.index(b'"', at) + 1
        while part := self._PART.match(data, at, end):
            yield msgspec.json.decode(b'"%b"' % part[0], type=str)
            at = part.end()
        if data[at : at + 1] != b'"':
            raise msgspec.DecodeError(f"no character at byte {at}")

    def span(self, data: bytes, at: int, size_max: int = VALUE_MAX) -> Span:
        """See ``Syntax``."""
        return self._before(data, _end(self._raw, data, at, size_max, counted=1))

    def closed(self, data: bytes, last: Span) -> Span:
        """See ``Syntax``."""
        blanks = self._BLANKS.match(data, last.next, last.next + VALUE_MAX)
        assert blanks is not None, "the pattern matches anything"
        return self._before(data, blanks.end())

    def _before(self, data: bytes, end: int) -> Span:
        sign = data[end : end + 1]
        if sign not in (b",", b":", b"]", b"}"):
            raise NotFoundError
        return Span(end, end + 1, sign)

    def head(self, count: int) -> bytes:
        """See ``Syntax``."""
        return b"["

    def list_of(self, items: bytes, count: int) -> bytes:
        """See ``Syntax``."""
        return b"[%b]" % items


class MsgpackSyntax:
    """MessagePack."""

    def __init__(self) -> None:
        self._raw = msgspec.msgpack.Decoder(msgspec.Raw)

    def mapping(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        return self._opened(data, at, 0x80, 0xDE)

    def array(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        return self._opened(data, at, 0x90, 0xDC)

    def _opened(self, data: bytes, at: int, short: int, long: int) -> Opened | None:
        """``short`` is the first of 16 signs that hold the number, ``long`` that with 2 bytes for it; the next one has 4."""
        sign = int.from_bytes(data[at : at + 1], "big")
        size = {long: 2, long + 1: 4}.get(sign, 0)
        if not size and not short <= sign < short + 16:
            return None
        first = at + 1 + size
        count = int.from_bytes(data[at + 1 : first], "big") if size else sign - short
        return Opened(first, count) if count else None

    def is_text(self, data: bytes, at: int) -> bool:
        """See ``Syntax``."""
        sign = int.from_bytes(data[at : at + 1], "big")
        return 0xA0 <= sign < 0xC0 or 0xD9 <= sign <= 0xDB

    def texts(self, data: bytes, at: int, end: int) -> Iterator[str]:
        """See ``Syntax``."""
        decode = codecs.getincrementaldecoder("utf-8")().decode
        for start in range(at + 1 + {0xD9: 1, 0xDA: 2, 0xDB: 4}.get(data[at], 0), end, _PART_BYTES):
            stop = min(start + _PART_BYTES, end)
            yield decode(data[start:stop], final=stop == end)

    def span(self, data: bytes, at: int, size_max: int = VALUE_MAX) -> Span:
        """See ``Syntax``."""
        end = _end(self._raw, data, at, size_max, counted=0)
        return Span(end, end)

    def closed(self, data: bytes, last: Span) -> Span:
        """See ``Syntax``."""
        return last

    def head(self, count: int) -> bytes:
        """See ``Syntax``."""
        return b"\xdd" + count.to_bytes(4, "big")

    def list_of(self, items: bytes, count: int) -> bytes:
        """See ``Syntax``."""
        return self.head(count) + items
