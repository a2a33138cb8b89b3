"""The number of random histories that a test plays: a seventh of its count by day, always the same ones, and more by night.

``YKACTOR_SEEDS=3`` in the environment, as in ``make test-nightly``, multiplies every count by 3. By day hypothesis draws the
same examples in every run, too.
"""

import math
import os

from hypothesis import settings

SCALE = float(os.environ.get("YKACTOR_SEEDS", "0.15"))
IS_NIGHT = SCALE > 1

settings.register_profile("day", derandomize=True, deadline=None)
settings.register_profile("night", deadline=None)


def scaled(count: int) -> int:
    """The number of histories of one test."""
    return math.ceil(count * SCALE)


def seeds(count: int, first: int = 0) -> range:
    """The seeds of one test."""
    return range(first, first + scaled(count))
