"""Every job runs as often as it was told to, whoever is killed meanwhile; ``make jobs`` has more of them."""

from pathlib import Path

from job_campaign import Campaign


async def test_every_job_runs_as_often_as_told(tmp_path: Path) -> None:
    """Jobs are neither lost nor run twice, and no process is left."""
    campaign = Campaign(tmp_path, 40, seed=1)
    await campaign.run(3)
    assert set(campaign.kills) == {"daemon", "local"}
