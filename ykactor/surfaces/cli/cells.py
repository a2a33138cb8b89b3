"""Values as people read them in tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from math import inf

from ykactor.core.values.times import S_NS
from ykactor.core.values.words import plural
from ykactor.wire.scenario.recording import Outage

#: The cell without a value: no limit, nothing pending.
NONE = "-"
#: The cell of a value that a daemon does not show to a limited reader (SE-84).
NOT_SHOWN = "not shown"
_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60, 3600, 86_400, 365 * 86_400
#: Durations below it are shown with fractions.
_EXACT_NS = 10 * 10**9
_HOURS = {"vcore": ("core h", 1000 * _HOUR_S), "memory": ("GiB h", 2**30 * _HOUR_S)}


def time_text(unix_ns: int) -> str:
    """UTC, to the millisecond."""
    moment = datetime.fromtimestamp(unix_ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{unix_ns // 10**6 % 1000:03}Z"


def detail_text(detail: str) -> str:
    """The detail of an event; ``-`` if it has none."""
    return NONE if detail == "DETAILS_NONE" else detail


def seconds_since(unix_ns: int, now_ns: int) -> int:
    """Whole seconds; 0 if the clock of the daemon is ahead."""
    return max(0, (now_ns - unix_ns) // S_NS)


#: The units of durations, and the two that are shown below so many seconds: the longer it is, the less exact.
_UNITS_S = {"s": 1, "m": _MINUTE_S, "h": _HOUR_S, "d": _DAY_S, "y": _YEAR_S}
_SHOWN = (
    (2 * _MINUTE_S, "s", ""),
    (10 * _MINUTE_S, "m", "s"),
    (3 * _HOUR_S, "m", ""),
    (8 * _HOUR_S, "h", "m"),
    (2 * _DAY_S, "h", ""),
    (8 * _DAY_S, "d", "h"),
    (2 * _YEAR_S, "d", ""),
    (8 * _YEAR_S, "y", "d"),
    (inf, "y", ""),
)


def age(seconds: int) -> str:
    """A duration as kubectl prints ages: ``45s``, ``5m30s``, ``7h5m``, ``3d4h``; less exact the longer it is."""
    left = max(0, seconds)
    large, small = next((large, small) for below, large, small in _SHOWN if left < below)
    whole, rest = divmod(left, _UNITS_S[large])
    parts = rest // _UNITS_S[small] if small else 0
    return f"{whole}{large}" + (f"{parts}{small}" if parts else "")


def exact_age(ns: int) -> str:
    """The same of nanoseconds, with hundredths of a second below ten seconds: ``0.03s``."""
    return f"{max(0, ns) / 1e9:.2f}s" if ns < _EXACT_NS else age(ns // 10**9)


def outages_text(outages: Sequence[Outage]) -> str:
    """``no daemon ran for 20m at most, before 2 starts: nothing is decided then``; "" without any."""
    if not outages:
        return ""
    away = exact_age(sum(outage.to_ns - outage.from_ns for outage in outages))
    return f"no daemon ran for {away} at most, before {plural(len(outages), 'start')}: nothing is decided then"


#: Shorter times would be 0.00s.
_SHOWN_NS = 10**7


def waited(by_code: Mapping[str, int]) -> str:
    """The time that something waited, and for what, from nanoseconds: ``waited 41s: QUOTA 26s, NODES 12s, NEXT 3s``."""
    parts = sorted(((ns, code) for code, ns in by_code.items() if ns >= _SHOWN_NS), key=lambda part: (-part[0], part[1]))
    whole = f"waited {exact_age(sum(by_code.values()))}"
    return f"{whole}: {', '.join(f'{code} {exact_age(ns)}' for ns, code in parts)}" if parts else whole


def in_order(resource: Mapping[str, int]) -> list[tuple[str, int]]:
    """The types in the order of events: vcore, memory, then the others by name."""
    first = ("vcore", "memory")
    return sorted(resource.items(), key=lambda entry: (first.index(entry[0]) if entry[0] in first else len(first), entry[0]))


_BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
#: Beside ``memory`` and ``ephemeral-storage``, types of Kubernetes that are counted in bytes begin so.
_HUGE_PAGES = "hugepages-"
_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)


def amount(name: str, value: int) -> str:
    """An amount of a resource type as people read it, in tables and on the page (``amounts.js``); JSON has base units.

    Three digits, half up, and all digits before the point: ``vcore`` in cores (``2``, ``0.5``, ``1024``); bytes, which are
    memory, ephemeral storage and huge pages, in the largest binary unit of which there is one (``512Mi``, ``23.5Gi``); every
    other type exactly. Sentences and differences, where two amounts are compared, have exact quantities instead.
    """
    if name == "vcore":
        return _three_digits(Decimal(value) / 1000)
    if name not in ("memory", "ephemeral-storage") and not name.startswith(_HUGE_PAGES):
        return str(value)
    left, unit = Decimal(value), 0
    while abs(left) >= _NEXT_UNIT and unit < len(_BINARY_UNITS) - 1:
        left, unit = left / 1024, unit + 1
    return f"{_three_digits(left)}{_BINARY_UNITS[unit]}"


#: From here on the whole number would be 1024.
_NEXT_UNIT = Decimal("1023.5")


def _three_digits(value: Decimal) -> str:
    is_large = abs(value) >= 1000
    rounded = value.to_integral_value(ROUND_HALF_UP) if is_large else _THREE_DIGITS.create_decimal(value)
    text = f"{rounded:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def resource(amounts: Mapping[str, int]) -> str:
    """Amounts in one word: ``vcore=2,memory=1Gi``; nothing is ``0``."""
    return ",".join(f"{name}={amount(name, value)}" for name, value in in_order(amounts)) or "0"


def number(value: float) -> str:
    """A number with three digits, with more if it is larger, and never with an exponent: ``0.0000347``, ``1.5``, ``12345``."""
    return f"{value:.0f}" if value >= 1000 else f"{Decimal(f'{value:.3g}'):f}"


def memory(value: int) -> str:
    """Bytes in one word: ``1Gi``."""
    return amount("memory", value)


def hour_of(name: str) -> tuple[str, int]:
    """The unit in which what was used of a resource type is shown: its name, and how many base units times seconds it is."""
    return _HOURS.get(name, ("h", _HOUR_S))


def resource_hours(amounts: Mapping[str, int | str]) -> str:
    """Resource-seconds in one word, with three digits: ``vcore=1.5core-h,memory=0.25GiB-h,gpu=12h``; nothing is ``0``."""
    texts = []
    for name, amount in in_order({name: int(amount) for name, amount in amounts.items()}):
        unit, factor = hour_of(name)
        texts.append(f"{name}={number(amount / factor)}{unit.replace(' ', '-')}")
    return ",".join(texts) or "0"


def work(name: str, amount: int) -> str:
    """``1.2 vcore hours``: base units times seconds."""
    size = {"vcore": 1000, "memory": 2**30}.get(name, 1)
    seconds = amount / size
    unit, length = next((known for known in (("hours", 3600), ("minutes", 60)) if seconds >= known[1]), ("seconds", 1))
    return f"{seconds / length:.2g} {'GiB' if name == 'memory' else name} {unit}"
