"""Units of time, in nanoseconds."""

S_NS = 1_000_000_000
MS_NS = 1_000_000
US_NS = 1_000
#: Later than any time.
NEVER = 2**63

_DAY_S = 86_400
DAY_NS = _DAY_S * S_NS


def utc_text(unix_ns: int) -> str:
    """A Unix time as ``2026-07-31T09:30:00Z``; the core has no ``datetime``, which knows the present time."""
    days, second = divmod(unix_ns // S_NS, _DAY_S)
    # Years that begin in March have the leap day at their end, and repeat after 400 of them (146,097 days).
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    march = (5 * day + 2) // 153
    day -= (153 * march + 2) // 5 - 1
    month = march + 3 if march < 10 else march - 9
    date = f"{era * 400 + year + (month < 3):04}-{month:02}-{day:02}"
    return f"{date}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
