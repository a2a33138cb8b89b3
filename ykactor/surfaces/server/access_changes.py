"""What is different in another access file, for the audit (SE-72): names of identities, ids of tokens, and limits; no secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ykactor.access.limits import FOR_ALL, FOR_EACH, IdentityLimits
from ykactor.access.model import Identity

if TYPE_CHECKING:  # a daemon without an access file does without the libraries that this one needs
    from ykactor.access.access import Access

_NO_LIMITS = IdentityLimits()
#: Names of limits with their numbers.
_Numbers = dict[str, int]


def told(before: Access, after: Access) -> str:
    """One line."""
    parts = [
        *_kinds("", _identities(before), _identities(after)),
        *_kinds("tokens ", _tokens(before), _tokens(after)),
        *_limits(before, after),
    ]
    return "; ".join(parts) or "no identity, token or limit changed"


def _identities(access: Access) -> dict[str, Identity]:
    """What each may do and what shows it, but for tokens."""
    return {found.name: structs.replace(found, limits=_NO_LIMITS) for found in access.identities}


def _tokens(access: Access) -> dict[str, object]:
    return {f"{token.id} of {token.identity}": token for token in access.tokens.all}


def _kinds(of: str, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    names = {
        "added": after.keys() - before.keys(),
        "changed": {name for name in before.keys() & after.keys() if before[name] != after[name]},
        "removed": before.keys() - after.keys(),
    }
    return (f"{of}{kind}: {', '.join(sorted(found))}" for kind, found in names.items() if found)


def _limits(before: Access, after: Access) -> Iterator[str]:
    """Those at the top of the file, then those of identities that are there before and after, if they have others."""
    at_top = [*_differences(_of_file(before), _of_file(after))]
    yield from at_top
    old = {found.name: _numbers(found.limits, FOR_EACH) for found in before.identities}
    for identity in after.identities:
        if identity.name in old:
            for text in _differences(old[identity.name], _numbers(identity.limits, FOR_EACH)):
                if text not in at_top:
                    yield f"{text} of {identity.name}"


def _of_file(access: Access) -> _Numbers:
    return _numbers(access.limits, FOR_ALL) | _numbers(access.limits.each, FOR_EACH)


def _numbers(limits: Any, names: Mapping[str, str]) -> _Numbers:
    return {key: getattr(limits, name) for key, name in names.items()}


def _differences(before: _Numbers, after: _Numbers) -> Iterator[str]:
    return (f"limit {key}: {before[key]} -> {number}" for key, number in after.items() if number != before[key])
