"""The validation rules of the access file that look at one entry or compare several (SE-41 to SE-45, SE-48).

``file`` builds the identities of what has no mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ykactor.access import moments
from ykactor.access.jwts import REQUIRED
from ykactor.access.limits import FOR_ALL, FOR_EACH, number, range_of
from ykactor.access.model import Role, normal_queue
from ykactor.access.schema import FileText, IdentityText, ProofText
from ykactor.core.values.names import GROUP_NAME_RULE, USER_NAME_RULE, is_group_name, is_user_name
from ykactor.core.values.quantities import is_queue_name, shown
from ykactor.wire.queuefile.fields import find, join, note
from ykactor.wire.queuefile.text import Mistakes

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


def check(file: FileText, mistakes: Mistakes) -> None:
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
