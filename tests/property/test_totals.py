"""Over random histories the totals and samples of a partition are the sums of what its state shows."""

from __future__ import annotations

import pytest
from checked import LARGE, World
from histories import draw_history
from seeds import seeds

from ykactor.core.inspection.partition_status import partition_totals, summary_of
from ykactor.core.inspection.snapshot import ended_applications, partition_state
from ykactor.core.values.parts import finished
from ykactor.core.values.resources import pruned
from ykactor.surfaces.http.readings.history import sample
from ykactor.surfaces.http.readings.look import Look


@pytest.mark.parametrize("seed", seeds(12))
def test_totals_are_the_sums_of_what_is_shown(seed: int) -> None:
    """The REST API, which sums up the owners, and who has a state at hand tell the same numbers."""
    history = draw_history(seed)
    world = World(history.config, LARGE)
    for batch in history.batches:
        world.play([batch])
        core, state = world.core, world.scheduler.state
        totals = finished(partition_totals(core, state, lambda _: True))
        summary = summary_of(finished(partition_state(core, state)))
        assert totals.nodes
        assert isinstance(summary.nodes, dict)
        assert totals.nodes.count == sum(summary.nodes.values())
        assert pruned(totals.nodes.capacity) == pruned(summary.capacity or {})
        assert pruned(totals.nodes.allocated) == summary.allocated
        taken = finished(sample(Look(core, state, 0), None))
        assert totals.allocations == summary.allocations == taken.allocations
        assert (taken.pending_asks, sum(taken.reasons.values())) == (summary.pending_asks, summary.pending_asks)
        ended = [application.application_id for application in ended_applications(core)]
        if len({*ended, *state.applications}) == len(ended) + len(state.applications):  # of one id a state shows the last one
            assert dict(sorted(totals.applications.items())) == summary.applications
