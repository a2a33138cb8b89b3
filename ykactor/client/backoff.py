"""How long a client waits before it connects again."""

import random

#: The first and the longest pause before the next attempt; the actual pause is random, at least half of it.
BACKOFF_FIRST_S = 0.2
BACKOFF_MAX_S = 10.0
#: After a session that has lasted so long, the next attempt to connect is like the first one. Whatever ends sessions at once,
#: such as a daemon that dies of what it is told, is tried less and less often.
LASTING_S = 10.0


def pause_s(attempt: int, rng: random.Random) -> float:
    """Seconds before the next attempt, when ``attempt`` attempts in a row have led to nothing."""
    return min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(attempt, 16)) * rng.uniform(0.5, 1)
