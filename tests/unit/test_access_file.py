"""The access file: what it says, and every mistake with its place."""

from pathlib import Path

import pytest
from accessfiles import access_of, mistakes_of
from signing import jwks_text, private_jwk, public_jwk

from ykactor.access import moments, tokens
from ykactor.access.model import ANY, CertificateProof, JwtProof, Names, Role, UserProof
from ykactor.access.tokens import Tokens

WHOLE = """
identities:
  - name: ci
    proofs:
      - user: alice
      - certificate: URI:spiffe://corp/ci
        expires: 2027-01-31
      - jwt: {sub: system:ci, env: prod}
        expires: 2027-01-31T12:00:00+01:00
    roles: [rm, reader]
    rmIDs: [ci]
    partitions: [Default, gpu]
    users: [alice, bob]
    groups: [dev]
    mayForce: true
    queues: [ROOT.Team-A., root.b]
    limits: {sessions: 4, bytesPerSecond: 1000}
  - name: ops
    roles: [operator]
    configure: true
jwt: {jwks: keys.json, issuer: https://issuer, audience: ykactor, lifetime: 48h}
tokens: secret/tokens.json
limits: {asks: 7, totalSessions: 99, sessions: 5}
"""
MADE = moments.at(0)
CHAPTER = Path(__file__).parents[2] / "ykactor" / "handbook" / "security.md"
JWKS = {"keys.json": jwks_text(public_jwk("RSA"))}


def test_all_keys() -> None:
    """SE-40: each key of a file means what the rules say."""
    files = {**JWKS, "secret/tokens.json": tokens.text_of(Tokens().with_new(tokens.make(), "ops", MADE, None))}
    access = access_of(WHOLE, files)
    ci, ops = access.identities
    january = moments.unix_ns(moments.parse("2027-01-31"))
    assert ci.proofs == (
        UserProof("alice", 1000),
        CertificateProof("URI:spiffe://corp/ci", january),
        JwtProof((("env", "prod"), ("sub", "system:ci")), january + 11 * 3600 * 10**9),
    )
    assert (ci.roles, ops.roles) == ({Role.RM, Role.READER}, {Role.OPERATOR, Role.READER})
    assert (ci.rm_ids, ci.users, ci.groups) == (Names.of(["ci"]), Names.of(["alice", "bob"]), Names.of(["dev"]))
    assert ci.partitions == Names.of(["default", "gpu"])
    assert (ci.may_force, ci.configure, ops.configure) == (True, False, True)
    assert ci.queues == {"root.team-a", "root.b"}
    assert (ci.limits.sessions, ci.limits.bytes_per_second, ci.limits.asks) == (4, 1000, 7)
    assert (ops.limits.sessions, access.limits.total_sessions) == (5, 99)
    assert access.jwt is not None
    assert (access.jwt.issuer, access.jwt.audience, access.jwt.lifetime_max_s) == ("https://issuer", "ykactor", 48 * 3600)
    assert (access.tokens_file, access.jwks_file) == ("secret/tokens.json", "keys.json")
    assert [token.identity for token in access.tokens.all] == ["ops"]
    assert access.warnings == ()


def test_the_example_of_the_handbook() -> None:
    """SE-40: it is a right file, of which only the token is missing."""
    section = CHAPTER.read_text().partition("## Who may do what\n")[2]
    access = access_of(section.partition("```yaml\n")[2].partition("```")[0], JWKS)
    assert [identity.name for identity in access.identities] == ["ci", "dashboard", "ops"]
    assert access.warnings == (
        "the identity dashboard has neither a proof nor a token, so nobody can act as it: ykactor token create makes one",
    )


def test_the_sample() -> None:
    """SE-40: config/access.yaml is a right file without its tokens, also with the lines that are commented out."""
    text = (Path(__file__).parents[2] / "config" / "access.yaml").read_text()
    with_jwts = text.replace("# - jwt:", "- jwt:").replace("# jwt:", "jwt:")
    for written, has_jwts in ((text, False), (with_jwts, True)):
        access = access_of(written, JWKS)
        assert (access.jwt is not None) == has_jwts
        assert [identity.name for identity in access.identities] == ["ci", "ops", "web-dashboard", "prometheus"]
        assert [warning.split()[2] for warning in access.warnings] == ["web-dashboard", "prometheus"]


def test_defaults() -> None:
    """SE-23, SE-25: a resource manager may claim its own name and change no configuration; partitions and queues are all."""
    (ci,) = access_of("identities: [{name: ci, proofs: [{user: bob}], roles: [rm], rmIDs: ['*']}]").identities
    assert (ci.users, ci.groups, ci.rm_ids) == (Names.of(["ci"]), Names(), ANY)
    assert (ci.partitions, ci.queues, ci.may_force, ci.configure) == (ANY, None, False, False)
    assert access_of("").identities == ()


def identity(keys: str, name: str = "ci") -> str:
    return f"identities: [{{name: {name}, {keys}}}]"


