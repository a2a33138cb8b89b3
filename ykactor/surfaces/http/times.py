"""Unix times as texts."""

from datetime import UTC, datetime

from ykactor.core.values.times import S_NS


def rfc3339(at_ns: int) -> str:
    """Such as ``2026-01-01T00:00:00.5Z``."""
    seconds, rest = divmod(at_ns, S_NS)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"
