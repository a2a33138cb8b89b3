"""The admission of each websocket and each request of the REST API: its caller, its slot and its pace, before anything else of it
is looked at.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from ipaddress import ip_address

from msgspec import structs

from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.limits import Limits
from ykactor.access.model import Role
from ykactor.core.messages.acts import Act
from ykactor.surfaces.admission.audit import UNKNOWN, Audit
from ykactor.surfaces.admission.caller import Admit, Caller
from ykactor.surfaces.admission.session_limits import InputMemory, SessionLimits
from ykactor.surfaces.admission.slots import ConnectionSlots, Paces
from ykactor.surfaces.metrics.instruments import SessionCounts
from ykactor.surfaces.net.doors import Door, DoorKind, Origin
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.sockets import is_loopback

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
        """Refuse a host that may not be this machine (SE-89).

        A page of an attacker can come from a name that later leads to this daemon (DNS rebinding), so the host must be an
        address, which is not looked up, or a name of this machine.

        Args:
            host: the name or address in ``Host``, as ``host_of`` has it; None: there is none, so no browser asks.
        Raises:
            RefusedError
        """
        if host is not None and host not in self._names and not _is_address(host):
            raise RefusedError(403, "found a name in Host that is none of this machine: serve --host-name allows it")

    def check_page(self, host: str | None, origin: str | None, site: str | None = None) -> None:
        """Refuse a web page of another host (SE-89).

        A page may call the host that it comes from, and one of this machine any name of it; ports may differ.

        Args:
            host: as of ``check_host``.
            origin: the header ``Origin``, which a page sends but for reading from its own host, and for what it shows; None
                without one.
            site: the header ``Sec-Fetch-Site``, by which a browser says whose page shows a picture or runs a script.
        Raises:
            RefusedError
        """
        if site == "cross-site" or (origin is not None and not _may_call(_origin_host(origin), host, self._names)):
            raise RefusedError(403, "web pages of another host may not connect")

    def refused(self, caller: Caller, target: str, reason: str) -> None:
        """Tell the audit that a caller was refused what it has asked for."""
        self.audit.refused(caller, Act.CONNECT, target, reason)

    def refused_nobody(self, role: Role, origin: Origin, target: str, reason: str) -> None:
        """Tell the audit that somebody unknown was refused."""
        self.refused(Caller(role, origin.text, UNKNOWN), target, reason)


# ---- the headers of a request that decide who may come in, the same for websockets and for the REST API

HOST_BYTES_MAX = 255
#: Of two a proxy might take another one.
_ONCE = re.compile("host|origin|authorization")
#: The host in ``Host`` and ``Origin``: a name or an address, then perhaps a port. Nothing else is allowed, such as ``user@``.
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)(?:%[0-9a-z._~-]+)?\]|([0-9a-z._-]+?)\.?)(?::[0-9]{1,5})?", re.IGNORECASE)


def refuse_twice(names: Sequence[str], others: re.Pattern[str] = _ONCE) -> None:
    """Refuse a request that has one of these headers twice.

    Args:
        names: of all headers, in lower case.
        others: which have to be there once too.
    Raises:
        RefusedError
    """
    for name in set(names) if len(set(names)) < len(names) else ():
        if (_ONCE.fullmatch(name) or others.fullmatch(name)) and names.count(name) > 1:
            raise RefusedError(400, f"found a header twice, expected it once: {_known(name)}")


def _known(name: str) -> str:
    """The name of a header for a response, without anything that the peer could choose."""
    return "Sec-WebSocket-..." if name.startswith("sec-websocket-") else name.title()


def bearer_of(authorization: str | None) -> str | None:
    """The bearer in the header ``Authorization``; None without one. Anything else there is a bad bearer, "" (SE-2)."""
    if authorization is None:
        return None
    scheme, _, credentials = authorization.partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


def host_of(header: str) -> str:
    """The name or address in the header ``Host``, in lower case, without a port.

    Raises:
        RefusedError: it is not valid.
    """
    match = _HOST.fullmatch(header) if len(header) <= HOST_BYTES_MAX else None
    if match is None or not _is_idna(header):
        raise RefusedError(400, "found no valid Host header, expected NAME or NAME:PORT")
    return _matched(match)


@lru_cache(maxsize=100)
def _is_idna(header: str) -> bool:
    """True if a library can decode it, which takes long for a long one."""
    try:
        header.encode().decode("idna")
    except UnicodeError:
        return False
    return True


def _matched(match: re.Match[str]) -> str:
    return (match[1] or match[2]).lower()


def own_names(others: Collection[str]) -> frozenset[str]:
    """The names of this machine by which web pages may call it: its own one also without the domain."""
    name = socket.gethostname().lower()
    return frozenset(("localhost", name, name.partition(".")[0], *map(str.lower, others)))


def own_page(host: str | None, origin: str | None, fetch_site: str | None) -> str:
    """The origin of the page of this daemon that sends a request, as its header ``Origin`` has it.

    Args:
        host, origin, fetch_site: the headers ``Host``, ``Origin`` and ``Sec-Fetch-Site``; None: there is none.

    Raises:
        RefusedError: it is another page, or no page.
    """
    if origin is None:
        what = "found no header Origin, expected that of a page of this daemon"
        raise RefusedError(403, f"{what}: only pages log in, programs show their token with each request")
    page = _origin_host(origin)
    if page is None or host is None or page != host_of(host) or fetch_site not in (None, "same-origin"):
        raise RefusedError(403, "only a page of this daemon may log in: a proxy has to pass the header Host as it is")
    return origin


def _may_call(page: str | None, host: str | None, names: Collection[str]) -> bool:
    return page is not None and (page in (host, *names) or (_is_address(page) and is_loopback(page)))


def _origin_host(origin: str) -> str | None:
    """The name or address in a header ``Origin``, in lower case; None if there is none, as for a local file."""
    match = _HOST.fullmatch(origin.partition("://")[2])
    return None if match is None else _matched(match)


@lru_cache(maxsize=100)
def _is_address(host: str) -> bool:
    """True if the host is an address, which is not looked up."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
