"""The feed: the messages of followers, those of the daemon to them, and the events in these."""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import UNSET, UnsetType

from ykactor.core.inspection.application_status import ApplicationStatus, AsksPart
from ykactor.core.inspection.changes import Search
from ykactor.core.inspection.explanation import AskExplanation, NodeExplanation, QueueExplanation
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.inspection.process_status import StandbysStatus, UnconfirmedStatus
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.wire.si.messages.base import Int64, Message, NotNegative, Part
from ykactor.wire.si.messages.responses import ErrorResponse, JournalStatus


class PreemptionVictim(Part, frozen=True):
    queue_name: str
    application_id: str
    allocation_key: str


class Alternative(Part, frozen=True):
    """A node that was considered for the preemption, and why it was not chosen."""

    node_id: str
    reason: str


class Preemption(Part, frozen=True):
    """An entry of the preemption ledger (an addition to the SI): the victims of one preemption, and why they may be preempted.

    Attributes:
        node_id: where the ask will run.
        kind: a ``PreemptionKind``: ``generic`` or ``required_node`` (PE-90).
        why: what allows the preemption, in a sentence.
        shares_before, shares_after: for each queue the largest used share of its guarantee, before the preemption, and after
            the victims are gone and the ask runs.
        rejected: other nodes that were considered, the best first; only the first few.
        work_lost: what the victims had used, in base units times seconds.
    """

    node_id: str
    kind: str
    why: str
    victims: Sequence[PreemptionVictim]
    shares_before: Mapping[str, float] = {}
    shares_after: Mapping[str, float] = {}
    rejected: Sequence[Alternative] = []
    work_lost: Mapping[str, int] = {}


class EventRecord(Part, frozen=True):
    """One event of the feed; ``event_change_type`` and ``event_change_detail`` are the SI's names.

    ``preemption`` is set if the event is about an ask for which victims are preempted, ``waited`` if it is about one that
    waits no more and was short of something: for how many nanoseconds of what (AP-154).
    """

    sequence: int
    type: str
    object_id: str
    event_change_type: str
    event_change_detail: str
    timestamp_nano: int
    reference_id: str = ""
    message: str = ""
    partition: str = ""
    queue_name: str = ""
    resource: Mapping[str, int] | None = None
    preemption: Preemption | None = None
    waited: Mapping[str, int] | None = None


# ---- from followers


