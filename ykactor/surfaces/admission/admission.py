"""The admission of each websocket and each request of the REST API: its caller, its slot and its pace, before anything else of it
is looked at.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from ipaddress import ip_address

from msgspec import Struct, structs

from ykactor.access.credentials import Credentials, NotAuthenticatedError, PageRequest
from ykactor.access.limits import Limits
from ykactor.access.model import Role
from ykactor.core.messages.acts import Act
from ykactor.surfaces.admission.audit import UNKNOWN, AuditLog
from ykactor.surfaces.admission.caller import Admit, Caller
from ykactor.surfaces.admission.session_limits import InputMemory
from ykactor.surfaces.admission.slots import ConnectionSlots
from ykactor.surfaces.copies.computing import Computing
from ykactor.surfaces.net.doors import Door, DoorKind, Origin
from ykactor.surfaces.net.requests import RefusedError
from ykactor.wire.sockets import is_loopback

#: Of an answer to who has shown no proof.
SHOW_PROOF = {"WWW-Authenticate": "Bearer"}
#: The same for every reason.
_UNAUTHORIZED = "expected a valid proof of an identity, such as a token (Authorization: Bearer ...): the log says what was found"


class Asked(Struct, frozen=True, kw_only=True):
    """The parts of a request that decide whether it is let in.

    Attributes:
        target: its path, for the audit.
        role: for which it is; the caller may still lack it.
        roles: of which the caller needs one; none if it needs none.
        bearer: the token that it shows, if it does.
        page: the proof of a browser, if there is one.
        host, origin, site: the headers ``Host``, ``Origin`` and ``Sec-Fetch-Site``; None: there is none.
        may_be_of_page: whether a browser may have sent it by itself, with the rights of who uses it.
        has_any_host: whether its ``Host`` may be any name.
    """

    target: str
    role: Role
    roles: tuple[Role, ...]
    bearer: str | None
    page: PageRequest | None
    host: str | None
    origin: str | None
    site: str | None = None
    may_be_of_page: bool
    has_any_host: bool = False


class Admission:
    """Decides who comes in, and tells the audit who does not. There is one for a daemon, whatever it serves.

    Args:
        admit: says who is at the other end of a connection; None: there is no access file.
        host_names: names of this machine for web pages, beside ``localhost`` and its own name.
        in_force: the limits of the access file, as they are now.

    Attributes:
        needs_proof: True if nobody comes in without one.
        slots: of all connections, and the pace of their requests.
        memory: of what sessions have not finished.
        computing: of answers from copies of partitions.
    """

    def __init__(
        self,
        audit: AuditLog,
        admit: Admit | None = None,
        host_names: Collection[str] = (),
        in_force: Callable[[], Limits] = Limits,
    ) -> None:
        self.audit = audit
        self.in_force = in_force
        self.slots = ConnectionSlots(in_force)
        self.memory = InputMemory(in_force)
        self.computing = Computing()
        self._admit = admit
        self._names = own_names(host_names)
        self.needs_proof = admit is not None

    def admit(self, door: Door, origin: Origin, shown: Credentials, asked: Asked, claim: Callable[[Caller], str]) -> Caller:
        """Let a request in without awaiting, so that timing reveals nothing (SE-60). Returns its caller, which has a slot then.

        Args:
            shown: what the connection has shown.
            claim: gives the connection a slot of the caller, or returns why there is none.
        Raises:
            RefusedError
        """
        caller = self._caller(door, origin, structs.replace(shown, bearer=asked.bearer, page=asked.page), asked)
        try:
            if asked.may_be_of_page:
                self._check_page(asked)
            if full := claim(caller):
                self.refused(caller, asked.target, full)
                raise RefusedError(503, full)
            self._check_role(caller, asked)
        except RefusedError:
            caller.release()
            raise
        return caller

    def _caller(self, door: Door, origin: Origin, shown: Credentials, asked: Asked) -> Caller:
        if self._admit is None:
            return self._without_proof(door, origin, asked)
        uid = origin.uid if door.kind is DoorKind.UNIX else None
        try:
            return self._admit(asked.role, structs.replace(shown, uid=uid, sender=origin.uid), origin.text)
        except NotAuthenticatedError as error:
            self.refused_nobody(asked.role, origin, asked.target, str(error))
            raise RefusedError(401, _UNAUTHORIZED, SHOW_PROOF, logged=str(error)) from None

    def _without_proof(self, door: Door, origin: Origin, asked: Asked) -> Caller:
        identity, role = door.identity(origin), asked.role
        if identity is not None and role in identity.roles:
            return Caller(role, origin.text, identity)
        if identity is None:
            reason = "without an access file nobody on another machine is let in"
        else:
            why = f": {origin.why_unknown}" if origin.why_unknown else ""
            reason = f"without an access file only root and the user of the daemon may act, found {identity.name}{why}"
        self.refused(Caller(role, origin.text, identity or UNKNOWN), asked.target, reason)
        raise RefusedError(403, reason)

    def _check_role(self, caller: Caller, asked: Asked) -> None:
        """Refuse a caller that lacks the role (SE-62)."""
        if asked.roles and caller.identity.roles.isdisjoint(asked.roles):
            self.refused(caller, asked.target, f"without the role {asked.role}")
            raise RefusedError(403, f"{caller.identity.name} does not have the role {asked.role}, which {asked.target} needs")

    def _check_page(self, asked: Asked) -> None:
        """Refuse a host that may not be this machine, and a web page of another host (SE-89).

        A page of an attacker can come from a name that later leads to this daemon (DNS rebinding), so the host must be an
        address, which is not looked up, or a name of this machine. A page may call the host that it comes from, and one of
        this machine any name of it; ports may differ. A page sends ``Origin`` but for reading from its own host, and for what
        it shows; by ``Sec-Fetch-Site`` a browser says whose page shows a picture or runs a script. Without ``Host`` no browser
        asks.
        """
        host = None if asked.host is None else host_of(asked.host)
        if not (asked.has_any_host or host is None or host in self._names or _is_address(host)):
            raise RefusedError(403, "found a name in Host that is none of this machine: serve --host-name allows it")
        is_of_another = asked.origin is not None and not _may_call(_origin_host(asked.origin), host, self._names)
        if asked.site == "cross-site" or is_of_another:
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
