"""Which nodes an ask may run on: a predicate on the nodes' attributes, carried in the tag ``ykactor.io/node-selector``.

The grammar is that of Kubernetes' label selectors: requirements joined by commas, all of which must hold::

    zone=a, disk!=slow, gpu in (a100, h100), arch notin (arm), spot, !tainted
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from ykactor.core.values.quantities import shown

EXPECTED = "key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
#: The tag of an ask that carries the selector.
TAG = "ykactor.io/node-selector"

_NAME = r"[A-Za-z0-9]([A-Za-z0-9_./:-]*[A-Za-z0-9])?"
_REQUIREMENT = re.compile(
    rf"""\s*(?: (?P<not>!)\s*(?P<absent>{_NAME})
      | (?P<key>{_NAME})\s*(?:
          (?P<op>==|=|!=)\s*(?P<value>(?:{_NAME})?)
        | \s(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_VALUE = re.compile(rf"\s*(?:{_NAME})?\s*")


class Requirement(Struct, frozen=True):
    """One condition.

    Attributes:
        values: the attribute must be one of them; None only requires that it is present.
        holds: False negates the condition; a missing attribute then satisfies it.
    """

    key: str
    values: tuple[str, ...] | None
    holds: bool


#: All of them must hold. Equal texts give equal selectors, so asks can be grouped by them.
Selector = tuple[Requirement, ...]


class SelectorError(ValueError):
    """The text is not a selector; the message says what was found."""


@lru_cache(maxsize=1024)
def parse(text: str) -> Selector:
    """The selector that ``text`` describes; an empty text requires nothing.

    Raises:
        SelectorError with what was found.
    """
    found, position = [], 0
    while position < len(text) and text[position:].strip():
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise SelectorError(f"found {shown(text[position:].strip())}, expected {EXPECTED}")
        found.append(_requirement(match))
        position = match.end()
    return tuple(found)


def _requirement(match: re.Match[str]) -> Requirement:
    if match["not"]:
        return Requirement(match["absent"], None, holds=False)
    if match["op"]:
        return Requirement(match["key"], (match["value"],), holds=match["op"] != "!=")
    if match["set"]:
        values = match["values"].split(",")
        if not all(_VALUE.fullmatch(value) for value in values):
            raise SelectorError(f"found {shown(match['values'])}, expected values joined by commas")
        return Requirement(match["key"], tuple(value.strip() for value in values), holds=match["set"] == "in")
    return Requirement(match["key"], None, holds=True)


def selects(selector: Selector, attributes: dict[str, str]) -> bool:
    """Whether a node with these attributes may run the ask."""
    for requirement in selector:
        value = attributes.get(requirement.key)
        found = value is not None if requirement.values is None else value in requirement.values
        if found is not requirement.holds:
            return False
    return True
