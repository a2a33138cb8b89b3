"""``python tests/abuse SEED``: as much abuse as a client can think of, and what was measured."""

import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from itertools import combinations
from pathlib import Path

import trio
from costs import loop_s
from crowds import crowd
from extremes import extremes
from floods import floods
from framefuzz import decode_mutants, send_mutants
from largeentries import large_entries
from products import AXES, products
from queuefilefuzz import apply_mutants, load_mutants
from slowpeers import many_connections, slow_peers
from target import Target, target
from watched import HELD_S

#: How long a flood, and entries that are as large as they may be, hold the loop, at most: no longer than loops of so many steps
#: take, which is about 20 ms and 50 ms.
FLOOD_HELD_STEPS, LARGE_HELD_STEPS = 1_200_000, 3_000_000
#: Messages that are decoded, and those that are sent to a daemon.
DECODED, SENT = 900_000, 100_000
QUEUE_FILES = 100_000
#: More items of each collection, of all pairs.
PRODUCTS = 12
#: Daemons with random requests.
HISTORIES = 10


def main() -> None:
    seed = int(sys.argv[1])
    rng = random.Random(seed)
    for has_tls in (False, True):
        print("with TLS" if has_tls else "without TLS", flush=True)
        report(lambda abused: crowd(abused, followers=1000, stalled=100, requests=5), has_tls=has_tls)
        report(lambda abused: slow_peers(abused, 200), has_tls=has_tls)
        report(lambda abused: many_connections(abused, 10_000, rng), has_tls=has_tls)
        report(calm_beside_floods, has_tls=has_tls)
    print(decode_mutants(DECODED, seed), flush=True)
    report(lambda abused: send_mutants(abused, SENT, seed))
    with tempfile.TemporaryDirectory() as directory:
        report(all_entries, "--state-dir", directory)
    print(load_mutants(QUEUE_FILES, seed), flush=True)
    report(lambda abused: apply_mutants(abused, 200, seed))
    found = [*products(combinations(AXES, 2), PRODUCTS, counts_calls=True)]
    assert found == [], f"found {found}, expected no product of two collections"
    print(f"no two of {len(AXES)} collections are multiplied by each other", flush=True)
    for number in range(HISTORIES):
        with tempfile.TemporaryDirectory() as directory:
            play(Path(directory), 500, rng.getrandbits(32), entries=10_000 if number == 0 else 2000)


async def calm_beside_floods(abused: Target) -> str:
    """Floods with a ratio that is about 50 ms on a machine that does nothing else."""
    figures = await floods(abused, 1000, ratio_max=35)
    longest_s = abused.check()
    assert longest_s <= max(HELD_S, loop_s(FLOOD_HELD_STEPS)), f"{figures}: {abused.daemon.logged('held')}"
    return f"{figures}; the longest hold is {1e3 * longest_s:.0f} ms"


async def all_entries(abused: Target) -> str:
    """Thousands of large entries at once."""
    figures = await large_entries(abused, 1)
    assert abused.check() < loop_s(LARGE_HELD_STEPS), figures
    return figures


def play(directory: Path, count: int, seed: int, entries: int) -> None:
    """Requests with extremes, to a daemon that keeps its journal in the directory."""
    report(lambda abused: extremes(abused, directory, count, entries, seed), "--state-dir", directory)


def report(abuse: Callable[[Target], Awaitable[str]], *arguments: str | Path, has_tls: bool = False) -> None:
    """Abuse a daemon of its own, and print the figures."""

    async def run() -> None:
        async with target(*arguments, limit_s=3600, has_tls=has_tls) as abused:
            print(await abuse(abused), flush=True)

    trio.run(run)


if __name__ == "__main__":
    main()
