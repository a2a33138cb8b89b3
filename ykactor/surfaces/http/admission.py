"""Who may send the requests of a connection: asked for each, before anything else of it is looked at."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple, Self

from msgspec import structs
from starlette.requests import Request

from ykactor.access.credentials import Credentials, PageRequest
from ykactor.access.model import Role
from ykactor.core.messages.held_limits import exceeded
from ykactor.surfaces.admission.admission import Admission
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.request_headers import bearer_of, host_of, refuse_twice
from ykactor.surfaces.admission.slots import Slot, Slots
from ykactor.surfaces.http.headers import value_of
from ykactor.surfaces.http.replies import RefusedError
from ykactor.surfaces.http.route import Route
from ykactor.surfaces.http.turns import Turns
from ykactor.surfaces.log.logs import LimitedLog, raised_at
from ykactor.surfaces.net import refusals
from ykactor.surfaces.net.doors import Door, DoorKind, Origin

#: Connections that have not shown whose they are, those of readers, and those that have asked for metrics only.
UNPROVEN_MAX, READERS_MAX, METRICS_MAX = 1000, 1000, 64
#: Requests in a second, of all connections of one of these kinds; more have to wait. So many may come at once.
REQUESTS_PER_S = 500
BURST = 100
#: Of the answers that must have some. Others may have the slot of a connection that shows no identity that may have one.
_HEADERS = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer", "Connection": "close"},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Connection": "close"},
}


class ConnectionSlots(NamedTuple):
    """The slots of connections (SE-96): a connection has one of those that its requests have shown that it may have."""

    unproven: Slots
    readers: Slots
    metrics: Slots

    @classmethod
    def new(cls) -> Self:
        """Slots that nobody has taken."""
        return cls(
            Slots("connections that have not shown whose they are", lambda: UNPROVEN_MAX),
            Slots("connections of readers", lambda: READERS_MAX),
            Slots("connections for metrics", lambda: METRICS_MAX),
        )

    def claim(self, slot: Slot, caller: Caller, *, is_scrape: bool) -> str:
        """Move the slot of a connection to where the caller of a request may have one; returns why it may not, or "".

        A connection counts for the caller that it has shown first.
        """
        if slot.slots is self.readers or (is_scrape and slot.slots is self.metrics):
            return ""
        wanted, holder = self.metrics if is_scrape else self.readers, caller.holder
        most, held = caller.identity.limits.connections, self.readers.held(holder) + self.metrics.held(holder)
        if held - (slot.slots is self.metrics) >= most:
            return exceeded("connections", most, caller.identity.name, "so many are open")
        refusal = wanted.refusal(holder)
        if not refusal:
            slot.move(wanted, holder)
        return refusal


class Paces(NamedTuple):
    """How fast requests are answered, of connections with a slot of the same name: each takes 0.3 ms of the loop."""

    unproven: Turns
    readers: Turns
    metrics: Turns

    @classmethod
    def new(cls) -> Self:
        """Paces that nothing was taken of."""
        return cls(*(Turns(BURST / REQUESTS_PER_S) for _ in cls._fields))

    async def wait(self, slots: ConnectionSlots, slot: Slot) -> None:
        """Wait until the next request of a connection may be answered; holders take turns."""
        pace = next((pace for pace, kind in zip(self, slots, strict=True) if kind is slot.slots), self.unproven)
        await pace.wait(slot.holder, 1 / REQUESTS_PER_S)


class RequestAdmission:
    """Lets the requests of one connection in.

    Args:
        log: gets what is refused.
        failed_log: gets errors of the daemon.
        shown: what the connection has shown.
        slots: of all connections.
        slot: that the connection has.
        paces: of all connections.
    """

    def __init__(
        self,
        admission: Admission,
        log: LimitedLog,
        failed_log: LimitedLog,
        door: Door,
        origin: Origin,
        shown: Credentials,
        slots: ConnectionSlots,
        slot: Slot,
        paces: Paces,
    ) -> None:
        self._paces = paces
        self._admission = admission
        self._log = log
        self._failed_log = failed_log
        self._door = door
        self._origin = origin
        self._shown = shown
        self._slots = slots
        self._slot = slot

    @property
    def holder(self) -> str:
        """Whose slot the connection has."""
        return self._slot.holder

    def failed(self, errors: BaseException) -> None:
        """Tell the log that a request met an error of the daemon, not as often as a client likes."""
        self._failed_log.log(peer=self._origin.text, reason=raised_at(errors))

    async def turn(self, request: Request) -> None:
        """Wait until a request may be answered that was admitted, if that is needed.

        Raises:
            RefusedError: its caller is let in no longer.
        """
        await self._paces.wait(self._slots, self._slot)
        caller: Caller | None = request.scope.get("caller")
        if caller is not None:
            caller.review()
            if caller.revoked:
                raise RefusedError(HTTPStatus.UNAUTHORIZED, caller.revoked, _HEADERS[HTTPStatus.UNAUTHORIZED])

    def admit(self, request: Request, route: Route | None) -> None:
        """Let the request in; its scope then has the ``caller``, also one that is refused afterwards.

        Args:
            route: None: the path is none of ours.
        Raises:
            RefusedError
        """
        try:
            self._check(request, route)
        except refusals.RefusedError as refused:
            self._log.log(peer=self._origin.text, status=refused.status.value, reason=refused.logged)
            raise RefusedError(refused.status.value, refused.reason, _HEADERS.get(refused.status, {})) from None

    def _check(self, request: Request, route: Route | None) -> None:
        path = request.scope["path"]
        refuse_twice([str(name, "latin-1") for name, _ in request.scope["headers"]])
        role = Role.READER if route is None or route.role is None else route.role
        shown = self._credentials(request)
        caller = self._admission.caller(role, self._door, self._origin, shown, path)
        request.scope["caller"] = caller
        if self._door.kind is not DoorKind.UNIX and (shown.bearer is None or not self._admission.needs_proof):
            self._check_browser(request, route)
        if full := self._slots.claim(self._slot, caller, is_scrape=role is Role.METRICS):
            self._admission.refused(caller, path, full)
            raise refusals.RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, full)
        if route is not None:
            self._admission.check_role(caller, path, route.other_role)

    def _check_browser(self, request: Request, route: Route | None) -> None:
        """Refuse what a browser may have sent by itself, with the rights of who uses it, for a page of another host."""
        host = value_of(request, b"host")
        host = None if host is None else host_of(host)
        if not self._admission.needs_proof and (route is None or not route.has_any_host):
            self._admission.check_host(host)
        self._admission.check_page(host, value_of(request, b"origin"), value_of(request, b"sec-fetch-site"))

    def _credentials(self, request: Request) -> Credentials:
        """What the connection and the request show."""
        cookies, page = value_of(request, b"cookie"), None
        if cookies is not None:
            page = PageRequest(
                cookies=cookies,
                origin=value_of(request, b"origin"),
                fetch_site=value_of(request, b"sec-fetch-site"),
                is_read=request.method in ("GET", "HEAD"),
            )
        return structs.replace(self._shown, bearer=bearer_of(value_of(request, b"authorization")), page=page)

    def refused(self, caller: Caller, request: Request, error: RefusedError) -> None:
        """Tell the log and the audit that a caller was refused what it has asked for."""
        self._log.log(peer=caller.origin, status=error.status, reason=str(error))
        self._admission.refused(caller, request.scope["path"], str(error))
