"""The causes of turns. With the state and the time before it, the cause decides everything that a turn does."""

from __future__ import annotations

from msgspec import Struct

from ykactor.core.messages.acts import Administration
from ykactor.core.messages.held_limits import HeldLimits
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import Submission


class Input(Struct, frozen=True):
    """Submissions that are handled together, in order; ``limits`` are those of their sender, if it has any."""

    submissions: list[Submission]
    limits: HeldLimits | None = None


class TimersDue(Struct, frozen=True):
    """Timers have expired."""


class Request(Struct, frozen=True):
    """The request of an administrator, which is carried out or refused."""

    wanted: Administration


class CycleDue(Struct, frozen=True):
    """A cycle within a budget: something may be decided."""

    budget: Budget


Cause = Input | TimersDue | Request | CycleDue
