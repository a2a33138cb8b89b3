"""Warnings about queue properties (CF-73); ``core.config.properties`` defines their meaning.

A wrong value is no mistake: the default is used instead, and the queue that sets the value gets a warning.
"""

import difflib

from ykactor.core.config.properties import PRIORITY_OFFSET, PROPERTIES, SORT_POLICIES, SORT_POLICY, mistake
from ykactor.core.values.quantities import parse_int32, shown
from ykactor.wire.queuefile.places import Text, note
from ykactor.wire.queuefile.text import Mistakes

#: From this offset on priorities can be clamped, or ordinary work come before system work (PR-15).
OFFSET_WARNING = 1_000_000_000


def property_like(key: str) -> str:
    """The property whose name is ``key``, apart from dots, other separators and case; "" if there is none."""
    return _BY_LETTERS.get(_letters(key), "")


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name)).lower()


_BY_LETTERS = {_letters(name): name for name in PROPERTIES}


def warn(text: Text, properties: dict[str, str], *, is_root: bool, warnings: Mistakes) -> None:
    """Add a warning for each of the own ``properties`` of a queue or template that has no effect, or not the expected one."""
    for name, value in properties.items():
        if message := _warning(name, value, is_root=is_root):
            note(warnings, "", text, ("properties", name), message)


def _warning(name: str, value: str, *, is_root: bool) -> str:
    """The message; "" for no warning."""
    if name not in PROPERTIES:
        close = difflib.get_close_matches(name[:60], PROPERTIES, n=1, cutoff=0.8)
        return f"unknown property, did you mean {close[0]}?" if close else ""
    if wrong := mistake(name, value):
        return f"found {shown(value)}, {wrong}"
    if name == SORT_POLICY and value:
        return SORT_POLICIES[value.lower()].remark
    if name == PRIORITY_OFFSET and abs(offset := parse_int32(value) or 0) >= OFFSET_WARNING and not is_root:
        return f"the offset {offset} is so large that priorities can be clamped, or ordinary work come before system work"
    return ""
