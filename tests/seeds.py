"""How many random histories a test plays: a fixed choice by day, more of them by night.

``YKACTOR_SEEDS=4`` in the environment, as in ``make test-nightly``, multiplies every count by 4. By day hypothesis draws the
same examples in every run, too.
"""

import os

from hypothesis import settings

FACTOR = int(os.environ.get("YKACTOR_SEEDS", "1"))

settings.register_profile("day", derandomize=True, deadline=None)
settings.register_profile("night", deadline=None)


def seeds(count: int, first: int = 0) -> range:
    """The seeds of one test."""
    return range(first, first + count * FACTOR)
