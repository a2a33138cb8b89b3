"""Requests in parts that the daemon takes: a request has at most 4 MiB (AP-138)."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from ykactor.wire.si import messages as si
from ykactor.wire.si.division import LISTS, with_entries

R = TypeVar("R", bound=si.Request)

#: Bytes of a part, if it has more than one entry. The daemon needs a few ms for so much.
SENT_BYTES_MAX = 2**20


class Part(NamedTuple, Generic[R]):
    """A request of a size that the daemon takes.

    Attributes
    ----------
    request
        Without the id under which it is sent.
    id : str
        This id.
    data : bytes
        The encoded request, with this id.
    """

    request: R
    id: str
    data: bytes


def parts_of(request: R, ids: Iterator[str], encode: Callable[[msgspec.Struct], bytes]) -> Iterator[Part[R]]:
    """The request, or several with the entries of it, in their order. Only the last has its ``id``."""
    part = whole(request, next(ids), encode)
    halves = _halves(request) if len(part.data) > SENT_BYTES_MAX else None
    if halves is None:
        yield part
    else:
        for half in halves:
            yield from parts_of(half, ids, encode)


def whole(request: R, request_id: str, encode: Callable[[msgspec.Struct], bytes]) -> Part[R]:
    """The request in one part, whatever its size is."""
    return Part(request, request_id, encode(structs.replace(request, id=request_id)))


def new_ids() -> Iterator[str]:
    """Ids of requests. Old acknowledgements may be repeated after a resume, so the ids of two sessions differ."""
    prefix = secrets.token_hex(4)
    return (f"{prefix}-{number}" for number in count(1))


def _halves(request: R) -> tuple[R, R] | None:
    """The request with the first half of its entries, in the order in which they are handled, and with the other half.

    None if it has no two entries.
    """
    lists = [(way, _entries(request, way)) for way, _ in LISTS.values()]
    total = sum(len(entries) for _, entries in lists)
    if total < 2:
        return None
    first, second, left = structs.replace(request, id=""), request, total // 2
    for way, entries in lists:
        if entries:
            first, second = with_entries(first, way, entries[:left]), with_entries(second, way, entries[left:])
            left = max(0, left - len(entries))
    return first, second


def _entries(request: msgspec.Struct, way: tuple[str, ...]) -> Sequence[Any]:
    """The entries of a list; none if requests of this kind have no such list."""
    found: Any = request
    for name in way:
        found = getattr(found, name, ())
    return found  # type: ignore[no-any-return]
