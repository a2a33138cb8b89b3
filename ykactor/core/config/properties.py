"""Queue properties: what each means, and what a queue inherits (CF-35, CF-72). ``PROPERTIES`` is the table of them.

``SORT_POLICIES`` are the policies by which a leaf orders its applications (PR-73); ``queueing.leaf_order`` has the keys of each.

A bad value does not make a configuration invalid: the default is used, and reading the queue file warns.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ykactor.core.values.quantities import parse_duration, parse_int32, parse_uint64


class SortPolicy(Struct, frozen=True, kw_only=True):
    """A policy by which a leaf orders its applications.

    Attributes:
        by_usage: the place of an application changes with what it uses.
        one_starts: of the applications that begin one is in the order (PR-75).
        takes_gangs: the leaf takes applications that announce a gang (AP-18).
        remark: the warning about a queue that has it, or "".
    """

    by_usage: bool = False
    one_starts: bool = False
    takes_gangs: bool = True
    remark: str = ""


#: By the value of ``application.sort.policy``; the first is the default.
SORT_POLICIES = {
    "fifo": SortPolicy(),
    "fair": SortPolicy(by_usage=True, takes_gangs=False),
    "stateaware": SortPolicy(
        one_starts=True,
        remark="YuniKorn 1.6 and later treat stateaware as fifo; here one application starts at a time, "
        "so others may wait up to 300 s while it is Starting",
    ),
}
#: The policies of queues that take gangs, in words.
WITH_GANGS = " or ".join(name for name, policy in SORT_POLICIES.items() if policy.takes_gangs)

SORT_POLICY = "application.sort.policy"
SORT_PRIORITY = "application.sort.priority"
PRIORITY_POLICY = "priority.policy"
PRIORITY_OFFSET = "priority.offset"
PREEMPTION_POLICY = "preemption.policy"
QUOTA_PREEMPTION_DELAY = "quota.preemption.delay"
WALLTIME_DEFAULT = "application.walltime.default"
WALLTIME_MAX = "application.walltime.max"
#: Of a queue above, they also hold for dynamic queues whose template does not set them (CF-37).
WALLTIMES = (WALLTIME_DEFAULT, WALLTIME_MAX)


class QueueProperties(Struct, frozen=True, forbid_unknown_fields=True):
    """The effective properties of one queue (CF-72): the queue's own values over what it inherits."""

    #: Of ``SORT_POLICIES``; leaves only.
    sort_policy: str = "fifo"
    #: ``application.sort.priority``: False means that priorities do not order this queue's children or applications (PR-20).
    sort_by_priority: bool = True
    #: ``priority.policy: fence``.
    priority_fence: bool = False
    #: ``priority.offset``, int32.
    priority_offset: int = 0
    #: ``default``, ``fence`` (asks inside find victims inside only) or ``disabled`` (nothing inside is a victim).
    preemption_policy: str = "default"
    #: The time that an ask waits before it may preempt; leaves only.
    preemption_delay_ns: int = 30_000_000_000
    #: The time before a lowered ``max`` is enforced; 0 is "never".
    quota_preemption_delay_ns: int = 0
    #: After so many asks that fit nowhere an application is put into back-off; 0 is "never". Leaves only.
    backoff_count: int = 0
    backoff_delay_ns: int = 30_000_000_000
    #: The wall time of tasks whose application tells none, and the longest one that it may tell (AP-158); 0 is "none".
    walltime_default_ns: int = 0
    walltime_max_ns: int = 0

    @property
    def usual_walltime_ns(self) -> int:
        """The wall time of tasks whose application tells none, which is never above the max; 0 is none."""
        usual, longest = self.walltime_default_ns, self.walltime_max_ns
        return min(usual or longest, longest or usual)


Setting = str | int | bool


class Property(Struct, frozen=True):
    """A property.

    Attributes:
        field: of ``QueueProperties``, which has its default; an empty value is the default too (CF-32).
        read: the setting that a value means; None if the value is wrong.
        expected: in words, the legal values and the default for an illegal one.
        passed_on: what managed queues inherit of a value (CF-35).
        examples: the legal values, if these are few.
    """

    field: str
    read: Callable[[str], Setting | None]
    expected: str
    passed_on: Callable[[str], str] = str
    examples: tuple[str, ...] = ()


def _choice(field: str, settings: dict[str, Setting], passed_on: Callable[[str], str] = str) -> Property:
    """A property with fixed legal values, in any case; the first is the default."""
    names = tuple(settings)
    expected = f"{' or '.join(names)}; {names[0]} is used"
    return Property(field, lambda value: settings.get(value.lower()), expected, passed_on, names)


def _named(*names: str) -> dict[str, Setting]:
    return {name: name for name in names}


def _duration(field: str, default: str, also: tuple[str, ...] = ()) -> Property:
    """A property whose value is a duration above 0; ``also`` are values that mean 0."""

    def read(value: str) -> int | None:
        duration = parse_duration(value) or 0
        return duration if duration > 0 else 0 if value in also else None

    return Property(field, read, f"a duration above 0 such as 30s or 1m30s; {default} is used")


#: By the name in the queue file.
PROPERTIES = {
    SORT_POLICY: _choice("sort_policy", _named(*SORT_POLICIES)),
    SORT_PRIORITY: _choice("sort_by_priority", {"enabled": True, "disabled": False}),
    PRIORITY_POLICY: _choice("priority_fence", {"default": False, "fence": True}, lambda value: "default"),
    PREEMPTION_POLICY: _choice(
        "preemption_policy",
        _named("default", "fence", "disabled"),
        lambda value: value if value.lower() in ("", "disabled") else "default",
    ),
    "preemption.delay": _duration("preemption_delay_ns", "30s"),
    QUOTA_PREEMPTION_DELAY: _duration("quota_preemption_delay_ns", "never", also=("0",)),
    "application.unschedasks.backoff.delay": _duration("backoff_delay_ns", "30s"),
    WALLTIME_DEFAULT: _duration("walltime_default_ns", "none"),
    WALLTIME_MAX: _duration("walltime_max_ns", "none"),
    PRIORITY_OFFSET: Property(
        "priority_offset", parse_int32, "a whole number from -2147483648 to 2147483647; 0 is used", lambda value: "0"
    ),
    "application.unschedasks.backoff": Property("backoff_count", parse_uint64, "a whole number of asks; 0 (never) is used"),
}


def passed_on_by(properties: dict[str, str]) -> dict[str, str]:
    """The properties that managed queues inherit from a parent with this map (CF-35); they share it, so it must not change."""
    return {name: PROPERTIES[name].passed_on(value) if name in PROPERTIES else value for name, value in properties.items()}


def interpret(properties: dict[str, str]) -> QueueProperties:
    """The settings that a property map (after inheritance) means; a bad value means the default (CF-38)."""
    settings: dict[str, Setting] = {}
    for name, value in properties.items():
        known = PROPERTIES.get(name)
        setting = known.read(value) if known is not None and value else None
        if known is not None and setting is not None:
            settings[known.field] = setting
    return QueueProperties(**settings)  # type: ignore[arg-type]  # each is read as its field wants it


def mistake(name: str, value: str) -> str:
    """The error in a value, or ""."""
    known = PROPERTIES[name]
    return f"expected {known.expected}" if value and known.read(value) is None else ""
