"""The messages between sessions, partition actors and the feed.

Sessions and the config watcher send ``PartitionCommand``s to ``PartitionActor.inbox``. Partitions send ``FeedCommand``s to the
feed's inbox, in one order: facts (``Publication``) and states (``PartitionSnapshot``).
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ykactor.actors.receipts import Accepted
from ykactor.actors.two_phase import TwoPhaseSwitch
from ykactor.core.config.model import PartitionConfig
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.messages.acts import Administration
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.held_limits import HeldLimits
from ykactor.core.messages.submissions import Submission
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.values.parts import Pausing


class Failure(Struct, frozen=True):
    """Why a partition has not carried out a command, or one of its submissions.

    Attributes:
        code: ``QUARANTINED``, because it makes the partition fail; ``UNAVAILABLE``, because the partition is stopped.
        reason: a sentence for people.
    """

    code: str
    reason: str


class Intake(Struct, frozen=True):
    """Submissions that are handled together, in order, before any decision.

    Attributes:
        done: called once with the partition's name, from the partition's task, after the direct effects of the submissions have
            been published; must not block or raise.
        more_follows: take no decision before the next command.
        accepted: the request to which they belong, if it wants an answer.
        failed: called before ``done`` for each submission that was not handled, or once for all of them; must not block or raise.
        limits: of who sends them; None: it has none.
        exceeded: called before ``done`` with the reason, once for each of these limits, when submissions of this command, or of
            others with the same limits, were refused because of it; must not block or raise.
    """

    submissions: list[Submission]
    done: Callable[[PartitionName], None] | None = None
    more_follows: bool = False
    accepted: Accepted | None = None
    failed: Callable[[Failure], None] | None = None
    limits: HeldLimits | None = None
    exceeded: Callable[[str], None] | None = None


class SwitchConfig(Struct, frozen=True):
    """Change to ``config`` if all partitions can (``TwoPhaseSwitch``).

    Attributes:
        done, more_follows: as in ``Intake``.
        afresh: remove all nodes and applications first (SC-141), so that nothing that runs prevents the change.
    """

    config: PartitionConfig
    switch: TwoPhaseSwitch
    done: Callable[[PartitionName], None]
    more_follows: bool = False
    afresh: bool = False


class Administer(Struct, frozen=True):
    """End or move an application.

    Attributes:
        done: as in ``Intake``, with a second argument: why the request was refused, or "".
        more_follows, accepted, failed: as in ``Intake``.
    """

    request: Administration
    done: Callable[[PartitionName, str], None]
    more_follows: bool = False
    accepted: Accepted | None = None
    failed: Callable[[Failure], None] | None = None


class RunCycles(Struct, frozen=True):
    """Run ``count`` cycles of at most one decision each (``serve --manual``); ``done`` as in ``Intake``."""

    count: int
    done: Callable[[PartitionName], None] | None = None


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

    read: Callable[[PartitionCore, SchedulerState, int], Pausing[Any]]
    done: Callable[[Any], None]


class Quiesce(Struct, frozen=True):
    """Call ``done`` when all due timers have fired and nothing more can be decided.

    With ``more_follows`` decisions that only the passing of time has made possible are left to the next command.
    """

    done: Callable[[PartitionName], None]
    more_follows: bool = False


PartitionCommand = Intake | SwitchConfig | Administer | RunCycles | TakeSnapshot | Read | Quiesce


class TurnRecord(Struct, frozen=True):
    """What is recorded of a turn beside its facts.

    Attributes:
        number: counts the turns of the partition.
        now_ns: the Unix time of the turn.
        cause: what the turn was given, as JSON.
        changes: what has changed in the partition's state, in order: a key (JSON) with its record (JSON), None for a deletion.
        base: the state before the turn (``core.records.base``), if the partition has just been made from it; else None.
    """

    number: int
    now_ns: int
    cause: bytes
    changes: list[tuple[bytes, bytes | None]]
    base: bytes | None = None


class Publication(Struct, frozen=True):
    """The facts of one turn, in order; the feed takes them out of the list. ``turn`` is None if the turn is not recorded."""

    partition: PartitionName
    facts: list[Fact]
    turn: TurnRecord | None = None


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


FeedCommand = Publication | PartitionSnapshot
