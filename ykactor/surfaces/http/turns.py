"""Turns in headers: of which turns an answer is, and of which at least the answer to a request has to be (DU-24).

A write is acknowledged with the turn in which it took effect. A request with this turn is answered when the partition, or the
copy of it that a replica has, has reached it; so who writes reads what it has written, wherever it reads.
"""

from __future__ import annotations

from functools import partial
from urllib.parse import quote, unquote

from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response

from ykactor.actors.gateway import Point, ReadGateway
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.http.app import Endpoint, Route, view_for
from ykactor.surfaces.http.replies import TERM, TURN, value_of
from ykactor.surfaces.net.requests import RETRY, RefusedError
from ykactor.wire.si.codec import TERM_HEADER

#: Digits of a number of turns.
_DIGITS_MAX = 19
_EXPECTED = "expected such as default=812, other=5"


class Turns:
    """Reads and writes the headers."""

    def __init__(self, gateway: ReadGateway) -> None:
        self._gateway = gateway

    def of(self, route: Route) -> Route:
        """The route, which waits for the turns that a request names, and names those that it has read.

        One that needs no proof is left as it is.
        """
        if route.role is None:
            return route
        return structs.replace(route, endpoint=partial(self._answer, route.endpoint))

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        try:
            await self._wait(request)
            response = await endpoint(request)
        except RefusedError as refused:
            refused.headers = {**refused.headers, **self._read(request)}
            raise
        response.raw_headers += [(name.lower().encode(), value.encode()) for name, value in self._read(request).items()]
        return response

    async def _wait(self, request: Request) -> None:
        """Wait until everything that the request reads is as new as it asks for; at a replica, for 2 s at most.

        Raises:
            RefusedError: the header is wrong, or it is not there.
        """
        if (text := value_of(request, TURN.lower().encode())) is None:
            return
        view, path = view_for(request), request.scope["path_params"].get("partition")
        asked = {
            name: number
            for name, number in parsed(text).items()
            if (view is None or view.shows_partition(name)) and path in (None, name)
        }
        term = value_of(request, TERM_HEADER) or ""
        match await self._gateway.reach(Point(term, turns=asked, is_beside=path is None)):
            case "late":
                raise RefusedError(503, f"turn {written(asked)} has not come here yet", RETRY)
            case "elsewhere":
                raise RefusedError(412, f"found a turn of a term of another history, expected {self._gateway.terms.present}")
        request.scope["turns asked"] = {
            name: min(number, self._gateway.turn_of(PartitionName(name))) for name, number in asked.items()
        }

    def _read(self, request: Request) -> dict[str, str]:
        """The headers of an answer; none if it was not read from partitions."""
        read = request.scope.get("turns read")
        return {TURN: written(read), TERM: str(self._gateway.terms.present)} if read else {}


def asked_of(request: Request, partition: PartitionName) -> int:
    """The number of the turn that an answer of the partition must have reached."""
    asked: dict[str, int] = request.scope.get("turns asked", {})
    return asked.get(partition, 0)


def note_read(request: Request, partition: PartitionName, turn: int) -> None:
    """Note that the answer to a request is of a turn of the partition, or of a later one."""
    read: dict[str, int] = request.scope.setdefault("turns read", {})
    read[partition] = min(turn, read.get(partition, turn))


def parsed(text: str) -> dict[str, int]:
    """The turns that a header names, by partition.

    Raises:
        RefusedError: it is wrong.
    """
    found = dict[str, int]()
    for item in text.split(","):
        name, _, number = item.strip().rpartition("=")
        if not name or not (number.isascii() and number.isdigit()) or len(number) > _DIGITS_MAX:
            raise RefusedError(400, f"found a wrong header Ykactor-Turn, {_EXPECTED}")
        found[unquote(name)] = int(number)
    return found


def written(turns: dict[str, int]) -> str:
    """The header of these turns. A name that is not written with letters, digits and a few signs is encoded as in a URL."""
    return ", ".join(f"{quote(name)}={number}" for name, number in turns.items())
