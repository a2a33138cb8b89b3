"""The users or groups of a placement filter: literal names, or one regular expression (PL-13 to PL-17)."""

from collections.abc import Callable

from ykactor.core.config.model import NameFilter
from ykactor.core.values import expressions
from ykactor.core.values.quantities import shown

#: A single entry with one of these characters is an expression.
_SPECIAL = frozenset("^$*+?()[{}|")

IsName = Callable[[str], bool]


def objection(entries: list[str], is_name: IsName) -> str:
    """Why the list is refused (E30, E31), or "". A list of several entries is never refused."""
    if len(entries) != 1:
        return ""
    (entry,) = entries
    if not is_expression(entry):
        return "" if is_name(entry) else f"found {shown(entry)}, expected a name or a regular expression"
    wrong = expressions.objection(entry)
    return f"found {shown(entry)}, {wrong}" if wrong else ""


def is_expression(entry: str) -> bool:
    """Whether an entry that is alone in its list is an expression; ``a.b`` is a name."""
    return not _SPECIAL.isdisjoint(entry)


def build(entries: list[str], is_name: IsName) -> NameFilter:
    """The filter of a list without ``objection``; of several entries only valid names count (PL-14)."""
    if len(entries) == 1 and is_expression(entries[0]):
        return NameFilter(listed=True, expression=entries[0])
    return NameFilter(listed=bool(entries), names=frozenset(filter(is_name, entries)))
