"""The proofs of identity between client and daemon: token, certificate, TLS settings."""

import re
import ssl
from pathlib import Path
from typing import TypedDict

from msgspec import Struct

#: The longest JWT that the daemon takes has 8 KiB. Anything else than these characters has no place in a header.
_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")


class LoginOptions(TypedDict, total=False):
    """The parameters of `connect`, `follow` and others that say who this is.

    Parameters
    ----------
    token : str
        A token or a JWT, by which the daemon knows who this is.
    tls : ssl.SSLContext
        For ``wss://`` only, see `tls_context`; without it the authorities of the operating system are trusted.
    insecure : bool
        Whether to send the token also over ``ws://`` to another machine: whoever is on the way can read it then.
    """

    token: str
    tls: ssl.SSLContext | None
    insecure: bool


def login_of(options: LoginOptions) -> "Login":
    """The login of a session that has these options."""
    return Login(options.get("token", ""), options.get("tls"), options.get("insecure", False))


class Login(Struct, frozen=True):
    """The values of `LoginOptions`. ValueError if the token cannot be one."""

    token: str = ""
    tls: ssl.SSLContext | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if self.token and not _TOKEN.fullmatch(self.token):
            raise ValueError("found something that is no token, expected up to 8192 characters of ASCII without spaces")

    def __repr__(self) -> str:
        """The fields without the token: they may get into a log or a traceback."""
        return f"Login(token={'...' if self.token else ''!r}, tls={self.tls}, insecure={self.insecure})"

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the handshake."""
        return [(b"Authorization", f"Bearer {self.token}".encode())] if self.token else []


def tls_context(ca: Path | str | None = None, cert: Path | str | None = None, key: Path | str | None = None) -> ssl.SSLContext:
    """The settings of TLS for a client, at least TLS 1.2, which verifies the certificate and the name of the daemon.

    Parameters
    ----------
    ca : path, optional
        Certificates of the authorities that are trusted (PEM), instead of those of the operating system.
    cert, key : path, optional
        The certificate of the client, and its key if it is in a file of its own (PEM).

    Raises
    ------
    OSError
        A file cannot be read, or is none of these; ``ssl.SSLError`` is one.
    """
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context
