"""Every way to show the identity of a connection, alone and together."""

from collections.abc import Callable

import pytest
from accessfiles import NOW_NS, access_of
from msgspec import structs
from signing import NOW_S, jwks_text, public_jwk, signed

from ykactor.access import moments, tokens
from ykactor.access.access import Access, Authenticated, authenticate
from ykactor.access.credentials import Credentials, Login, NotAuthenticatedError
from ykactor.access.model import UserProof
from ykactor.access.tokens import Tokens
from ykactor.core.values.times import NEVER

SOON = moments.shown(moments.at(NOW_NS + 60 * 10**9))
SOON_NS = NOW_NS + 60 * 10**9
TEXT = f"""
identities:
  - {{name: ci, roles: [rm], rmIDs: [ci], proofs: [
      {{user: alice}}, {{certificate: "URI:spiffe://ci", expires: {SOON}}}, {{jwt: {{sub: system:ci}}}}]}}
  - {{name: ops, roles: [operator], proofs: [
      {{user: root}}, {{certificate: "DNS:ops"}}, {{jwt: {{group: ops, env: prod}}, expires: {SOON}}}]}}
jwt: {{jwks: keys.json, issuer: https://issuer, audience: ykactor}}
"""
CI, OPS, OLD, GONE = (f"yk_{letter * 43}" for letter in "cogx")


@pytest.fixture(scope="module")
def access() -> Access:
    kept = Tokens()
    for secret, name, expires_ns in ((CI, "ci", None), (OPS, "ops", SOON_NS), (OLD, "ci", NOW_NS), (GONE, "gone", None)):
        kept = kept.with_new(secret, name, moments.at(0), None if expires_ns is None else moments.at(expires_ns))
    return access_of(TEXT, {"keys.json": jwks_text(public_jwk("P-256")), "tokens.json": tokens.text_of(kept)})


Let = Callable[..., Authenticated]


@pytest.fixture
def let(access: Access) -> Let:
    """Lets in whoever shows this, at a time in seconds from now."""
    return lambda after_s=0.0, **shown: authenticate(access, Credentials(**shown), NOW_NS + int(after_s * 10**9))


def refused(let: Let, **shown: object) -> str:
    with pytest.raises(NotAuthenticatedError) as error:
        let(**shown)
    return str(error.value)


def jwt_of(**claims: object) -> str:
    return signed("P-256", "ES256", **claims)


def test_each_proof(let: Let) -> None:
    """SE-1: a token, a user, a certificate and a JWT each show their identity, for as long as they hold."""
    found = {
        "token": let(bearer=OPS),
        "user": let(uid=1000),
        "certificate": let(certificate=("DNS:other", "URI:spiffe://ci")),
        "jwt": let(bearer=jwt_of()),
    }
    assert {way: (proved.identity.name, proved.expires_ns) for way, proved in found.items()} == {
        "token": ("ops", SOON_NS),
        "user": ("ci", NEVER),
        "certificate": ("ci", SOON_NS),
        "jwt": ("ci", (NOW_S + 630) * 10**9),
    }
    assert [proved.subject for proved in found.values()] == [
        f"token {tokens.digest_of(OPS)[:8]}",
        "user alice",
        "certificate URI:spiffe://ci",
        "JWT subject 'system:ci'",
    ]


def test_nothing(let: Let) -> None:
    """SE-1, SE-60: who shows nothing, or nothing that is known, is nobody; the log says in words what is shown."""
    for credentials, said in (
        ({}, "nothing is shown"),
        ({"uid": 5}, "the user 5"),
        ({"certificate": ("CN:ops",)}, "a certificate of 'CN:ops'"),
        (
            {"certificate": ("URI:spiffe://ci/x", "DNS:OPS"), "uid": 5},
            "a certificate of 'URI:spiffe://ci/x', 'DNS:OPS' and the user 5",
        ),
    ):
        assert refused(let, **credentials) == f"found no proof of an identity: {said}"


def test_names_of_certificates_are_exact(let: Let) -> None:
    """SE-7: type and name, every character."""
    for name in ("spiffe://ci", "URI:spiffe://c", "URI:spiffe://ci/", "uri:spiffe://ci", "DNS:spiffe://ci", ""):
        refused(let, certificate=(name,))


def test_the_user_of_nobody(access: Access) -> None:
    """SE-6: the number of users that have none here matches nothing, even if the file were to name it."""
    (first, *others) = access.identities
    everybody = structs.replace(access, identities=(structs.replace(first, proofs=(UserProof("nobody", 65534),)), *others))
    with pytest.raises(NotAuthenticatedError):
        authenticate(everybody, Credentials(uid=65534), NOW_NS)


BAD = {
    "": "the bearer is empty, or the header Authorization has none",
    "secret": "the bearer is neither a token nor a JWT",
    CI[:-1]: "the bearer is neither a token nor a JWT",
    "yk_" + "z" * 43: "the token is unknown: it was revoked, or never made",
    GONE: "which is no identity",
    OLD: "the bearer of ci has expired: token ",
    jwt_of(exp=NOW_S - 60): "the JWT is refused: it has expired",
    jwt_of(sub="other"): "the JWT of the subject 'other' has the claims of no identity",
    "a.b.c": "the JWT is refused: it is malformed",
}


