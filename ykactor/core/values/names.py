"""The grammars of names of users, groups and rules (CF-21 to CF-23). Patterns match the whole string, ASCII only."""

import re

_USER_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9:#/_.@-]*\$?")
_GROUP_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9:_.-]*")
_RULE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

#: The rules in words, for messages.
USER_NAME_RULE = "a letter or _, then letters, digits or : # / _ . @ -"
GROUP_NAME_RULE = "a letter or _, then letters, digits or : _ . -"


def is_user_name(text: str) -> bool:
    """Whether ``text`` is a legal user name (CF-21)."""
    return _USER_NAME.fullmatch(text) is not None


def is_group_name(text: str) -> bool:
    """Whether ``text`` is a legal group name (CF-22)."""
    return _GROUP_NAME.fullmatch(text) is not None


def is_rule_name(text: str) -> bool:
    """Whether ``text`` is a legal name of a placement rule (CF-23)."""
    return _RULE_NAME.fullmatch(text) is not None
