"""JWTs of an issuer outside (SE-9): PyJWT checks form, signature, issuer and audience; the times are checked here.

PyJWT looks at the system's clock, but the daemon has one clock for everything, which tests can set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jwt
import msgspec
from jwt import InvalidKeyError
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from msgspec import Struct

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


RSA_BITS_MIN = 2048

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
#: The algorithms of a key, by curve.
_EC: dict[str, tuple[str, ...]] = {"P-256": ("ES256",), "P-384": ("ES384",), "P-521": ("ES512",)}
_OKP: dict[str, tuple[str, ...]] = {"Ed25519": ("EdDSA",)}
#: Members that only a private key has.
_PRIVATE = ("d", "p", "q", "dp", "dq", "qi", "oth", "k")


class _Kind(NamedTuple):
    """A kind of key: the members that it must have, the algorithms by curve (``""`` without one), and its reader."""

    members: tuple[str, ...]
    algorithms: dict[str, tuple[str, ...]]
    read: Callable[[dict[str, Any]], Any]


_KINDS = {
    "RSA": _Kind(("n", "e"), {"": _RSA}, RSAAlgorithm.from_jwk),
    "EC": _Kind(("crv", "x", "y"), _EC, ECAlgorithm.from_jwk),
    "OKP": _Kind(("crv", "x"), _OKP, OKPAlgorithm.from_jwk),
}


class JwksError(ValueError):
    """The file is refused because of ``mistakes``, one line each, which never hold a part of a key."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class Key(Struct, frozen=True):
    """A public key with the algorithms that it may be used with."""

    kid: str
    algorithms: tuple[str, ...]
    public: Any


class Keys(Struct, frozen=True):
    """The keys of a file, at least one."""

    all: tuple[Key, ...]

    def find(self, kid: str) -> Key | None:
        """The key that a token names; a single key without a name is meant by every token."""
        if len(self.all) == 1 and (not kid or not self.all[0].kid):
            return self.all[0]
        return next((key for key in self.all if key.kid == kid), None) if kid else None


def parse_keys(content: bytes) -> Keys:
    """The keys in the content of a JWKS file.

    Raises:
        JwksError with all mistakes.
    """
    try:
        found = msgspec.json.decode(content, type=dict[str, Any]).get("keys")
    except (msgspec.DecodeError, RecursionError):
        raise JwksError(["found something that is not a JSON object, expected a JWKS with the member keys"]) from None
    if not isinstance(found, list) or not found:
        raise JwksError(["found no list keys with at least one key, expected a JWKS"])
    mistakes: list[str] = []
    keys = [_read(data, f"keys[{index}]", mistakes) for index, data in enumerate(found)]
    _check_names(keys, mistakes)
    if mistakes:
        raise JwksError(mistakes)
    return Keys(tuple(key for key in keys if key is not None))


def _read(data: Any, path: str, mistakes: list[str]) -> Key | None:
    if not isinstance(data, dict):
        mistakes.append(f"{path}: found no object, expected a key")
        return None
    mistake = _mistake(data)
    if mistake is None:
        kind = _KINDS[data["kty"]]
        allowed = kind.algorithms[data.get("crv", "") if "crv" in kind.members else ""]
        algorithms = (data["alg"],) if "alg" in data else allowed
        try:
            return Key(data.get("kid", ""), algorithms, _public(data, kind))
        except (InvalidKeyError, ValueError, TypeError):
            mistake = f"found numbers that are no {data['kty']} key of at least {RSA_BITS_MIN} bits (RSA) or on its curve"
    mistakes.append(f"{path}{mistake}" if mistake.startswith(".") else f"{path}: {mistake}")
    return None


def _mistake(data: dict[str, Any]) -> str | None:
    """The mistake in a key, but for its numbers; only names and algorithms are shown, never another value."""
    kind = _KINDS.get(data["kty"]) if isinstance(data.get("kty"), str) else None
    if kind is None:
        return f".kty: found {_word(data, 'kty')}, expected RSA, EC or OKP: a key that only verifies signatures"
    if private := [name for name in _PRIVATE if name in data]:
        return f"found a private key (it has {private[0]}), expected a public one"
    if data.get("use", "sig") != "sig":
        return f".use: found {_word(data, 'use')}, expected sig"
    if not isinstance(data.get("kid", ""), str):
        return ".kid: found no text, expected text"
    if missing := [name for name in kind.members if not isinstance(data.get(name), str)]:
        return f"found no text {missing[0]}, expected a {data['kty']} key"
    curve = data["crv"] if "crv" in kind.members else ""
    if curve not in kind.algorithms:
        return f".crv: found {shown(curve)}, expected {', '.join(kind.algorithms)}"
    if "alg" in data and data["alg"] not in kind.algorithms[curve]:
        return f".alg: found {_word(data, 'alg')}, expected {', '.join(kind.algorithms[curve])}"
    return None


def _word(data: dict[str, Any], name: str) -> str:
    value = data.get(name, "")
    return shown(value) if isinstance(value, str) else "no text"


def _public(data: dict[str, Any], kind: _Kind) -> Any:
    key = kind.read(data)
    if data["kty"] == "RSA" and key.key_size < RSA_BITS_MIN:
        raise ValueError
    return key


def _check_names(keys: list[Key | None], mistakes: list[str]) -> None:
    """Each key of several has a name of its own."""
    first: dict[str, int] = {}
    for index, key in enumerate(keys):
        if key is None or len(keys) == 1:
            continue
        if not key.kid:
            mistakes.append(f"keys[{index}].kid: found nothing, expected a name, as there are several keys")
        elif key.kid in first:
            mistakes.append(f"keys[{index}].kid: found {shown(key.kid)}, which keys[{first[key.kid]}] has too")
        else:
            first[key.kid] = index
