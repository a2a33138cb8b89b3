"""Identities of every role, each shown in every way, and who lets them in."""

from collections.abc import Mapping
from typing import Any

from accessfiles import NOW_NS
from signing import jwks_text, public_jwk, signed

from ykactor.access import moments, tokens
from ykactor.access.access import Access
from ykactor.access.credentials import Credentials
from ykactor.access.file import Environment, load
from ykactor.access.model import Role
from ykactor.access.tokens import Tokens
from ykactor.actors.clock import Clock
from ykactor.surfaces.admission.access_control import AccessControl

#: By identity, its keys in the access file.
IDENTITIES = {
    "rm": "roles: [rm], rmIDs: [rm-1], users: [alice], groups: [dev]",
    "operator": "roles: [operator]",
    "reader": "roles: [reader]",
    "metrics": "roles: [metrics]",
}
#: By identity, its roles: each has the role of its name, and who operates is a reader too (SE-20).
ROLES = {name: {Role(name)} | ({Role.READER} if name == "operator" else set()) for name in IDENTITIES}
SECRETS = {name: f"yk_{name:_>43}" for name in IDENTITIES}
UIDS = {f"user-of-{name}": 2000 + number for number, name in enumerate(IDENTITIES)}
WAYS = ("token", "user", "certificate", "jwt")


def text_of(identities: Mapping[str, str] = IDENTITIES) -> str:
    """An access file in which each of these is shown in every way."""
    lines = ["identities:"]
    for name, keys in identities.items():
        proofs = f"{{user: user-of-{name}}}, {{certificate: 'DNS:{name}'}}, {{jwt: {{sub: '{name}'}}}}"
        lines.append(f"  - {{name: {name}, {keys}, proofs: [{proofs}]}}")
    return "\n".join([*lines, "jwt: {jwks: keys.json, issuer: https://issuer, audience: ykactor}", ""])


def tokens_of(secrets: Mapping[str, str] = SECRETS, expires_ns: int | None = None) -> bytes:
    """A tokens file with the secret of each of these identities."""
    expires = None if expires_ns is None else moments.at(expires_ns)
    kept = Tokens()
    for name, secret in secrets.items():
        kept = kept.with_new(secret, name, moments.at(0), expires)
    return tokens.text_of(kept)


def keys(kind: str = "Ed25519") -> bytes:
    return jwks_text(public_jwk(kind))


def access(
    identities: Mapping[str, str] = IDENTITIES,
    secrets: Mapping[str, str] = SECRETS,
    expires_ns: int | None = None,
    key: str = "Ed25519",
) -> Access:
    files = {"tokens.json": tokens_of(secrets, expires_ns), "keys.json": keys(key)}

    def read(name: str) -> bytes:
        return files[name]

    return load(text_of(identities), "access.yaml", Environment(read, UIDS.get))


def jwt_of(name: str, **claims: Any) -> str:
    return signed("Ed25519", "EdDSA", sub=name, **claims)


def credentials(name: str, way: str) -> Credentials:
    """The credentials that prove this identity."""
    match way:
        case "token":
            return Credentials(bearer=SECRETS[name])
        case "user":
            return Credentials(uid=UIDS[f"user-of-{name}"])
        case "certificate":
            return Credentials(certificate=("CN:other", f"DNS:{name}"))
        case _:
            return Credentials(bearer=jwt_of(name))


def control_of(found: Access | None = None) -> AccessControl:
    """An access control at the time of ``accessfiles``; to be called within trio."""
    return AccessControl(access() if found is None else found, Clock(NOW_NS))
