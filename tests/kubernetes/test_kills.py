"""Invariants of a cluster after kills of its parts at random moments."""

from pathlib import Path

import pytest
from kubecampaign import Campaign, FakeServing, run


@pytest.mark.parametrize("has_lease", [False, True], ids=["alone", "two replicas"])
async def test_nothing_is_bound_twice_and_nothing_is_lost(tmp_path: Path, *, has_lease: bool) -> None:
    """Each part is killed, in ``make test-kube`` often; afterwards all that fits runs, once, and both sides know the same."""
    campaign = Campaign(tmp_path, FakeServing(tmp_path), 1, has_lease=has_lease)
    assert "each once" in await run(campaign, 1)
    assert campaign.kills == len(campaign.victims)
