"""Nothing is lost or doubled when the daemon is killed, at whatever moment; ``make crash`` kills it more often (SC-157)."""

from collections import Counter
from pathlib import Path

import pytest
from campaign import run, table
from faulty import POWER
from life import ALLOCATIONS, HANDED_OVER, RESTORED, World
from pair import PairWorld
from seeds import seeds

KILLS = 5
FAILURES = 2


async def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """The journal agrees with all that was sent and received, after each kill and at the end."""
    counts = await run(tmp_path, KILLS, seed=4)
    print(table(counts))
    assert sum(number for name, number in counts.items() if name.startswith("killed")) == KILLS
    assert counts["Ack"] > 50
    assert counts["allocations"] >= ALLOCATIONS * counts["killed: load"] > 0


async def test_a_standby_takes_over(tmp_path: Path) -> None:
    """The journal of the standby agrees with all that was told, after each kill or hand-over, and goes on (DU-23)."""
    world = PairWorld(tmp_path, 3, "off", Counter())
    for phase in ("load", HANDED_OVER, "standby killed", "fault", "load"):
        await world.kill(phase)
    await world.finish()
    print(table(world.counts))
    assert world.counts["took over"] >= 2
    assert world.counts["allocations"] >= ALLOCATIONS


async def test_a_directory_that_is_put_back(tmp_path: Path) -> None:
    """Clients that know more than there is are told so, and nobody is told another history (DU-18)."""
    world = World(tmp_path, 2, "full", Counter(), copied=1)
    for phase in ("load", RESTORED, "load", RESTORED):
        await world.kill(phase)
    await world.finish()
    print(table(world.counts))
    assert world.counts["killed: restored"] == 2
    assert world.counts["lost"] > 0
    assert world.counts["begins with the state"] > 0
    assert world.counts["registers anew"] > 0


@pytest.mark.parametrize("durability", ["full", "normal"])
@pytest.mark.parametrize("seed", seeds(1))
async def test_power_failures(tmp_path: Path, durability: str, seed: int) -> None:
    """Nothing is lost with ``full``; with ``normal`` the last moments, which is said, and nobody resumes by number (DU-3)."""
    world = World(tmp_path, seed, durability, Counter())
    for _ in range(FAILURES):
        await world.kill("load")
        await world.kill(POWER)
    await world.finish()
    print(table(world.counts))
    assert world.counts["killed: power"] == FAILURES
    assert world.counts["allocations"] >= ALLOCATIONS * FAILURES
