"""JWTs: which are accepted, and why the others are not."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from signing import AUDIENCE, ISSUER, NOW_S, private, public_jwk, settings, signed

from ykactor.access import jwts
from ykactor.access.jwts import JwtError

ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}
PAIRS = [(kind, algorithm) for kind, algorithms in ALGORITHMS.items() for algorithm in algorithms]


def verify(token: str, *keys: dict[str, Any], at_s: float = NOW_S) -> dict[str, Any]:
    return jwts.verify(token, settings(*(keys or (public_jwk("P-256"),))), int(at_s * 10**9))


def refused(token: str, *keys: dict[str, Any], at_s: float = NOW_S) -> str:
    with pytest.raises(JwtError) as error:
        verify(token, *keys, at_s=at_s)
    return str(error.value)


def encoded(part: object) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def forged(header: object, payload: object, secret: bytes = b"") -> str:
    """A token that PyJWT would not make, with an HMAC of ``secret`` as its signature."""
    text = f"{encoded(header)}.{encoded(payload)}"
    return f"{text}.{encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest()) if secret else ''}"


def es256(**claims: Any) -> str:
    return signed("P-256", "ES256", **claims)


CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "a", "exp": NOW_S + 60}


@pytest.mark.parametrize(("kind", "algorithm"), PAIRS)
def test_each_algorithm(kind: str, algorithm: str) -> None:
    """SE-9: a token that is signed with an algorithm of the key gives its claims."""
    assert verify(signed(kind, algorithm), public_jwk(kind))["sub"] == "system:ci"


@pytest.mark.parametrize(("kind", "algorithm"), PAIRS)
@pytest.mark.parametrize("other", ALGORITHMS)
def test_the_key_decides(kind: str, algorithm: str, other: str) -> None:
    """SE-8: a token of another kind of key is refused, whatever algorithm it names."""
    if kind != other:
        assert refused(signed(kind, algorithm), public_jwk(other)) == "its algorithm is not one of the key"


def test_an_algorithm_that_the_key_rules_out() -> None:
    """SE-8: also one that the kind of key has."""
    assert refused(signed("RSA", "RS512"), public_jwk("RSA", alg="PS256")) == "its algorithm is not one of the key"


@pytest.mark.parametrize("none", ["none", "None", "NONE", "", None])
def test_none(none: str | None) -> None:
    """SE-8: a token without a signature is refused, however it is written."""
    assert refused(forged({"alg": none}, CLAIMS)) == "its algorithm is not one of the key"
    assert refused(forged({"alg": none}, CLAIMS, b"x")) == "its algorithm is not one of the key"


@pytest.mark.parametrize("kind", ALGORITHMS)
@pytest.mark.parametrize("form", [Encoding.PEM, Encoding.DER])
def test_an_hmac_with_the_public_key(kind: str, form: Encoding) -> None:
    """SE-8: the public key is known to everybody, so it must never be taken for a secret."""
    secret = private(kind).public_key().public_bytes(form, PublicFormat.SubjectPublicKeyInfo)
    assert refused(forged({"alg": "HS256"}, CLAIMS, secret), public_jwk(kind)) == "its algorithm is not one of the key"


def test_another_key() -> None:
    """SE-9: of the same kind, but not one of the issuer."""
    assert refused(signed("RSA-2", "RS256"), public_jwk("RSA")) == "its signature does not fit the key"


def test_each_character_counts() -> None:
    """SE-9: a token with any part changed is refused."""
    token = es256()
    for index in range(0, len(token), 7):
        other = "A" if token[index] != "A" else "B"
        refused(token[:index] + other + token[index + 1 :])


def test_the_key_of_the_token() -> None:
    """SE-8: with several keys the token names its own; a key that is not there, or is that of another, refuses it."""
    keys = [public_jwk("RSA", kid="a"), public_jwk("RSA-2", kid="b")]
    assert verify(signed("RSA-2", "RS256", {"kid": "b"}), *keys)
    assert refused(signed("RSA-2", "RS256", {"kid": "a"}), *keys) == "its signature does not fit the key"
    assert refused(signed("RSA-2", "RS256", {"kid": "c"}), *keys) == "it names the key 'c', which is not in the JWKS file"
    assert refused(signed("RSA-2", "RS256"), *keys) == "it names the key nothing, which is not in the JWKS file"


def test_a_key_in_the_token() -> None:
    """SE-8: keys and places of keys in a header are not looked at."""
    header = {"jwk": public_jwk("RSA-2"), "jku": "https://elsewhere", "x5u": "https://elsewhere"}
    assert refused(signed("RSA-2", "RS256", header), public_jwk("RSA")) == "its signature does not fit the key"


def test_a_critical_header() -> None:
    """SE-9: a header that must be understood and is not."""
    assert refused(signed("P-256", "ES256", {"crit": ["exp2"], "exp2": 1})) == "it is malformed"


@pytest.mark.parametrize("claim", jwts.REQUIRED)
def test_a_missing_claim(claim: str) -> None:
    """SE-9."""
    assert refused(es256(**{claim: None})) == "it lacks one of the claims exp, iss, aud, sub"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://issuer/"}, "it has another issuer"),
        ({"iss": ""}, "it has another issuer"),
        ({"aud": "other"}, "it is for another audience"),
        ({"aud": []}, "it lacks one of the claims exp, iss, aud, sub"),
        ({"aud": {"ykactor": 1}}, "it is for another audience"),
        ({"aud": ["other", 1]}, "it is for another audience"),
        ({"sub": ""}, "its subject (sub) is empty"),
        ({"sub": ["system:ci"]}, "it is malformed"),
        ({"sub": 1}, "it is malformed"),
    ],
)
def test_wrong_claims(claims: dict[str, Any], reason: str) -> None:
    """SE-9: issuer and audience are exactly those of the access file."""
    assert refused(es256(**claims)) == reason


def test_several_audiences() -> None:
    """SE-9: one of them has to be ours."""
    assert verify(es256(aud=["other", AUDIENCE]))


def test_expiry() -> None:
    """SE-3, SE-9: refused from ``exp`` and 30 s on, which is the time that ``expires_ns`` gives."""
    token = es256(exp=NOW_S + 60)
    claims = verify(token, at_s=NOW_S + 89.999)
    assert refused(token, at_s=NOW_S + 90) == "it has expired"
    assert jwts.expires_ns(claims) == (NOW_S + 90) * 10**9
    assert jwts.expires_ns(verify(es256(exp=NOW_S + 60.9))) == (NOW_S + 90) * 10**9


def test_not_yet() -> None:
    """SE-9: up to 30 s before ``nbf`` and ``iat``, as clocks differ, and not earlier."""
    for claim in ("nbf", "iat"):
        assert verify(es256(**{claim: NOW_S + 30}))
        assert refused(es256(**{claim: NOW_S + 31})) == "it is not valid yet"


@pytest.mark.parametrize("time", ["1", True, -1, 2**53, 10**400, [], {}, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
def test_what_is_no_time(claim: str, time: object) -> None:
    """SE-9: refused, and no error of ours."""
    assert refused(es256(**{claim: time})) == f"its {claim} is no time in seconds"


def test_the_longest_lifetime() -> None:
    """SE-9: 24 h from when it was made, or from now; a token that is valid for years cannot be taken back."""
    day = 24 * 3600
    assert verify(es256(exp=NOW_S + day))
    assert verify(es256(exp=NOW_S + 60, iat=NOW_S - day + 60))
    longer = "it is valid for more than 86400 seconds"
    assert refused(es256(exp=NOW_S + day + 1)) == longer
    assert refused(es256(exp=2**53 - 1)) == longer
    assert refused(es256(exp=NOW_S + 60, iat=NOW_S - day)) == longer
    assert refused(es256(exp=NOW_S + day + 20, iat=NOW_S + 20)) == longer
    allowed = settings(public_jwk("P-256"), lifetime_max_s=2 * day)
    assert jwts.verify(es256(exp=NOW_S + 2 * day), allowed, NOW_S * 10**9)


def test_the_longest_token() -> None:
    """SE-9: 8 KiB; a longer one is not even looked at."""
    long = es256(more="x" * 8000)
    assert len(long) > jwts.TOKEN_BYTES_MAX
    assert refused(long) == "found more than 8192 bytes, or not ASCII"
    assert verify(es256(more="x" * 5000))


@pytest.mark.parametrize(
    "token",
    [
        "..",
        "a.b.c",
        "ä.b.c",
        forged([], CLAIMS, b"x"),
        forged({}, CLAIMS, b"x"),
        forged({"alg": ["ES256"]}, CLAIMS, b"x"),
        forged({"alg": "ES256"}, CLAIMS, b"x"),
        forged({"alg": "ES256", "kid": 1}, CLAIMS, b"x"),
        forged({"alg": "ES256", "b64": False}, CLAIMS, b"x"),
        forged(b"[" * 5000, CLAIMS, b"x"),
        forged({"alg": "ES256"}, b"[" * 5000, b"x"),
        forged(b"\xff", CLAIMS, b"x"),
    ],
)
def test_malformed(token: str) -> None:
    """SE-9: whatever arrives is refused with a reason, which holds no part of it (SE-10)."""
    assert token[:20] not in refused(token)


def test_signed_nonsense() -> None:
    """SE-9: also what the issuer itself has signed has to be an object."""
    for payload in (b"[]", b"1", b"{", b"[" * 5000, b"\xff"):
        token = jwt.PyJWS().encode(payload, private("P-256"), "ES256")
        assert refused(token) == "it is malformed"
