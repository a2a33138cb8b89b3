"""The headers of a request that decide who may come in, the same for websockets and for the REST API."""

from __future__ import annotations

import re
import socket
from collections.abc import Collection, Sequence
from functools import lru_cache
from ipaddress import ip_address

from ykactor.surfaces.net.refusals import RefusedError
from ykactor.wire.addresses import is_loopback

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


def host_refusal(host: str | None, names: Collection[str]) -> RefusedError | None:
    """The reason for which the host that is asked may not be this machine; None if it is (SE-89).

    A page of an attacker can come from a name that later leads to this daemon (DNS rebinding), so the host must be an address,
    which is not looked up, or one of ``names``.

    Args:
        host: the name or address in ``Host``, as ``host_of`` has it; None: there is none, so no browser asks.
    """
    if host is None or host in names or _is_address(host):
        return None
    return RefusedError(403, "found a name in Host that is none of this machine: serve --host-name allows it")


def page_refusal(host: str | None, origin: str | None, site: str | None, names: Collection[str]) -> RefusedError | None:
    """The refusal of a request from a web page that may not send it; None if it may, or comes from none (SE-89).

    A page may call the host that it comes from, and one of this machine any name of it; ports may differ.

    Args:
        host: as of ``host_refusal``.
        origin: the header ``Origin``, which a page sends but for reading from the host that it comes from, and for what it shows.
        site: the header ``Sec-Fetch-Site``, by which a browser says whose page shows a picture or runs a script.
    """
    if site == "cross-site" or (origin is not None and not _may_call(_origin_host(origin), host, names)):
        return RefusedError(403, "web pages of another host may not connect")
    return None


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
