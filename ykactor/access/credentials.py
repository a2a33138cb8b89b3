"""The credentials of a connection. Needs none of the libraries that verify proofs, like ``model``."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ykactor.core.values.times import NEVER, S_NS


class NotAuthenticatedError(Exception):
    """The credentials prove no identity. The message is the reason for the log: it holds no secret, and is not for the client."""


class Login(Struct, eq=False, kw_only=True):
    """A bearer that a web page has shown once, and which a cookie stands for since (SE-98).

    Attributes:
        page: the origin of the page, such as ``https://host:9080``; of no other one the cookie counts.
        expires_ns: the Unix time from which the cookie stands for nothing.
        sender: the user of this machine whose browser has logged in, as in ``Credentials``; of no other one the cookie counts.
        is_over: the page has logged out, or another login has taken its slot.
    """

    bearer: str
    page: str
    expires_ns: int
    sender: int | None = None
    is_over: bool = False

    def __repr__(self) -> str:
        """The page without the bearer."""
        return f"Login(page={self.page!r})"


class PageRequest(Struct, frozen=True, kw_only=True):
    """The cookie of a request, and what its browser says of the page that has sent it (SE-99).

    Attributes:
        cookies: the header ``Cookie``.
        origin: the header ``Origin``; a browser leaves it out of reads of a page's own origin.
        fetch_site: the header ``Sec-Fetch-Site``, which not every browser sends.
        is_read: whether the request changes nothing, whatever it asks for.
    """

    cookies: str
    origin: str | None
    fetch_site: str | None
    is_read: bool

    def __repr__(self) -> str:
        """The page without the cookies, which stand for bearers."""
        return f"PageRequest(origin={self.origin!r})"

    def is_of(self, page: str) -> bool:
        """True if a page of this origin may have sent the request, and no other page."""
        if self.origin is not None:
            return self.origin == page
        return self.is_read and self.fetch_site in (None, "same-origin", "none")


class Credentials(Struct, frozen=True, kw_only=True):
    """The credentials of a connection.

    Attributes:
        bearer: a token or a JWT; None: there is none, which is not the same as an empty one.
        page: what a browser shows by its cookie; None: it has none.
        login: the one for which the cookie stands; the bearer is that of the login.
        uid: of the process at the other end of a Unix socket.
        sender: the user of this machine at the other end of any connection, which alone proves nothing; None: it is not known.
        certificate: the names of the client certificate, verified, each with its type (``URI:``, ``DNS:``, ``email:``, ``CN:``).
        certificate_expires_ns: the Unix time from which that certificate is not valid any more.
    """

    bearer: str | None = None
    page: PageRequest | None = None
    login: Login | None = None
    uid: int | None = None
    sender: int | None = None
    certificate: tuple[str, ...] = ()
    certificate_expires_ns: int = NEVER

    def __repr__(self) -> str:
        """The fields without the bearer: they may get into a log or a traceback."""
        bearer = None if self.bearer is None else "..."
        return f"Credentials(bearer={bearer}, uid={self.uid}, certificate={self.certificate})"


#: The types of the names that are taken, as the description has them; the type of the last one is written as in access files.
_TYPES = {"URI": "URI", "DNS": "DNS", "email": "email", "commonName": "CN"}


def shown_by(certificate: Mapping[str, Any] | None) -> Credentials:
    """The names of a verified certificate, and when it expires; no names without one."""
    if not certificate:
        return Credentials()
    subject = [field for fields in certificate.get("subject", ()) for field in fields if field[0] == "commonName"]
    found = (*certificate.get("subjectAltName", ()), *subject)
    return Credentials(
        certificate=tuple(f"{_TYPES[kind]}:{name}" for kind, name in found if kind in _TYPES),
        certificate_expires_ns=min(ssl.cert_time_to_seconds(certificate["notAfter"]) * S_NS, NEVER),
    )
