"""Durations and times as Go writes them."""

from __future__ import annotations

from ykactor.core.values.times import MS_NS, S_NS

_MINUTE_NS, _HOUR_NS = 60 * S_NS, 3600 * S_NS
#: Below a second, the units with their sizes.
_SMALL_UNITS = ((MS_NS, "ms"), (1000, "µs"), (1, "ns"))


def duration_text(duration_ns: int) -> str:
    """A duration that is not negative: ``0s``, ``1.5s``, ``1m30s``, ``1h0m0s``."""
    if 0 < duration_ns < S_NS:
        size, unit = next((size, unit) for size, unit in _SMALL_UNITS if duration_ns >= size)
        return f"{_decimal(duration_ns, size)}{unit}"
    hours, rest = divmod(duration_ns, _HOUR_NS)
    minutes, rest = divmod(rest, _MINUTE_NS)
    seconds = f"{_decimal(rest, S_NS)}s"
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(amount: int, unit: int) -> str:
    """``amount / unit`` without zeros at the end."""
    whole, rest = divmod(amount, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}}".rstrip("0") if rest else str(whole)
