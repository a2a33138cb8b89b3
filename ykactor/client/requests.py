"""Requests that are sent: in parts that the daemon takes (AP-138), and with the rejections that belong to each.

A rejection names its entry, not its request. It comes before the `si.Ack` of its request, and of two requests with the same entry
the daemon decides the older one first: so it belongs to the oldest request without an answer that has this entry and is not known
to have had it accepted. A request for whose answer nobody waits any more counts too.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from ykactor.client.errors import Refused, Rejected, RequestRefused
from ykactor.wire.si import messages as si
from ykactor.wire.si.division import LISTS, with_entries
from ykactor.wire.si.lengths import shortened

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
    """Ids of requests, for several threads. Old acknowledgements may be repeated after a resume: those of two sessions differ."""
    return map(f"{secrets.token_hex(4)}-{{}}".format, count(1))  # unlike in a generator, a thread may ask while another one does


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


#: The name of an entry: the class of its rejection and its identifiers, as the daemon repeats them.
_Name = tuple[str, ...]


class SentRequest:
    """A request that waits for its answer.

    Attributes
    ----------
    answer
        None before it arrives.
    """

    def __init__(self, request: si.Request) -> None:
        self.answer: si.Ack | si.ErrorResponse | None = None
        self._undecided = Counter(map(_name, _named(request)))
        self._rejections: list[Rejected] = []

    def outcome(self) -> si.Ack | Refused:
        """The content of the answer, with the rejections before it."""
        if isinstance(self.answer, si.ErrorResponse):
            return RequestRefused(self.answer.code, self.answer.message, self.answer.path)
        assert self.answer is not None, "who asks has waited for the answer"
        if not self._rejections:
            return self.answer
        first, *others = self._rejections
        more = f" (and {len(others)} more)" if others else ""
        kind, *ids = _name(first)
        return Refused(first.code, f"{kind} {' of application '.join(ids)}: {first.reason}{more}", self._rejections)

    def take(self, name: _Name, rejected: Rejected | None) -> bool:
        """Note that the entry was rejected, or accepted if ``rejected`` is None; False if it is none of this request."""
        if self._undecided[name] == 0:
            return False
        self._undecided[name] -= 1
        if rejected is not None:
            self._rejections.append(rejected)
        return True


def attribute(message: si.Response, sent: Collection[SentRequest]) -> None:
    """Note in the requests without an answer, the oldest first, what a message says about their entries."""
    for name, rejected in _decided(message):
        any(request.take(name, rejected) for request in sent)


def _named(request: si.Request) -> Sequence[Any]:
    """The entries of a request that may be rejected."""
    match request:
        case si.NodeRequest():
            return request.nodes
        case si.ApplicationRequest():
            return request.new
        case si.AllocationRequest():
            return request.allocations
    return ()


def _decided(message: si.Response) -> Iterator[tuple[_Name, Rejected | None]]:
    match message:
        case si.NodeResponse() | si.ApplicationResponse():
            yield from ((_name(entry), None) for entry in message.accepted)
            yield from ((_name(entry), entry) for entry in message.rejected)
        case si.AllocationResponse():
            yield from ((_name(entry), entry) for entry in message.rejected_allocations)


def _name(entry: Any) -> _Name:
    """The name of an entry of a request, or of what the daemon says of it."""
    match entry:
        case si.NodeInfo() | si.AcceptedNode() | si.RejectedNode():
            return "node", shortened(entry.node_id)
        case si.Allocation() | si.RejectedAllocation():
            return "allocation", shortened(entry.allocation_key), shortened(entry.application_id)
        case _:
            return "application", shortened(entry.application_id)
