"""Nothing is lost or doubled when the daemon is killed, at whatever moment; ``make crash`` kills it more often (SC-157)."""

from pathlib import Path

from campaign import run, table

KILLS = 8


async def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """What the journal holds agrees with all that was sent and received, after each kill and at the end."""
    counts = await run(tmp_path, KILLS, seed=3)
    print(table(counts))
    assert sum(number for name, number in counts.items() if name.startswith("killed")) == KILLS
    assert counts["Ack"] > 50
    assert counts["allocations"] > 50
