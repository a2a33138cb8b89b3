"""A large request in parts, between which other tasks can run: its entries are decoded some at a time.

What is left without them is a small request, which is decoded as any other, and then gets its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, structs

from ykactor.wire.si import messages as si
from ykactor.wire.si.lengths import ENTRIES_MAX
from ykactor.wire.si.protocol_error import ProtocolError

R = TypeVar("R", bound=msgspec.Struct)

#: Bytes of one entry, and of all else but a configuration: they are decoded at once, which takes up to 30 ms.
VALUE_MAX = 2**20


class EntryList(NamedTuple):
    """A list of entries: the names in Python on the way to it, and the class of an entry."""

    way: tuple[str, ...]
    kind: type[msgspec.Struct]


def _lists_of(kind: type[msgspec.Struct], way: tuple[str, ...] = (), path: str = "") -> Iterator[tuple[str, EntryList]]:
    """The lists of entries in a request, or in a part of one."""
    for field in structs.fields(kind):
        below = (*way, field.name), f"{path}{field.encode_name}"
        if get_origin(field.type) is Sequence and isinstance(entry := get_args(field.type)[0], type(msgspec.Struct)):
            yield below[1], EntryList(below[0], entry)
        elif isinstance(field.type, type(msgspec.Struct)):
            yield from _lists_of(field.type, below[0], f"{below[1]}.")


#: All lists of entries, by their paths. A path is of the same list in every request.
LISTS = {path: found for kind in get_args(si.Request) for path, found in _lists_of(kind)}
#: Commas in a list of JSON. So few values are separated in less than 100 ms; entries have fewer.
_COMMAS_MAX = 8 * ENTRIES_MAX
#: The field that may be larger than any other value.
_CONFIG = "config"
#: Members of a mapping, and bytes of each as it is sent.
_Members = dict[str, msgspec.Raw]


class Division:
    """One message, divided.

    Args:
        library: ``msgspec.json`` or ``msgspec.msgpack``.

    Attributes:
        left: the message without its entries.
        entries: what was taken out, by path, encoded; each may still be too large (``too_large``).

    Raises:
        ProtocolError: too many entries, too large a value, or a key that is repeated.
        msgspec.DecodeError: the bytes are not of this encoding, or no mapping.
    """

    def __init__(self, library: ModuleType, data: bytes) -> None:
        self._library = library
        self._members = library.Decoder(_Members)
        self._items = library.Decoder(Annotated[list[msgspec.Raw], Meta(max_length=ENTRIES_MAX)])
        self.entries: dict[str, list[msgspec.Raw]] = {}
        self.left = self._without_entries(data, "")

    def _without_entries(self, data: bytes | msgspec.Raw, path: str) -> bytes:
        members: _Members = self._members.decode(data)
        self._refuse_repeated(data, members, path)
        for name, value in members.items():
            below = f"{path}.{name}" if path else name
            if below in LISTS:
                self.entries[below] = self._entries(value, below)
                members[name] = msgspec.Raw(self._library.encode([]))
            elif any(listed.startswith(f"{below}.") for listed in LISTS):
                members[name] = msgspec.Raw(self._without_entries(value, below))
        sizes = {name: _size(value) for name, value in members.items() if name != _CONFIG}
        if sum(sizes.values()) > VALUE_MAX:
            largest = max(sizes, key=sizes.__getitem__)
            raise too_large(f"{path}.{largest}" if path else largest)
        left: bytes = self._library.encode(members)
        return left

    def _entries(self, value: msgspec.Raw, path: str) -> list[msgspec.Raw]:
        if self._library is msgspec.json and bytes(value).count(b",") > _COMMAS_MAX:
            raise _too_many(path)
        try:
            entries: list[msgspec.Raw] = self._items.decode(value)
        except msgspec.ValidationError as error:
            if "length" in str(error):
                raise _too_many(path) from None
            raise ProtocolError("WRONG_TYPE", "found another value, expected a list", path) from None
        return entries

    def _refuse_repeated(self, data: bytes | msgspec.Raw, members: _Members, path: str) -> None:
        """Refuse JSON in which a name is repeated: of its values all but the last are not among the members."""
        if self._library is msgspec.json:
            colons = sum(1 + bytes(value).count(b":") + name.count(":") for name, value in members.items())
            if bytes(data).count(b":") != colons:
                raise ProtocolError("DUPLICATE_KEY", "found a key twice, expected each once", path)


def _size(value: msgspec.Raw) -> int:
    return len(memoryview(value))


def too_large(path: str) -> ProtocolError:
    """The refusal of a value with more than ``VALUE_MAX`` bytes."""
    return ProtocolError("OUT_OF_RANGE", f"found more than {VALUE_MAX} bytes, expected at most that", path)


def _too_many(path: str) -> ProtocolError:
    return ProtocolError("OUT_OF_RANGE", f"found more than {ENTRIES_MAX} items, expected at most that", path)


def put_back(request: R, entries: Mapping[str, list[Any]]) -> R:
    """The whole request, of the one that was decoded from what was left."""
    for path, found in entries.items():
        request = with_entries(request, LISTS[path].way, found)
    return request


def with_entries(request: R, way: tuple[str, ...], entries: Sequence[Any]) -> R:
    """The request with other entries in one of its lists."""
    *above, field = way
    if above:
        return structs.replace(request, **{above[0]: structs.replace(getattr(request, above[0]), **{field: entries})})
    return structs.replace(request, **{field: entries})
