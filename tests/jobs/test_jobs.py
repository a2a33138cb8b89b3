"""Every job runs as often as it was told to, whoever is killed meanwhile; ``make jobs`` has more of them."""

import pytest
from job_campaign import ONE_USER, TWO_USERS, Campaign, Site
from otherusers import directory_for_all, why_no_system


@pytest.mark.parametrize(("site", "jobs"), [(ONE_USER, 40), (TWO_USERS, 20)], ids=["one user", "two users"])
async def test_every_job_runs_as_often_as_told(site: Site, jobs: int) -> None:
    """Jobs are neither lost nor run twice, as their users and within their quotas, and no process is left."""
    if site is TWO_USERS and (reason := why_no_system()):
        pytest.skip(reason)
    with directory_for_all() as directory:
        campaign = Campaign(directory, site, jobs, seed=1)
        await campaign.run(3)
    assert set(campaign.kills) == {"daemon", "local"}