RM = "roles: [rm], rmIDs: [a]"
ISSUER = "\njwt: {jwks: keys.json, issuer: x, audience: y}"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (identity("roles: [reader], qeues: [root.a]"), "1:42: identities[0](ci).qeues: unknown key, did you mean queues? (P2)"),
        (identity("roles: reader"), "1:32: identities[0](ci).roles: found 'reader', expected a list (P4)"),
        (identity("roles: [reader]", "1x"), "1:21: identities[0](1x).name: found '1x', expected a letter or _, then"),
        ("identities: [{roles: [reader]}]", "1:14: identities[0].name: found nothing, expected a letter"),
        (
            "identities:\n- {name: a, roles: [reader]}\n- {name: a, roles: [reader]}",
            "3:10: identities[1](a).name: found a second identity a, the first is in line 2 (SE-41)",
        ),
        (identity("roles: []"), "found no role, expected one or more of rm, operator, reader, metrics, replica (SE-42)"),
        (
            identity("roles: [root]"),
            "identities[0](ci).roles[0]: found 'root', expected one of rm, operator, reader, metrics, replica (SE-42)",
        ),
        (identity("roles: [reader, reader]"), ".roles[1]: found 'reader' a second time, expected each once (SE-43)"),
        (identity("roles: [rm]"), "identities[0](ci).rmIDs: found none, expected what the role rm may register as"),
        (
            identity("roles: [reader], rmIDs: [a]"),
            ".rmIDs: found rmIDs of an identity without the role rm, expected none (SE-42)",
        ),
        (identity("roles: [reader], mayForce: false"), "found mayForce of an identity without the role rm, expected none"),
        (identity("roles: [reader], users: [a]"), "found users of an identity without the role rm, expected none"),
        (identity("roles: [reader], groups: [a]"), "found groups of an identity without the role rm, expected none"),
        (identity("roles: [reader], configure: true"), "found configure of an identity without the role rm or operator"),
        (
            identity("roles: [metrics], partitions: [a]"),
            "found partitions of an identity without the role rm or operator or reader",
        ),
        (identity(f"{RM}, queues: [root.a]"), "found queues of an identity without the role operator or reader, expected none"),
        (identity("roles: [rm], rmIDs: []"), ".rmIDs: found an empty list, expected at least one entry, or no such key (SE-43)"),
        (identity("roles: [rm], rmIDs: ['']"), ".rmIDs[0]: found nothing, expected a text that is not empty (SE-43)"),
        (identity("roles: [rm], rmIDs: [a, '*']"), '.rmIDs[1]: found "*" beside names, expected it alone: it includes all'),
        (identity(f"{RM}, users: [a b]"), ".users[0]: found 'a b', expected a letter or _, then letters, digits or :"),
        (identity(f"{RM}, groups: [a/b]"), ".groups[0]: found 'a/b', expected a letter or _, then letters, digits or :"),
        (identity(f"{RM}, partitions: [a, A]"), ".partitions[1]: found 'A' a second time, expected each once (SE-43)"),
        (identity("roles: [reader], queues: [root.a, Root.A.]"), ".queues[1]: found 'Root.A.' a second time"),
        (identity("roles: [reader], queues: [a]"), ".queues[0]: found 'a', expected a path such as root.a (SE-43)"),
        (identity("roles: [reader], queues: ['*']"), ".queues[0]: found '*', expected a path such as root.a (SE-43)"),
        (identity("roles: [reader], queues: [root..a]"), ".queues[0]: found 'root..a', expected a path such as root.a"),
        (identity(f"{RM}, configure: true, partitions: [a]"), ".configure: found true beside partitions, expected one of them"),
        (identity("roles: [operator], configure: true, queues: [root.a]"), ".configure: found true beside queues, expected one"),
        (identity("roles: [reader, replica], queues: [root.a]"), ".queues: found queues of an identity with the role replica"),
        (identity(f"{RM}, users: ['*']"), '.users: found "*" without groups, expected a key groups too'),
        (identity(f"{RM}, proofs: [{{}}]"), ".proofs[0]: found none of them, expected one of user, certificate, jwt (SE-45)"),
        (identity(f"{RM}, proofs: [{{user: bob, jwt: {{sub: x}}}}]"), "proofs[0]: found user and jwt, expected one of user"),
        (identity(f"{RM}, proofs: [{{user: carol}}]"), "found 'carol', expected a user of this machine (SE-45)"),
        (
            identity(f"{RM}, proofs: [{{user: nobody}}]"),
            "found 'nobody', which has the number 65534 of all users that are unknown",
        ),
        (
            identity(f"{RM}, proofs: [{{certificate: corp}}]"),
            "found 'corp', expected an exact name after URI:, DNS:, email: or CN:",
        ),
        (identity(f"{RM}, proofs: [{{certificate: 'DNS:*.corp'}}]"), "found 'DNS:*.corp', expected an exact name"),
        (identity(f"{RM}, proofs: [{{user: bob, expires: tomorrow}}]"), ".expires: found 'tomorrow', expected a date such as"),
        (
            identity(f"{RM}, proofs: [{{user: bob, expires: 2027-01-31T12:00:00}}]"),
            "expected a date such as 2027-01-31 or a time",
        ),
        (
            identity(f"{RM}, proofs: [{{jwt: {{}}}}]") + ISSUER,
            ".jwt: found no claim, expected at least one with its value, such as sub",
        ),
        (
            identity(f"{RM}, proofs: [{{jwt: {{iss: x}}}}]") + ISSUER,
            ".jwt.iss: found 'iss', expected a claim that tells identities apart",
        ),
        (
            identity(f"{RM}, proofs: [{{jwt: {{sub: }}}}]") + ISSUER,
            ".jwt.sub: found nothing, expected the value that the claim must have",
        ),
        (identity(f"{RM}, proofs: [{{jwt: {{sub: x}}}}]"), "found a JWT, expected a key jwt at the top of the file too (SE-46)"),
        (
            identity(f"{RM}, proofs: [{{user: bob}}, {{user: bob}}]"),
            "proofs[1].user: found what identities[0](ci).proofs[0] in line 1 has too, expected each proof once (SE-45)",
        ),
        ("jwt: {jwks: keys.json, issuer: x}", "jwt.audience: found nothing, expected jwks (a file), issuer and audience (SE-46)"),
        (
            "jwt: {jwks: keys.json, issuer: x, audience: y, lifetime: 2d}",
            "jwt.lifetime: found '2d', expected a duration of at least",
        ),
        ("jwt: {jwks: no.json, issuer: x, audience: y}", "jwt.jwks: 'no.json' cannot be read: No such file or directory (SE-46)"),
        ("limits: {sesions: 1}", "limits.sesions: found 'sesions', expected one of totalSessions, handshakeSeconds,"),
        ("limits: {asks: 0}", "limits.asks: found '0', expected a whole number from 1 to 1000000000000000 (SE-48)"),
        ("limits: {asks: many}", "limits.asks: found 'many', expected a whole number from 1 to 1000000000000000 (SE-48)"),
        ("limits: {tags: -1}", "limits.tags: found '-1', expected a whole number from 1 to 4096 (SE-48)"),
        (
            identity("roles: [reader], limits: {totalSessions: 1}"),
            "limits.totalSessions: found 'totalSessions', expected one of sess",
        ),
    ],
)
def test_mistakes(text: str, mistake: str) -> None:
    """SE-40: each mistake alone, with its place, what was found and what was expected (SE-41 to SE-48)."""
    (line,) = mistakes_of(text, JWKS)
    assert line.startswith("access.yaml:")
    assert mistake in line


