"""A follower that takes snapshots again and again, in a process of its own: ``python -m bench.snapshots URL``."""

import sys

import trio

from ykactor.client import follow


async def take(url: str) -> None:
    """Take a snapshot, and begin again."""
    while True:
        async with follow(url, from_="snapshot", encoding="msgpack") as follower:
            await anext(follower)


if __name__ == "__main__":
    trio.run(take, sys.argv[1])
