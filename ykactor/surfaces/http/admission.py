"""The admission of the requests of a connection, before anything else of them is looked at, and what their caller may see."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from starlette.requests import Request

from ykactor.access.credentials import PageRequest
from ykactor.access.model import Role
from ykactor.access.view import View, view_of
from ykactor.surfaces.admission.admission import Asked, bearer_of, refuse_twice
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.listener import CLOSES, AcceptedConnection
from ykactor.surfaces.http.app import Route
from ykactor.surfaces.http.replies import value_of
from ykactor.surfaces.log.logs import LimitedLog
from ykactor.surfaces.net.doors import DoorKind
from ykactor.surfaces.net.requests import RefusedError

#: The statuses of answers that end their connection. Others may have its slot if it shows no identity that may have one.
_ENDS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)


class RequestAdmission:
    """Lets the requests of one connection in.

    Args:
        log: gets what is refused.

    Attributes:
        connection: which has the slot.
    """

    def __init__(self, connection: AcceptedConnection, log: LimitedLog) -> None:
        self.connection = connection
        self._log = log

    async def turn(self, request: Request) -> None:
        """Wait until a request may be answered that was admitted, if that is needed.

        Raises:
            RefusedError: its caller is let in no longer.
        """
        await self.connection.turn(request.scope.get("caller"))

    def admit(self, request: Request, route: Route | None) -> None:
        """Let the request in; its scope then has the ``caller``.

        Args:
            route: None: the path is none of ours.
        Raises:
            RefusedError
        """
        try:
            refuse_twice([str(name, "latin-1") for name, _ in request.scope["headers"]])
            asked = self._asked(request, route)
            claim = partial(self._claim, is_scrape=asked.role is Role.METRICS)
            request.scope["caller"] = self.connection.admit(asked, claim)
        except RefusedError as refused:
            self._log.log(peer=self.connection.origin.text, status=refused.status.value, reason=refused.logged)
            if refused.status in _ENDS:
                refused.headers = {**refused.headers, **CLOSES}
            raise

    def _claim(self, caller: Caller, *, is_scrape: bool) -> str:
        return self.connection.admission.slots.claim_requests(self.connection.slot, caller, is_scrape=is_scrape)

    def _asked(self, request: Request, route: Route | None) -> Asked:
        role = Role.READER if route is None or route.role is None else route.role
        bearer, needs_proof = bearer_of(value_of(request, b"authorization")), self.connection.admission.needs_proof
        origin, site, cookies, page = (
            value_of(request, b"origin"),
            value_of(request, b"sec-fetch-site"),
            value_of(request, b"cookie"),
            None,
        )
        if cookies is not None:
            page = PageRequest(cookies=cookies, origin=origin, fetch_site=site, is_read=request.method in ("GET", "HEAD"))
        return Asked(
            target=request.scope["path"],
            role=role,
            roles=() if route is None else (role, route.other_role or role),
            bearer=bearer,
            page=page,
            host=value_of(request, b"host"),
            origin=origin,
            site=site,
            may_be_of_page=self.connection.door.kind is not DoorKind.UNIX and (bearer is None or not needs_proof),
            has_any_host=needs_proof or (route is not None and route.has_any_host),
        )

    def refused(self, caller: Caller, request: Request, error: RefusedError) -> None:
        """Tell the log and the audit that a caller was refused what it has asked for."""
        self._log.log(peer=caller.origin, status=error.status.value, reason=error.reason)
        self.connection.admission.refused(caller, request.scope["path"], error.reason)


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