def test_two_names_of_one_user_are_one_proof() -> None:
    """SE-6: what counts is the number; with two identities of one number nobody could be either."""
    text = "identities: [{name: a, roles: [reader], proofs: [{user: root}]}, {name: b, roles: [reader], proofs: [{user: root}]}]"
    assert len(mistakes_of(text)) == 1


def test_all_mistakes_at_once() -> None:
    """SE-40: of all entries, and of the files that are named."""
    text = "identities: [{name: 1, roles: [x]}, {nam: b}]\njwt: {jwks: keys.json, issuer: a, audience: b, lifetime: 0}"
    files = {"keys.json": jwks_text(private_jwk("RSA")), "tokens.json": b"{}"}
    lines = mistakes_of(text, files)
    assert [line.rpartition("(")[2] for line in lines] == ["P2)", "SE-41)", "SE-42)", "SE-42)", "SE-5)", "SE-8)", "SE-46)"]


def test_all_mistakes_of_limits_at_once() -> None:
    """SE-40: one that is no number hides no other one."""
    lines = mistakes_of("limits: {asks: [1], nodes: many, tags: 5000, totalSessions: 3, x: 1, queues: 0, sessions: 4}")
    assert [line.partition(": limits.")[2].partition(":")[0] for line in lines] == [
        "asks", "nodes", "tags", "totalSessions", "x", "queues",
    ]  # fmt: skip


def test_a_private_key_is_named_and_not_shown() -> None:
    """SE-8, SE-10: the mistake says which key it is, without any of its numbers."""
    key = private_jwk("RSA")
    (line,) = mistakes_of("jwt: {jwks: k, issuer: a, audience: b}", {"k": jwks_text(key)})
    assert "k: keys[0]: found a private key (it has d), expected a public one (SE-8)" in line
    assert not [value for name, value in key.items() if name not in ("kty", "e", "key_ops") and str(value) in line]


def test_warnings() -> None:
    """SE-47: who cannot be shown, and tokens of nobody, are said and do no harm."""
    kept = Tokens().with_new(tokens.make(), "gone", MADE, None)
    access = access_of("identities: [{name: a, roles: [reader]}]", {"tokens.json": tokens.text_of(kept)})
    assert access.warnings == (
        f"tokens.json: the token {kept.all[0].id} is for 'gone', which is no identity; it lets nobody in",
        "the identity a has neither a proof nor a token, so nobody can act as it: ykactor token create makes one",
    )
