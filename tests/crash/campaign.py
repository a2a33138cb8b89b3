"""Many kills in several worlds, and what was done between them: a campaign that does nothing fails."""

from __future__ import annotations

import random
from collections import Counter
from itertools import cycle
from pathlib import Path

from faulty import POINTS, POWER
from life import PHASES, World
from pair import PAIR_PHASES, PairWorld

#: Kills in one world, whose journal holds all that ever happened there.
WORLD_KILLS = 25
DURABILITIES = ("off", "full", "normal", "off")
#: What happens at least once in a campaign of 200 kills: moments of kills, events that were seen and are lost (with
#: durability "normal"), requests that were acknowledged, messages.
EXPECTED = (
    *(f"killed: {moment}" for moment in (*PHASES, *POINTS) if moment != "fault"),
    "lost",
    *("begins with the state", "registers anew"),
    *("NodeRequest", "ApplicationRequest", "AllocationRequest", "MoveApplication", "TerminateApplication"),
    *("UpdateConfigurationRequest", "PREEMPTED_BY_SCHEDULER", "PLACEHOLDER_REPLACED", "TIMEOUT", "PredicatesRequest"),
    *("SchedulingStateResponse", "handed back", "placed again", "STALE_EPOCH"),
    *("allocations", "sent again", "answered late", "INTERRUPTED"),
)


#: The same of a campaign with standbys.
EXPECTED_OF_PAIRS = (
    *(f"killed: {moment}" for moment in (*PAIR_PHASES, *POINTS) if moment != "fault"),
    *("took over", "goes on as the daemon", "in memory", "both killed", "killed while it takes over", "standby begins anew"),
    *("allocations", "sent again", "answered late", "replica killed", "told by a replica"),
)


async def run_pairs(directory: Path, kills: int, seed: int) -> Counter[str]:
    """Kill daemons that have a standby so many times, or let them hand over; returns what was done."""
    rng = random.Random(seed)
    counts, points = Counter[str](), Counter[str]()
    for first in range(0, kills, WORLD_KILLS):
        place = directory / f"pair-{first}"
        place.mkdir()
        world = PairWorld(place, rng.getrandbits(32), "off", points)
        for phase in rng.choices(list(PAIR_PHASES), list(PAIR_PHASES.values()), k=min(kills - first, WORLD_KILLS)):
            await world.kill(phase)
        await world.finish()
        counts += world.counts
    return counts


async def run(directory: Path, kills: int, seed: int) -> Counter[str]:
    """Kill so many times; returns what was done."""
    rng = random.Random(seed)
    counts, points = Counter[str](), Counter[str]()
    for first, durability in zip(range(0, kills, WORLD_KILLS), cycle(DURABILITIES), strict=False):
        place = directory / f"world-{first}"
        place.mkdir()
        world = World(place, rng.getrandbits(32), durability, points)
        phases = {phase: weight for phase, weight in PHASES.items() if phase != POWER or durability != "off"}
        for phase in rng.choices(list(phases), list(phases.values()), k=min(kills - first, WORLD_KILLS)):
            await world.kill(phase)
        await world.finish()
        counts += world.counts
    return counts


def table(counts: Counter[str]) -> str:
    """The table of what was done, for people."""
    return "\n".join(f"{number:8} {name}" for name, number in sorted(counts.items()))
