"""A metric: ``ykactor_terminations_total`` counts the ends of allocations by their type."""

from __future__ import annotations

from additions.applying import Edits, after, replaced

EDITS: Edits = {
    "surfaces/metrics/fact_counts.py": [
        after(
            "COUNTERS = {",
            '    "terminations": Metric("Allocations that have ended, by type.", "type", tuple(TerminationType)),\n',
        ),
        after(
            "def _on_released(",
            '        self.counters["terminations"][fact.termination_type] += 1\n',
        ),
        replaced("PendingCode, PreemptionKind", "PendingCode, PreemptionKind, TerminationType"),
    ],
}


def works() -> None:
    """A scrape has it, with a 0 for each type that nothing has ended by."""
    from world import app, ask, make_world, node, queue, release, tree

    from ykactor.surfaces.metrics.exposition import Exposition
    from ykactor.surfaces.metrics.fact_counts import FactCounts
    from ykactor.surfaces.metrics.own import add_counts

    world = make_world(tree(queue("a")), [node("n1", vcore=1)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1))
    world.send(release("t1"))
    counts = FactCounts({"default"})  # type: ignore[arg-type]
    counts.count("default", world.facts)  # type: ignore[arg-type]
    exposition = Exposition()
    add_counts(exposition, counts, 1)
    family = exposition.counter("ykactor_terminations_total", "")
    assert 'ykactor_terminations_total{type="STOPPED_BY_RM"} 1' in family.lines
    assert 'ykactor_terminations_total{type="TIMEOUT"} 0' in family.lines
