"""Moments as people write them."""

import pytest

from ykactor.access import moments

DAY_NS = 86400 * 10**9


@pytest.mark.parametrize(
    ("text", "unix_ns"),
    [
        ("1970-01-02", DAY_NS),
        ("1970-01-02T00:00:00Z", DAY_NS),
        ("1970-01-02T01:00:00+01:00", DAY_NS),
        ("1970-01-02T00:00:00.5Z", DAY_NS + 5 * 10**8),
        ("9999-12-31", 253402214400 * 10**9),
    ],
)
def test_moments(text: str, unix_ns: int) -> None:
    """SE-3: a date is its first moment in UTC, a time has its zone."""
    moment = moments.parse(text)
    assert moment is not None
    assert moments.unix_ns(moment) == unix_ns
    assert moments.at(unix_ns) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    "text", ["", "soon", "1970-01-02T00:00:00", "1970-13-01", "1970-1-2", "0001-01-01T00:00:00+23:00", "90d"]
)
def test_what_is_no_moment(text: str) -> None:
    """SE-3: a time without its zone could be meant as any of 24."""
    assert moments.parse(text) is None
