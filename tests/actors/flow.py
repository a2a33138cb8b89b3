"""The table of all messages between actors: sender, receiver, and whether the sender may wait. It proves absence of deadlocks.

A sender can wait for a receiver in two ways: for room (to send a command, or before it begins), or for its reply. These waits
must not form a cycle; no other send may wait. The journal waits for the disk, which waits for nobody. One wait is not in the
table: partitions that change their configuration together wait for the outcome of a ``TwoPhaseSwitch``, which says why this is
safe. Messages between two tasks of one session are not in the table either. In a replica, who holds ``Copies.reading`` waits for
the feed at most, and who holds ``FeedActor.still`` for copies, which answer a ``TakeSnapshot`` without either.
"""

from enum import StrEnum

from msgspec import Struct

from ykactor.actors.commands import (
    Administer,
    Intake,
    PartitionSnapshot,
    PastEvents,
    Publication,
    Quiesce,
    Read,
    RunCycles,
    SwitchConfig,
    TakeSnapshot,
)
from ykactor.actors.journal import Resumed, Stalled
from ykactor.actors.selection import Batch
from ykactor.actors.subscription import Missed, Reached, Unread
from ykactor.core.objects import commands
from ykactor.core.turn.scheduler import Cycle, Decide, Observe


class Role(StrEnum):
    """The actors that send and receive."""

    RM_SESSION = "resource manager session"
    OPERATOR_SESSION = "operator session"
    FEED_SESSION = "feed session"
    HTTP = "http server"
    AUDIT = "audit"
    WATCHER = "config watcher"
    PARTITION = "partition"
    COPY = "copy of a partition"
    STREAM = "stream of a replica"
    SCHEDULER = "scheduler"
    QUEUE = "queue"
    NODE = "node"
    FEED = "feed"
    OUTBOX = "outbox"
    JOURNAL = "journal"


class Kind(StrEnum):
    """The way in which a message is sent."""

    #: May wait for room in the inbox. In a session this causes back pressure on its TCP connection.
    COMMAND = "command"
    #: Never waits: room is reserved for all in flight. Commands to owners (``owners.IN_FLIGHT_MAX``), and all replies.
    RESERVED = "reserved"
    #: Never waits: several signals have the same effect as one.
    SIGNAL = "signal"
    #: Never waits: a slow receiver loses messages and is notified of the loss.
    FEED = "feed"
    #: Never waits: who causes it has waited for room before.
    RECORD = "record"
    #: Waits for room before the beginning of what will cause records; no message.
    ROOM = "room"


class Edge(Struct, frozen=True):
    """The messages that ``sender`` sends to ``receiver``.

    Attributes:
        messages: their types; owners reply with facts in a plain list.
        sent_in: the files of the package that send them.
        is_answered: whether the sender waits for the receiver's reply.
    """

    sender: Role
    receiver: Role
    kind: Kind
    messages: tuple[type, ...]
    sent_in: tuple[str, ...]
    is_answered: bool = False

    @property
    def waits(self) -> bool:
        """True if the sender may wait for the receiver, for room or for a reply."""
        return self.kind in (Kind.COMMAND, Kind.ROOM) or self.is_answered


_R, _K = Role, Kind

_FROM_SESSION = (Intake, RunCycles, SwitchConfig, Administer)
#: Commands of a partition to its queues and nodes.
_TO_QUEUE = (
    commands.SubmitBatch,
    commands.EndAllocations,
    commands.FailAll,
    commands.ActOn,
    commands.SetHold,
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
    commands.SetAttributes,
    commands.SetSchedulable,
    commands.PlaceForeign,
    commands.ReleaseForeign,
    commands.ChangeAllocations,
    commands.PlaceBatch,
    commands.Decommission,
)
_RM_SESSION, _RM_REQUESTS = "surfaces/sessions/rm_session.py", "surfaces/sessions/rm_requests.py"
_OPERATOR_SESSION = "surfaces/sessions/operator_session.py"
_AUDIT = "surfaces/admission/audit.py"
_DAEMON, _WATCHER = "surfaces/daemon/daemon.py", "surfaces/files/watcher.py"
_PARTITIONS, _SUPERVISION = "actors/partitions.py", "actors/supervision.py"
_PARTITION, _SCHEDULER, _OWNERS, _FEED = "actors/partition.py", "actors/scheduler.py", "actors/owners.py", "actors/feed.py"
_OUTBOX, _JOURNAL, _COMMANDS = "actors/outbox.py", "actors/journal.py", "actors/commands.py"
_TURNS = "actors/turn_stream.py"

