"""The admission of the requests of a connection, before anything else of them is looked at, and what their caller may see."""

from __future__ import annotations

from http import HTTPStatus

from msgspec import structs
from starlette.requests import Request

from ykactor.access.credentials import Credentials, PageRequest
from ykactor.access.model import Role
from ykactor.access.view import View, view_of
from ykactor.surfaces.admission.admission import SHOW_PROOF, Admission, bearer_of, host_of, refuse_twice
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.listener import Arrival
from ykactor.surfaces.admission.slots import Slot
from ykactor.surfaces.http.app import Route
from ykactor.surfaces.http.replies import value_of
from ykactor.surfaces.log.logs import LimitedLog, raised_at
from ykactor.surfaces.net.doors import DoorKind
from ykactor.surfaces.net.requests import RefusedError

#: The header of an answer that ends its connection.
CLOSES = {"Connection": "close"}
#: The statuses of such answers. Others may have the slot of a connection that shows no identity that may have one.
_ENDS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)


class RequestAdmission:
    """Lets the requests of one connection in.

    Args:
        log: gets what is refused.
        failed_log: gets errors of the daemon.
        slot: that the connection has.
    """

    def __init__(self, admission: Admission, log: LimitedLog, failed_log: LimitedLog, arrival: Arrival, slot: Slot) -> None:
        self._admission = admission
        self._log = log
        self._failed_log = failed_log
        self._door = arrival.door
        self._origin = arrival.origin
        self._shown = arrival.transport.credentials
        self._slot = slot

    @property
    def holder(self) -> str:
        """The name of the identity whose slot the connection has."""
        return self._slot.holder

    def failed(self, errors: BaseException) -> None:
        """Tell the log that a request met an error of the daemon, not as often as a client likes."""
        self._failed_log.log(peer=self._origin.text, reason=raised_at(errors))

    async def turn(self, request: Request) -> None:
        """Wait until a request may be answered that was admitted, if that is needed.

        Raises:
            RefusedError: its caller is let in no longer.
        """
        await self._admission.paces.wait(self._slot)
        caller: Caller | None = request.scope.get("caller")
        if caller is not None:
            caller.review()
            if caller.revoked:
                raise RefusedError(HTTPStatus.UNAUTHORIZED, caller.revoked, {**SHOW_PROOF, **CLOSES})

    def admit(self, request: Request, route: Route | None) -> None:
        """Let the request in; its scope then has the ``caller``, also one that is refused afterwards.

        Args:
            route: None: the path is none of ours.
        Raises:
            RefusedError
        """
        try:
            self._check(request, route)
        except RefusedError as refused:
            self._log.log(peer=self._origin.text, status=refused.status.value, reason=refused.logged)
            if refused.status in _ENDS:
                refused.headers = {**refused.headers, **CLOSES}
            raise

    def _check(self, request: Request, route: Route | None) -> None:
        path = request.scope["path"]
        refuse_twice([str(name, "latin-1") for name, _ in request.scope["headers"]])
        role = Role.READER if route is None or route.role is None else route.role
        shown = self._credentials(request)
        caller = self._admission.caller(role, self._door, self._origin, shown, path)
        request.scope["caller"] = caller
        if self._door.kind is not DoorKind.UNIX and (shown.bearer is None or not self._admission.needs_proof):
            self._check_browser(request, route)
        if full := self._admission.slots.claim_requests(self._slot, caller, is_scrape=role is Role.METRICS):
            self._admission.refused(caller, path, full)
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, full)
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
        """The credentials that the connection and the request show."""
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
        self._log.log(peer=caller.origin, status=error.status.value, reason=error.reason)
        self._admission.refused(caller, request.scope["path"], error.reason)


# ---- who asks, and what of the state it may see (SE-88)


def caller_of(request: Request) -> Caller:
    """The caller of a request that was let in."""
    caller: Caller = request.scope["caller"]
    return caller


def view_for(request: Request) -> View | None:
    """The part of the state that the caller may see; None: everything."""
    return view_of(caller_of(request).identity)


def check_sees_all(request: Request) -> None:
    """Refuse a reader that is limited to partitions or queues: the answer is about all of them (SE-88)."""
    if view_for(request) is not None:
        raise RefusedError(403, "only readers that are limited neither to partitions nor to queues may read this")


def check_sees_nodes(request: Request) -> None:
    """Refuse a reader that is limited to queues: the answer is in no queue (SE-88)."""
    view = view_for(request)
    if view is not None and view.queues is not None:
        raise RefusedError(403, "readers that are limited to queues may not read this")
