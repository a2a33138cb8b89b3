"""The users or groups of a placement filter: literal names, or one regular expression (PL-13 to PL-17).

Only expressions that have the same meaning in Python and in RE2 are allowed, so that a file means the same in YuniKorn.
"""

import re
import warnings
from collections.abc import Callable

from msgspec import Struct

from ykactor.core.config.model import NameFilter
from ykactor.core.values.quantities import shown

#: A single entry with one of these characters is an expression.
_SPECIAL = frozenset("^$*+?()[{}|")
#: Finds what RE2 does not support: back-references, lookaround, atomic, conditional and comment groups, possessive repetition,
#: and Python's own end of text. Other escapes, and character sets, are skipped; a set without end is one that ends with the text.
_BEYOND_RE2 = re.compile(
    r"""(?P<skipped> \\[^1-9Z] | \[\^?\]?(?:\\.|[^]\\])*+\]? )
      | (?P<refused> \\[1-9Z] | \(\?(?:<?[=!]|>|\(|\#|P=) | (?:[*+?]|\{[0-9,]+\})\+ )""",
    re.VERBOSE | re.DOTALL,
)

#: Bounds for expressions, which limit the time and the recursion depth of compiling one.
LENGTH_MAX = 1000
GROUPS_MAX = 100
#: Unbounded repetitions. Python backtracks over all ways to split a name among them; RE2 does not, and has no such bound.
REPEATS_MAX = 3
#: Ways through alternatives and optional parts, by the number of unbounded repetitions: Python may try all of them in turn.
WAYS_MAX = (1000, 1000, 100, 10)

IsName = Callable[[str], bool]


def objection(entries: list[str], is_name: IsName) -> str:
    """Why the list is refused (E30, E31), or "". A list of several entries is never refused."""
    if len(entries) != 1:
        return ""
    (entry,) = entries
    if not is_expression(entry):
        return "" if is_name(entry) else f"found {shown(entry)}, expected a name or a regular expression"
    return _expression_objection(entry)


def is_expression(entry: str) -> bool:
    """Whether an entry that is alone in its list is an expression; ``a.b`` is a name."""
    return not _SPECIAL.isdisjoint(entry)


def build(entries: list[str], is_name: IsName) -> NameFilter:
    """The filter of a list without ``objection``; of several entries only valid names count (PL-14)."""
    if len(entries) == 1 and is_expression(entries[0]):
        return NameFilter(listed=True, expression=entries[0])
    return NameFilter(listed=bool(entries), names=frozenset(filter(is_name, entries)))


def _expression_objection(text: str) -> str:
    if len(text) > LENGTH_MAX or text.count("(") > GROUPS_MAX:
        return f"found {shown(text)}, expected at most {LENGTH_MAX} characters and {GROUPS_MAX} groups in an expression"
    refused = next((match.group() for match in _BEYOND_RE2.finditer(text) if match.lastgroup == "refused"), None)
    if refused is not None:
        return f"found {shown(refused)} in {shown(text)}, expected an expression without it: RE2 does not support it"
    if slow := _slow_part(text):
        return f"found {slow} in {shown(text)}, expected an expression that cannot be slow to match"
    try:
        with warnings.catch_warnings():
            # Python warns of texts with another meaning in RE2, for example [[:alpha:]].
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        return f"found {shown(text)}, which is not a valid regular expression: {' '.join(str(error).split())}"
    return ""


#: Groups, alternatives, repetitions and optional parts of an expression. Escapes and character sets are skipped.
_PARTS = re.compile(
    r"""(?P<skipped> \\. | \[\^?\]?(?:\\.|[^]\\])*+\]? )
      | (?P<opens> \(\?? )
      | (?P<alternative> \| )
      | (?P<closes> \) )? (?: (?P<repeat> [*+]|\{[0-9]*,[0-9]*\} ) | (?P<exact> \{[0-9]+\} ) | (?P<optional> \? ) )\??
      | (?P<end> \) )""",
    re.VERBOSE | re.DOTALL,
)


class _Group(Struct):
    """A group up to some place, or the whole expression.

    Attributes:
        varies: whether it can match texts of different forms.
        before: in how many ways its complete alternatives can match, at most.
        ways: the same for the alternative up to here.
    """

    varies: bool = False
    before: int = 0
    ways: int = 1


def _slow_part(text: str) -> str:
    """A part that can be very slow to match, or "": repetition of what varies, or too many repetitions or ways to match."""
    groups = [_Group()]
    repeats = 0
    for match in _PARTS.finditer(text):
        if match["skipped"]:
            continue
        if match["opens"]:
            groups.append(_Group())
            continue
        group = groups[-1]
        if match["alternative"]:
            group.varies, group.before, group.ways = True, group.before + group.ways, 1
            continue
        closes = (match["closes"] or match["end"]) and len(groups) > 1
        inner = groups.pop() if closes else _Group()
        if inner.varies and (match["repeat"] or match["exact"]):
            return "a repeated group with a repetition, an optional part or alternatives inside"
        repeats += bool(match["repeat"])
        group = groups[-1]
        group.varies = group.varies or inner.varies or bool(match["repeat"] or match["optional"])
        group.ways *= inner.before + inner.ways + bool(match["optional"])
    if repeats > REPEATS_MAX:
        return f"{repeats} unbounded repetitions"
    ways = groups[0].before + groups[0].ways
    return f"more than {WAYS_MAX[repeats]} ways to match" if ways > WAYS_MAX[repeats] else ""
