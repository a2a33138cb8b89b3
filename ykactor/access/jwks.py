"""The public keys that verify JWTs, from a local JWKS file (SE-8).

The algorithms of a key follow from its kind, never from a token: a token can neither ask for none, nor have its signature
checked with a public key as the secret of an HMAC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from jwt import InvalidKeyError
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from msgspec import Struct

from ykactor.core.values.quantities import shown

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


def parse(content: bytes) -> Keys:
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
