"""The resource manager's half of a release that the scheduler starts, for whoever plays it: the simulator (AP-133)."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.facts import Fact, ReleaseStarted
from ykactor.core.messages.submissions import ReleaseAllocations, Submission


def confirmations(facts: Iterable[Fact]) -> list[Submission]:
    """What a resource manager sends back that does at once as it is told; placeholders that never ran need no answer."""
    return [
        ReleaseAllocations(fact.ask.spec.application_id, fact.ask.spec.allocation_key, fact.termination_type)
        for fact in facts
        if type(fact) is ReleaseStarted and fact.node_id is not None
    ]
