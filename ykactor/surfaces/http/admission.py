"""Who may send the requests of a connection: asked for each, before anything else of it is looked at."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request

from ykactor.access.credentials import Credentials
from ykactor.access.model import Role
from ykactor.core.messages.held_limits import exceeded
from ykactor.surfaces.http.connection_places import ConnectionPlace
from ykactor.surfaces.http.headers import value_of
from ykactor.surfaces.http.replies import RefusedError
from ykactor.surfaces.http.route import Route
from ykactor.surfaces.server import refusals
from ykactor.surfaces.server.admission import Admission
from ykactor.surfaces.server.caller import Caller
from ykactor.surfaces.server.doors import Door, DoorKind, Origin
from ykactor.surfaces.server.limited_log import LimitedLog, raised_at
from ykactor.surfaces.server.request_headers import bearer_of, host_of, refuse_twice

#: Of the answers that must have some. Others may have the place of a connection that shows no identity that may have it.
_HEADERS = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer", "Connection": "close"},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Connection": "close"},
}


class RequestAdmission:
    """Lets the requests of one connection in.

    Args:
        log: gets what is refused.
        failed_log: gets errors of the daemon.
        shown: what the connection has shown.
        place: that the connection has.
    """

    def __init__(
        self,
        admission: Admission,
        log: LimitedLog,
        failed_log: LimitedLog,
        door: Door,
        origin: Origin,
        shown: Credentials,
        place: ConnectionPlace,
    ) -> None:
        self._admission = admission
        self._log = log
        self._failed_log = failed_log
        self._door = door
        self._origin = origin
        self._shown = shown
        self._place = place

    def failed(self, errors: BaseException) -> None:
        """Tell the log that a request met an error of the daemon, not as often as a client likes."""
        self._failed_log.log(peer=self._origin.text, reason=raised_at(errors))

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
        if not self._admission.needs_proof and self._door.kind is not DoorKind.UNIX:
            host = value_of(request, b"host")
            self._admission.check_page(None if host is None else host_of(host), value_of(request, b"origin"))
        role = Role.READER if route is None or route.role is None else route.role
        bearer = bearer_of(value_of(request, b"authorization"))
        caller = self._admission.caller(role, self._door, self._origin, self._shown, bearer, path)
        request.scope["caller"] = caller
        if not self._place.claim(caller.identity):
            full = exceeded("connections", caller.identity.limits.connections, caller.identity.name, "so many are open")
            self._admission.refused(caller, path, full)
            raise refusals.RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, full)
        if route is not None:
            self._admission.check_role(caller, path, route.other_role)

    def refused(self, caller: Caller, request: Request, error: RefusedError) -> None:
        """Tell the log and the audit that a caller was refused what it has asked for."""
        self._log.log(peer=caller.origin, status=error.status, reason=str(error))
        self._admission.refused(caller, request.scope["path"], str(error))
