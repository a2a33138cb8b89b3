"""The content of an access file: all identities, and the settings that find the one of a connection."""

from __future__ import annotations

from msgspec import Struct

from ykactor.access.jwts import JwtSettings
from ykactor.access.limits import Limits
from ykactor.access.model import Identity
from ykactor.access.tokens import Tokens


class Access(Struct, frozen=True, kw_only=True):
    """The content of an access file, with the files that it names.

    Attributes:
        tokens_file: as it is written in the access file; ``jwks_file`` too, empty without a key ``jwt``.
        warnings: one line each, of what is allowed and probably not meant.
    """

    identities: tuple[Identity, ...] = ()
    tokens: Tokens = Tokens()
    jwt: JwtSettings | None = None
    limits: Limits = Limits()
    tokens_file: str = ""
    jwks_file: str = ""
    warnings: tuple[str, ...] = ()

    def find(self, name: str) -> Identity | None:
        """The identity with this name."""
        return next((identity for identity in self.identities if identity.name == name), None)
