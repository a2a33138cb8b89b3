"""Access files, tokens and credentials of any content: each is accepted or refused, never an error of ours."""

import base64
import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from accessfiles import NOW_NS, access_of
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import scaled
from signing import public_jwk

from ykactor.access import jwts, moments, tokens
from ykactor.access.access import Authenticated, authenticate
from ykactor.access.credentials import Credentials, NotAuthenticatedError
from ykactor.access.jwts import JwksError
from ykactor.access.model import Role
from ykactor.access.tokens import Tokens, TokensError
from ykactor.wire.queuefile.text import ConfigError

NAMES = st.sampled_from(["a", "ci", "*", "", "1x", "root", "alice", "nobody", "root.a", "Root.A.", "gpu", "GPU"])
LISTS = st.lists(NAMES, max_size=3)
OLD = "1999-01-01"
JUNK = st.sampled_from([None, 1, "x", [], {}, [[]], {"a": 1}])
PROOFS = st.fixed_dictionaries(
    {},
    optional={
        "user": NAMES,
        "certificate": st.sampled_from(["URI:a", "DNS:*", "CN:b", "x"]),
        "jwt": st.dictionaries(st.sampled_from(["sub", "iss", "env"]), NAMES, max_size=2) | JUNK,
        "expires": st.sampled_from(["2027-01-01", "1970-01-01", "soon"]),
    },
)
IDENTITIES = st.fixed_dictionaries(
    {"name": NAMES, "roles": st.lists(st.sampled_from([*Role]), max_size=3) | JUNK},
    optional={
        "proofs": st.lists(PROOFS, max_size=2) | JUNK,
        "rmIDs": LISTS | JUNK,
        "partitions": LISTS,
        "users": LISTS,
        "groups": LISTS,
        "mayForce": st.booleans() | JUNK,
        "configure": st.booleans(),
        "queues": LISTS | JUNK,
        "limits": st.dictionaries(st.sampled_from(["sessions", "asks", "x"]), st.integers(-1, 3), max_size=2) | JUNK,
        "unknown": JUNK,
    },
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "identities": st.lists(IDENTITIES, max_size=3) | JUNK,
        "tokens": NAMES,
        "jwt": st.fixed_dictionaries({}, optional={"jwks": NAMES, "issuer": NAMES, "lifetime": NAMES}) | JUNK,
        "limits": st.dictionaries(st.sampled_from(["totalSessions", "asks", "x"]), st.integers(-1, 3), max_size=2) | JUNK,
    },
)
#: Identities that are right by themselves, so that many files are accepted.
RIGHT = st.builds(
    lambda name, role, queues, users, proof: {
        "name": name,
        "roles": [role],
        **({"rmIDs": ["*"], "users": users} if role is Role.RM else {}),
        **({"queues": queues} if role in (Role.READER, Role.OPERATOR) else {}),
        "proofs": [proof],
    },
    st.sampled_from(["a", "ci", "ops"]),
    st.sampled_from([*Role]),
    st.lists(st.sampled_from(["root.a", "ROOT.b.", "root.a.c"]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(["alice", "bob"]), min_size=1, max_size=2, unique=True),
    st.sampled_from(
        [{"user": "alice"}, {"user": "bob"}, {"certificate": "CN:b"}, {"certificate": "URI:a", "expires": "1999-01-01"}]
    ),
)
RIGHT_FILES = st.builds(
    lambda identities: {"identities": list({identity["name"]: identity for identity in identities}.values())},
    st.lists(RIGHT, max_size=3),
)
BEARERS = st.none() | st.text(max_size=60) | st.from_regex(r"yk_[A-Za-z0-9_-]{43}", fullmatch=True) | st.just("a.b.c")
CREDENTIALS = st.builds(
    lambda bearer, uid, certificate: Credentials(bearer=bearer, uid=uid, certificate=certificate),
    BEARERS,
    st.sampled_from([None, 0, 1000, 1001, 65534]),
    st.lists(st.sampled_from(["URI:a", "CN:b", "DNS:*"]), max_size=2).map(tuple),
)


JSON = st.recursive(JUNK, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(lambda value: json.dumps(value))
SECRETS = st.integers(0, 10**6).map(lambda number: f"yk_{number:043}")
EXPIRIES = st.none() | st.integers(0, 2 * 10**9)
NUMBERS = st.binary(max_size=80).map(lambda data: base64.urlsafe_b64encode(data).decode()) | JUNK
KEYS = st.fixed_dictionaries(
    {"kty": st.sampled_from(["RSA", "EC", "OKP", "oct", 1])},
    optional={
        **dict.fromkeys(("n", "e", "x", "y"), NUMBERS),
        "crv": st.sampled_from(["P-256", "P-384", "P-521", "Ed25519", "X25519", 1]),
        "kid": st.sampled_from(["a", "b", "", 1]),
        "alg": st.sampled_from(["RS256", "ES256", "EdDSA", "HS256", "none", []]),
        "use": st.sampled_from(["sig", "enc", None]),
        "d": st.just("c2VjcmV0"),
    },
) | st.builds(public_jwk, st.sampled_from(["RSA", "P-256", "Ed25519"]), kid=st.sampled_from(["a", "b", "c"]))

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def outcome(call: Callable[[], T], expected: type[E]) -> T | E:
    """The result of the call, or the error that it raises."""
    try:
        return call()
    except expected as error:
        return error


@settings(max_examples=scaled(500))
@given(FILES | RIGHT_FILES, st.lists(CREDENTIALS, max_size=5))
def test_any_file(document: dict[str, Any], shown: list[Credentials]) -> None:
    """SE-40: mistakes have a place and a code, one line each. What is accepted has identities that nobody can confuse.

    SE-1, SE-2: whoever is let in has shown a proof of that identity; a bearer that is no token lets nobody in.
    """
    access = outcome(lambda: access_of(json.dumps(document)), ConfigError)
    if isinstance(access, ConfigError):
        assert len(access.mistakes) == len(str(access).splitlines()) > 0
        assert all(mistake.line == 1 and mistake.column >= 1 and mistake.code for mistake in access.mistakes)
        return
    names = [identity.name for identity in access.identities]
    assert len(set(names)) == len(names)
    for identity in access.identities:
        assert identity.roles
        is_any = Role.RM in identity.roles and identity.users.is_any and identity.groups.is_any
        assert identity.may_claim("carol", ["carol"]) is is_any
        assert all(queue == queue.lower().rstrip(".") for queue in identity.queues or ())
    for credentials in shown:
        found = outcome(partial(authenticate, access, credentials, NOW_NS), NotAuthenticatedError)
        if isinstance(found, Authenticated):
            assert credentials.bearer is None
            assert found.proof in found.identity.proofs
            assert found.expires_ns > NOW_NS
        elif len(credentials.bearer or "") > 20:
            assert credentials.bearer not in str(found)


@settings(max_examples=scaled(300))
@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text(text: str) -> None:
    """SE-40: text that is no access file has mistakes."""
    access = outcome(lambda: access_of(text), ConfigError)
    assert access.mistakes if isinstance(access, ConfigError) else access.identities == ()


@settings(max_examples=scaled(200))
@given(st.lists(st.tuples(SECRETS, st.sampled_from(["ci", "ops"]), EXPIRIES), unique_by=lambda made: made[0]))
def test_tokens_are_kept(made: list[tuple[str, str, int | None]]) -> None:
    """SE-4, SE-5: what was made is found after the file was written and read, and revoking one leaves all others."""
    kept = Tokens()
    for secret, identity, expires_s in made:
        kept = kept.with_new(secret, identity, moments.at(0), None if expires_s is None else moments.at(expires_s * 10**9))
    read = tokens.parse(tokens.text_of(kept))
    assert read.all == kept.all
    assert len({token.id for token in read.all}) == len(made)
    for secret, identity, expires_s in made:
        token = read.find(secret)
        assert token is not None
        assert (token.identity, token.expires_ns) == (identity, 2**63 if expires_s is None else expires_s * 10**9)
        left = read.without(token.id)
        assert left.find(secret) is None
        assert len(left.all) == len(made) - 1


@settings(max_examples=scaled(300))
@given(st.binary() | JSON.map(str.encode))
def test_any_tokens_file(content: bytes) -> None:
    """SE-5: content that is no tokens file is refused, in one line; a list without a token is one."""
    found = outcome(lambda: tokens.parse(content), TokensError)
    if isinstance(found, TokensError):
        assert "\n" not in str(found)
    else:
        assert (found.all, json.loads(content)) == ((), {"tokens": []})


@settings(max_examples=scaled(500))
@given(st.lists(KEYS | JUNK, max_size=3))
def test_any_keys(keys: list[Any]) -> None:
    """SE-8: keys are public ones with algorithms of their kind, or each mistake has the index of its key and shows no number."""
    found = outcome(lambda: jwts.parse_keys(json.dumps({"keys": keys}).encode()), JwksError)
    if isinstance(found, JwksError):
        assert all(mistake.startswith("keys[") or not keys for mistake in found.mistakes)
        assert "c2VjcmV0" not in str(found)
    else:
        assert {name[:2] for key in found.all for name in key.algorithms} <= {"RS", "PS", "ES", "Ed"}
        assert not any("d" in key for key in keys)
