"""What came out: every public fact of a partition, in the order in which it became true.

The cores produce these structs, nobody else does. ``wire.render`` makes of a fact a line of the decision log and
messages to the resource manager, ``wire.events`` event records for the feed. They are frozen and hold no
cycles.
"""

from msgspec import Struct

from ykactor.core.config.access import Principal
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import Change, Gate, QueueLimit, TerminationType
from ykactor.core.messages.states import ApplicationEvent, ApplicationState, QueueState
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.resources import Resource


class ChargedTo(Struct, frozen=True, gc=False):
    """Who is charged for what an application uses; a name that is empty is nobody's (QU-67)."""

    user: str
    group: str = ""


class BaseFact(Struct, frozen=True, gc=False):
    """The common part. ``at_ns`` is Unix time in nanoseconds."""

    at_ns: int


class NodeAdded(BaseFact, frozen=True, gc=False):
    """A CREATE or CREATE_DRAIN was accepted."""

    node_id: NodeID
    capacity: Resource
    schedulable: bool
    attributes: dict[str, str]


class NodeRejected(BaseFact, frozen=True, gc=False):
    """A CREATE or CREATE_DRAIN was refused; nothing changed (SC-102)."""

    node_id: NodeID
    reason: str


class NodeRemoved(BaseFact, frozen=True, gc=False):
    """The node and everything on it is gone (SC-112)."""

    node_id: NodeID


class NodeSchedulable(BaseFact, frozen=True, gc=False):
    """The schedulable flag changed."""

    node_id: NodeID
    schedulable: bool


class NodeCapacityChanged(BaseFact, frozen=True, gc=False):
    """The capacity changed (SC-103)."""

    node_id: NodeID
    capacity: Resource


class ForeignChanged(BaseFact, frozen=True, gc=False):
    """A foreign allocation came (``change`` ADD), went (REMOVE) or was resized (SET); ``occupied`` is the node's new total."""

    node_id: NodeID
    allocation_key: AllocationKey
    change: Change
    resource: Resource
    occupied: Resource


class ApplicationAdded(BaseFact, frozen=True, gc=False):
    """An application entered its leaf in state New (AP-21); see ``applications.Application`` for what decides its order."""

    application_id: ApplicationID
    queue: QueuePath
    user: str
    submission_ns: int = 0
    arrival: int = 0
    stateaware: bool = True
    groups: tuple[str, ...] = ()
    placeholder_ask: Resource = {}


class ApplicationRejected(BaseFact, frozen=True, gc=False):
    """An application was refused (AP-22)."""

    application_id: ApplicationID
    reason: str


class ApplicationChanged(BaseFact, frozen=True, gc=False):
    """An application entered ``state`` by ``event``; ``why`` names the cause where there is more to say (AP-95)."""

    application_id: ApplicationID
    queue: QueuePath
    state: ApplicationState
    event: ApplicationEvent
    why: str = ""


class ApplicationLeft(BaseFact, frozen=True, gc=False):
    """An application is no longer in its queue: it ended (AP-70), or the resource manager removed it (AP-80)."""

    application_id: ApplicationID
    queue: QueuePath
    is_removed: bool = False


class ApplicationMoved(BaseFact, frozen=True, gc=False):
    """An application is in another leaf, with all that it runs and waits for; what is told of it later names ``to_queue``."""

    application_id: ApplicationID
    queue: QueuePath
    to_queue: QueuePath


class RequestRefused(BaseFact, frozen=True, gc=False):
    """An administrator's request was refused; nothing changed."""

    application_id: ApplicationID
    reason: str


class AskAdded(BaseFact, frozen=True, gc=False):
    """An ask waits in ``queue`` (AP-108)."""

    ask: Ask
    queue: QueuePath


class AskRemoved(BaseFact, frozen=True, gc=False):
    """An ask record is gone: cancelled while ``pending`` or about to take a placeholder's place, or its allocation ended (EV-10).

    ``timed_out``: by a placeholder or execution timeout.
    """

    ask: Ask
    queue: QueuePath
    pending: bool
    timed_out: bool = False


class AskReturned(BaseFact, frozen=True, gc=False):
    """A real ask that was to take a placeholder's place waits again (GA-36, SC-115)."""

    ask: Ask
    queue: QueuePath


class TaskGroupChanged(BaseFact, frozen=True, gc=False):
    """Whether the real asks of a task group wait for placeholders (``is_open``) or are ordinary ones (GA-13)."""

    application_id: ApplicationID
    task_group_name: str
    is_open: bool


