"""The users or groups of a placement filter: literal names, or one regular expression (PL-13 to PL-17).

Expressions are those that Python and RE2 both know and understand alike, so that a file means the same to every scheduler.
"""

import re
import warnings
from collections.abc import Callable

from ykactor.core.config.model import NameFilter
from ykactor.core.values.quantities import shown

#: What makes a single entry an expression.
_SPECIAL = frozenset("^$*+?()[{}|")
#: Escapes and sets are skipped; then what RE2 does not know: references, groups that look around, are atomic, conditional or
#: a comment, possessive repetition, and Python's own end of text.
_BEYOND_RE2 = re.compile(
    r"""(?P<skipped> \\[^1-9Z] | \[\^?\]?(?:\\.|[^]\\])*\] )
      | (?P<refused> \\[1-9Z] | \(\?(?:<?[=!]|>|\(|\#|P=) | (?:[*+?]|\{[0-9,]+\})\+ )""",
    re.VERBOSE | re.DOTALL,
)

#: Bounds for expressions, so that reading one takes neither long nor many levels of recursion.
LENGTH_MAX = 1000
GROUPS_MAX = 100
#: Unbounded repetitions. Python tries every way to share a name among them; RE2 does not, so it knows no such bound.
REPEATS_MAX = 3

IsName = Callable[[str], bool]


def objection(entries: list[str], is_name: IsName) -> str:
    """Why the list cannot be used (E30, E31), or ""; a list of several names never is refused."""
    if len(entries) != 1:
        return ""
    (entry,) = entries
    if not is_expression(entry):
        return "" if is_name(entry) else f"found {shown(entry)}, expected a name or a regular expression"
    return _expression_objection(entry)


def is_expression(entry: str) -> bool:
    """Whether an entry that stands alone is an expression; ``a.b`` is a name."""
    return not _SPECIAL.isdisjoint(entry)


def build(entries: list[str], is_name: IsName) -> NameFilter:
    """The filter of a list without ``objection``; of several entries those that are no names are dropped (PL-14)."""
    if len(entries) == 1 and is_expression(entries[0]):
        return NameFilter(listed=True, expression=entries[0])
    return NameFilter(listed=bool(entries), names=frozenset(filter(is_name, entries)))


def _expression_objection(text: str) -> str:
    if len(text) > LENGTH_MAX or text.count("(") > GROUPS_MAX:
        return f"found {shown(text)}, expected at most {LENGTH_MAX} characters and {GROUPS_MAX} groups in an expression"
    refused = next((match.group() for match in _BEYOND_RE2.finditer(text) if match.lastgroup == "refused"), None)
    if refused is not None:
        return f"found {shown(refused)} in {shown(text)}, expected an expression as RE2 knows it, without this"
    if slow := _slow_part(text):
        return f"found {slow} in {shown(text)}, expected an expression that is quick for every name"
    try:
        with warnings.catch_warnings():
            # Where Python warns, for example of [[:alpha:]], the two understand the text differently.
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        return f"found {shown(text)}, which is no regular expression: {' '.join(str(error).split())}"
    return ""


#: The parts of an expression that say what repeats: escapes and sets are skipped.
_PARTS = re.compile(r"(?P<skipped>\\.|\[\^?\]?(?:\\.|[^]\\])*\])|(?P<part>[(|]|\)?(?:[*+]|\{[0-9]*,[0-9]*\})|\))", re.DOTALL)


def _slow_part(text: str) -> str:
    """What could keep Python busy for long: repetition of what repeats or offers alternatives, or much of it; "" if nothing."""
    groups = [False]
    repeats = 0
    for match in _PARTS.finditer(text):
        part = match.group("part")
        if part is None:
            continue
        if part == "(":
            groups.append(False)
            continue
        closes = part.startswith(")") and len(groups) > 1
        varies = groups.pop() if closes else False
        is_repeat = part not in ("|", ")")
        if is_repeat and varies:
            return "a repetition of what repeats or has alternatives"
        repeats += is_repeat
        groups[-1] = groups[-1] or varies or part != ")"
    return f"{repeats} unbounded repetitions" if repeats > REPEATS_MAX else ""
