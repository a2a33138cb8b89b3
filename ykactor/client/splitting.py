"""Requests in parts that the daemon takes: a request has at most 4 MiB (AP-138)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from ykactor.wire.si import messages as si
from ykactor.wire.si.division import LISTS, with_entries

R = TypeVar("R", bound=si.Request)

#: Bytes of a part, if it has more than one entry. The daemon needs a few ms for so much.
SENT_BYTES_MAX = 2**20


def parts_of(request: R, encode: Callable[[msgspec.Struct], bytes]) -> Iterator[R]:
    """The request, or several with the entries of it, in their order. Only the last has its ``id``."""
    halves = _halves(request) if len(encode(request)) > SENT_BYTES_MAX else None
    if halves is None:
        yield request
    else:
        first, second = halves
        yield from parts_of(first, encode)
        yield from parts_of(second, encode)


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
