"""The confirmations of releases that the scheduler starts, as a simulated resource manager sends them (AP-133)."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.messages.facts import Fact, ReleaseStarted
from ykactor.core.messages.submissions import ReleaseAllocations, Submission


def confirmations(facts: Iterable[Fact]) -> list[Submission]:
    """The confirmations of a resource manager that ends allocations at once; pending placeholders need no confirmation."""
    return [
        ReleaseAllocations(fact.ask.application_id, fact.ask.allocation_key, fact.termination_type)
        for fact in facts
        if type(fact) is ReleaseStarted and fact.node_id is not None
    ]
