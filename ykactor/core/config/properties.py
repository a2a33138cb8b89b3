"""Queue properties: what a queue inherits and what its property map means (CF-35, CF-72).

A bad value does not make a configuration invalid: the default is used, and reading the queue file warns.
"""

from ykactor.core.config.model import QueueProperties
from ykactor.core.values.quantities import parse_duration, parse_int32, parse_uint64
from ykactor.core.values.times import S_NS

SORT_POLICY = "application.sort.policy"
SORT_PRIORITY = "application.sort.priority"
PRIORITY_POLICY = "priority.policy"
PRIORITY_OFFSET = "priority.offset"
PREEMPTION_POLICY = "preemption.policy"
PREEMPTION_DELAY = "preemption.delay"
QUOTA_PREEMPTION_DELAY = "quota.preemption.delay"
BACKOFF = "application.unschedasks.backoff"
BACKOFF_DELAY = "application.unschedasks.backoff.delay"

#: Properties whose values are durations above 0, with their defaults in words.
DURATIONS = {PREEMPTION_DELAY: "30s", QUOTA_PREEMPTION_DELAY: "never", BACKOFF_DELAY: "30s"}

#: Properties with fixed legal values, in lower case; the first is the default, and so is an empty value (CF-32).
CHOICES = {
    SORT_POLICY: ("fifo", "fair", "stateaware"),
    SORT_PRIORITY: ("enabled", "disabled"),
    PRIORITY_POLICY: ("default", "fence"),
    PREEMPTION_POLICY: ("default", "fence", "disabled"),
}


def passed_on_by(properties: dict[str, str]) -> dict[str, str]:
    """What managed queues inherit from a parent with this property map (CF-35); they share it, so nobody may change it."""
    passed_on = dict(properties)
    if PRIORITY_POLICY in passed_on:
        passed_on[PRIORITY_POLICY] = "default"
    if PRIORITY_OFFSET in passed_on:
        passed_on[PRIORITY_OFFSET] = "0"
    if passed_on.get(PREEMPTION_POLICY, "").lower() not in ("", "disabled"):
        passed_on[PREEMPTION_POLICY] = "default"
    return passed_on


def interpret(properties: dict[str, str]) -> QueueProperties:
    """The settings that a property map (after inheritance) means; a bad value means the default (CF-38)."""
    return QueueProperties(
        sort_policy=choice(properties, SORT_POLICY),
        sort_by_priority=choice(properties, SORT_PRIORITY) == "enabled",
        priority_fence=choice(properties, PRIORITY_POLICY) == "fence",
        priority_offset=parse_int32(properties.get(PRIORITY_OFFSET, "0")) or 0,
        preemption_policy=choice(properties, PREEMPTION_POLICY),
        preemption_delay_ns=_duration_ns(properties, PREEMPTION_DELAY) or 30 * S_NS,
        quota_preemption_delay_ns=_duration_ns(properties, QUOTA_PREEMPTION_DELAY) or 0,
        backoff_count=parse_uint64(properties.get(BACKOFF, "")) or 0,
        backoff_delay_ns=_duration_ns(properties, BACKOFF_DELAY) or 30 * S_NS,
    )


def _duration_ns(properties: dict[str, str], name: str) -> int | None:
    """The value of a duration property in ns; None if it is absent, malformed or not above 0."""
    value = parse_duration(properties.get(name, ""))
    return value if value is not None and value > 0 else None


def choice(properties: dict[str, str], name: str) -> str:
    """The value of a property with fixed legal values; the default for any other value."""
    value = properties.get(name, "").lower()
    return value if value in CHOICES[name] else CHOICES[name][0]
