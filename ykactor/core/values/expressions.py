"""Regular expressions that are searched for in names (PL-17). The engine is RE2, as in YuniKorn, which takes linear time."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

#: Characters of an expression.
LENGTH_MAX = 1000
#: Instructions of RE2 for an expression, of which each takes a few ns for each character of a name.
PROGRAM_MAX = 2000
#: Longer names match no expression: no real name is that long.
SEARCHED_MAX = 128
#: Bytes that RE2 may use for an expression, its cache of states included.
_MEMORY_MAX = 2**18
#: One byte, also within a character: RE2 in C++ knows it, RE2 in Go does not.
_ONE_BYTE = re.compile(r"(?:[^\\]|\\[^C])*\\C", re.DOTALL)


def objection(expression: str) -> str:
    """The error in an expression, as the end of a sentence; "" if it has none."""
    if len(expression) > LENGTH_MAX:
        return f"expected at most {LENGTH_MAX} characters in an expression"
    if _ONE_BYTE.match(expression):
        return r"expected an expression without \C: RE2 does not support it everywhere"
    try:
        instructions = _compiled(expression).programsize
    except re2.error as error:
        return f"which is not a valid regular expression: RE2 says {_text(error)}"
    if instructions > PROGRAM_MAX:
        return f"expected at most {PROGRAM_MAX} instructions in an expression, not {instructions}: write x+ instead of x{{300}}"
    return ""


def matches(expression: str, name: str) -> bool:
    """True if the expression is found anywhere in the name. An expression of an old journal that RE2 refuses matches nothing."""
    if len(name) > SEARCHED_MAX:
        return False
    try:
        return _compiled(expression).search(name) is not None
    except re2.error:
        return False


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY_MAX
    options.never_capture = True
    options.log_errors = False  # they would go to the standard error output
    return re2.compile(expression, options)


def _text(error: Exception) -> str:
    """The message of RE2: the error and its place, in bytes."""
    said = error.args[0]
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)
