"""A partition that checks itself while it plays a history."""

from __future__ import annotations

from collections.abc import Iterable

from histories import S_NS, Batch
from reference import Reference

from ykactor.core.decisions import Allocated, Decision
from ykactor.core.invariants import violations
from ykactor.core.messages import Submission
from ykactor.core.planner import Budget
from ykactor.core.queueconfig import PartitionConfig
from ykactor.core.scheduler import Cycle
from ykactor.sim.direct import DirectPartition
from ykactor.wire.render import decision_log

ONE_BY_ONE, SMALL, LARGE = Budget(1, 10**9), Budget(7, 5), Budget(256, 10**9)


class World(DirectPartition):
    """A partition that checks itself: invariants after every step; with ``compare`` each cycle against the reference."""

    def __init__(
        self, config: PartitionConfig, budget: Budget = LARGE, *, compare: bool = False, strict_max: bool = False
    ) -> None:
        self.facts: list[Decision] = []

        def check(core, scheduler) -> None:
            found = violations(core, scheduler, strict_max=strict_max)
            assert not found, "\n".join(found)

        super().__init__(config, budget, self.facts.extend, check)
        self.reference = Reference(self.core)
        if compare:
            unchecked = self.scheduler.cycle
            self.scheduler.cycle = lambda now_ns, budget: self._compared(unchecked(now_ns, budget))

    def _compared(self, cycle: Cycle) -> Cycle:
        expected = self.reference.next_placement(self.facts)
        result = yield from cycle
        found = [
            (fact.ask.spec.application_id, fact.ask.spec.allocation_key, fact.node_id)
            for fact in result.facts
            if isinstance(fact, Allocated)
        ]
        assert found == ([] if expected is None else [expected]), f"placed {found}, expected {expected}"
        return result

    def play(self, batches: Iterable[Batch]) -> bytes:
        """The decision log of these batches and what was before."""
        for batch in batches:
            self.intake(batch.at_ns, batch.submissions)
        return decision_log(self.facts)

    def tell(self, *submissions: Submission, at_s: float = 0.0) -> None:
        self.intake(int(at_s * S_NS), submissions)

    def placed(self) -> list[str]:
        return [fact.ask.spec.allocation_key for fact in self.facts if isinstance(fact, Allocated)]