class _Reading(Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message that is answered when what it reads is as new as it asks for: at a replica it may wait for 2 s (DU-24).

    Attributes:
        term: to which the turns belong; "" for the present one.
        turns: of partitions, the numbers of turns, as in ``Ack``.
    """

    term: str = ""
    turns: Mapping[str, NotNegative] = {}


class Subscribe(_Reading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The events that a client wants to receive.

    Attributes:
        from_: "now" (default), "snapshot" or a sequence number, which means to start with the event after it: a follower sends
            the number of the last event that it has. One more than the newest is answered with a ``Bookmark`` at the newest.
        term: the term of this number (``Bookmark.term``). If the history of the daemon does not have this number of this term, a
            ``Snapshot`` with the reason confirms the subscription. Empty: not known, and any history will do.
            It is that of ``turns`` too.
        instance: the same for clients of version 0.2; such a number is refused with ``RESYNC_REQUIRED``.
        in_parts: whether ``SnapshotPart`` messages with what partitions have come before each ``Snapshot``.
        pending_asks: whether a ``Snapshot`` has ``pendingAsks`` in each partition: by a number in parts, each with
            ``applicationID``, and the ``allocationKeys`` and ``creationTimes`` of up to 500 of its pending asks.
        partitions, queues, applications, kinds: which events; empty means all. A queue includes all queues below it, and has to
            exist or to be below one that exists. A kind is a type or a detail.
    """

    from_: Int64 | str = "now"
    instance: str = ""
    in_parts: bool = False
    pending_asks: bool = False
    partitions: list[str] = []
    queues: list[str] = []
    applications: list[str] = []
    kinds: list[str] = []


class ReadConfiguration(_Reading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for the queue configuration in force, which is answered with ``Configuration``."""


class CheckHealth(_Reading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask whether the daemon is well, which is answered with ``Health``."""


class ReadUsage(_Reading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask what was used and waited for, which is answered with ``Usage`` (AP-141).

    Attributes:
        by: what is summed up for itself, each once: day, queue, user, group, application.
        first_day, last_day: of the days that count, dates such as ``2026-01-31``, in UTC; empty: the first and the last that
            are kept.
        partitions: those that count, together; empty means all.
    """

    by: Sequence[str] = ("user",)
    first_day: str = ""
    last_day: str = ""
    partitions: list[str] = []


class Explain(_Reading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask why an ask waits, what waits in a queue, or what could run on a node (AP-153, AP-156); ``Explanation`` is the answer.

    Attributes:
        name: of an application, a queue, a node or an ask.
        kind: "" for whichever has this name.
        allocation_key: the ask of the application ``name``; "" for the one that comes first.
        partition_name: "" for all.
        changes: of an ask also the smallest changes with which it would be placed, which takes some seconds (AP-155).
        preempt: with ``changes``: it may preempt.
    """

    name: str
    kind: Literal["", "ask", "application", "queue", "node"] = ""
    allocation_key: str = ""
    partition_name: str = ""
    changes: bool = False
    preempt: bool = False


#: The messages of a follower. Only a subscription goes on: the others have one answer, beside the subscription.
FeedRequest = Subscribe | ReadConfiguration | CheckHealth | ReadUsage | Explain


class RegisteredResourceManager(Part, frozen=True):
    """The resource manager that serves all partitions.

    Attributes:
        connected: whether it has a session.
        since: the Unix time in ns at which this session began, or the last one ended; without a session since the daemon was
            started, that of the start.
    """

    rm_id: str
    connected: bool
    since: int


class Snapshot(Message, frozen=True, kw_only=True):
    """The state after the event ``sequence``; ``term``, ``instance`` and ``missing_queues`` as in ``Bookmark``.

    Attributes:
        reason: why there is a snapshot although the subscription named a number; "" if it asked for one.
        cycles: for each partition ``count``, since the daemon was started, ``lastSeconds``, ``meanSeconds`` and ``maxSeconds``.
        resource_manager: null if none is registered; left out for a limited reader.
        standbys: those of the daemon (DU-20); left out for a limited reader, and without a journal.
        unconfirmed: the configuration that awaits confirmation (CF-91); left out for a limited reader, and if none does.
    """

    sequence: int
    term: str = ""
    instance: str = ""
    reason: str = ""
    missing_queues: list[str] = []
    partitions: list[PartitionStatus]
    cycles: Mapping[str, Mapping[str, int | float]] = {}
    resource_manager: RegisteredResourceManager | UnsetType | None = UNSET
    standbys: StandbysStatus | UnsetType = UNSET
    unconfirmed: UnconfirmedStatus | UnsetType = UNSET


class SnapshotPart(Message, frozen=True, kw_only=True):
    """Some of what a partition has, of the ``Snapshot`` that follows, in which these are empty: about 64 KiB (EV-62)."""

    partition: str
    queues: Mapping[str, QueueStatus] = {}
    applications: Mapping[str, ApplicationStatus] = {}
    nodes: Mapping[str, NodeStatus] = {}
    pending_asks: Mapping[str, AsksPart] = {}


class Events(Message, frozen=True, kw_only=True):
    events: list[EventRecord]


class Bookmark(Message, frozen=True, kw_only=True):
    """All wanted events up to ``sequence`` were sent; ``term`` is the present one of the daemon, to which this number belongs.

    ``instance`` is the same text, for clients of version 0.2.
    ``missing_queues``, in the confirmation of a subscription, are those of its queues that do not exist yet.
    """

    sequence: int
    term: str = ""
    instance: str = ""
    missing_queues: list[str] = []


class Lagged(Message, frozen=True, kw_only=True):
    """The events ``from_`` to ``to`` (inclusive) are lost for this subscriber."""

    from_: int
    to: int


class Configuration(Message, frozen=True, kw_only=True):
    """The queue configuration in force: the text as it was read, its checksum (CF-12), and if it awaits confirmation (CF-91)."""

    config: str
    checksum: str
    unconfirmed: UnconfirmedStatus | UnsetType = UNSET


class HealthCheck(Part, frozen=True):
    """One check; ``problem`` says what is wrong, and is "" if it has succeeded."""

    name: str
    description: str
    problem: str = ""


class Health(Message, frozen=True, kw_only=True):
    """The checks of the last 30 s; the daemon is healthy if all have succeeded.

    ``resource_manager`` and ``standbys`` are as in ``Snapshot``. The former is no check: the daemon is well while it is away.
    """

    healthy: bool
    checks: list[HealthCheck]
    resource_manager: RegisteredResourceManager | UnsetType | None = UNSET
    standbys: StandbysStatus | UnsetType = UNSET


class UsageRow(Part, frozen=True):
    """Resource-seconds of what was asked for; the other columns are empty.

    Attributes:
        day: a date such as ``2026-01-31``, in UTC.
        allocated, waited: what tasks have used, and what asks have waited for; in base units times seconds. An amount beyond 64
            bits is a text of its digits.
        lost: the part of ``allocated`` that preempted tasks have used.
    """

    day: str = ""
    queue: str = ""
    user: str = ""
    group: str = ""
    application: str = ""
    allocated: Mapping[str, int | str] = {}
    waited: Mapping[str, int | str] = {}
    lost: Mapping[str, int | str] = {}


class Explanation(Message, frozen=True, kw_only=True):
    """The explanation of a pending ask, a queue or a node; the others are null.

    Attributes:
        status: what is known of an ask or application that does not wait; "" otherwise.
        changes: those of the ask; left out if they were not asked for.
    """

    status: str = ""
    ask: AskExplanation | None = None
    queue: QueueExplanation | None = None
    node: NodeExplanation | None = None
    changes: Search | UnsetType = UNSET


class Usage(Message, frozen=True, kw_only=True):
    """The use and the waiting up to now; the rows are in no order."""

    rows: list[UsageRow]


FeedMessage = (
    Snapshot
    | SnapshotPart
    | Events
    | Bookmark
    | Lagged
    | Configuration
    | Health
    | Usage
    | Explanation
    | ErrorResponse
    | JournalStatus
)
