"""Abusive clients neither end the daemon nor slow others (SE-90 to SE-95); ``make abuse`` does more of everything."""

import random
from pathlib import Path

from crowds import crowd
from extremes import extremes
from floods import floods
from framefuzz import decode_mutants, send_mutants
from largeentries import large_entries
from queuefilefuzz import apply_mutants, load_mutants
from slowpeers import many_connections, slow_peers
from target import target


async def test_stalled_followers_slow_nobody() -> None:
    """SE-90: the others get all events in order, and as fast; who does not read is dropped, and the log says so."""
    async with target() as abused:
        print(await crowd(abused, followers=40, stalled=10, requests=24))


async def test_peers_that_never_finish() -> None:
    """SE-91: they end in time, and leave nothing behind; so do connections that come and go."""
    async with target() as abused:
        print(await slow_peers(abused, 10))
        print(await many_connections(abused, 300, random.Random(1)))


async def test_connections_with_tls() -> None:
    """SE-91: whatever of a handshake they leave undone; ``make abuse`` does all of the first three with TLS too."""
    async with target(has_tls=True) as abused:
        print(await many_connections(abused, 60, random.Random(1)))


async def test_floods() -> None:
    """SE-92: beside a client that sends as much as it can, right or wrong, another one is served."""
    async with target() as abused:
        print(await floods(abused, 10))


async def test_mutants_of_messages() -> None:
    """SE-93: wrong messages and frames have no effect, and hold the loop for less than 100 ms."""
    print(decode_mutants(4000, seed=1))
    async with target() as abused:
        print(await send_mutants(abused, 2000, seed=1))


async def test_mutants_of_queue_files(tmp_path: Path) -> None:
    """SE-94: they are loaded or refused, in little time and memory; a daemon applies those that are right."""
    print(load_mutants(300, seed=1))
    async with target("--state-dir", tmp_path) as abused:
        print(await apply_mutants(abused, 15, seed=1))


async def test_extremes(tmp_path: Path) -> None:
    """SE-95: the largest of everything that is right breaks no invariant, and is decided again in the same way."""
    async with target("--state-dir", tmp_path) as abused:
        print(await extremes(abused, tmp_path, count=90, entries=2000, seed=1))


async def test_large_entries(tmp_path: Path) -> None:
    """SE-92: entries with the most of everything do not keep others waiting."""
    async with target("--state-dir", tmp_path) as abused:
        print(await large_entries(abused, 0.05))
