"""Queue properties: what a queue inherits and what its properties mean (CF section 6).

A bad value never refuses the configuration: it counts as the default, and a warning says so at the queue that sets it.
"""

from ykactor.core.quantities import parse_int32, shown
from ykactor.core.queueconfig import QueueProperties
from ykactor.wire.queueschema import QueueDraft
from ykactor.wire.yamlfields import find, join
from ykactor.wire.yamltext import Mistakes

SORT_POLICY = "application.sort.policy"
SORT_PRIORITY = "application.sort.priority"
PRIORITY_POLICY = "priority.policy"
PRIORITY_OFFSET = "priority.offset"
PREEMPTION_POLICY = "preemption.policy"

#: Property -> legal values in lower case; the first is the default, empty counts as the default too (CF-32).
CHOICES = {
    SORT_POLICY: ("fifo", "fair", "stateaware"),
    SORT_PRIORITY: ("enabled", "disabled"),
    PRIORITY_POLICY: ("default", "fence"),
}

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


def inherit(parent: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """The property map of a queue: what its parent passes on, overlaid with its own (CF-35). A fresh map."""
    passed_on = dict(parent)
    if PRIORITY_POLICY in passed_on:
        passed_on[PRIORITY_POLICY] = "default"
    if PRIORITY_OFFSET in passed_on:
        passed_on[PRIORITY_OFFSET] = "0"
    if passed_on.get(PREEMPTION_POLICY, "").lower() not in ("", "disabled"):
        passed_on[PREEMPTION_POLICY] = "default"
    return passed_on | own


def interpret(properties: dict[str, str]) -> QueueProperties:
    """What an inherited map means; a bad value means the default (CF-38)."""
    return QueueProperties(
        sort_policy=_choice(properties, SORT_POLICY),
        sort_by_priority=_choice(properties, SORT_PRIORITY) == "enabled",
        priority_fence=_choice(properties, PRIORITY_POLICY) == "fence",
        priority_offset=parse_int32(properties.get(PRIORITY_OFFSET, "0")) or 0,
    )


def warn(queue: QueueDraft, *, is_root: bool, warnings: Mistakes) -> None:
    """Note the queue's own properties that do not do what they seem to do."""
    for name, value in queue.properties.items():
        if text := _warning(name, value, is_root=is_root):
            place = find(queue.node, "properties", name)
            warnings.add("", place, join(f"{queue.where}.properties", name), text)


def _warning(name: str, value: str, *, is_root: bool) -> str:
    """The sentence, "" if there is nothing to say."""
    if name in WITHOUT_EFFECT:
        return "this property has no effect in this version"
    if name in CHOICES and value and value.lower() not in CHOICES[name]:
        return f"found {shown(value)}, expected {' or '.join(CHOICES[name])}; {CHOICES[name][0]} is used"
    if name == PRIORITY_OFFSET and value:
        offset = parse_int32(value)
        if offset is None:
            return f"found {shown(value)}, expected a whole number from -2147483648 to 2147483647; 0 is used"
        if abs(offset) >= OFFSET_WARNING and not is_root:
            return f"the offset {offset} is so large that it can clamp priorities or lift ordinary work above system work"
    return ""


def _choice(properties: dict[str, str], name: str) -> str:
    value = properties.get(name, "").lower()
    return value if value in CHOICES[name] else CHOICES[name][0]
