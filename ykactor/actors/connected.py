"""What the resource manager that is connected does beside its requests."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.submissions import SetPredicateService, Submission, WantSchedulingStates


class Connected(Struct, frozen=True):
    """Its answer to two questions in its registration; both are no if none is connected.

    Attributes:
        answers_predicates: whether it is a predicate service (SC-120).
        wants_scheduling_states: whether it wants to know why its asks are pending (AP-146).
    """

    answers_predicates: bool = False
    wants_scheduling_states: bool = False

    def submissions(self) -> list[Submission]:
        """What every partition is told when this changes."""
        return [SetPredicateService(self.answers_predicates), WantSchedulingStates(self.wants_scheduling_states)]


NOBODY = Connected()
