"""Times as text."""

from datetime import UTC, datetime
from random import Random

from ykactor.core.values.times import S_NS, utc_text

YEARS = 2**63 // (366 * 86_400 * S_NS)


def test_utc_text() -> None:
    """The text is that of ``datetime``, also on 29 February and at the ends of years and centuries."""
    rng = Random(1)
    edges = [datetime(1970 + year, *day, tzinfo=UTC) for year in range(0, YEARS, 2) for day in ((2, 28), (3, 1), (12, 31))]
    seconds = [int(edge.timestamp()) + rng.randrange(86_400) for edge in edges]
    for second in (0, 951_782_400, 4_107_542_399, *seconds):
        assert utc_text(second * S_NS + 999_999_999) == f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"
