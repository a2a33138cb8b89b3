"""Nothing is lost or doubled when the daemon is killed, at whatever moment; ``make crash`` kills it more often (SC-157)."""

from pathlib import Path

import pytest
from campaign import run, table
from faulty import POWER
from life import ALLOCATIONS, World
from seeds import seeds

KILLS = 8
FAILURES = 2


async def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """What the journal holds agrees with all that was sent and received, after each kill and at the end."""
    counts = await run(tmp_path, KILLS, seed=4)
    print(table(counts))
    assert sum(number for name, number in counts.items() if name.startswith("killed")) == KILLS
    assert counts["Ack"] > 50
    assert counts["allocations"] >= ALLOCATIONS * counts["killed: load"] > 0


@pytest.mark.parametrize("durability", ["full", "normal"])
@pytest.mark.parametrize("seed", seeds(1))
async def test_power_failures(tmp_path: Path, durability: str, seed: int) -> None:
    """With ``full`` nothing is lost; with ``normal`` the last moments, which is said, and nobody goes on by number (DU-3)."""
    world = World(tmp_path, seed, durability)
    for _ in range(FAILURES):
        await world.kill("load")
        await world.kill(POWER)
    await world.finish()
    print(table(world.counts))
    assert world.counts["killed: power"] == FAILURES
    assert world.counts["allocations"] >= ALLOCATIONS * FAILURES
