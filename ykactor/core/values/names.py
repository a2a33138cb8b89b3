"""The grammars of names of users, groups and rules (CF-21 to CF-23), and sets of names.

Patterns match the whole string, ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

_USER_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9:#/_.@-]*\$?")
_GROUP_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9:_.-]*")
_RULE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

#: The rules in words, for messages.
USER_NAME_RULE = "a letter or _, then letters, digits or : # / _ . @ -"
GROUP_NAME_RULE = "a letter or _, then letters, digits or : _ . -"


def is_user_name(text: str) -> bool:
    """True if ``text`` is a legal user name (CF-21)."""
    return _USER_NAME.fullmatch(text) is not None


def is_group_name(text: str) -> bool:
    """True if ``text`` is a legal group name (CF-22)."""
    return _GROUP_NAME.fullmatch(text) is not None


def is_rule_name(text: str) -> bool:
    """True if ``text`` is a legal name of a placement rule (CF-23)."""
    return _RULE_NAME.fullmatch(text) is not None


class Names(Struct, frozen=True):
    """Some names, or any. Names are compared exactly."""

    names: frozenset[str] = frozenset()
    is_any: bool = False

    @classmethod
    def of(cls, names: Iterable[str]) -> Names:
        """The names of a list in which ``*`` stands for any, as in the access file; ``listed`` is the way back."""
        found = frozenset(names)
        return ANY if "*" in found else cls(found)

    def listed(self) -> tuple[str, ...]:
        """The names in order; ``*`` stands for any."""
        return ("*",) if self.is_any else tuple(sorted(self.names))

    def __contains__(self, name: object) -> bool:
        return self.is_any or name in self.names

    def includes(self, others: Names) -> bool:
        """True if all the others are among these."""
        return self.is_any or (not others.is_any and others.names <= self.names)

    def __str__(self) -> str:
        return "*" if self.is_any else ", ".join(sorted(self.names)) or "none"


ANY = Names(is_any=True)
