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
#: Pieces that cannot overlap, so that a text is cut up in one pass whatever it holds.
_TOKEN = re.compile(r"(?P<space>\s+)|(?P<word>[A-Za-z0-9_./:-]+)|(?P<mark>==|!=|[=!,()])")
_END = ""


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
    tokens = _Tokens(text)
    found = []
    while tokens.peek() != _END:
        found.append(_requirement(tokens))
        if tokens.take() not in (",", _END):
            raise tokens.mistake()
    return tuple(found)


class _Tokens:
    """The words and marks of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        #: (token, where it begins), the last one first.
        self._left: list[tuple[str, int]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self._left.append((text[position], position))
                break
            if match.lastgroup != "space":
                self._left.append((match.group(), position))
            position = match.end()
        self._left.reverse()
        #: Where the requirement in work begins.
        self._begin = 0

    def peek(self) -> str:
        """The next token; "" at the end."""
        return self._left[-1][0] if self._left else _END

    def take(self) -> str:
        """Take the next token; "" at the end."""
        return self._left.pop()[0] if self._left else _END

    def begin(self) -> None:
        """Begin a requirement with the next token."""
        self._begin = self._left[-1][1]

    def name(self) -> str:
        """The next token, which must be a name."""
        token = self.take()
        if _NAME.fullmatch(token) is None:
            raise self.mistake()
        return token

    def optional_name(self) -> str:
        """The next token if it is a word, which must be a name then; "" if it is a mark."""
        return self.name() if self.peek() not in (",", ")", _END) else ""

    def mistake(self) -> SelectorError:
        """The error of the present requirement."""
        return SelectorError(f"found {shown(self._text[self._begin :].strip())}, expected {EXPECTED}")


def _requirement(tokens: _Tokens) -> Requirement:
    tokens.begin()
    if tokens.peek() == "!":
        tokens.take()
        return Requirement(tokens.name(), None, holds=False)
    key, operator = tokens.name(), tokens.peek()
    if operator in ("=", "==", "!="):
        tokens.take()
        return Requirement(key, (tokens.optional_name(),), holds=operator != "!=")
    if operator in ("in", "notin"):
        tokens.take()
        return Requirement(key, _values(tokens), holds=operator == "in")
    return Requirement(key, None, holds=True)


def _values(tokens: _Tokens) -> tuple[str, ...]:
    """The values in parentheses; each may be empty."""
    if tokens.take() != "(":
        raise tokens.mistake()
    values = [tokens.optional_name()]
    while (mark := tokens.take()) == ",":
        values.append(tokens.optional_name())
    if mark != ")":
        raise tokens.mistake()
    return tuple(values)


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