@pytest.mark.parametrize("bearer", BAD, ids=range(len(BAD)))
def test_a_bad_bearer(let: Let, bearer: str) -> None:
    """SE-2: refused, also beside proofs that are good; the reason holds no part of it (SE-10)."""
    for others in ({}, {"uid": 1000}, {"certificate": ("URI:spiffe://ci",)}):
        reason = refused(let, bearer=bearer, **others)
        assert BAD[bearer] in reason
        assert not bearer or bearer[:40] not in reason


def test_a_jwt_without_an_issuer() -> None:
    """SE-9: an access file without the key ``jwt`` accepts none."""
    plain = access_of("identities: [{name: a, roles: [reader], proofs: [{user: bob}]}]")
    with pytest.raises(NotAuthenticatedError, match="found a JWT, but the access file has no key jwt"):
        authenticate(plain, Credentials(bearer=jwt_of(), uid=1001), NOW_NS)


def test_several_proofs_of_one(let: Let) -> None:
    """SE-1: they are the same identity; the bearer counts, then the certificate, then the user."""
    everything = {"certificate": ("URI:spiffe://ci",), "uid": 1000}
    assert let(bearer=CI, **everything).subject.startswith("token ")
    assert let(**everything).subject == "certificate URI:spiffe://ci"


@pytest.mark.parametrize(
    "shown",
    [
        {"bearer": CI, "uid": 0},
        {"bearer": CI, "certificate": ("DNS:ops",)},
        {"certificate": ("DNS:ops",), "uid": 1000},
        {"certificate": ("DNS:ops", "URI:spiffe://ci")},
        {"bearer": jwt_of(group="ops", env="prod")},
    ],
)
def test_proofs_of_two(let: Let, shown: dict[str, object]) -> None:
    """SE-1: nobody is two; which of them is meant must not depend on an order."""
    assert refused(let, **shown).startswith("found proofs of several identities, expected those of one: ")


def test_all_claims(let: Let) -> None:
    """SE-9: an identity needs each of its claims, with exactly its value."""
    assert let(bearer=jwt_of(sub="x", group="ops", env="prod")).identity.name == "ops"
    for others in (
        {"group": "ops"},
        {"group": "ops", "env": "Prod"},
        {"group": ["ops"], "env": "prod"},
        {"group": None, "env": None},
    ):
        refused(let, bearer=jwt_of(sub="x", **others))


def test_expiry(let: Let) -> None:
    """SE-3: at the moment that ``expires`` names, every kind of proof is none any more."""
    ops = jwt_of(sub="x", group="ops", env="prod")
    for shown in ({"bearer": OPS}, {"certificate": ("URI:spiffe://ci",)}, {"bearer": ops}):
        assert let(after_s=59.9, **shown).expires_ns == SOON_NS
        with pytest.raises(NotAuthenticatedError, match="has expired"):
            let(after_s=60, **shown)


def test_a_certificate_that_expires(let: Let) -> None:
    """SE-33: the earlier one of the end of the certificate and that of the proof."""
    for name, ends_s, expires_s in (("DNS:ops", 30, 30), ("URI:spiffe://ci", 30, 30), ("URI:spiffe://ci", 90, 60)):
        shown = {"certificate": (name,), "certificate_expires_ns": NOW_NS + ends_s * 10**9}
        assert let(after_s=expires_s - 0.1, **shown).expires_ns == NOW_NS + expires_s * 10**9
        with pytest.raises(NotAuthenticatedError, match="has expired"):
            let(after_s=expires_s, **shown)


def test_what_has_expired_does_not_disturb(let: Let) -> None:
    """SE-3: a proof that has expired is as one that is not shown, unless it is the bearer."""
    assert let(after_s=60, certificate=("URI:spiffe://ci",), uid=0).identity.name == "ops"


def test_a_login_shows_what_it_stands_for_no_longer_than_it_lasts(let: Let) -> None:
    """SE-98: it ends by itself, with its token if that ends before, and when the page logs out."""
    soon = Login(bearer=CI, page="http://host", expires_ns=NOW_NS + 9 * 10**9)
    late = Login(bearer=OPS, page="http://host", expires_ns=NEVER)
    assert let(bearer=CI, login=soon).expires_ns == soon.expires_ns
    assert let(bearer=OPS, login=late).expires_ns == SOON_NS
    with pytest.raises(NotAuthenticatedError, match="the login of ci has ended"):
        let(after_s=9, bearer=CI, login=soon)
    soon.is_over = True
    with pytest.raises(NotAuthenticatedError, match="the login of ci has ended"):
        let(bearer=CI, login=soon)


def test_no_secret_is_shown() -> None:
    """SE-10: neither of a token nor of a JWT, however credentials get into a log."""
    credentials = Credentials(bearer=CI, uid=1, certificate=("CN:x",))
    assert repr(credentials) == str(credentials) == "Credentials(bearer=..., uid=1, certificate=('CN:x',))"
