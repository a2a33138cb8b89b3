"""Who is at the other end of a connection, and what it may send."""

from __future__ import annotations

from msgspec import Struct

from ykactor.access import permissions
from ykactor.access.model import ANYBODY, Identity, Role
from ykactor.core.values.times import NEVER
from ykactor.wire.si.codec import ProtocolError


class Caller(Struct, eq=False):
    """The other end of a connection, which came through the door of one role.

    Attributes:
        origin: the address, or the user of a Unix socket; for the log and the audit.
        identity: as the access file has it now.
        expires_ns: the Unix time from which its proof is none any more.
    """

    role: Role
    origin: str
    identity: Identity = ANYBODY
    expires_ns: int = NEVER

    def check(self, message: Struct) -> None:
        """Ask whether it may send the message.

        Raises:
            ProtocolError: it may not.
        """
        refusal = permissions.check(self.identity, self.role, message)
        if refusal is not None:
            raise ProtocolError("NOT_PERMITTED", refusal.message, refusal.path)