class AskResized(BaseFact, frozen=True, gc=False):
    """A waiting ask wants another amount from now on; its place in the order is kept (AP-110)."""

    before: Ask
    after: Ask
    queue: QueuePath


class AllocationResized(BaseFact, frozen=True, gc=False):
    """A running allocation has another size from now on (AP-111)."""

    before: Ask
    after: Ask
    queue: QueuePath
    node_id: NodeID


class Allocated(BaseFact, frozen=True, gc=False):
    """An ask was placed, or an allocation that came with a node was accepted (``recovered``).

    With ``charged_to`` it also tells the ``NodeUseChanged`` and the ``UsageChanged`` that go with it, in the order of EV-30.
    """

    ask: Ask
    queue: QueuePath
    node_id: NodeID
    recovered: bool = False
    charged_to: ChargedTo | None = None


class Released(BaseFact, frozen=True, gc=False):
    """An allocation ended.

    Attributes:
        message: for the resource manager; empty if it confirmed the end itself and is not notified again.
        with_node: whether its node left; the resource manager sees STOPPED_BY_RM (SC-112).
    """

    ask: Ask
    queue: QueuePath
    node_id: NodeID
    termination_type: TerminationType
    message: str
    with_node: bool = False


class NodeUseChanged(BaseFact, frozen=True, gc=False):
    """An allocation was put on its node (``change`` ADD) or taken off (REMOVE)."""

    ask: Ask
    queue: QueuePath
    node_id: NodeID
    change: Change


class UsageChanged(BaseFact, frozen=True, gc=False):
    """A user, and the group that the application counts against, use more (``change`` ADD) or less (REMOVE) in a leaf (EV-28)."""

    charged_to: ChargedTo
    queue: QueuePath
    change: Change
    resource: Resource


class GroupLinkChanged(BaseFact, frozen=True, gc=False):
    """An application counts against a group from now on (``change`` SET) or no more (REMOVE)."""

    application_id: ApplicationID
    queue: QueuePath
    group: str
    change: Change


class LimitChanged(BaseFact, frozen=True, gc=False):
    """A limit of a user or group holds in ``queue`` from now on (``change`` SET) or no more (REMOVE)."""

    queue: QueuePath
    principal: Principal
    change: Change


class RunnableChanged(BaseFact, frozen=True, gc=False):
    """An application is held back, or no more, by ``maxapplications`` (``gate`` QUEUE) or by limits (QUOTA) (EV-12)."""

    application_id: ApplicationID
    queue: QueuePath
    gate: Gate
    can_run: bool


class ReleaseStarted(BaseFact, frozen=True, gc=False):
    """The resource manager is asked to end an allocation; nothing changes before it confirms (AP-133).

    ``node_id`` is None for a placeholder that was never placed; that one is gone at once.
    """

    ask: Ask
    queue: QueuePath
    node_id: NodeID | None
    termination_type: TerminationType
    message: str


class AskCondition(BaseFact, frozen=True, gc=False):
    """Something that the owner of an ask or allocation wants to know, in a sentence (EV-71).

    ``resource`` is what it is about if that is not the ask's own.
    """

    ask: Ask
    queue: QueuePath
    message: str
    resource: Resource | None = None


class PredicatesAsked(BaseFact, frozen=True, gc=False):
    """The resource manager is asked where asks of a class may run; ``ask`` is an example of them (SC-120)."""

    predicate: str
    ask: Ask
    nodes: tuple[NodeID, ...]
    allocate: bool


class PredicateAnswered(BaseFact, frozen=True, gc=False):
    """The resource manager has said, asked or not, whether asks of a class may run on a node (``error`` is empty)."""

    predicate: str
    node_id: NodeID
    allocate: bool
    error: str


class PredicatesForgotten(BaseFact, frozen=True, gc=False):
    """The resource manager takes back what it has said about a class on a node; each of them may be "" for all."""

    predicate: str
    node_id: str


class PredicateServiceChanged(BaseFact, frozen=True, gc=False):
    """A resource manager that answers such questions is connected from now on, or none is."""

    is_there: bool


class RecheckDue(BaseFact, frozen=True, gc=False):
    """A time has come for which the scheduler has waited: an answer is overdue, or a question may be asked again."""


