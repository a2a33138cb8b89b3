"""The caller at the other end of a connection, and what it may send."""

from __future__ import annotations

from collections.abc import Callable

import trio
from msgspec import Struct, field

from ykactor.access import permissions
from ykactor.access.credentials import Credentials
from ykactor.access.model import ANYBODY, Identity, Role
from ykactor.core.values.times import NEVER
from ykactor.surfaces.net.doors import network_of
from ykactor.wire.si.protocol_error import ProtocolError


class Cookie(Struct, frozen=True):
    """The cookie of a login; ``value`` is a secret, and "" once the login has ended."""

    name: str
    value: str = ""
    max_age_s: int = 0

    def __repr__(self) -> str:
        """The name without the value."""
        return f"Cookie({self.name})"

    def header(self, *, is_secure: bool) -> str:
        """The header ``Set-Cookie``: no script can read it, no other site makes a browser send it."""
        secure = "; Secure" if is_secure else ""
        return f"{self.name}={self.value}; Path=/; Max-Age={self.max_age_s}; HttpOnly; SameSite=Strict{secure}"


class Caller(Struct, eq=False, weakref=True):
    """The other end of a connection, which came through the door of one role.

    Attributes:
        origin: the address, or the user of a Unix socket; for the log and the audit.
        identity: as the access file has it now.
        expires_ns: the Unix time from which its proof is none any more.
        revoked: why nothing is taken from it any more; "" if it is.
        ended: set from then on.
    """

    role: Role
    origin: str
    identity: Identity = ANYBODY
    expires_ns: int = NEVER
    revoked: str = ""
    ended: trio.Event = field(default_factory=trio.Event)

    @property
    def holder(self) -> str:
        """The holder of its slots (``slots``) for connections and sessions: its identity, or without one its address block."""
        return network_of(self.origin) if self.identity is ANYBODY else f"identity {self.identity.name}"

    @property
    def is_logged_in(self) -> bool:
        """True if the cookie of a login has let it in."""
        return False

    def review(self) -> None:
        """Take over what has changed. Without an access file nothing does (see ``access_control``)."""

    def revoke(self, reason: str) -> None:
        """Take nothing more from it; its session is closed with the reason, a short sentence."""
        self.revoked = reason
        self.ended.set()

    def release(self) -> None:
        """Review nothing of it any more: it has gone, or was refused."""

    def log_in(self, page: str) -> Cookie | None:
        """Open a login for a page of this origin, with the bearer that the request itself has shown; None if it has none."""
        return None

    def log_out(self) -> Cookie | None:
        """End the login by which the request was let in; None if it was not."""
        return None

    def check(self, message: Struct) -> None:
        """Ask whether it may send the message, at this moment.

        Raises:
            ProtocolError: it may not.
        """
        self.confirm()
        refusal = permissions.check(self.identity, self.role, message)
        if refusal is not None:
            raise ProtocolError("NOT_PERMITTED", refusal.message, refusal.path)

    def confirm(self) -> None:
        """Ask whether it still may send what it was permitted to send before: its rights only grow, until all end (SE-68).

        Raises:
            ProtocolError: it may not.
        """
        self.review()
        if self.revoked:
            raise ProtocolError("NOT_PERMITTED", self.revoked)


#: Lets a connection in by an access file, by its role, what it shows and its origin. Raises NotAuthenticatedError.
Admit = Callable[[Role, Credentials, str], Caller]
