"""Who may send what to whom, and who may wait for it: the table behind "sends that cannot deadlock".

A sender waits for a receiver in two ways: for room in its inbox (a command), or for its reply. Neither may lead in a cycle;
everything else must not wait at all. One wait is not in the table: partitions that change their configuration together wait for
the outcome of their ``TwoPhaseSwitch``, which says why that is safe. What two tasks of one session say to each other is not here
either: it leaves the session by one of these edges.
"""

from enum import StrEnum

from msgspec import Struct

from ykactor.actors.commands import Administer, Intake, PartitionSnapshot, Publication, RunSteps, SwitchConfig, TakeSnapshot
from ykactor.actors.feed import Batch, Missed, Reached
from ykactor.core.objects import commands
from ykactor.core.planner.plan import Plan
from ykactor.core.turn.phases import Commit, MakePlan, Observe, Settle


class Role(StrEnum):
    """Who sends and receives."""

    RM_SESSION = "resource manager session"
    FEED_SESSION = "feed session"
    WATCHER = "config watcher"
    PARTITION = "partition"
    SCHEDULER = "scheduler"
    QUEUE = "queue"
    NODE = "node"
    FEED = "feed"
    OUTBOX = "outbox"


class Kind(StrEnum):
    """How a message is sent."""

    #: May wait for room. From a session this becomes back pressure on its TCP connection.
    COMMAND = "command"
    #: Never waits: there is room for as many as may be in flight. Orders to owners (``owners.IN_FLIGHT_MAX``), and all answers.
    RESERVED = "reserved"
    #: Never waits: any number are as good as one.
    SIGNAL = "signal"
    #: Never waits: what the receiver does not take in time it loses, and is told so.
    FEED = "feed"


class Edge(Struct, frozen=True):
    """What ``sender`` says to ``receiver``.

    Attributes:
        messages: their types; owners answer with facts in a plain list.
        sent_in: the files of the package whose code sends them.
        is_answered: whether the sender goes on only when the receiver has answered.
    """

    sender: Role
    receiver: Role
    kind: Kind
    messages: tuple[type, ...]
    sent_in: tuple[str, ...]
    is_answered: bool = False

    @property
    def waits(self) -> bool:
        """Whether the sender waits for the receiver, be it for room or for an answer."""
        return self.kind is Kind.COMMAND or self.is_answered


_R, _K = Role, Kind

_FROM_SESSION = (Intake, RunSteps, SwitchConfig, Administer)
#: What a partition orders its queues and nodes to do.
_TO_QUEUE = (
    commands.SubmitBatch,
    commands.EndAllocations,
    commands.FailAll,
    commands.Terminate,
    commands.GiveAway,
    commands.TakeOver,
    commands.FireTimers,
    commands.Configure,
    commands.Adopt,
    commands.Disown,
    commands.Close,
)
_TO_NODE = (
    commands.Register,
    commands.SetCapacity,
    commands.SetSchedulable,
    commands.PlaceForeign,
    commands.ReleaseForeign,
    commands.ChangeAllocations,
    commands.Decommission,
)
_RM_SESSION, _DAEMON, _WATCHER = "surfaces/server/rm_session.py", "surfaces/server/daemon.py", "surfaces/server/watcher.py"
_PARTITIONS = "actors/partitions.py"
_PARTITION, _SCHEDULER, _OWNERS, _FEED = "actors/partition.py", "actors/scheduler.py", "actors/owners.py", "actors/feed.py"

FLOW = (
    # from the edge inwards
    Edge(_R.RM_SESSION, _R.PARTITION, _K.COMMAND, _FROM_SESSION, (_RM_SESSION, _DAEMON, _PARTITIONS), is_answered=True),
    Edge(_R.WATCHER, _R.PARTITION, _K.COMMAND, (Intake, SwitchConfig), (_DAEMON, _PARTITIONS), is_answered=True),
    Edge(_R.WATCHER, _R.WATCHER, _K.SIGNAL, (), (_WATCHER,)),  # SIGHUP and file system events
    Edge(_R.FEED_SESSION, _R.PARTITION, _K.COMMAND, (TakeSnapshot,), (_FEED,), is_answered=True),
    # a cycle: every order is answered before the next one
    Edge(_R.PARTITION, _R.SCHEDULER, _K.RESERVED, (Observe, MakePlan, Commit, Settle), (_SCHEDULER,), is_answered=True),
    Edge(_R.PARTITION, _R.QUEUE, _K.RESERVED, _TO_QUEUE, (_OWNERS,), is_answered=True),
    Edge(_R.PARTITION, _R.NODE, _K.RESERVED, _TO_NODE, (_OWNERS,), is_answered=True),
    Edge(_R.SCHEDULER, _R.QUEUE, _K.RESERVED, (commands.SettleBatch,), (_OWNERS,), is_answered=True),
    Edge(_R.SCHEDULER, _R.NODE, _K.RESERVED, (commands.PlaceBatch,), (_OWNERS,), is_answered=True),
    Edge(_R.QUEUE, _R.PARTITION, _K.RESERVED, (list,), (_OWNERS,)),
    Edge(_R.QUEUE, _R.SCHEDULER, _K.RESERVED, (list,), (_OWNERS,)),
    Edge(_R.NODE, _R.PARTITION, _K.RESERVED, (list,), (_OWNERS,)),
    Edge(_R.NODE, _R.SCHEDULER, _K.RESERVED, (commands.Placed, commands.Refused), (_OWNERS,)),
    Edge(_R.SCHEDULER, _R.PARTITION, _K.RESERVED, (list, Plan, set), (_SCHEDULER,)),
    # what came of it, outwards: a feed that is behind holds up partitions, but no reader ever holds up the feed
    Edge(_R.PARTITION, _R.FEED, _K.COMMAND, (Publication, PartitionSnapshot), (_PARTITION,)),
    Edge(_R.RM_SESSION, _R.FEED, _K.COMMAND, (Publication,), (_RM_SESSION, _FEED), is_answered=True),
    Edge(_R.WATCHER, _R.FEED, _K.COMMAND, (Publication,), (_FEED,), is_answered=True),
    Edge(_R.FEED, _R.OUTBOX, _K.FEED, (Publication,), (_FEED,)),
    Edge(_R.FEED, _R.FEED_SESSION, _K.FEED, (Batch, Missed, Reached), (_FEED,)),
)
