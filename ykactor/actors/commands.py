"""What enters a partition actor and what leaves it: the words between the sockets and the partitions.

Sessions and the config watcher send ``PartitionCommand``s into ``Partition.inbox``. Partitions send ``FeedCommand``s
into the feed's inbox: what happened (``Publication``) and what is (``PartitionSnapshot``), in one order.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ykactor.actors.two_phase import TwoPhaseSwitch
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.submissions import Administration, Submission
from ykactor.core.values.ids import PartitionName


class Intake(Struct, frozen=True):
    """Submissions that are handled together, in order, before any decision is taken.

    ``done`` is called once, from the partition's task, after everything that they caused directly has been published;
    it must not block or raise. It is given the partition's name. With ``more_follows`` nothing is decided before the next
    command.
    """

    submissions: list[Submission]
    done: Callable[[PartitionName], None] | None = None
    more_follows: bool = False


class SwitchConfig(Struct, frozen=True):
    """Change to ``config`` if all partitions can (``TwoPhaseSwitch``); ``done`` and ``more_follows`` as in ``Intake``.

    With ``afresh`` nodes and applications are forgotten first (SC-141): nothing that runs can be in the way.
    """

    config: PartitionConfig
    switch: TwoPhaseSwitch
    done: Callable[[PartitionName], None]
    more_follows: bool = False
    afresh: bool = False


class Administer(Struct, frozen=True):
    """End or move an application. ``done`` is given the partition's name and why it was refused, or "".

    Else as in ``Intake``.
    """

    request: Administration
    done: Callable[[PartitionName, str], None]
    more_follows: bool = False


class RunSteps(Struct, frozen=True):
    """Run this many passes of at most one decision each (``serve --manual``); ``done`` as in ``Intake``."""

    steps: int
    done: Callable[[PartitionName], None] | None = None


class TakeSnapshot(Struct, frozen=True):
    """Answer with a ``PartitionSnapshot`` in the feed's inbox, behind everything published so far."""

    snapshot_id: int


class Quiesce(Struct, frozen=True):
    """Call ``done`` when every timer that is due has fired and nothing more can be decided.

    Where ``more_follows`` what time alone lets be decided waits for that.
    """

    done: Callable[[PartitionName], None]
    more_follows: bool = False


PartitionCommand = Intake | SwitchConfig | Administer | RunSteps | TakeSnapshot | Quiesce


class Publication(Struct, frozen=True):
    """The facts of one cycle or one chunk of input, in order."""

    partition: PartitionName
    facts: list[Fact]


class PartitionSnapshot(Struct, frozen=True):
    """A partition's state behind all its earlier publications; ``state`` is JSON-like (``core.snapshot``)."""

    partition: PartitionName
    snapshot_id: int
    state: dict[str, Any]


FeedCommand = Publication | PartitionSnapshot
