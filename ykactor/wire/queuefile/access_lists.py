"""Access lists: ``*``, or users, one space, groups (QU-106).

Text flows in, an ``AccessList`` and the words that are no names flow out. A word that is no name is dropped, it is not an
error (CF-24); ``wire.queuefile`` warns of it.
"""

from collections.abc import Callable

from ykactor.core.config.model import AccessList
from ykactor.core.values.names import is_group_name, is_user_name

NOBODY = AccessList()
EVERYBODY = AccessList(everybody=True)


def is_access_list(text: str) -> bool:
    """E06: at most two fields, by the stricter of two readings: fields end at every single space, and at any white space."""
    return len(text.split(" ")) <= 2 and len(text.split()) <= 2


def parse(text: str) -> tuple[AccessList, list[str]]:
    """Whom ``text`` names, and the words that were dropped; ``is_access_list`` must have been true.

    ``*`` is everybody only if it stands alone in its field: within a longer list it is no legal name.
    """
    users, _, groups = text.partition(" ")
    if users == "*" or groups == "*":
        return EVERYBODY, []
    dropped: list[str] = []
    named = AccessList(False, _names(users, is_user_name, dropped), _names(groups, is_group_name, dropped))
    return named, dropped


def _names(field: str, is_name: Callable[[str], bool], dropped: list[str]) -> frozenset[str]:
    """The names of a list with commas; the others are added to ``dropped``."""
    words = field.split(",") if field else []
    dropped += (word for word in words if not is_name(word))
    return frozenset(filter(is_name, words))
