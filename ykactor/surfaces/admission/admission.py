"""The admission of each websocket and each request of the REST API: its caller, its slot and its pace, before anything else of it
is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import structs

from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.limits import Limits
from ykactor.access.model import Role
from ykactor.core.messages.acts import Act
from ykactor.surfaces.admission.audit import UNKNOWN, Audit
from ykactor.surfaces.admission.caller import Admit, Caller
from ykactor.surfaces.admission.pace import Paces
from ykactor.surfaces.admission.request_headers import host_refusal, own_names, page_refusal
from ykactor.surfaces.admission.session_limits import InputMemory, SessionLimits
from ykactor.surfaces.admission.slots import ConnectionSlots
from ykactor.surfaces.metrics.session_counts import SessionCounts
from ykactor.surfaces.net.doors import Door, DoorKind, Origin
from ykactor.surfaces.net.refusals import RefusedError

#: Of an answer to who has shown no proof.
SHOW_PROOF = {"WWW-Authenticate": "Bearer"}
#: The same for every reason.
_UNAUTHORIZED = "expected a valid proof of an identity, such as a token (Authorization: Bearer ...): the log says what was found"


class Admission:
    """Decides who comes in, and tells the audit who does not. There is one for a daemon, whatever it serves.

    Args:
        admit: says who is at the other end of a connection; None: there is no access file.
        host_names: names of this machine for web pages, beside ``localhost`` and its own name.
        in_force: the limits of the access file, as they are now.

    Attributes:
        needs_proof: True if nobody comes in without one.
        slots: of all connections.
        paces: of their requests.
        memory: of what sessions have not finished.
    """

    def __init__(
        self,
        audit: Audit,
        admit: Admit | None = None,
        host_names: Collection[str] = (),
        in_force: Callable[[], Limits] = Limits,
    ) -> None:
        self.audit = audit
        self.in_force = in_force
        self.slots = ConnectionSlots(in_force)
        self.paces = Paces(self.slots)
        self.memory = InputMemory(lambda: in_force().waiting_bytes)
        self._admit = admit
        self._names = own_names(host_names)
        self.needs_proof = admit is not None

    def caller(self, role: Role, door: Door, origin: Origin, shown: Credentials, target: str) -> Caller:
        """Authenticate the peer without awaiting, so that timing reveals nothing (SE-60).

        Args:
            role: of what is asked for, which the caller may still lack.
            shown: what the connection and its request have shown.
            target: what is asked for, for the audit.
        Raises:
            RefusedError
        """
        if self._admit is None:
            return self._without_proof(role, door, origin, target)
        uid = origin.uid if door.kind is DoorKind.UNIX else None
        try:
            return self._admit(role, structs.replace(shown, uid=uid, sender=origin.uid), origin.text)
        except NotAuthenticatedError as error:
            self.refused_nobody(role, origin, target, str(error))
            raise RefusedError(401, _UNAUTHORIZED, SHOW_PROOF, logged=str(error)) from None

    def _without_proof(self, role: Role, door: Door, origin: Origin, target: str) -> Caller:
        identity = door.identity(origin)
        if identity is not None and role in identity.roles:
            return Caller(role, origin.text, identity)
        if identity is None:
            reason = "without an access file nobody on another machine is let in"
        else:
            why = f": {origin.why_unknown}" if origin.why_unknown else ""
            reason = f"without an access file only root and the user of the daemon may act, found {identity.name}{why}"
        self.refused(Caller(role, origin.text, identity or UNKNOWN), target, reason)
        raise RefusedError(403, reason)

    def session_limits(self, caller: Caller, path: str, counts: SessionCounts, bytes_max: int | None) -> SessionLimits:
        """The limits of a new session."""
        return SessionLimits(caller, self.audit, path, counts, bytes_max)

    def check_role(self, caller: Caller, target: str, other_role: Role | None = None) -> None:
        """Ask whether the caller has its role, or another one that will do as well (SE-62).

        Raises:
            RefusedError
        """
        if caller.identity.roles.isdisjoint((caller.role, other_role)):
            self.refused(caller, target, f"without the role {caller.role}")
            raise RefusedError(403, f"{caller.identity.name} does not have the role {caller.role}, which {target} needs")

    def check_host(self, host: str | None) -> None:
        """Refuse a name that is none of this machine; as of ``host_refusal``.

        Raises:
            RefusedError
        """
        if refusal := host_refusal(host, self._names):
            raise refusal

    def check_page(self, host: str | None, origin: str | None, site: str | None = None) -> None:
        """Refuse the web pages of other hosts; as of ``page_refusal``.

        Raises:
            RefusedError
        """
        if refusal := page_refusal(host, origin, site, self._names):
            raise refusal

    def refused(self, caller: Caller, target: str, reason: str) -> None:
        """Tell the audit that a caller was refused what it has asked for."""
        self.audit.refused(caller, Act.CONNECT, target, reason)

    def refused_nobody(self, role: Role, origin: Origin, target: str, reason: str) -> None:
        """Tell the audit that somebody unknown was refused."""
        self.refused(Caller(role, origin.text, UNKNOWN), target, reason)
