"""No client takes the daemon down or slows others; ``make abuse`` does more of everything (SE-90 to SE-95)."""

import random

from slowpeers import many_connections, slow_peers
from target import target


async def test_peers_that_never_finish() -> None:
    """SE-91"""
    async with target() as abused:
        print(await slow_peers(abused, 10))
        print(await many_connections(abused, 500, random.Random(0)))