FLOW = (
    # from the edge inwards
    Edge(
        _R.RM_SESSION,
        _R.PARTITION,
        _K.COMMAND,
        _FROM_SESSION,
        (_RM_SESSION, _RM_REQUESTS, _DAEMON, _PARTITIONS),
        is_answered=True,
    ),
    Edge(
        _R.OPERATOR_SESSION,
        _R.PARTITION,
        _K.COMMAND,
        (Intake, SwitchConfig, Administer),
        (_OPERATOR_SESSION, _RM_REQUESTS, _DAEMON, _PARTITIONS),
        is_answered=True,
    ),
    Edge(_R.WATCHER, _R.PARTITION, _K.COMMAND, (Intake, SwitchConfig), (_DAEMON, _PARTITIONS), is_answered=True),
    Edge(_R.WATCHER, _R.WATCHER, _K.SIGNAL, (), (_WATCHER,)),  # SIGHUP and file system events
    Edge(_R.FEED_SESSION, _R.PARTITION, _K.COMMAND, (TakeSnapshot, Read), (_FEED, _COMMANDS), is_answered=True),
    Edge(_R.FEED_SESSION, _R.PARTITION, _K.COMMAND, (Quiesce,), (_TURNS,)),  # of a replica, which waits for a base
    Edge(_R.HTTP, _R.PARTITION, _K.COMMAND, (Read,), (_COMMANDS, "surfaces/http/monitoring.py"), is_answered=True),
    # a turn: every command is replied to before the next one
    Edge(_R.PARTITION, _R.SCHEDULER, _K.RESERVED, (Observe, Decide), (_SCHEDULER,), is_answered=True),
    Edge(_R.PARTITION, _R.QUEUE, _K.RESERVED, _TO_QUEUE, (_OWNERS,), is_answered=True),
    Edge(_R.PARTITION, _R.NODE, _K.RESERVED, _TO_NODE, (_OWNERS,), is_answered=True),
    Edge(_R.SCHEDULER, _R.QUEUE, _K.RESERVED, (commands.SettleBatch,), (_OWNERS,), is_answered=True),
    Edge(_R.SCHEDULER, _R.NODE, _K.RESERVED, (commands.PlaceBatch,), (_OWNERS,), is_answered=True),
    Edge(_R.QUEUE, _R.PARTITION, _K.RESERVED, (list,), (_OWNERS,)),
    Edge(_R.QUEUE, _R.SCHEDULER, _K.RESERVED, (list,), (_OWNERS,)),
    Edge(_R.NODE, _R.PARTITION, _K.RESERVED, (list, int), (_OWNERS,)),
    Edge(_R.NODE, _R.SCHEDULER, _K.RESERVED, (int,), (_OWNERS,)),
    Edge(_R.SCHEDULER, _R.PARTITION, _K.RESERVED, (list, Cycle), (_SCHEDULER,)),
    # results, outwards: a slow feed delays partitions, but no reader ever delays the feed
    Edge(_R.PARTITION, _R.FEED, _K.COMMAND, (Publication, PartitionSnapshot), (_PARTITION, _SUPERVISION), is_answered=True),
    Edge(_R.RM_SESSION, _R.FEED, _K.COMMAND, (Publication,), (_RM_REQUESTS, _AUDIT, _FEED), is_answered=True),
    Edge(_R.OPERATOR_SESSION, _R.FEED, _K.COMMAND, (Publication,), (_AUDIT, _FEED), is_answered=True),
    Edge(_R.AUDIT, _R.FEED, _K.COMMAND, (Publication,), (_AUDIT,)),
    Edge(_R.WATCHER, _R.FEED, _K.COMMAND, (Publication,), (_AUDIT, _FEED), is_answered=True),
    # a replica: copies in place of partitions, and what is published comes from elsewhere
    Edge(_R.FEED_SESSION, _R.COPY, _K.COMMAND, (TakeSnapshot, Read), (_FEED, _COMMANDS), is_answered=True),
    Edge(_R.HTTP, _R.COPY, _K.COMMAND, (Read,), (_COMMANDS, "surfaces/http/monitoring.py"), is_answered=True),
    Edge(_R.COPY, _R.FEED, _K.COMMAND, (PartitionSnapshot,), ("surfaces/replica/copies.py",)),
    Edge(_R.STREAM, _R.FEED, _K.COMMAND, (Publication, PastEvents), ("surfaces/replica/following.py",), is_answered=True),
    Edge(_R.FEED, _R.OUTBOX, _K.FEED, (Publication,), (_FEED,)),
    Edge(_R.FEED, _R.FEED_SESSION, _K.FEED, (Batch, Missed, Reached, Unread), (_FEED,)),
    # the journal: what is recorded, and what may leave because it is durable
    Edge(_R.PARTITION, _R.JOURNAL, _K.ROOM, (), (_PARTITION,)),
    Edge(_R.PARTITION, _R.JOURNAL, _K.SIGNAL, (), (_SUPERVISION,), is_answered=True),  # its state, to be made anew
    Edge(_R.RM_SESSION, _R.JOURNAL, _K.ROOM, (), (_RM_SESSION, _OUTBOX)),
    Edge(_R.OPERATOR_SESSION, _R.JOURNAL, _K.ROOM, (), (_OPERATOR_SESSION, _OUTBOX)),
    Edge(_R.OPERATOR_SESSION, _R.JOURNAL, _K.SIGNAL, (), (_AUDIT,), is_answered=True),  # until an act is durable
    Edge(_R.AUDIT, _R.JOURNAL, _K.ROOM, (), (_AUDIT,)),
    Edge(_R.FEED, _R.JOURNAL, _K.RECORD, (Publication,), (_FEED,)),
    Edge(_R.OUTBOX, _R.JOURNAL, _K.RECORD, (bytes,), (_OUTBOX,)),
    Edge(_R.JOURNAL, _R.FEED, _K.SIGNAL, (), (_JOURNAL,)),
    Edge(_R.JOURNAL, _R.OUTBOX, _K.SIGNAL, (), (_JOURNAL,)),
    Edge(_R.FEED_SESSION, _R.JOURNAL, _K.SIGNAL, (), (_FEED,), is_answered=True),  # until a snapshot is durable
    Edge(_R.JOURNAL, _R.FEED_SESSION, _K.SIGNAL, (Stalled, Resumed), (_JOURNAL,)),
    Edge(_R.JOURNAL, _R.RM_SESSION, _K.SIGNAL, (Stalled, Resumed), (_JOURNAL,)),
    Edge(_R.JOURNAL, _R.OPERATOR_SESSION, _K.SIGNAL, (Stalled, Resumed), (_JOURNAL,)),
)
