"""Failures of partitions, and the consequence of each."""

from __future__ import annotations

from msgspec import Struct

from ykactor.actors.commands import SwitchConfig
from ykactor.actors.hand import Culprit, Message
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import Consequence
from ykactor.core.messages.submissions import ApplyConfig, RemovePartition, Reset, SetPredicateService, WantSchedulingStates
from ykactor.core.turn.causes import Cause, CycleDue, Input, TimersDue
from ykactor.core.values.ids import PartitionName

#: The time before a partition that has failed is started again. It doubles with each failure in a row, up to the maximum.
BACKOFF_S = 0.1
BACKOFF_MAX_S = 30.0
#: A partition that has run so long has come through: its next failure is the first one in a row.
CALM_S = 20.0
#: A partition that fails more often in a row, and not because of a message, is stopped until it is started again.
RESTARTS_MAX = 3
#: A partition that cannot handle one of these is not what others take it for.
_INDISPENSABLE = (ApplyConfig, RemovePartition, Reset, SetPredicateService, WantSchedulingStates)

#: Keys and rows of a partition's state as text.
Rows = list[tuple[bytes, bytes]]


class Incident(Struct, frozen=True):
    """A failure of a partition.

    Attributes:
        at_ns: the Unix time of the failure.
        reason: the exception, and the message that is to blame if it is known.
        traceback: of the exception.
        now_ns, cause: the time and the cause of the turn that failed; None if it was not in a turn.
        last: number, time and cause of the turns before it.
        rows: the state before it.
        reserves: whether asks reserve nodes.
    """

    partition: PartitionName
    at_ns: int
    consequence: Consequence
    reason: str
    traceback: str
    now_ns: int | None
    cause: bytes | None
    last: list[tuple[int, int, bytes]]
    rows: Rows
    reserves: bool


def may_be_caused_by_input(cause: Cause | None) -> bool:
    """True if what is in hand may have caused the failure; ``cause`` is that of the turn that failed, if it was in one."""
    return not isinstance(cause, CycleDue | TimersDue)


class Failures:
    """The failures of one partition in a row that are not because of a message.

    Attributes:
        delay_s: how long to wait before the partition is started again.
    """

    def __init__(self) -> None:
        self.delay_s = 0.0
        self._count = 0
        self._started_s = 0.0

    def verdict(self, at_s: float, culprit: Culprit | None, cause: Cause | None) -> Consequence:
        """The consequence of a failure; ``culprit`` is the message that is to blame, if it is known."""
        if culprit is not None:
            if _is_indispensable(culprit.message, cause):
                return Consequence.STOPPED
            self._count, self.delay_s = 0, 0.0  # the cause of the failures is gone
            return Consequence.QUARANTINED
        if at_s > self._started_s + CALM_S:
            self._count = 0
        self.delay_s = min(2 * self.delay_s, BACKOFF_MAX_S) if self._count else BACKOFF_S
        self._count += 1
        self._started_s = at_s + self.delay_s
        return Consequence.STOPPED if self._count > RESTARTS_MAX else Consequence.RESTARTED


def _is_indispensable(message: Message, cause: Cause | None) -> bool:
    """A change of the configuration is so in its turn: the other partitions have changed. Before, this one may object to it."""
    return isinstance(message, _INDISPENSABLE) or (isinstance(message, SwitchConfig) and isinstance(cause, Input))


def reason_of(failure: Exception, culprit: Culprit | None) -> str:
    """The first exception of a group, and what is to blame, in one line."""
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    text = " ".join(f"{type(failure).__name__}: {failure}".split())
    return text if culprit is None else f"{_named(culprit.message)}: {text}"


def _named(message: Message) -> str:
    """The kind of a message and the names in it, for example ``SubmitAllocation t1 app-1``."""
    inner = getattr(message, "request", message)
    names = [getattr(inner, field, None) for field in ("allocation_key", "application_id", "node_id")]
    kind = "SubmitAllocation" if type(message) is Ask else type(message).__name__  # what journals call it
    return " ".join([kind, *(str(name) for name in names if name)])
