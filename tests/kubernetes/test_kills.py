"""What must hold of a cluster after kills of its parts at random moments."""

from pathlib import Path

import pytest
from kubecampaign import FakeServing, run


@pytest.mark.parametrize("has_lease", [False, True], ids=["alone", "two replicas"])
async def test_nothing_is_bound_twice_and_nothing_is_lost(tmp_path: Path, *, has_lease: bool) -> None:
    """Adapter, daemon and API server are killed in turn; afterwards all that fits runs, once, and both sides know the same."""
    assert "each once" in await run(FakeServing(tmp_path), tmp_path, 1, 9 if not has_lease else 3, has_lease=has_lease)
