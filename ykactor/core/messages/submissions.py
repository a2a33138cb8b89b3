"""What goes into a partition: the resource manager's words in the core's terms.

``wire.translate`` makes these from requests; ``PartitionCore.ingest`` gives each to its owner. All frozen: they cross
tasks.
"""

from msgspec import Struct

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.asks import AllocationSpec
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID
from ykactor.core.values.resources import Resource


class SubmitAllocation(Struct, frozen=True, gc=False):
    """An ask, or an allocation that already runs."""

    spec: AllocationSpec


class ReleaseAllocations(Struct, frozen=True, gc=False):
    """Give back one allocation or ask; without ``allocation_key`` all of the application's (AP-126, AP-131)."""

    application_id: ApplicationID
    allocation_key: AllocationKey | None
    termination_type: TerminationType


class AddApplication(Struct, frozen=True, gc=False):
    """A new application for ``queue_name`` (may be empty).

    Without ``groups`` the user's group is one of the same name, unless whoever knows the groups did not know the user
    (``user_is_unknown``, QU-93).
    """

    application_id: ApplicationID
    queue_name: str
    user: str
    groups: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    execution_timeout_ms: int = 0
    placeholder_ask: Resource | None = None
    gang_scheduling_style: str = ""
    user_is_unknown: bool = False


class RemoveApplication(Struct, frozen=True, gc=False):
    """Forget an application and all it runs (AP-80)."""

    application_id: ApplicationID


class UpdateNode(Struct, frozen=True, gc=False):
    """One entry of ``NodeRequest.nodes`` (SC-152)."""

    node_id: NodeID
    action: NodeAction
    capacity: Resource | None = None
    attributes: dict[str, str] = {}


class AnswerPredicate(Struct, frozen=True, gc=False):
    """What the resource manager says about asks of the class ``predicate`` on a node: "" is that they may run there.

    ``allocate`` as in SC-120: False asks about the node as if nothing ran on it that could go.
    """

    predicate: str
    node_id: NodeID
    allocate: bool
    error: str


class ForgetPredicates(Struct, frozen=True, gc=False):
    """The resource manager takes back what it has said about a class on a node; each of them may be "" for all."""

    predicate: str
    node_id: str


class SetPredicateService(Struct, frozen=True, gc=False):
    """Whether a resource manager is connected that answers questions about nodes."""

    is_there: bool


class ApplyConfig(Struct, frozen=True):
    """A validated configuration of this partition, to be in force from the next decision on (CF-59)."""

    config: PartitionConfig


class RefuseConfig(Struct, frozen=True, gc=False):
    """A configuration was refused before it reached the partition: only to be told (CF-52)."""

    reason: str


class RemovePartition(Struct, frozen=True, gc=False):
    """The partition has left the configuration (CF-56). The last submission that a partition gets, and alone in its input."""


class Reset(Struct, frozen=True, gc=False):
    """A fresh registration: forget applications and nodes without a word (SC-141)."""


Submission = (
    SubmitAllocation
    | ReleaseAllocations
    | AddApplication
    | RemoveApplication
    | UpdateNode
    | AnswerPredicate
    | ForgetPredicates
    | SetPredicateService
    | ApplyConfig
    | RefuseConfig
    | RemovePartition
    | Reset
)


class TerminateApplication(Struct, frozen=True, gc=False):
    """An application is to fail. Without ``who`` the resource manager itself asks, and may."""

    application_id: ApplicationID
    who: UserGroups | None = None


class MoveApplication(Struct, frozen=True, gc=False):
    """An application is to go on in another leaf with all that it has; ``who`` as above."""

    application_id: ApplicationID
    queue_name: str
    who: UserGroups | None = None


#: Carried out as a whole or refused with a sentence; never part of a batch of submissions.
Administration = TerminateApplication | MoveApplication
