"""JWTs of an issuer outside (SE-9): PyJWT checks form, signature, issuer and audience; the times are checked here.

PyJWT looks at the system's clock, but the daemon has one clock for everything, which tests can set.
"""

from __future__ import annotations

import math
from typing import Any

import jwt
from msgspec import Struct

from ykactor.access.jwks import Keys
from ykactor.core.values.quantities import shown
from ykactor.core.values.times import S_NS

TOKEN_BYTES_MAX = 8192
#: The largest difference between the clock of the issuer and ours.
LEEWAY_S = 30
LIFETIME_MAX_S = 24 * 3600
#: Claims that every token must have, and that no identity can require: they are the same for all.
REQUIRED = ("exp", "iss", "aud", "sub")

_OPTIONS: Any = {"require": list(REQUIRED), "verify_exp": False, "verify_nbf": False, "verify_iat": False}
#: Why a token is refused, the first that fits; what PyJWT says itself may quote the token.
_REASONS = (
    (jwt.InvalidSignatureError, "its signature does not fit the key"),
    (jwt.InvalidAlgorithmError, "its algorithm is not one of the key"),
    (jwt.MissingRequiredClaimError, f"it lacks one of the claims {', '.join(REQUIRED)}"),
    (jwt.InvalidIssuerError, "it has another issuer"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.PyJWTError, "it is malformed"),
)


class JwtError(ValueError):
    """The token is refused; the message says why and holds no part of it but the name of a key."""


class JwtSettings(Struct, frozen=True):
    """The issuer whose tokens are accepted, and the longest time for which a token may be valid."""

    issuer: str
    audience: str
    keys: Keys
    lifetime_max_s: int = LIFETIME_MAX_S


def is_jwt(text: str) -> bool:
    """True if ``text`` has the form of a JWT: three parts."""
    return text.count(".") == 2


def verify(token: str, settings: JwtSettings, now_ns: int) -> dict[str, Any]:
    """The claims of a token that is valid now.

    Raises:
        JwtError with the reason why it is refused.
    """
    if len(token) > TOKEN_BYTES_MAX or not token.isascii():
        raise JwtError(f"found more than {TOKEN_BYTES_MAX} bytes, or not ASCII")
    try:
        claims = _signed(token, settings)
    except jwt.PyJWTError as error:
        raise JwtError(next(reason for kind, reason in _REASONS if isinstance(error, kind))) from None
    if not claims["sub"]:
        raise JwtError("its subject (sub) is empty")
    _check_times(claims, settings.lifetime_max_s, now_ns // S_NS)
    return claims


def expires_ns(claims: dict[str, Any]) -> int:
    """The Unix time from which ``verify`` refuses the token with these claims."""
    return (_seconds(claims, "exp") + LEEWAY_S) * S_NS


def _signed(token: str, settings: JwtSettings) -> dict[str, Any]:
    """The claims, if the signature fits the key that the token names. Its algorithm is the key's, whatever the token says."""
    kid = jwt.get_unverified_header(token).get("kid", "")
    key = settings.keys.find(kid)
    if key is None:
        raise JwtError(f"it names the key {shown(kid)}, which is not in the JWKS file")
    return jwt.decode(
        token,
        key.public,
        algorithms=key.algorithms,
        audience=settings.audience,
        issuer=settings.issuer,
        options=_OPTIONS,
    )


def _check_times(claims: dict[str, Any], lifetime_max_s: int, now_s: int) -> None:
    expires_s = _seconds(claims, "exp")
    issued_s = _seconds(claims, "iat") if "iat" in claims else now_s
    if now_s >= expires_s + LEEWAY_S:
        raise JwtError("it has expired")
    if now_s < issued_s - LEEWAY_S or ("nbf" in claims and now_s < _seconds(claims, "nbf") - LEEWAY_S):
        raise JwtError("it is not valid yet")
    if expires_s - min(issued_s, now_s) > lifetime_max_s:
        raise JwtError(f"it is valid for more than {lifetime_max_s} seconds")


def _seconds(claims: dict[str, Any], name: str) -> int:
    """A time in whole seconds. JSON of Python has ``NaN`` and ``Infinity`` too, and numbers of any size."""
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise JwtError(f"its {name} is no time in seconds")
    return math.floor(value)
