"""Many kills in several worlds, and what was done between them: a campaign that does nothing fails."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from faulty import POINTS
from life import PHASES, World

#: Kills in one world, whose journal holds all that ever happened there.
WORLD_KILLS = 25
DURABILITIES = ("off", "off", "normal", "full")
#: What happens at least once in a campaign of 200 kills: moments of kills, requests that were acknowledged, messages.
EXPECTED = (
    *(f"killed: {moment}" for moment in (*PHASES, *POINTS) if moment != "fault"),
    *("NodeRequest", "ApplicationRequest", "AllocationRequest", "MoveApplication", "TerminateApplication"),
    *("UpdateConfigurationRequest", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED", "TIMEOUT", "PredicatesRequest"),
    *("allocations", "sent again", "answered late", "INTERRUPTED"),
)


async def run(directory: Path, kills: int, seed: int) -> Counter[str]:
    """Kill so many times; returns what was done."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    for first in range(0, kills, WORLD_KILLS):
        place = directory / f"world-{first}"
        place.mkdir()
        world = World(place, rng.getrandbits(32), rng.choice(DURABILITIES))
        for phase in rng.choices(list(PHASES), list(PHASES.values()), k=min(kills - first, WORLD_KILLS)):
            await world.kill(phase)
        await world.finish()
        counts += world.counts
    return counts


def table(counts: Counter[str]) -> str:
    """What was done, for people."""
    return "\n".join(f"{number:8} {name}" for name, number in sorted(counts.items()))
