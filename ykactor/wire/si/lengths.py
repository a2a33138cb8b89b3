"""The bounds of texts, lists and mappings in a request (AP-138), so that what is kept and reported of it is bounded."""

from collections.abc import Collection, Iterator
from functools import cache

import msgspec
from msgspec import structs

from ykactor.wire.si.protocol_error import ProtocolError

#: Bytes in UTF-8 of an identifier, a name, a key or a value.
TEXT_MAX = 4096
#: Bytes of a request without a configuration.
REQUEST_MAX = 4 * 2**20
#: Bytes of a queue configuration, in a message or a file; one of 10,000 queues with limits has about 3 MB.
CONFIG_MAX = 16 * 2**20
#: The limits of fields that may be longer, by their names. A path of queues has up to 128 levels of 64 characters each.
_LONGER = {"queueName": 4 * TEXT_MAX, "queues": 4 * TEXT_MAX, "config": CONFIG_MAX}
#: Texts of entries that name nothing: they have no limit of their own, and what uses them cuts them.
_FREE = frozenset(("message", "error"))
#: Items of a list or mapping, such as tags or groups, and bytes of all its texts. Entries of requests rely on it that neither is
#: lower than ``TEXT_MAX``.
ITEMS_MAX = 4096
ITEMS_BYTES_MAX = 2**18
#: Entries of one list of a request.
ENTRIES_MAX = 100_000
#: Items of each list of a subscription, with which every event is compared, by the names of the lists.
FILTER_ITEMS_MAX = 64
_FEWER = dict.fromkeys(("partitions", "queues", "applications", "kinds"), FILTER_ITEMS_MAX)


#: A part that is too long: its path, and what was found and expected.
_Found = tuple[str, str]


def too_long(struct: msgspec.Struct, request_id: str = "") -> ProtocolError | None:
    """The error of the first part of a request or an entry that is too long, or None.

    The entries of a request are only counted. Nothing in an entry of at most ``TEXT_MAX`` bytes as MessagePack is too long.
    """
    for path, message in _in_struct(struct, ""):
        return ProtocolError("OUT_OF_RANGE", message, path, request_id)
    return None


def shortened(text: str, limit: int = TEXT_MAX) -> str:
    """``text``, cut if it is too long. The result is then still too long to be equal to a legal text."""
    return text if size_of(text) <= limit else text[:limit] + "..."


def _in_struct(struct: msgspec.Struct, path: str) -> Iterator[_Found]:
    for name, wire_name in _fields(type(struct)):
        value = getattr(struct, name)
        below = f"{path}.{wire_name}" if path else wire_name
        limit = _LONGER.get(wire_name, TEXT_MAX)
        if isinstance(value, str):
            if wire_name not in _FREE:
                yield from _in_text(value, below, limit)
        elif isinstance(value, dict):
            yield from _in_mapping(value, below)
        elif isinstance(value, list):
            yield from _in_list(value, below, limit, _FEWER.get(wire_name, ITEMS_MAX))
        elif isinstance(value, msgspec.Struct):
            yield from _in_struct(value, below)


def _in_text(text: str, path: str, limit: int) -> Iterator[_Found]:
    if size_of(text) > limit:
        yield path, f"found {size_of(text)} bytes, expected at most {limit}"


def _in_mapping(mapping: dict[str, object], path: str) -> Iterator[_Found]:
    yield from _in_count(mapping, path, ITEMS_MAX)
    for key, value in mapping.items():
        if size_of(key) > TEXT_MAX:
            yield path, f"found a key of {size_of(key)} bytes, expected at most {TEXT_MAX}"
        if isinstance(value, str):
            yield from _in_text(value, f"{path}.{key}", TEXT_MAX)
    yield from _in_sum([*mapping, *mapping.values()], path)


def _in_list(items: list[object], path: str, limit: int, items_max: int) -> Iterator[_Found]:
    if items and isinstance(items[0], msgspec.Struct):
        yield from _in_count(items, path, ENTRIES_MAX)
        return
    yield from _in_count(items, path, items_max)
    for index, item in enumerate(items):
        if isinstance(item, str):
            yield from _in_text(item, f"{path}[{index}]", limit)
    yield from _in_sum(items, path)


def _in_count(items: Collection[object], path: str, limit: int) -> Iterator[_Found]:
    if len(items) > limit:
        yield path, f"found {len(items)} items, expected at most {limit}"


def _in_sum(items: Collection[object], path: str) -> Iterator[_Found]:
    found = sum(size_of(item) for item in items if isinstance(item, str))
    if found > ITEMS_BYTES_MAX:
        yield path, f"found {found} bytes in all its texts, expected at most {ITEMS_BYTES_MAX}"


@cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """The names of the fields, in Python and on the wire."""
    return [(field.name, field.encode_name) for field in structs.fields(kind)]


def size_of(text: str | bytes | bytearray) -> int:
    """The bytes of a text in UTF-8, or of bytes."""
    return len(text.encode()) if isinstance(text, str) and not text.isascii() else len(text)
