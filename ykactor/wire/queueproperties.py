"""Warnings of queue properties (section 6 of CF); ``core.properties`` says what they mean.

A bad value never refuses the configuration: it counts as the default, and a warning says so at the queue that sets it.
"""

import difflib

from ykactor.core.properties import CHOICES, PREEMPTION_POLICY, PRIORITY_OFFSET
from ykactor.core.quantities import parse_int32, shown
from ykactor.wire.yamlplaces import Text, note
from ykactor.wire.yamltext import Mistakes

#: Properties of YuniKorn that are kept but that nothing in this version looks at.
WITHOUT_EFFECT = (
    PREEMPTION_POLICY,
    "preemption.delay",
    "quota.preemption.delay",
    "application.unschedasks.backoff",
    "application.unschedasks.backoff.delay",
)

#: From here on an offset can clamp priorities, or lift ordinary work above system work (PR-15).
OFFSET_WARNING = 1_000_000_000


def warn(text: Text, properties: dict[str, str], *, is_root: bool, warnings: Mistakes) -> None:
    """Note those of the own ``properties`` of a queue or template that do not do what they seem to do."""
    for name, value in properties.items():
        if message := _warning(name, value, is_root=is_root):
            note(warnings, "", text, ("properties", name), message)


def _warning(name: str, value: str, *, is_root: bool) -> str:
    """The sentence, "" if there is nothing to say."""
    if name in WITHOUT_EFFECT:
        return "this property has no effect in this version"
    if name not in (*CHOICES, PRIORITY_OFFSET):
        close = difflib.get_close_matches(name[:60], (*CHOICES, PRIORITY_OFFSET, *WITHOUT_EFFECT), n=1, cutoff=0.8)
        return f"unknown property, did you mean {close[0]}?" if close else ""
    if name in CHOICES and value and value.lower() not in CHOICES[name]:
        return f"found {shown(value)}, expected {' or '.join(CHOICES[name])}; {CHOICES[name][0]} is used"
    if name == PRIORITY_OFFSET and value:
        offset = parse_int32(value)
        if offset is None:
            return f"found {shown(value)}, expected a whole number from -2147483648 to 2147483647; 0 is used"
        if abs(offset) >= OFFSET_WARNING and not is_root:
            return f"the offset {offset} is so large that it can clamp priorities or lift ordinary work above system work"
    return ""
