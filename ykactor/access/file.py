"""Reads the access file: converts its text to an ``Access``, or reports every mistake with its place (SE-40).

text -> wire.queuefile.text (nodes) -> wire.queuefile.fields (the types of schema.py) -> rules.py -> here
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from ykactor.access import jwks, moments, rules, tokens
from ykactor.access.access import Access
from ykactor.access.jwts import LIFETIME_MAX_S, JwtSettings
from ykactor.access.limits import FOR_EACH, IdentityLimits, Limits, number, replaced
from ykactor.access.model import (
    OVERFLOW_UID,
    CertificateProof,
    Identity,
    JwtProof,
    Proof,
    Role,
    UserProof,
    normal_queue,
    with_implied,
)
from ykactor.access.schema import FileText, IdentityText, JwtText, ProofText
from ykactor.access.tokens import Tokens
from ykactor.core.values.names import ANY, Names
from ykactor.core.values.quantities import parse_duration, shown
from ykactor.core.values.times import NEVER, S_NS
from ykactor.wire.queuefile.fields import Place, TextReader, note
from ykactor.wire.queuefile.text import ConfigError, Mapping, Mistakes, Scalar, compose

TOKENS_FILE = "tokens.json"


class Surroundings(Struct, frozen=True):
    """The files and users that the access file refers to.

    Attributes:
        read: the content of a file that the access file names; a relative name is beside it. OSError if it cannot be read.
        uid_of: the number of a user of this machine, None for an unknown name.
    """

    read: Callable[[str], bytes]
    uid_of: Callable[[str], int | None]


def load(text: str, source: str, surroundings: Surroundings) -> Access:
    """The content of the access file.

    Args:
        source: the name of the file, for messages.
    Raises:
        ConfigError with all mistakes: first P2 to P8 by position, then broken rules.
    """
    mistakes = Mistakes(source)
    root = compose(text, mistakes)
    if root is None or (isinstance(root, Scalar) and root.is_null):
        root = Mapping(1, 1)
    file = TextReader(mistakes).fields(FileText, Place(root, ""))
    mistakes.found.sort(key=lambda mistake: (mistake.line, mistake.column))
    rules.check(file, mistakes)
    access = _Builder(file, surroundings, mistakes).access()
    if mistakes.found:
        raise ConfigError(mistakes.found)
    return access


class _Builder:
    """Builds what the texts mean, and adds the mistakes that are found only then; with a mistake, parts may be missing."""

    def __init__(self, file: FileText, surroundings: Surroundings, mistakes: Mistakes) -> None:
        self.file = file
        self.surroundings = surroundings
        self.mistakes = mistakes
        #: The first place of each proof of an identity.
        self.shown_by: dict[tuple[str, object], ProofText] = {}

    def access(self) -> Access:
        limits = Limits().with_numbers(_numbers(self.file.limits))
        identities = tuple(self.identity(text, limits.each) for text in self.file.identities)
        tokens_file = self.file.tokens or TOKENS_FILE
        found = self.tokens(tokens_file)
        jwt = self.file.jwt
        return Access(
            identities=identities,
            tokens=found,
            jwt=self.jwt(jwt) if jwt is not None else None,
            limits=limits,
            tokens_file=tokens_file,
            jwks_file=jwt.jwks if jwt is not None else "",
            warnings=tuple(_warnings(identities, found, tokens_file)),
        )

    def identity(self, text: IdentityText, limits: IdentityLimits) -> Identity:
        queues = None if text.queues is None else frozenset(map(normal_queue, text.queues))
        roles = with_implied(role for role in Role if role in text.roles)
        own_name = [text.name] if Role.RM in roles else []
        numbers = {name: value for name, value in _numbers(text.limits).items() if name in FOR_EACH}
        return Identity(
            name=text.name,
            roles=roles,
            proofs=tuple(proof for shown_by in text.proofs if (proof := self.proof(shown_by)) is not None),
            rm_ids=Names.of(text.rm_ids or ()),
            partitions=ANY if text.partitions is None else Names.of(name.lower() for name in text.partitions),
            users=Names.of(own_name if text.users is None else text.users),
            groups=Names.of(text.groups or ()),
            may_force=text.may_force is True,
            configure=text.configure is True,
            queues=queues,
            limits=replaced(limits, numbers),
        )

    def proof(self, text: ProofText) -> Proof | None:
        moment = moments.parse(text.expires) if text.expires else None
        expires_ns = NEVER if moment is None else moments.unix_ns(moment)
        if text.user is not None:
            uid = self.uid(text, text.user)
            return None if uid is None else UserProof(text.user, uid, expires_ns)
        if text.certificate is not None:
            self.refuse_second(text, "certificate", text.certificate)
            return CertificateProof(text.certificate, expires_ns)
        if text.jwt is not None:
            claims = tuple(sorted(text.jwt.items()))
            self.refuse_second(text, "jwt", claims)
            if self.file.jwt is None:
                note(self.mistakes, "SE-46", text, ("jwt",), "found a JWT, expected a key jwt at the top of the file too")
            return JwtProof(claims, expires_ns)
        return None

    def uid(self, text: ProofText, user: str) -> int | None:
        uid = self.surroundings.uid_of(user)
        if uid is None:
            note(self.mistakes, "SE-45", text, ("user",), f"found {shown(user)}, expected a user of this machine")
        elif uid == OVERFLOW_UID:
            found = f"found {shown(user)}, which has the number {uid} of all users that are unknown here"
            note(self.mistakes, "SE-45", text, ("user",), f"{found}, expected another one")
        else:
            self.refuse_second(text, "user", uid)
            return uid
        return None

    def refuse_second(self, text: ProofText, key: str, value: object) -> None:
        first = self.shown_by.setdefault((key, value), text)
        if first is not text:
            found = f"found what {first.place.path} in line {first.place.node.line} has too"
            note(self.mistakes, "SE-45", text, (key,), f"{found}, expected each proof once")

    def jwt(self, text: JwtText) -> JwtSettings | None:
        for key in ("jwks", "issuer", "audience"):
            if not getattr(text, key):
                note(self.mistakes, "SE-46", text, (key,), "found nothing, expected jwks (a file), issuer and audience")
        keys = self.keys(text) if text.jwks else None
        lifetime_ns = parse_duration(text.lifetime) if text.lifetime else LIFETIME_MAX_S * S_NS
        if lifetime_ns is None or lifetime_ns < S_NS:
            found = f"found {shown(text.lifetime)}, expected a duration of at least 1s, such as 12h"
            note(self.mistakes, "SE-46", text, ("lifetime",), found)
            return None
        return None if keys is None else JwtSettings(text.issuer, text.audience, keys, lifetime_ns // S_NS)

    def keys(self, text: JwtText) -> jwks.Keys | None:
        try:
            return jwks.parse(self.surroundings.read(text.jwks))
        except OSError as error:
            note(self.mistakes, "SE-46", text, ("jwks",), f"{shown(text.jwks)} cannot be read: {error.strerror or error}")
        except jwks.JwksError as error:
            for mistake in error.mistakes:
                note(self.mistakes, "SE-8", text, ("jwks",), f"{text.jwks}: {mistake}")
        return None

    def tokens(self, name: str) -> Tokens:
        """The tokens of the tokens file; none before the first one is made."""
        try:
            return tokens.parse(self.surroundings.read(name))
        except FileNotFoundError:
            return Tokens()
        except OSError as error:
            note(self.mistakes, "SE-5", self.file, ("tokens",), f"{shown(name)} cannot be read: {error.strerror or error}")
        except tokens.TokensError as error:
            note(self.mistakes, "SE-5", self.file, ("tokens",), f"{name}: {error}")
        return Tokens()


def _numbers(limits: dict[str, str]) -> dict[str, int]:
    """The numbers, without those that are mistakes."""
    return {name: found for name, text in limits.items() if (found := number(name, text)) is not None}


def _warnings(identities: Iterable[Identity], found: Tokens, tokens_file: str) -> Iterable[str]:
    """SE-47."""
    names = {identity.name for identity in identities}
    for token in found.all:
        if token.identity not in names:
            yield f"{tokens_file}: the token {token.id} is for {shown(token.identity)}, which is no identity; it lets nobody in"
    with_token = {token.identity for token in found.all}
    for identity in identities:
        if not identity.proofs and identity.name not in with_token:
            yield f"the identity {identity.name} has neither a proof nor a token, so nobody is it: ykactor token create makes one"
