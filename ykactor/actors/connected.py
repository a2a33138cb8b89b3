"""The services of the connected resource manager beside its requests."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.submissions import SetPredicateService, Submission, WantSchedulingStates


class Connected(Struct, frozen=True):
    """The answers to two questions in a registration; both are no if none is connected.

    Attributes:
        answers_predicates: whether it is a predicate service (SC-120).
        wants_scheduling_states: whether it wants to know why its asks are pending (AP-146).
    """

    answers_predicates: bool = False
    wants_scheduling_states: bool = False

    def submissions(self) -> list[Submission]:
        """The submissions that tell every partition of a change."""
        return [SetPredicateService(self.answers_predicates), WantSchedulingStates(self.wants_scheduling_states)]


NOBODY = Connected()
