"""The content of an access file, and the identity of a connection (SE-1, SE-2, SE-3): its credentials give one, or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from ykactor.access import jwts, tokens
from ykactor.access.credentials import Credentials, Login, NotAuthenticatedError
from ykactor.access.jwts import JwtSettings
from ykactor.access.limits import Limits
from ykactor.access.model import OVERFLOW_UID, CertificateProof, Identity, JwtProof, Proof, UserProof
from ykactor.access.tokens import Token, Tokens
from ykactor.core.values.quantities import shown


class Access(Struct, frozen=True, kw_only=True):
    """The content of an access file, with the files that it names.

    Attributes:
        tokens_file: as it is written in the access file; ``jwks_file`` too, empty without a key ``jwt``.
        warnings: one line each, of what is allowed and probably not meant.
    """

    identities: tuple[Identity, ...] = ()
    tokens: Tokens = Tokens()
    jwt: JwtSettings | None = None
    limits: Limits = Limits()
    tokens_file: str = ""
    jwks_file: str = ""
    warnings: tuple[str, ...] = ()

    def find(self, name: str) -> Identity | None:
        """The identity with this name."""
        return next((identity for identity in self.identities if identity.name == name), None)


class Authenticated(Struct, frozen=True):
    """An identity and how it was shown.

    Attributes:
        expires_ns: the Unix time from which the proof is none any more.
        subject: who it is in the words of the proof: the id of a token, the subject of a JWT, a name of a certificate, a user.
    """

    identity: Identity
    proof: Proof | Token
    expires_ns: int
    subject: str


def authenticate(access: Access, credentials: Credentials, now_ns: int) -> Authenticated:
    """The identity of a connection. A bearer is the first proof, then the certificate, then the user.

    Raises:
        NotAuthenticatedError: the bearer is bad, nothing that is shown is a proof, all proofs have expired, or they are of two
            identities.
    """
    found = [*_by_bearer(access, credentials, now_ns), *_by_certificate(access, credentials), *_by_user(access, credentials)]
    if not found:
        raise NotAuthenticatedError(f"found no proof of an identity: {_unknown(credentials)}")
    valid = [proved for proved in found if now_ns < proved.expires_ns]
    if not valid:
        raise NotAuthenticatedError(f"the proof of {found[0].identity.name} has expired: {found[0].subject}")
    names = dict.fromkeys(proved.identity.name for proved in valid)
    if len(names) > 1:
        raise NotAuthenticatedError(f"found proofs of several identities, expected those of one: {', '.join(names)}")
    return _within(credentials.login, valid[0], now_ns)


def _within(login: Login | None, proved: Authenticated, now_ns: int) -> Authenticated:
    """An identity, for as long as the login lasts that proves it."""
    if login is None:
        return proved
    if login.is_over or now_ns >= login.expires_ns:
        raise NotAuthenticatedError(f"the login of {proved.identity.name} has ended")
    return structs.replace(proved, expires_ns=min(proved.expires_ns, login.expires_ns))


def _unknown(credentials: Credentials) -> str:
    """The credentials that prove nothing, in words."""
    certificate = f"a certificate of {', '.join(map(shown, credentials.certificate))}" if credentials.certificate else ""
    user = "" if credentials.uid is None else f"the user {credentials.uid}"
    return " and ".join(filter(None, (certificate, user))) or "nothing is shown"


def _by_bearer(access: Access, credentials: Credentials, now_ns: int) -> list[Authenticated]:
    """The identity that the bearer proves; a bearer that proves nothing is an error, whatever else is shown (SE-2)."""
    if credentials.bearer is None:
        return []
    if not credentials.bearer:
        raise NotAuthenticatedError("the bearer is empty, or the header Authorization has none")
    if tokens.is_token(credentials.bearer):
        found = [_by_token(access, credentials.bearer)]
    elif jwts.is_jwt(credentials.bearer):
        found = list(_by_jwt(access, credentials.bearer, now_ns))
    else:
        raise NotAuthenticatedError("the bearer is neither a token nor a JWT")
    if not any(now_ns < proved.expires_ns for proved in found):
        raise NotAuthenticatedError(f"the bearer of {found[0].identity.name} has expired: {found[0].subject}")
    return found


def _by_token(access: Access, secret: str) -> Authenticated:
    token = access.tokens.find(secret)
    if token is None:
        raise NotAuthenticatedError("the token is unknown: it was revoked, or never made")
    identity = access.find(token.identity)
    if identity is None:
        raise NotAuthenticatedError(f"the token {token.id} is for {shown(token.identity)}, which is no identity")
    return Authenticated(identity, token, token.expires_ns, f"token {token.id}")


def _by_jwt(access: Access, token: str, now_ns: int) -> list[Authenticated]:
    if access.jwt is None:
        raise NotAuthenticatedError("found a JWT, but the access file has no key jwt")
    try:
        claims = jwts.verify(token, access.jwt, now_ns)
    except jwts.JwtError as error:
        raise NotAuthenticatedError(f"the JWT is refused: {error}") from None
    expires_ns = jwts.expires_ns(claims)
    found = [
        Authenticated(identity, proof, min(expires_ns, proof.expires_ns), f"JWT subject {shown(claims['sub'])}")
        for identity, proof in _proofs(access)
        if isinstance(proof, JwtProof) and _has(claims, proof)
    ]
    if not found:
        raise NotAuthenticatedError(f"the JWT of the subject {shown(claims['sub'])} has the claims of no identity")
    return found


def _has(claims: dict[str, Any], proof: JwtProof) -> bool:
    return all(claims.get(claim) == value for claim, value in proof.claims)


def _by_certificate(access: Access, credentials: Credentials) -> Iterator[Authenticated]:
    for identity, proof in _proofs(access):
        if isinstance(proof, CertificateProof) and proof.name in credentials.certificate:
            expires_ns = min(proof.expires_ns, credentials.certificate_expires_ns)
            yield Authenticated(identity, proof, expires_ns, f"certificate {proof.name}")


def _by_user(access: Access, credentials: Credentials) -> Iterator[Authenticated]:
    if credentials.uid in (None, OVERFLOW_UID):
        return
    for identity, proof in _proofs(access):
        if isinstance(proof, UserProof) and proof.uid == credentials.uid:
            yield Authenticated(identity, proof, proof.expires_ns, f"user {proof.user}")


def _proofs(access: Access) -> Iterator[tuple[Identity, Proof]]:
    for identity in access.identities:
        for proof in identity.proofs:
            yield identity, proof
