"""The output of a partition: facts, in the order in which they became true.

The cores make facts; ``wire.si.requests`` makes those that refuse entries for an unknown partition, ``actors.supervision``
those about failures, ``surfaces.admission.audit`` those about who has administered the daemon. ``wire.decision_log`` renders
facts as lines of the decision log, ``wire.si.responses`` as messages to the resource manager, and ``wire.si.events`` as event
records of the feed. Facts are frozen and hold no reference cycles.

In the journal a field with its default value is left out, so a default must never change.
"""

from msgspec import Struct

from ykactor.core.config.access import Principal
from ykactor.core.messages.acts import Act
from ykactor.core.messages.asks import Ask, shape_of
from ykactor.core.messages.kinds import (
    Change,
    Consequence,
    Gate,
    PendingCode,
    PreemptionKind,
    QueueLimit,
    RejectionCode,
    SchedulingState,
    TerminationType,
    WaitingCause,
)
from ykactor.core.messages.states import ApplicationEvent, ApplicationState, QueueState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.resources import Resource


class ChargedTo(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """The user and the group that an application's usage is charged to; an empty name is none (QU-67)."""

    user: str
    group: str = ""


class Fact(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """A fact; each kind is a class of its own. ``at_ns`` is Unix time in nanoseconds."""

    at_ns: int


class NodeAdded(Fact, frozen=True, gc=False):
    """A CREATE or CREATE_DRAIN was accepted."""

    node_id: NodeID
    capacity: Resource
    schedulable: bool
    attributes: dict[str, str]


class NodeRejected(Fact, frozen=True, gc=False):
    """A CREATE or CREATE_DRAIN was refused, or the entry was wrong whatever its action; nothing changed (SC-102, SC-153)."""

    node_id: NodeID
    reason: str
    code: RejectionCode = RejectionCode.UNKNOWN


class NodeRemoved(Fact, frozen=True, gc=False):
    """The node has left, with everything on it (SC-112)."""

    node_id: NodeID


class NodeSchedulable(Fact, frozen=True, gc=False):
    """The schedulable flag changed."""

    node_id: NodeID
    schedulable: bool


class NodeCapacityChanged(Fact, frozen=True, gc=False):
    """The capacity changed (SC-103)."""

    node_id: NodeID
    capacity: Resource


class NodeAttributesChanged(Fact, frozen=True, gc=False):
    """The attributes were replaced (SC-159)."""

    node_id: NodeID
    attributes: dict[str, str]


class ForeignChanged(Fact, frozen=True, gc=False):
    """A foreign allocation was added, removed or resized (SET); ``occupied`` is the node's new total of them."""

    node_id: NodeID
    allocation_key: AllocationKey
    change: Change
    resource: Resource
    occupied: Resource


class ApplicationAdded(Fact, frozen=True, gc=False):
    """An application entered its leaf in state New (AP-21); ``submission_ns`` and ``arrival`` decide its order (PR-40, PR-31)."""

    application_id: ApplicationID
    queue: QueuePath
    user: str
    submission_ns: int = 0
    arrival: int = 0
    stateaware: bool = True
    groups: tuple[str, ...] = ()
    placeholder_ask: Resource = {}
    #: How long its tasks may run if it has told no other time; 0 is as long as they like (AP-158).
    walltime_ns: int = 0


class ApplicationRejected(Fact, frozen=True, gc=False):
    """An application was refused (AP-22)."""

    application_id: ApplicationID
    reason: str
    code: RejectionCode = RejectionCode.UNKNOWN


class ApplicationChanged(Fact, frozen=True, gc=False):
    """An application entered ``state`` by ``event``; ``why`` names the cause where there is more to say (AP-95)."""

    application_id: ApplicationID
    queue: QueuePath
    state: ApplicationState
    event: ApplicationEvent
    why: str = ""


class ApplicationLeft(Fact, frozen=True, gc=False):
    """An application is no longer in its queue: it ended (AP-70), or the resource manager removed it (AP-80)."""

    application_id: ApplicationID
    queue: QueuePath
    is_removed: bool = False


class ApplicationMoved(Fact, frozen=True, gc=False):
    """An application was moved to another leaf with its asks and allocations; later facts about it name ``to_queue``."""

    application_id: ApplicationID
    queue: QueuePath
    to_queue: QueuePath


class ApplicationHeld(Fact, frozen=True, gc=False):
    """The operator ``by`` holds an application from now on, or has ended its hold (OP-1)."""

    application_id: ApplicationID
    queue: QueuePath
    by: str
    is_held: bool


class QueueHeld(Fact, frozen=True, gc=False):
    """The operator ``by`` holds a queue with all below it from now on, or has ended its hold (OP-2)."""

    queue: QueuePath
    by: str
    is_held: bool


class RequestRefused(Fact, frozen=True, gc=False):
    """An administrator's request was refused; nothing changed. ``application_id`` is empty if it was about a queue."""

    application_id: ApplicationID
    reason: str


class AskAdded(Fact, frozen=True, gc=False):
    """An ask is pending in ``queue`` (AP-108)."""

    ask: Ask
    queue: QueuePath


class AskRemoved(Fact, frozen=True, gc=False):
    """An ask is removed: cancelled while ``pending`` or while it waits for its placeholder, or its allocation ended (EV-10).

    ``timed_out``: by a placeholder or execution timeout. ``waited``: as of ``Allocated``.
    """

    ask: Ask
    queue: QueuePath
    pending: bool
    timed_out: bool = False
    waited: dict[PendingCode, int] | None = None


class AskReturned(Fact, frozen=True, gc=False):
    """An ask is pending again: it was to replace a placeholder (GA-36, SC-115), or its allocation was handed back (AP-144)."""

    ask: Ask
    queue: QueuePath


class TaskGroupChanged(Fact, frozen=True, gc=False):
    """The real asks of a task group wait for placeholders from now on (``is_open``), or are ordinary ones (GA-13)."""

    application_id: ApplicationID
    task_group_name: str
    is_open: bool


class AskResized(Fact, frozen=True, gc=False):
    """A pending ask has another size from now on, and keeps its place in the order (AP-110)."""

    before: Ask
    after: Ask
    queue: QueuePath


class AskPriorityChanged(Fact, frozen=True, gc=False):
    """An operator has given a pending ask another priority (OP-12)."""

    before: Ask
    after: Ask
    queue: QueuePath


class AskReadmitted(Fact, frozen=True, gc=False):
    """Nodes are no longer left out for a pending ask (AP-144)."""

    before: Ask
    after: Ask
    queue: QueuePath


class AllocationResized(Fact, frozen=True, gc=False):
    """A running allocation has another size from now on (AP-111)."""

    before: Ask
    after: Ask
    queue: QueuePath
    node_id: NodeID


class PreemptionPolicyChanged(Fact, frozen=True, gc=False):
    """The resource manager has changed ``allow_preempt_self`` of an ask (AP-116).

    ``node_id`` is the node that keeps the ask: of its allocation, or of its place beside a placeholder; None while it is pending.
    """

    before: Ask
    after: Ask
    queue: QueuePath
    node_id: NodeID | None


class EndReported(Fact, frozen=True, gc=False):
    """The resource manager ends an allocation by itself; nothing changes before it releases it (AP-145)."""

    ask: Ask
    queue: QueuePath
    node_id: NodeID


class Allocated(Fact, frozen=True, gc=False):
    """An ask was placed, or an allocation that came with a node was accepted (``recovered``).

    With ``charged_to`` it stands for its ``NodeUseChanged`` and ``UsageChanged`` as well, in the order of EV-30. ``waited``: for
    how many nanoseconds the ask waited, by code (AP-154); if None, only for its turn, or not at all if it is ``recovered``.
    """

    ask: Ask
    queue: QueuePath
    node_id: NodeID
    recovered: bool = False
    charged_to: ChargedTo | None = None
    waited: dict[PendingCode, int] | None = None


class Released(Fact, frozen=True, gc=False):
    """An allocation ended.

    Attributes:
        message: for the resource manager; empty if it confirmed the end itself and is not notified again.
        with_node: True if its node left; the resource manager sees STOPPED_BY_RM (SC-112).
    """

    ask: Ask
    queue: QueuePath
    node_id: NodeID
    termination_type: TerminationType
    message: str
    with_node: bool = False


class NodeUseChanged(Fact, frozen=True, gc=False):
    """An allocation was added to its node or removed from it."""

    ask: Ask
    queue: QueuePath
    node_id: NodeID
    change: Change


class UsageChanged(Fact, frozen=True, gc=False):
    """A user, and the group that the application counts against, use more (ADD) or less (REMOVE) in a leaf (EV-28)."""

    charged_to: ChargedTo
    queue: QueuePath
    change: Change
    resource: Resource


class GroupLinkChanged(Fact, frozen=True, gc=False):
    """An application counts against a group from now on (SET), or no longer (REMOVE)."""

    application_id: ApplicationID
    queue: QueuePath
    group: str
    change: Change


class LimitChanged(Fact, frozen=True, gc=False):
    """A limit of a user or group holds in ``queue`` from now on (SET), or no longer (REMOVE)."""

    queue: QueuePath
    principal: Principal
    change: Change


class RunnableChanged(Fact, frozen=True, gc=False):
    """A gate lets an application run from now on, or keeps it from running (EV-12)."""

    application_id: ApplicationID
    queue: QueuePath
    gate: Gate
    can_run: bool


class ReleaseStarted(Fact, frozen=True, gc=False):
    """The resource manager is asked to end an allocation; nothing changes before it confirms (AP-133).

    ``node_id`` is None for a pending placeholder, which is removed at once.
    """

    ask: Ask
    queue: QueuePath
    node_id: NodeID | None
    termination_type: TerminationType
    message: str


class AskCondition(Fact, frozen=True, gc=False):
    """A message about an ask or allocation for its user (EV-71), and the resource concerned if that is not the ask's own."""

    ask: Ask
    queue: QueuePath
    message: str
    resource: Resource | None = None


class PredicatesAsked(Fact, frozen=True, gc=False):
    """A question to the resource manager: may asks of a class run on these nodes? ``ask`` is an example (SC-120)."""

    predicate: str
    ask: Ask
    nodes: tuple[NodeID, ...]
    allocate: bool


class PredicateAnswered(Fact, frozen=True, gc=False):
    """An answer of the resource manager, asked or not: asks of a class may run on a node (``error`` is empty), or may not.

    ``uses``: the number of placements that it holds for; None is any number.
    """

    predicate: str
    node_id: NodeID
    allocate: bool
    error: str
    uses: int | None = None


class PredicatesForgotten(Fact, frozen=True, gc=False):
    """Earlier answers about a class on a node do not hold any more; each of the two may be "" for all."""

    predicate: str
    node_id: str


class PredicateServiceChanged(Fact, frozen=True, gc=False):
    """A resource manager that answers predicate questions is connected from now on (``is_there``), or none is."""

    is_there: bool


class SchedulingStatesWanted(Fact, frozen=True, gc=False):
    """A resource manager that wants to know why its asks are pending is connected from now on, or none is (AP-146)."""

    is_wanted: bool


class SchedulingStateChanged(Fact, frozen=True, gc=False):
    """The resource manager is told why asks of an application are pending (AP-146).

    Attributes:
        queue: the queue with the maximum or limit that has too little left; else that of the asks.
        requested: what each of them wants.
        available: what they could have of it; None if that is not what they wait for (AP-147).
        nodes: the number of nodes that cannot take them, by reason.
    """

    application_id: ApplicationID
    allocation_keys: tuple[AllocationKey, ...]
    state: SchedulingState
    cause: WaitingCause
    queue: QueuePath
    requested: Resource
    available: Resource | None = None
    nodes: dict[str, int] = {}
    reason: str = ""


class RecheckDue(Fact, frozen=True, gc=False):
    """The scheduler's deadline has come: an answer is overdue, a question may be asked again, or there is more to tell."""


class PlaceGivenUp(Fact, frozen=True, gc=False):
    """A real ask that waited for its placeholder gives up its place on another node.

    The facts that follow say what becomes of it: it runs, is pending again, or is removed.
    """

    ask: Ask
    node_id: NodeID


class Reserved(Fact, frozen=True, gc=False):
    """A node is reserved for an ask that fits on no node now (SC-54), or for one that requires this node (SC-76)."""

    ask: Ask
    queue: QueuePath
    node_id: NodeID


class Unreserved(Fact, frozen=True, gc=False):
    """The reservation of the node has ended (SC-151)."""

    ask: Ask
    queue: QueuePath
    node_id: NodeID


class Preempted(Fact, frozen=True, gc=False):
    """Allocations are preempted for an ask: the record of this decision.

    Attributes:
        ask, queue, node_id: the ask that preempts, its queue, and the node where it will run.
        why: what allows it, in a sentence.
        victims: (queue, application, task) of each.
        shares_before, shares_after: by queue the largest used part of its guarantee, now and when all releases are confirmed.
        rejected: other nodes that were considered, best first, and why they were not chosen; only the first few.
        work_lost: what the victims have used, in base units times seconds.
    """

    ask: Ask
    queue: QueuePath
    node_id: NodeID
    why: str
    victims: tuple[tuple[QueuePath, ApplicationID, AllocationKey], ...]
    shares_before: dict[str, float]
    shares_after: dict[str, float]
    rejected: tuple[tuple[NodeID, str], ...]
    work_lost: Resource

    @property
    def kind(self) -> PreemptionKind:
        """Generic, unless the ask requires its node."""
        return PreemptionKind.GENERIC if shape_of(self.ask)[1] is None else PreemptionKind.REQUIRED_NODE


class QuotaPreempted(Fact, frozen=True, gc=False):
    """The attempt to bring a queue back under its max by preemption, with its result (PE-89).

    Attributes:
        amount: what the queue has to give back.
        claimed: what the victims use.
        candidates, victims: the numbers of tasks that could be preempted, and that are.
    """

    queue: QueuePath
    amount: Resource
    claimed: Resource
    candidates: int
    victims: int
    max: Resource


class StaysAboveMax(Fact, frozen=True, gc=False):
    """Quota preemption has run in a queue that stays above its max; ``reason`` says how far and why (PE-98)."""

    queue: QueuePath
    amount: Resource
    reason: str


class PreemptionRefused(Fact, frozen=True, gc=False):
    """Victims were found for an ask but are not preempted, because that would start a cycle of preemptions (``why``)."""

    ask: Ask
    queue: QueuePath
    why: str


class AllocationRejected(Fact, frozen=True, gc=False):
    """An ask or allocation was refused (AP-100, AP-103 to AP-107, AP-138, AP-139)."""

    allocation_key: AllocationKey
    application_id: ApplicationID
    reason: str
    code: RejectionCode = RejectionCode.UNKNOWN


class QueueAdded(Fact, frozen=True, gc=False):
    """A queue was added by the configuration (``managed``) or created by placement."""

    queue: QueuePath
    managed: bool = True


class QueueRemoved(Fact, frozen=True, gc=False):
    """An empty draining or dynamic queue was removed (QU-96)."""

    queue: QueuePath
    managed: bool = True


class QueueStateChanged(Fact, frozen=True, gc=False):
    """A queue became Active or Draining."""

    queue: QueuePath
    state: QueueState


class QueueTypeChanged(Fact, frozen=True, gc=False):
    """A leaf became a parent, or a parent a leaf."""

    queue: QueuePath
    is_leaf: bool


class QueueLimitChanged(Fact, frozen=True, gc=False):
    """A queue's ``max`` or ``guaranteed`` is now ``resource``; None is "not set"."""

    queue: QueuePath
    limit: QueueLimit
    resource: Resource | None


class ConfigurationChanged(Fact, frozen=True, gc=False):
    """A configuration was accepted or rejected; ``reason`` holds every mistake, one per line.

    ``changes`` has a sentence for each queue or setting that is different from now on.
    """

    is_accepted: bool
    reason: str
    changes: tuple[str, ...] = ()


class PartitionFailed(Fact, frozen=True, gc=False):
    """A bug: an exception in the partition. Its state is that before the turn that failed; ``reason`` has the exception."""

    consequence: Consequence
    reason: str


class Audited(Fact, frozen=True, gc=False):
    """An act on the daemon, or its refusal (SE-72). It is of no turn.

    Attributes:
        who: the name of an identity; empty if it is not known.
        origin: the address or the user of who asked, or the file that was changed.
        role: of the door; empty for a file.
        target: the name of its object.
        before, after: what the act has changed; empty if there was or is nothing.
        refusal: why nothing was done; empty if it was.
        times: the number of refusals that this one stands for.
    """

    who: str
    origin: str
    role: str
    act: Act
    target: str
    before: str = ""
    after: str = ""
    refusal: str = ""
    times: int = 1


#: The kinds of facts.
FACTS = tuple(Fact.__subclasses__())
