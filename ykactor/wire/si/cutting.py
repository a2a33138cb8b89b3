"""A large request in slices, between which other tasks can run.

What is right is cut out of the message, slice by slice: entries of its lists, and the text of a configuration. What is left is a
small message, which is decoded as any other, and then gets back what was cut out. The cutting ends at the first mistake, which is
thereby left: so the same decoder finds it and says what is wrong, whether a message is large or small.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from ykactor.core.values.parts import PART_MAX, Pausing
from ykactor.wire.si import messages as si
from ykactor.wire.si.lengths import ENTRIES_MAX, TooLong
from ykactor.wire.si.syntax import VALUE_MAX, NotFoundError, Opened, Span, Syntax, TooLargeError

R = TypeVar("R", bound=msgspec.Struct)

#: Bytes that are decoded at once: they take up to 10 ms, of entries such as usual ones 1 ms.
SLICE_BYTES = 2**18


class EntryList(NamedTuple):
    """A list of entries: the names in Python on the way to it, and the class of an entry."""

    way: tuple[str, ...]
    kind: type[msgspec.Struct]


#: All lists of entries, by their paths. A path is of the same list in every request.
LISTS = {
    "nodes": EntryList(("nodes",), si.NodeInfo),
    "new": EntryList(("new",), si.AddApplicationRequest),
    "records": EntryList(("records",), si.TaskRecord),
    "remove": EntryList(("remove",), si.RemoveApplicationRequest),
    "allocations": EntryList(("allocations",), si.Allocation),
    "releases.allocationsToRelease": EntryList(("releases", "allocations_to_release"), si.AllocationRelease),
    "forget": EntryList(("forget",), si.PredicateScope),
    "answers": EntryList(("answers",), si.PredicateAnswer),
}
#: The paths of mappings with such lists.
_HOLDERS = {path.rpartition(".")[0] for path in LISTS} - {""}
#: The field that may be larger than any other value.
_CONFIG = "config"
#: Fields of a request; no right one has nearly as many.
_MEMBERS_MAX = 100
_BETWEEN_ENTRIES = (b"", b",", b"]")
_POSITION = re.compile(r"\(byte (\d+)\)")
#: What msgspec raises for wrong bytes.
_WRONG = (msgspec.DecodeError, UnicodeError, RecursionError)


class TooLongError(Exception):
    """The message can be no request, because of what is too long in it."""

    def __init__(self, too_long: TooLong) -> None:
        super().__init__(too_long.message)
        self.too_long = too_long


class _MistakeError(Exception):
    """What begins where nothing was cut out yet is wrong."""


class _Piece(NamedTuple):
    """A part of what is left, and where in the message it begins, or what it stands for."""

    at: int
    data: bytes


class _Repeating(NamedTuple):
    """Entries in which a key is repeated.

    Attributes:
        path, first: their list, and the index of the first of them.
        head: the piece with which the list begins.
        data: the list of these, without its end.
    """

    path: str
    first: int
    head: int
    data: bytes


class Cutter:
    """Cuts one message.

    Args:
        data: the message.
        library: ``msgspec.json`` or ``msgspec.msgpack``, to which ``syntax`` belongs.
        repeats: whether a key is repeated in a list of entries, which was decoded from these bytes.
    """

    def __init__(
        self, data: bytes, library: ModuleType, syntax: Syntax, repeats: Callable[[bytes, list[msgspec.Struct]], bool]
    ) -> None:
        self._data = data
        self._library = library
        self._syntax = syntax
        self._repeats = repeats
        self._pieces: list[_Piece] = []
        #: What is before this is in the pieces, or was cut out.
        self._from = 0
        #: What was cut out, by path. Of a repeated key the last value counts, as for msgspec.
        self._entries: dict[str, list[msgspec.Struct]] = {}
        self._config: str | None = None
        #: The last entries of which a key is repeated.
        self._repeating: _Repeating | None = None
        #: Where the way through the message is.
        self._path = ""
        #: Bytes of values that are not cut.
        self._uncut = 0
        #: The first entry that is left: the path of its list, and its index.
        self._first_left = ("", 0)

    def cut(self) -> Pausing[None]:
        """Cut out all that is right, or up to the first mistake.

        Raises:
            TooLongError: the message can be no request.
        """
        with suppress(_MistakeError, NotFoundError):
            try:
                opened = self._syntax.mapping(self._data, 0)
                if opened is not None:
                    yield from self._members(opened, "")
            except TooLargeError:
                raise self._too_long(f"found more than {VALUE_MAX} bytes, expected at most that") from None
            repeating = self._repeating
            if repeating is not None:
                self._pieces[repeating.head] = _Piece(self._pieces[repeating.head].at, repeating.data)
                self._first_left = repeating.path, repeating.first

    def _too_long(self, message: str) -> TooLongError:
        return TooLongError(TooLong(self._path, message))

    def left(self) -> bytes:
        """A message without what was cut out."""
        return b"".join(piece.data for piece in self._pieces) + self._data[self._from :]

    def put_back(self, request: R) -> R:
        """The whole request, of the one that was decoded from what is left."""
        changes: dict[str, Any] = {} if self._config is None else {_CONFIG: self._config}
        for path, entries in self._entries.items():
            *above, field = LISTS[path].way
            holder: Any = getattr(request, above[0]) if above else request
            entries += getattr(holder, field)
            changes |= {above[0]: structs.replace(holder, **{field: entries})} if above else {field: entries}
        return structs.replace(request, **changes)

    def free(self) -> Pausing[None]:
        """Free what was cut out: nobody needs it any more, and to free many entries at once takes long."""
        for entries in self._entries.values():
            while entries:
                del entries[-PART_MAX:]
                yield ()

    def path(self, path: str) -> str:
        """A path in the message, of one in what is left."""
        listed, first = self._first_left
        found = re.match(re.escape(listed) + r"\[(\d+)\]", path) if listed else None
        return path if found is None else f"{listed}[{int(found[1]) + first}]{path[found.end() :]}"

    def message(self, message: str) -> str:
        """A message of msgspec about a byte in the message, of one about a byte in what is left."""
        return _POSITION.sub(lambda found: f"(byte {self._position(int(found[1]))})", message)

    def _position(self, left: int) -> int:
        starts = [0, *accumulate(len(piece.data) for piece in self._pieces)]
        index = bisect_right(starts, left) - 1
        return left - starts[index] + (self._pieces[index].at if index < len(self._pieces) else self._from)

    # ---- the way through the message

    def _members(self, opened: Opened, path: str) -> Pausing[Span]:
        """Go through a mapping at ``path``; returns its last value."""
        at, count = opened
        for _ in range(_MEMBERS_MAX):
            self._path = path
            key = self._syntax.span(self._data, at)
            name = self._text(at, key.end)
            self._path = f"{path}.{name}" if path else name
            value = yield from self._value(self._path, key.next)
            count -= 1
            if value.is_last or not count:
                return value
            at = value.next
        self._path = path
        raise self._too_long(f"found more than {_MEMBERS_MAX} fields, expected at most that")

    def _value(self, path: str, at: int) -> Pausing[Span]:
        """Go through the value at ``path``; returns it."""
        for listed in [listed for listed in self._entries if f"{listed}.".startswith(f"{path}.")]:
            del self._entries[listed]
        if path in LISTS and (opened := self._syntax.array(self._data, at)):
            return self._syntax.closed(self._data, (yield from self._list(path, at, opened)))
        if path in _HOLDERS and (opened := self._syntax.mapping(self._data, at)):
            return self._syntax.closed(self._data, (yield from self._members(opened, path)))
        if path == _CONFIG and self._syntax.is_text(self._data, at):
            return (yield from self._cut_config(at))
        found = self._syntax.span(self._data, at)
        self._uncut += found.end - at
        if self._uncut > VALUE_MAX:
            raise TooLargeError
        return found

    def _text(self, at: int, end: int) -> str:
        try:
            text: str = self._library.decode(self._data[at:end], type=str)
        except _WRONG:
            raise _MistakeError from None
        return text

    def _cut_config(self, at: int) -> Pausing[Span]:
        parts: list[str] = []
        try:
            found = yield from self._syntax.text(self._data, at, parts)
        except _WRONG:
            raise _MistakeError from None
        self._config = "".join(parts)
        yield ()
        self._cut_out(at, found.end, self._library.encode(""))
        return found

    def _cut_out(self, at: int, end: int, instead: bytes) -> None:
        self._pieces += [_Piece(self._from, self._data[self._from : at]), _Piece(at, instead)]
        self._from = end

    # ---- entries

    def _list(self, path: str, at: int, opened: Opened) -> Pausing[Span]:
        """Cut out the entries of a list; returns the last one."""
        decode = self._library.Decoder(list[LISTS[path].kind]).decode  # type: ignore[misc]
        cut = self._entries[path] = []
        start, count = opened
        self._cut_out(at, start, self._syntax.head(0))
        head = len(self._pieces) - 1
        before = start, 0, count
        try:
            while True:
                last, number = self._slice(path, start, len(cut), count)
                data = self._syntax.list_of(self._data[start : last.end], number)
                found = decode(data)
                if self._repeats(data, found):
                    self._repeating = _Repeating(path, len(cut), head, data.removesuffix(b"]"))
                before = start, len(cut), count
                cut += found
                count -= number
                if last.is_last or not count:
                    self._from = last.end
                    return last
                start = last.next
                yield ()
        except (*_WRONG, NotFoundError):
            # The slice before is left too: the mistake may be the comma behind it.
            self._from, first, count = before
            del cut[first:]
            self._pieces[head] = _Piece(at, self._syntax.head(count))
            self._first_left = path, first
            raise _MistakeError from None

    def _slice(self, path: str, start: int, index: int, count: int) -> tuple[Span, int]:
        """The last entry of the slice that begins here, and the number of its entries; ``count`` are left in the list."""
        at, number = start, 0
        while True:
            try:
                entry = self._syntax.span(self._data, at)
            except TooLargeError:
                self._path = f"{path}[{index + number}]"
                raise
            if entry.sign not in _BETWEEN_ENTRIES:
                raise NotFoundError
            number += 1
            if index + number > ENTRIES_MAX:
                raise self._too_long(f"found more than {ENTRIES_MAX} items, expected at most that")
            if entry.is_last or number in (count, PART_MAX) or entry.end - start >= SLICE_BYTES:
                return entry, number
            at = entry.next