class PlaceGivenUp(BaseFact, frozen=True, gc=False):
    """A task that waited for its placeholder to go has left the other node on which its place was kept.

    What becomes of it follows: it runs there now, waits again, or is gone.
    """

    ask: Ask
    node_id: NodeID


class Reserved(BaseFact, frozen=True, gc=False):
    """A node is kept for an ask that fits on no node now (SC-54), or for one that requires it (SC-76)."""

    ask: Ask
    queue: QueuePath
    node_id: NodeID


class Unreserved(BaseFact, frozen=True, gc=False):
    """The node is kept for this ask no more (SC-151)."""

    ask: Ask
    queue: QueuePath
    node_id: NodeID


class Preempted(BaseFact, frozen=True, gc=False):
    """Others are told to go for an ask: the entry of this decision in the ledger of preemptions.

    Attributes:
        ask, queue, node_id: who preempts, and where it will run.
        why: the law that allows it, in a sentence.
        victims: (queue, application, task) of each.
        shares_before, shares_after: by queue the largest used part of its guarantee, as it will be when all has happened.
        rejected: other nodes that were looked at, the best first, and why not; only the first few.
        work_lost: what the victims used, in base units times seconds.
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


class QuotaPreempted(BaseFact, frozen=True, gc=False):
    """Tasks were told to go because their queue uses more than its max, or there are some and none of them fits (PE-89).

    Attributes:
        amount: what the queue had to give back.
        claimed: what those use who go.
        candidates, victims: how many tasks could have gone, and how many go.
    """

    queue: QueuePath
    amount: Resource
    claimed: Resource
    candidates: int
    victims: int
    max: Resource


class PreemptionRefused(BaseFact, frozen=True, gc=False):
    """Victims were found for an ask, but preemption would go in cycles (``why``; see ``preemption.cycles``)."""

    ask: Ask
    queue: QueuePath
    why: str


class AllocationRejected(BaseFact, frozen=True, gc=False):
    """An ask or allocation was refused (AP-100, AP-103 to AP-107)."""

    allocation_key: AllocationKey
    application_id: ApplicationID
    reason: str


class QueueAdded(BaseFact, frozen=True, gc=False):
    """A queue exists from now on: of the configuration, or created by placement (not ``managed``)."""

    queue: QueuePath
    managed: bool = True


class QueueRemoved(BaseFact, frozen=True, gc=False):
    """A drained or dynamic queue that was empty is gone (QU-96)."""

    queue: QueuePath
    managed: bool = True


class QueueStateChanged(BaseFact, frozen=True, gc=False):
    """A queue became Active or Draining."""

    queue: QueuePath
    state: QueueState


class QueueTypeChanged(BaseFact, frozen=True, gc=False):
    """A leaf became a parent or the reverse."""

    queue: QueuePath
    is_leaf: bool


class QueueLimitChanged(BaseFact, frozen=True, gc=False):
    """A queue's ``max`` or ``guaranteed`` (named by ``limit``) is now ``resource``; None is "not set"."""

    queue: QueuePath
    limit: QueueLimit
    resource: Resource | None


class ConfigurationChanged(BaseFact, frozen=True, gc=False):
    """A configuration was accepted or rejected; ``reason`` holds every mistake, one per line.

    ``changes`` says what is different from now on, one sentence for each queue or setting.
    """

    is_accepted: bool
    reason: str
    changes: tuple[str, ...] = ()


Fact = (
    NodeAdded
    | NodeRejected
    | NodeRemoved
    | NodeSchedulable
    | NodeCapacityChanged
    | ForeignChanged
    | ApplicationAdded
    | ApplicationRejected
    | ApplicationChanged
    | ApplicationLeft
    | ApplicationMoved
    | RequestRefused
    | AskAdded
    | AskRemoved
    | AskReturned
    | TaskGroupChanged
    | AskResized
    | AllocationResized
    | Allocated
    | Released
    | NodeUseChanged
    | UsageChanged
    | GroupLinkChanged
    | LimitChanged
    | RunnableChanged
    | ReleaseStarted
    | AskCondition
    | PredicatesAsked
    | PredicateAnswered
    | PredicatesForgotten
    | PredicateServiceChanged
    | RecheckDue
    | PlaceGivenUp
    | Reserved
    | Unreserved
    | Preempted
    | QuotaPreempted
    | PreemptionRefused
    | AllocationRejected
    | QueueAdded
    | QueueRemoved
    | QueueStateChanged
    | QueueTypeChanged
    | QueueLimitChanged
    | ConfigurationChanged
)
