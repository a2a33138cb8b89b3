"""Queue properties: what a queue inherits and what its property map means (section 6 of CF).

A bad value never refuses a configuration: it counts as the default (``wire.queueproperties`` warns of it).
"""

from ykactor.core.quantities import parse_int32
from ykactor.core.queueconfig import QueueProperties

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


def inherit(parent: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """The property map of a managed queue: what its parent passes on, overlaid with its own (CF-35). A fresh map."""
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
        sort_policy=choice(properties, SORT_POLICY),
        sort_by_priority=choice(properties, SORT_PRIORITY) == "enabled",
        priority_fence=choice(properties, PRIORITY_POLICY) == "fence",
        priority_offset=parse_int32(properties.get(PRIORITY_OFFSET, "0")) or 0,
    )


def choice(properties: dict[str, str], name: str) -> str:
    """The value of a property with fixed legal values."""
    value = properties.get(name, "").lower()
    return value if value in CHOICES[name] else CHOICES[name][0]
