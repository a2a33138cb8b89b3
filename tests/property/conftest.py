"""Rows that are kept of every partition."""

from typing import Any

import pytest
from kept_rows import KeptRows, all_rows

from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.turn.turn import TurnResult
from ykactor.sim.direct import DirectPartition

#: How often the rows of a partition are compared with its owners; a prime, so that it is not always the same kind of turn.
EVERY_TURNS = 61


@pytest.fixture(autouse=True)
def kept_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of each partition says all that it has changed, and a partition can be made from what was kept."""
    run_turn = DirectPartition.run_turn

    def run_and_keep(self: Any, *args: Any, **kwargs: Any) -> TurnResult:
        result = run_turn(self, *args, **kwargs)
        if isinstance(self.scheduler, SchedulerCore):
            if not hasattr(self, "kept"):
                self.kept = KeptRows(EVERY_TURNS)
                if self.core.turns > 1:  # it was made from rows
                    self.kept.rows = all_rows(self.core, self.scheduler)
            self.kept.follow(self.core, self.scheduler)
        return result

    monkeypatch.setattr(DirectPartition, "run_turn", run_and_keep)
