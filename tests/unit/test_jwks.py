"""The JWKS file: public keys that verify signatures, and nothing else."""

import json
from typing import Any

import pytest
from signing import jwks_text, private_jwk, public_jwk

from ykactor.access import jwts
from ykactor.access.jwts import JwksError


def mistakes(*keys: Any) -> list[str]:
    with pytest.raises(JwksError) as error:
        jwts.parse_keys(jwks_text(*keys))
    return error.value.mistakes


@pytest.mark.parametrize(
    ("kind", "algorithms"),
    [
        ("RSA", {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
        ("P-256", {"ES256"}),
        ("P-384", {"ES384"}),
        ("P-521", {"ES512"}),
        ("Ed25519", {"EdDSA"}),
    ],
)
def test_the_key_fixes_the_algorithms(kind: str, algorithms: set[str]) -> None:
    """SE-8: by its kind and curve; ``alg`` of the key leaves one of them."""
    (key,) = jwts.parse_keys(jwks_text(public_jwk(kind))).all
    assert set(key.algorithms) == algorithms
    for algorithm in algorithms:
        (key,) = jwts.parse_keys(jwks_text(public_jwk(kind, alg=algorithm, use="sig"))).all
        assert key.algorithms == (algorithm,)
    assert mistakes(public_jwk(kind, alg="HS256"))[0].startswith("keys[0].alg: found 'HS256', expected ")


RSA, EC, ED = public_jwk("RSA"), public_jwk("P-256"), public_jwk("Ed25519")


@pytest.mark.parametrize(
    ("key", "mistake"),
    [
        ({"kty": "oct", "k": "c2VjcmV0"}, ".kty: found 'oct', expected RSA, EC or OKP: a key that only verifies signatures"),
        ({}, ".kty: found nothing, expected RSA, EC or OKP: a key that only verifies signatures"),
        ({"kty": 1}, ".kty: found no text, expected RSA, EC or OKP: a key that only verifies signatures"),
        ("RSA", ": found no object, expected a key"),
        (private_jwk("RSA"), ": found a private key (it has d), expected a public one"),
        (private_jwk("P-256"), ": found a private key (it has d), expected a public one"),
        (private_jwk("Ed25519"), ": found a private key (it has d), expected a public one"),
        ({**RSA, "p": ""}, ": found a private key (it has p), expected a public one"),
        ({**RSA, "use": "enc"}, ".use: found 'enc', expected sig"),
        ({**RSA, "kid": 7}, ".kid: found no text, expected text"),
        ({**RSA, "alg": "none"}, ".alg: found 'none', expected RS256, RS384, RS512, PS256, PS384, PS512"),
        ({**RSA, "alg": "ES256"}, ".alg: found 'ES256', expected RS256, RS384, RS512, PS256, PS384, PS512"),
        ({**RSA, "alg": ["RS256"]}, ".alg: found no text, expected RS256, RS384, RS512, PS256, PS384, PS512"),
        ({**EC, "alg": "ES384"}, ".alg: found 'ES384', expected ES256"),
        ({**EC, "crv": "secp256k1"}, ".crv: found 'secp256k1', expected P-256, P-384, P-521"),
        ({**EC, "crv": "P-384"}, ": found numbers that are no EC key of at least 2048 bits (RSA) or on its curve"),
        ({**ED, "crv": "X25519"}, ".crv: found 'X25519', expected Ed25519"),
        ({"kty": "RSA", "n": "AQAB"}, ": found no text e, expected a RSA key"),
        ({**RSA, "n": "AQAB"}, ": found numbers that are no RSA key of at least 2048 bits (RSA) or on its curve"),
        (public_jwk("RSA-1024"), ": found numbers that are no RSA key of at least 2048 bits (RSA) or on its curve"),
        ({**ED, "x": "!"}, ": found numbers that are no OKP key of at least 2048 bits (RSA) or on its curve"),
    ],
)
def test_a_wrong_key(key: Any, mistake: str) -> None:
    """SE-8: with its index, also beside a right one."""
    assert mistakes(key) == [f"keys[0]{mistake}"]
    assert mistakes({**RSA, "kid": "a"}, key)[0] == f"keys[1]{mistake}"


def test_several_keys_have_names() -> None:
    """SE-8: each another one; a single key needs none."""
    named = {**RSA, "kid": "a"}
    assert mistakes(named, EC) == ["keys[1].kid: found nothing, expected a name, as there are several keys"]
    assert mistakes(named, {**EC, "kid": "a"}) == ["keys[1].kid: found 'a', which keys[0] has too"]
    assert len(jwts.parse_keys(jwks_text(named, {**EC, "kid": "b"})).all) == 2


def test_all_mistakes() -> None:
    """SE-8: those of all keys at once."""
    assert [line.split(":")[0] for line in mistakes({}, RSA, {**RSA, "use": "enc"})] == [
        "keys[0].kty",
        "keys[2].use",
        "keys[1].kid",
    ]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": {}}', b"\xff", b'{"keys":' + b"[" * 100_000])
def test_what_is_no_jwks(content: bytes) -> None:
    """SE-8: a file without keys verifies nothing, which nobody means."""
    with pytest.raises(JwksError, match=r"expected a JWKS"):
        jwts.parse_keys(content)


def test_which_key_a_token_means() -> None:
    """SE-8: the one that it names; a single one without a name is meant always, a single one with a name also by no name."""
    several = jwts.parse_keys(json.dumps({"keys": [{**RSA, "kid": "a"}, {**EC, "kid": "b"}]}).encode())
    assert [several.find(kid) for kid in ("a", "b", "c", "")] == [*several.all, None, None]
    named, nameless = jwts.parse_keys(jwks_text({**RSA, "kid": "a"})), jwts.parse_keys(jwks_text(RSA))
    assert [named.find(kid) is not None for kid in ("a", "", "b")] == [True, True, False]
    assert [nameless.find(kid) is not None for kid in ("a", "")] == [True, True]
