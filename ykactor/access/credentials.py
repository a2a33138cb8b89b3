"""What is shown of a connection. Needs none of the libraries that verify proofs, as ``model``."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.values.times import NEVER


class NotAuthenticatedError(Exception):
    """Nobody is let in. The message is the reason for the log: it holds no secret, and is not for the client."""


class Credentials(Struct, frozen=True, kw_only=True):
    """What is shown of a connection.

    Attributes:
        bearer: a token or a JWT; None: there is none, which is not the same as an empty one.
        uid: of the process at the other end of a Unix socket.
        certificate: the names of the client certificate, verified, each with its type (``URI:``, ``DNS:``, ``email:``, ``CN:``).
        certificate_expires_ns: the Unix time from which that certificate is not valid any more.
    """

    bearer: str | None = None
    uid: int | None = None
    certificate: tuple[str, ...] = ()
    certificate_expires_ns: int = NEVER

    def __repr__(self) -> str:
        """Without the bearer: this may get into a log or a traceback."""
        bearer = None if self.bearer is None else "..."
        return f"Credentials(bearer={bearer}, uid={self.uid}, certificate={self.certificate})"
