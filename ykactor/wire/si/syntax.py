"""Where values begin and end in JSON and in MessagePack, found without making anything of them.

msgspec skips a value much faster than Python could. Where it ends is told by the error about what follows.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple, Protocol

import msgspec

from ykactor.core.values.parts import Pausing

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
    """A list or mapping with something in it, or a text: where that begins, and how much there is; -1: not known."""

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

    ``span``, ``text`` and ``closed`` raise ``NotFoundError``. All raise ``TooLargeError`` for a value, or blanks, of more than
    ``VALUE_MAX`` bytes; the value of ``text`` may have more.
    """

    def mapping(self, data: bytes, at: int) -> Opened | None:
        """The mapping that begins here, if one does; its keys and values come in turn."""

    def array(self, data: bytes, at: int) -> Opened | None:
        """The list that begins here, if one does."""

    def is_text(self, data: bytes, at: int) -> bool:
        """Whether a text begins here."""

    def span(self, data: bytes, at: int) -> Span:
        """The value that begins here."""

    def text(self, data: bytes, at: int, parts: list[str]) -> Pausing[Span]:
        """Add the text that begins here to ``parts``; raises ``UnicodeError`` or ``msgspec.DecodeError`` if it is wrong."""

    def closed(self, data: bytes, last: Span) -> Span:
        """A list or mapping, by the last value in it."""

    def head(self, count: int) -> bytes:
        """How a list of so many items begins."""

    def list_of(self, items: bytes, count: int) -> bytes:
        """A list of items that follow each other."""


def _end(decoder: _Raw, data: bytes, at: int, counted: int) -> int:
    """Where a value ends; ``counted`` is what msgspec counts of what is behind it."""
    try:
        decoder.decode(memoryview(data)[at : at + VALUE_MAX])
    except msgspec.DecodeError as error:
        if match := _TRAILING.search(str(error)):
            return at + int(match[1]) - counted
        if "truncated" not in str(error) or at + VALUE_MAX >= len(data):
            raise NotFoundError from None
    except RecursionError:
        raise NotFoundError from None
    if at + VALUE_MAX < len(data):
        raise TooLargeError
    return len(data)


class JsonSyntax:
    """JSON, in UTF-8."""

    _BLANKS = re.compile(rb"[ \t\n\r]*")
    _EMPTY = re.compile(rb"[\[{][ \t\n\r]*[\]}]")
    #: A part of a text, which cuts no character: neither its bytes, nor an escape, nor the two of a surrogate pair.
    _PART = re.compile(
        rb'(?:[^"\\\x80-\xff]{1,64}+|[\xc0-\xff][\x80-\xbf]++|\\u[dD][89abAB]..\\u....|\\u....|\\[^u]){1,4000}+', re.DOTALL
    )

    def __init__(self) -> None:
        self._raw = msgspec.json.Decoder(msgspec.Raw)

    def mapping(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        return self._opened(data, at, b"{")

    def array(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        return self._opened(data, at, b"[")

    def _opened(self, data: bytes, at: int, sign: bytes) -> Opened | None:
        at = self._behind_blanks(data, at)
        if data[at : at + 1] != sign or self._EMPTY.match(data, at, at + VALUE_MAX):
            return None
        return Opened(at + 1, -1)

    def _behind_blanks(self, data: bytes, at: int) -> int:
        blanks = self._BLANKS.match(data, at, at + VALUE_MAX)
        assert blanks is not None, "the pattern matches anything"
        if blanks.end() == at + VALUE_MAX:
            raise TooLargeError
        return blanks.end()

    def is_text(self, data: bytes, at: int) -> bool:
        """See ``Syntax``."""
        at = self._behind_blanks(data, at)
        return data[at : at + 1] == b'"'

    def text(self, data: bytes, at: int, parts: list[str]) -> Pausing[Span]:
        """See ``Syntax``."""
        at = self._behind_blanks(data, at) + 1
        while part := self._PART.match(data, at):
            parts.append(msgspec.json.decode(b'"%b"' % part[0], type=str))
            at = part.end()
            yield ()
        if data[at : at + 1] != b'"':
            raise NotFoundError
        return self._before(data, self._behind_blanks(data, at + 1))

    def span(self, data: bytes, at: int) -> Span:
        """See ``Syntax``."""
        return self._before(data, _end(self._raw, data, at, counted=1))

    def closed(self, data: bytes, last: Span) -> Span:
        """See ``Syntax``."""
        return self._before(data, self._behind_blanks(data, last.next))

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


class _Signs(NamedTuple):
    """How a kind of value begins: with one of ``room`` signs that hold its length, or with one before so many bytes of it."""

    short: int
    room: int
    long: dict[int, int]


class MsgpackSyntax:
    """MessagePack."""

    _MAPPING = _Signs(0x80, 16, {0xDE: 2, 0xDF: 4})
    _ARRAY = _Signs(0x90, 16, {0xDC: 2, 0xDD: 4})
    _TEXT = _Signs(0xA0, 32, {0xD9: 1, 0xDA: 2, 0xDB: 4})

    def __init__(self) -> None:
        self._raw = msgspec.msgpack.Decoder(msgspec.Raw)

    def mapping(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        return self._opened(data, at, self._MAPPING)

    def array(self, data: bytes, at: int) -> Opened | None:
        """See ``Syntax``."""
        return self._opened(data, at, self._ARRAY)

    def _opened(self, data: bytes, at: int, signs: _Signs) -> Opened | None:
        sign = int.from_bytes(data[at : at + 1], "big")
        size = signs.long.get(sign, 0)
        if not size and not signs.short <= sign < signs.short + signs.room:
            return None
        first = at + 1 + size
        number = int.from_bytes(data[at + 1 : first], "big") if size else sign - signs.short
        return Opened(first, number) if number else None

    def is_text(self, data: bytes, at: int) -> bool:
        """See ``Syntax``."""
        return self._opened(data, at, self._TEXT) is not None

    def text(self, data: bytes, at: int, parts: list[str]) -> Pausing[Span]:
        """See ``Syntax``."""
        opened = self._opened(data, at, self._TEXT)
        if opened is None or sum(opened) > len(data):
            raise NotFoundError
        decode, end = codecs.getincrementaldecoder("utf-8")().decode, sum(opened)
        for start in range(opened.first, end, _PART_BYTES):
            stop = min(start + _PART_BYTES, end)
            parts.append(decode(data[start:stop], final=stop == end))
            yield ()
        return Span(end, end)

    def span(self, data: bytes, at: int) -> Span:
        """See ``Syntax``."""
        end = _end(self._raw, data, at, counted=0)
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
