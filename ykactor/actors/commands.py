"""The messages between sessions, partition actors and the feed.

Sessions and the config watcher send ``PartitionCommand``s to ``PartitionActor.inbox``. Partitions send ``FeedCommand``s to the
feed's inbox, in one order: facts (``Publication``) and states (``PartitionSnapshot``). ``read_partition`` waits for what
a partition reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from msgspec import Struct

from ykactor.actors.mailbox import Mailbox
from ykactor.actors.receipts import Accepted
from ykactor.actors.switch import TwoPhaseSwitch
from ykactor.core.config.model import PartitionConfig
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.acts import Administration
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.submissions import HeldLimits, SetPredicateService, Submission, WantSchedulingStates
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Steps


class Failure(Struct, frozen=True):
    """The reason for which a partition has not carried out a command, or one of its submissions.

    Attributes:
        code: ``QUARANTINED``, because it makes the partition fail; ``UNAVAILABLE``, because the partition is stopped;
            ``REFUSED``, because the request may not be carried out.
        reason: a sentence for people.
    """

    code: str
    reason: str


class Answers:
    """Hears what becomes of a command. This one ignores it.

    Its methods are called from the partition's task; they must not block or raise.
    """

    def failed(self, failure: Failure) -> None:
        """The command was not carried out, or one of its submissions; called before ``done``."""

    def exceeded(self, partition: PartitionName, reason: str) -> None:
        """A limit has refused submissions of this command, or of others with the same limits; called before ``done``."""

    def done(self, partition: PartitionName, turn: int = 0) -> None:
        """The direct effects of the command have been published; called once, last.

        Args:
            turn: the number of the turn in which it had them; 0 if it was not carried out.
        """


class Awaited(Answers):
    """Lets the sender of a command wait until it is done."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def done(self, _: PartitionName, __: int = 0) -> None:
        """End ``wait``."""
        self._event.set()

    async def wait(self) -> None:
        """Wait for ``done``."""
        await self._event.wait()


#: The answers of a command of which its sender wants to hear nothing.
UNHEARD = Answers()


class Intake(Struct, frozen=True):
    """Submissions that are handled together, in order, before any decision.

    Attributes:
        more_follows: take no decision before the next command.
        accepted: the request to which they belong, if it wants an answer.
        limits: those of their sender; None: it has none.
    """

    submissions: list[Submission]
    answers: Answers = UNHEARD
    more_follows: bool = False
    accepted: Accepted | None = None
    limits: HeldLimits | None = None


class SwitchConfig(Struct, frozen=True):
    """Change to ``config`` if all partitions can (``TwoPhaseSwitch``).

    Attributes:
        more_follows: as in ``Intake``.
        afresh: remove all nodes and applications first (SC-141), so that nothing that runs prevents the change.
    """

    config: PartitionConfig
    switch: TwoPhaseSwitch
    more_follows: bool = False
    afresh: bool = False


class Administer(Struct, frozen=True):
    """End or move an application; a refusal is a ``Failure``.

    Attributes:
        more_follows, accepted: as in ``Intake``.
    """

    request: Administration
    answers: Answers
    more_follows: bool = False
    accepted: Accepted | None = None


class RunCycles(Struct, frozen=True):
    """Run ``count`` cycles of at most one decision each (``serve --manual``)."""

    count: int
    answers: Answers = UNHEARD


class TakeSnapshot(Struct, frozen=True):
    """Put a ``PartitionSnapshot`` into the feed's inbox, behind everything published so far; with ``every_ask`` of all asks."""

    snapshot_id: int
    every_ask: bool = False


class Read(Struct, frozen=True):
    """Read the partition between two turns.

    Attributes:
        read: gets the owners, the scheduler's state and the Unix time; changes nothing, and pauses where it takes long.
        done: called once with what it returns, or with the exception that it raises; must not block or raise.
    """

    read: Callable[[PartitionCore, SchedulerState, int], Steps[Any]]
    done: Callable[[Any], None]


class Quiesce(Struct, frozen=True):
    """Answer ``done`` when all due timers have fired and nothing more can be decided.

    With ``more_follows`` decisions that only the passing of time has made possible are left to the next command.
    """

    answers: Answers
    more_follows: bool = False


PartitionCommand = Intake | SwitchConfig | Administer | RunCycles | TakeSnapshot | Read | Quiesce


class TurnRecord(Struct, frozen=True):
    """The record of a turn beside its facts.

    Attributes:
        number: counts the turns of the partition.
        now_ns: the Unix time of the turn.
        cause: what the turn was given, as JSON.
        changes: of the records, in order, as texts (``journal.transaction.change_text``).
        base: the state before the turn (``core.records.base``), if the partition has just been made from it; else None.
    """

    number: int
    now_ns: int
    cause: bytes
    changes: list[bytes]
    base: bytes | None = None


class Publication(Struct, frozen=True):
    """The facts of one turn, in order; the feed takes them out of the list.

    Attributes:
        turn: None if the turn is not recorded, or the facts are of none.
        ended: the keys of records that the journal deletes in the transaction of the facts.
        first_event: the number of its first event, if another feed has given it one; None: it follows the newest one here.
    """

    partition: PartitionName
    facts: list[Fact]
    turn: TurnRecord | None = None
    ended: tuple[bytes, ...] = ()
    first_event: int | None = None


class PastEvents(Struct, frozen=True):
    """Events to which another feed has given their numbers, from ``first_event`` on; those before it are not kept any more."""

    first_event: int
    events: list[Any]


class PartitionSnapshot(Struct, frozen=True):
    """A partition's state after all its earlier publications.

    Attributes:
        state: that of ``inspection.snapshot``.
        cycles: how long they take (``TurnTimes.of_cycles``), which is no part of the state.
    """

    partition: PartitionName
    snapshot_id: int
    state: PartitionStatus
    cycles: dict[str, float] = {}


FeedCommand = Publication | PartitionSnapshot | PastEvents


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


async def read_partition(
    inbox: Mailbox[PartitionCommand], read: Callable[[PartitionCore, SchedulerState, int], Steps[Any]]
) -> Any:
    """The result of ``read`` (``commands.Read``). Waits without a limit: for room in the inbox, and for the answer.

    If it is cancelled, ``read`` is not begun any more, or goes no further: a partition that has not answered for a while must not
    work for those who have given up.

    Raises:
        Exception: as ``read``. trio.ClosedResourceError, trio.BrokenResourceError: the partition does not run.
    """
    answered, is_awaited, found = trio.Event(), True, []

    def while_awaited(core: PartitionCore, state: SchedulerState, now_ns: int) -> Steps[Any]:
        work = read(core, state, now_ns)
        while is_awaited:
            try:
                items = next(work)
            except StopIteration as stop:
                return stop.value
            yield items
        return None

    def done(result: Any) -> None:
        found.append(result)
        answered.set()

    try:
        await inbox.give(Read(while_awaited, done))
        await answered.wait()
    finally:
        is_awaited = False
    (result,) = found
    if isinstance(result, Exception):
        raise result
    return result
