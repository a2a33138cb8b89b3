"""Node selectors: predicates on the attributes of nodes, in the tag ``ykactor.io/node-selector`` of asks.

The grammar is that of Kubernetes' label selectors: requirements joined by commas, all of which must hold::

    zone=a, disk!=slow, gpu in (a100, h100), arch notin (arm), spot, !tainted
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from ykactor.core.values.quantities import shown

EXPECTED = "key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
#: Keys and values of a selector: each takes many times as much memory as in the text.
NAMES_MAX = 256
#: So many characters take as long to read as an item.
_CHARACTERS = 16
#: The tag of an ask that carries the selector.
TAG = "ykactor.io/node-selector"

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./:-]*[A-Za-z0-9])?")
#: One requirement, and the comma behind it. No part is tried in two ways, so that a text is read in one pass whatever it holds.
_REQUIREMENT = re.compile(
    r"""\s*+ (!?) \s*+ (WORD)
        (?: \s*+ (==?|!=) \s*+ (WORD)? | \s++ (in|notin) \s*+ \( ([^()]*+) \) )?
        \s*+ (?:,|\Z)""".replace("WORD", "[A-Za-z0-9_./:-]++"),
    re.VERBOSE,
)


class Requirement(Struct, frozen=True):
    """One condition.

    Attributes:
        values: the attribute must be one of them; None only requires that it is present.
        holds: False negates the condition; a missing attribute then satisfies it.
    """

    key: str
    values: tuple[str, ...] | None
    holds: bool


#: The key of a node's own name among its attributes; no text can select it.
NODE_ID = ""
#: All of them must hold. Equal texts give equal selectors, so asks can be grouped by them.
Selector = tuple[Requirement, ...]


class SelectorError(ValueError):
    """The text is not a selector; the message says what was found."""


def items(tags: dict[str, str]) -> int:
    """The items that checking an ask with these tags counts as: its selector is parsed."""
    return 1 + len(tags.get(TAG, "")) // _CHARACTERS


@lru_cache(maxsize=1024)
def parse(text: str) -> Selector:
    """The selector that ``text`` describes; an empty text requires nothing.

    Raises:
        SelectorError with what was found.
    Cost: O(length).
    """
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _REQUIREMENT.match(text, at)
        requirement = None if match is None else _requirement(match)
        if match is None or requirement is None:
            raise SelectorError(f"found {shown(text[at:].strip())}, expected {EXPECTED}")
        found.append(requirement)
        at = match.end()
    return tuple(found)


def _requirement(match: re.Match[str]) -> Requirement | None:
    """The requirement of a match of ``_REQUIREMENT``; None if it is none. The values of a list may be empty."""
    absent, key, compared, value, member, listed = match.groups()
    operator = compared or member
    values = [value or ""] if compared else [text.strip() for text in (listed or "").split(",")]
    if (absent and operator) or not all(map(_NAME.fullmatch, filter(None, [key, *values]))):
        return None
    return Requirement(key, tuple(values) if operator else None, holds=not absent and operator not in ("!=", "notin"))


def text(requirement: Requirement) -> str:
    """The requirement as text, which ``parse`` reads."""
    key, values, holds = requirement.key, requirement.values, requirement.holds
    if values is None:
        return key if holds else f"!{key}"
    if len(values) == 1:
        return f"{key}{'=' if holds else '!='}{values[0]}"
    return f"{key} {'in' if holds else 'notin'} ({','.join(values)})"


def names_in(selector: Selector) -> int:
    """The number of keys and values of a selector."""
    return sum(1 + len(requirement.values or ()) for requirement in selector)


def without(selector: Selector, nodes: tuple[str, ...]) -> Selector:
    """The selector that also excludes these nodes, named in order."""
    return *selector, Requirement(NODE_ID, nodes, holds=False)


def left_out_of(selector: Selector) -> tuple[str, ...]:
    """The nodes excluded by ``without``."""
    return selector[-1].values or () if selector and selector[-1].key == NODE_ID else ()


def selects(selector: Selector, attributes: dict[str, str]) -> bool:
    """True if a node with these attributes may run the ask."""
    for requirement in selector:
        value = attributes.get(requirement.key)
        found = value is not None if requirement.values is None else value in requirement.values
        if found is not requirement.holds:
            return False
    return True
