"""Keys of an issuer, its JWKS file, and tokens that it signs."""

import json
from typing import Any

import jwt
from accessfiles import NOW_NS
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from ykactor.access import jwts
from ykactor.access.jwts import JwtSettings

NOW_S = NOW_NS // 10**9
ISSUER, AUDIENCE = "https://issuer", "ykactor"


_KEYS: dict[str, Any] = {}


def private(kind: str) -> Any:
    """A private key, the same for all tests: some have tokens from before any test began."""
    if kind not in _KEYS:
        _KEYS[kind] = _generate(kind)
    return _KEYS[kind]


def _generate(kind: str) -> Any:
    match kind:
        case "RSA" | "RSA-2":
            return rsa.generate_private_key(65537, 2048)
        case "RSA-1024":
            return rsa.generate_private_key(65537, 1024)
        case "P-256":
            return ec.generate_private_key(ec.SECP256R1())
        case "P-384":
            return ec.generate_private_key(ec.SECP384R1())
        case "P-521":
            return ec.generate_private_key(ec.SECP521R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def public_jwk(kind: str, **members: Any) -> dict[str, Any]:
    """The public key as a member of a JWKS."""
    return jwk_of(private(kind).public_key(), members)


def private_jwk(kind: str) -> dict[str, Any]:
    """The private key, which does not belong into a JWKS."""
    return jwk_of(private(kind), {})


def jwk_of(key: Any, members: dict[str, Any]) -> dict[str, Any]:
    algorithm = RSAAlgorithm if "RSA" in type(key).__name__ else OKPAlgorithm if "25519" in type(key).__name__ else ECAlgorithm
    return {**algorithm.to_jwk(key, as_dict=True), **members}


def jwks_text(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def settings(*keys: dict[str, Any], lifetime_max_s: int = 24 * 3600) -> JwtSettings:
    """The settings of a daemon that knows these keys."""
    return JwtSettings(ISSUER, AUDIENCE, jwts.parse_keys(jwks_text(*keys)), lifetime_max_s)


def claims(**others: Any) -> dict[str, Any]:
    """Claims of a good token; None leaves a claim out."""
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "system:ci", "exp": NOW_S + 600, **others}
    return {name: value for name, value in good.items() if value is not None}


def signed(kind: str, algorithm: str, headers: dict[str, Any] | None = None, **others: Any) -> str:
    """A token, good but for what is said here."""
    return jwt.encode(claims(**others), private(kind), algorithm, headers)
