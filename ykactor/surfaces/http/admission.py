"""Who may send a request: asked for each, before anything else of it is looked at."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from msgspec import structs
from starlette.requests import Request

from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.model import Role
from ykactor.core.messages.kinds import Act
from ykactor.surfaces.http.replies import RefusedError
from ykactor.surfaces.server import handshake
from ykactor.surfaces.server.audit import UNKNOWN, Audit
from ykactor.surfaces.server.caller import Admit, Caller, admit_anybody
from ykactor.surfaces.server.doors import Door, DoorKind, Origin
from ykactor.surfaces.server.limited_log import LimitedLog

logger = logging.getLogger(__name__)

#: Lines about refused requests in the log, in a second.
REFUSED_LINES = 3


class Admission:
    """Lets requests in, of all connections.

    Args:
        admit: says who is at the other end.
        host_names: names of this machine for web pages (``handshake.own_names``).
    """

    def __init__(self, audit: Audit, admit: Admit, host_names: Collection[str]) -> None:
        self._audit = audit
        self._admit = admit
        self._names = handshake.own_names(host_names)
        self._log = LimitedLog(logger, logging.INFO, "request_refused", lines=REFUSED_LINES, within_s=1.0)

    def caller(self, request: Request, roles: Sequence[Role], door: Door, origin: Origin, shown: Credentials) -> Caller:
        """Who sends a request, which needs one of these roles.

        Args:
            shown: what the connection has shown.
        Raises:
            RefusedError
        """
        needs_proof = self._admit is not admit_anybody
        if not needs_proof:
            self._check_page(request, door)
            if not door.admits(origin):
                raise RefusedError(403, "only root and the user of the daemon may connect to this socket")
        try:
            caller = self._admit(roles[0], structs.replace(shown, bearer=_bearer(request), uid=origin.uid), origin.text)
        except NotAuthenticatedError as error:
            self.refused(Caller(roles[0], origin.text, UNKNOWN), request, 401, str(error))
            message = "expected a valid proof of an identity, such as a token: Authorization: Bearer ..."
            raise RefusedError(401, message, {"WWW-Authenticate": "Bearer"}) from None
        if caller.identity.roles.isdisjoint(roles):
            raise self._forbidden(caller, request, f"without the role {caller.role}")
        return caller

    def refused(self, caller: Caller, request: Request, status: int, reason: str) -> None:
        """Tell the log and the audit that a request was refused."""
        self._log.log(peer=caller.origin, status=status, reason=reason)
        self._audit.refused(caller, Act.CONNECT, request.url.path, reason)

    def refused_certificate(self, origin: Origin, reason: str) -> None:
        """Tell the audit that the certificate of a connection was refused (SE-33)."""
        self._audit.refused(Caller(Role.READER, origin.text, UNKNOWN), Act.CONNECT, "certificate", reason)

    def _forbidden(self, caller: Caller, request: Request, reason: str) -> RefusedError:
        self.refused(caller, request, 403, reason)
        return RefusedError(403, f"{caller.identity.name} does not have the role {caller.role}, which this needs")

    def _check_page(self, request: Request, door: Door) -> None:
        """Refuse the web pages of other hosts, also those whose name leads here (SE-89)."""
        if door.kind is DoorKind.UNIX:
            return
        host, origin = request.headers.get("host"), request.headers.get("origin")
        try:
            is_ours = host is None or self._is_own(handshake.host_of(host))
        except handshake.RefusedError as error:
            raise RefusedError(400, error.reason) from None
        if not is_ours:
            raise RefusedError(403, "nobody may read by this name without a proof: serve --host-name allows it")
        if origin is not None and not self._is_own(handshake.origin_host(origin)):
            raise RefusedError(403, "web pages of another host may not read without a proof")

    def _is_own(self, host: str | None) -> bool:
        return host is not None and (host in self._names or handshake.is_address(host))


def _bearer(request: Request) -> str | None:
    found = request.headers.getlist("authorization")
    if not found:
        return None
    scheme, _, credentials = found[0].partition(" ")
    if len(found) > 1 or scheme.lower() != "bearer":
        raise NotAuthenticatedError("another header Authorization than one with Bearer")
    return credentials.strip()
