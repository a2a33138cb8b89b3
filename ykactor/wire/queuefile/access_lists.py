"""Access lists: ``*``, or users, one space, groups (QU-106).

``parse`` converts the text to an ``AccessList``. A word that is not a valid name is no error: it is ignored, with a warning
(CF-24).
"""

from collections.abc import Callable

from ykactor.core.config.model import AccessList
from ykactor.core.values.names import is_group_name, is_user_name

NOBODY = AccessList()
EVERYBODY = AccessList(everybody=True)


def is_access_list(text: str) -> bool:
    """E06: at most two fields, both if each single space separates fields, and if any white space does."""
    return len(text.split(" ")) <= 2 and len(text.split()) <= 2


def parse(text: str) -> tuple[AccessList, list[str]]:
    """The users and groups in ``text``, for which ``is_access_list`` must be true, and the words that are ignored.

    ``*`` means everybody only if it is alone in its field: in a longer list it is not a valid name.
    """
    users, _, groups = text.partition(" ")
    if users == "*" or groups == "*":
        return EVERYBODY, []
    dropped: list[str] = []
    named = AccessList(False, _names(users, is_user_name, dropped), _names(groups, is_group_name, dropped))
    return named, dropped


def _names(field: str, is_name: Callable[[str], bool], dropped: list[str]) -> frozenset[str]:
    """The valid names of a comma-separated list; the other words are added to ``dropped``."""
    words = field.split(",") if field else []
    dropped += (word for word in words if not is_name(word))
    return frozenset(filter(is_name, words))
