# ruff: noqa: RUF012 (msgspec gives every instance its own empty list or mapping)
"""Reads the access file: converts its text to an ``Access``, or reports every mistake with its place (SE-40).

text -> wire.queuefile.text (nodes) -> wire.queuefile.fields (``FileText``) -> the rules -> ``Access``

A key that is not written is None or empty, so that the rules can tell it from one that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import ClassVar, NamedTuple

from msgspec import Struct

from ykactor.access import jwts, moments, tokens
from ykactor.access.access import Access
from ykactor.access.jwts import LIFETIME_MAX_S, REQUIRED, JwtSettings
from ykactor.access.limits import FOR_ALL, FOR_EACH, IdentityLimits, Limits, number, range_of, replaced
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
from ykactor.access.tokens import Tokens
from ykactor.core.values.names import ANY, GROUP_NAME_RULE, USER_NAME_RULE, Names, is_group_name, is_user_name
from ykactor.core.values.quantities import is_queue_name, parse_duration, shown
from ykactor.core.values.times import NEVER, S_NS
from ykactor.wire.queuefile.fields import Place, Text, TextReader, find, join, note
from ykactor.wire.queuefile.text import ConfigError, Mapping, Mistakes, Scalar, compose

TOKENS_FILE = "tokens.json"


class Environment(Struct, frozen=True):
    """The files and users that the access file refers to.

    Attributes:
        read: the content of a file that the access file names; a relative name is beside it. OSError if it cannot be read.
        uid_of: the number of a user of this machine, None for an unknown name.
    """

    read: Callable[[str], bytes]
    uid_of: Callable[[str], int | None]


def load(text: str, source: str, environment: Environment) -> Access:
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
    _check(file, mistakes)
    access = _Builder(file, environment, mistakes).access()
    if mistakes.found:
        raise ConfigError(mistakes.found)
    return access


class _Builder:
    """Builds what the texts mean, and adds the mistakes that are found only then; with a mistake, parts may be missing."""

    def __init__(self, file: FileText, environment: Environment, mistakes: Mistakes) -> None:
        self.file = file
        self.environment = environment
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
        uid = self.environment.uid_of(user)
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

    def keys(self, text: JwtText) -> jwts.Keys | None:
        try:
            return jwts.parse_keys(self.environment.read(text.jwks))
        except OSError as error:
            note(self.mistakes, "SE-46", text, ("jwks",), f"{shown(text.jwks)} cannot be read: {error.strerror or error}")
        except jwts.JwksError as error:
            for mistake in error.mistakes:
                note(self.mistakes, "SE-8", text, ("jwks",), f"{text.jwks}: {mistake}")
        return None

    def tokens(self, name: str) -> Tokens:
        """The tokens of the tokens file; none before the first one is made."""
        try:
            return tokens.parse(self.environment.read(name))
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
            why = "has neither a proof nor a token, so nobody can act as it"
            yield f"the identity {identity.name} {why}: ykactor token create makes one"


class ProofText(Text):
    """One way to show the identity: one of the first three keys."""

    user: str | None = None
    certificate: str | None = None
    jwt: dict[str, str] | None = None
    expires: str = ""


class IdentityText(Text, rename={"rm_ids": "rmIDs", "may_force": "mayForce"}):
    """An identity and its rights."""

    labelled: ClassVar[bool] = True

    name: str = ""
    proofs: list[ProofText] = []
    roles: list[str] = []
    rm_ids: list[str] | None = None
    partitions: list[str] | None = None
    users: list[str] | None = None
    groups: list[str] | None = None
    may_force: bool | None = None
    configure: bool | None = None
    queues: list[str] | None = None
    limits: dict[str, str] = {}

    @classmethod
    def label(cls, node: Mapping, above: str, siblings: int) -> str:
        """The name, so that a path says whose it is."""
        entry = node.entry("name")
        return entry[1].text if entry and isinstance(entry[1], Scalar) and entry[1].text.isprintable() else ""


class JwtText(Text):
    """The source of JWTs."""

    jwks: str = ""
    issuer: str = ""
    audience: str = ""
    lifetime: str = ""


class FileText(Text):
    """The access file."""

    identities: list[IdentityText] = []
    tokens: str = ""
    jwt: JwtText | None = None
    limits: dict[str, str] = {}


#: Keys that only some roles have.
_ROLES_OF = {
    "rmIDs": ("rm_ids", {Role.RM}),
    "users": ("users", {Role.RM}),
    "groups": ("groups", {Role.RM}),
    "mayForce": ("may_force", {Role.RM}),
    "configure": ("configure", {Role.RM, Role.OPERATOR}),
    "partitions": ("partitions", {Role.RM, Role.OPERATOR, Role.READER}),
    "queues": ("queues", {Role.OPERATOR, Role.READER}),
}
_CERTIFICATE = re.compile(r"(URI|DNS|email|CN):[^*\x00-\x1f\x7f]+")
#: Claims that say nothing of who the token is for, but its subject.
_COMMON = {*REQUIRED, "nbf", "iat", "jti"} - {"sub"}


def _check(file: FileText, mistakes: Mistakes) -> None:
    """Add a mistake for every broken rule."""
    first_of_name: dict[str, IdentityText] = {}
    for identity in file.identities:
        _check_name(identity, first_of_name, mistakes)
        _check_roles(identity, mistakes)
        _check_lists(identity, mistakes)
        _check_contradictions(identity, mistakes)
        for proof in identity.proofs:
            _check_proof(proof, mistakes)
        _check_limits(identity, (FOR_EACH,), mistakes)
    _check_limits(file, (FOR_ALL, FOR_EACH), mistakes)


def _check_name(identity: IdentityText, first_of_name: dict[str, IdentityText], mistakes: Mistakes) -> None:
    if not is_user_name(identity.name):
        note(mistakes, "SE-41", identity, ("name",), f"found {shown(identity.name)}, expected {USER_NAME_RULE}")
        return
    first = first_of_name.setdefault(identity.name, identity)
    if first is not identity:
        text = f"found a second identity {identity.name}, the first is in line {first.place.node.line}"
        note(mistakes, "SE-41", identity, ("name",), text)


def _check_roles(identity: IdentityText, mistakes: Mistakes) -> None:
    """SE-42."""
    expected = ", ".join(Role)
    if not identity.roles:
        note(mistakes, "SE-42", identity, ("roles",), f"found no role, expected one or more of {expected}")
    known = {role for role in Role if role in identity.roles}
    for index, role in enumerate(identity.roles):
        if role not in list(Role):
            note(mistakes, "SE-42", identity, ("roles", index), f"found {shown(role)}, expected one of {expected}")
    if "roles" in identity.unread or len(known) < len(set(identity.roles)):
        return  # whether a key fits is not known
    for key, (attribute, roles) in _ROLES_OF.items():
        if known and getattr(identity, attribute) is not None and not known & roles:
            needed = " or ".join(role for role in Role if role in roles)
            note(mistakes, "SE-42", identity, (key,), f"found {key} of an identity without the role {needed}, expected none")
    if Role.RM in known and identity.rm_ids is None:
        text = 'found none, expected what the role rm may register as, or "*" for anything'
        note(mistakes, "SE-42", identity, ("rmIDs",), text)


def _check_lists(identity: IdentityText, mistakes: Mistakes) -> None:
    """SE-43."""
    for key, rule in _LISTS.items():
        _check_list(identity, key, rule, mistakes)


def _check_list(identity: IdentityText, key: str, rule: _ListRule, mistakes: Mistakes) -> None:
    """Add a mistake for names that are not legal, that occur twice, and for ``*`` beside names, which it includes."""
    names: list[str] | None = getattr(identity, rule.attribute)
    for index, name in enumerate(names or ()):
        if name == "*" and key not in ("roles", "queues"):
            if len(names or ()) > 1:
                note(mistakes, "SE-43", identity, (key, index), 'found "*" beside names, expected it alone: it includes all')
        elif rule.is_legal is not None and not rule.is_legal(name):
            note(mistakes, "SE-43", identity, (key, index), f"found {shown(name)}, expected {rule.expected}")
        if rule.normal(name) in map(rule.normal, (names or ())[:index]):
            note(mistakes, "SE-43", identity, (key, index), f"found {shown(name)} a second time, expected each once")
    if names is not None and not names and rule.is_legal is not None:
        note(mistakes, "SE-43", identity, (key,), "found an empty list, expected at least one entry, or no such key")


def _is_queue(path: str) -> bool:
    first, *rest = normal_queue(path).split(".")
    return first == "root" and all(map(is_queue_name, rest))


class _ListRule(NamedTuple):
    """The rule of a list of names.

    Attributes:
        is_legal, expected: the names that it may have; None if another rule checks them.
        normal: two names are the same if this makes them equal.
    """

    attribute: str
    is_legal: Callable[[str], bool] | None
    expected: str = ""
    normal: Callable[[str], str] = str


_LISTS = {
    "roles": _ListRule("roles", None),
    "rmIDs": _ListRule("rm_ids", bool, "a text that is not empty"),
    "partitions": _ListRule("partitions", bool, "a text that is not empty", str.lower),
    "users": _ListRule("users", is_user_name, USER_NAME_RULE),
    "groups": _ListRule("groups", is_group_name, GROUP_NAME_RULE),
    "queues": _ListRule("queues", _is_queue, "a path such as root.a", normal_queue),
}


def _check_contradictions(identity: IdentityText, mistakes: Mistakes) -> None:
    """SE-44: a key that takes back what another one gives."""
    if identity.configure:
        for key, names in (("partitions", identity.partitions), ("queues", identity.queues)):
            if names is not None and "*" not in names:
                text = f"found true beside {key}, expected one of them: a configuration is for all partitions and queues"
                note(mistakes, "SE-44", identity, ("configure",), text)
    if Role.REPLICA in identity.roles:
        for key, names in (("partitions", identity.partitions), ("queues", identity.queues)):
            if names is not None and "*" not in names:
                text = f"found {key} of an identity with the role replica, expected none: a replica is told everything"
                note(mistakes, "SE-44", identity, (key,), text)
    if identity.users and "*" in identity.users and not identity.groups:
        text = (
            'found "*" without groups, expected a key groups too: a user without groups gets one with the user\'s name, '
            "which has to be allowed"
        )
        note(mistakes, "SE-44", identity, ("users",), text)


def _check_proof(proof: ProofText, mistakes: Mistakes) -> None:
    """SE-45, but for what users and other proofs there are."""
    ways = [key for key in ("user", "certificate", "jwt") if getattr(proof, key) is not None]
    if len(ways) != 1 and not proof.unread:
        found = " and ".join(ways) or "none of them"
        note(mistakes, "SE-45", proof, (), f"found {found}, expected one of user, certificate, jwt")
    if proof.certificate is not None and not _CERTIFICATE.fullmatch(proof.certificate):
        text = "expected an exact name after URI:, DNS:, email: or CN:, without *"
        note(mistakes, "SE-45", proof, ("certificate",), f"found {shown(proof.certificate)}, {text}")
    if proof.jwt is not None:
        _check_claims(proof, proof.jwt, mistakes)
    if proof.expires and moments.parse(proof.expires) is None:
        note(mistakes, "SE-45", proof, ("expires",), f"found {shown(proof.expires)}, expected {moments.FORM}")


def _check_claims(proof: ProofText, claims: dict[str, str], mistakes: Mistakes) -> None:
    if not claims:
        note(mistakes, "SE-45", proof, ("jwt",), "found no claim, expected at least one with its value, such as sub")
    for claim, value in claims.items():
        if claim in _COMMON:
            text = f"found {shown(claim)}, expected a claim that tells identities apart, such as sub"
            note(mistakes, "SE-45", proof, ("jwt", claim), text)
        elif not value:
            note(mistakes, "SE-45", proof, ("jwt", claim), "found nothing, expected the value that the claim must have")


def _check_limits(text: FileText | IdentityText, known: Iterable[dict[str, str]], mistakes: Mistakes) -> None:
    """SE-48. Each is looked at, whatever another one is."""
    names = [name for some in known for name in some]
    for name, value in text.limits.items():
        smallest, largest = range_of(name)
        if name not in names:
            message = f"found {shown(name)}, expected one of {', '.join(names)}"
        elif number(name, value) is None:
            message = f"found {shown(value)}, expected a whole number from {smallest} to {largest}"
        else:
            continue
        mistakes.add("SE-48", find(text.place.node, "limits", name), join(text.place.path, "limits", name), message)
