"""The input of a partition: the requests of the resource manager, entry by entry, configurations, and the limits of the sender.

``wire.si.requests`` makes these from requests; ``PartitionCore.ingest`` gives each to its owner. All are frozen, because tasks
pass them on. In the journal a field with its default value is left out, so a default must never change.
"""

from typing import final

from msgspec import Struct

from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import AllocationRejected, ApplicationRejected, NodeRejected
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.messages.states import JobReport, Outcome, TaskRecord
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID
from ykactor.core.values.resources import Resource


@final
class ReleaseAllocations(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """Release one allocation or ask; without ``allocation_key`` all of the application's (AP-126, AP-131).

    ``node_id`` is where an allocation that is handed back could not run; None: where it is (AP-144).
    """

    application_id: ApplicationID
    allocation_key: AllocationKey | None
    termination_type: TerminationType
    node_id: NodeID | None = None

    @property
    def words(self) -> str:
        what = self.allocation_key or "everything"
        owner = f" of {self.application_id}" if self.application_id else ""
        return f"the request to release {what}{owner} ({self.termination_type})"


@final
class AddApplication(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """A new application for ``queue_name`` (may be empty).

    Without ``groups`` the user's only group has the user's name, unless the group resolver did not know the user
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

    @property
    def words(self) -> str:
        return f"the request for application {self.application_id}"


@final
class RemoveApplication(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """Remove an application with all its asks and allocations (AP-80); with ``outcome`` it has ended like that (AP-151)."""

    application_id: ApplicationID
    outcome: Outcome | None = None
    message: str = ""

    @property
    def words(self) -> str:
        outcome = f" ({self.outcome})" if self.outcome else ""
        return f"the request to remove application {self.application_id}{outcome}"


@final
class RecordTask(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A task of an application has ended like that (AP-152); changes nothing else."""

    application_id: ApplicationID
    record: TaskRecord

    @property
    def words(self) -> str:
        return f"the record of task {self.record.allocation_key} of {self.application_id} ({self.record.state})"


@final
class ReportJob(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An application is this job (AP-160); changes nothing else."""

    application_id: ApplicationID
    job: JobReport

    @property
    def words(self) -> str:
        return f"the report about the job {self.application_id}"


#: The attribute of a node that names its partition.
PARTITION_ATTRIBUTE = "si/node-partition"


class UpdateNode(Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """One entry of ``NodeRequest.nodes`` (SC-152)."""

    node_id: NodeID
    action: NodeAction
    capacity: Resource | None = None
    attributes: dict[str, str] = {}

    @property
    def words(self) -> str:
        return f"the request {self.action} for node {self.node_id}"


class AnswerPredicate(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The answer to a predicate question: asks of the class ``predicate`` may run on a node (``error`` is ""), or may not.

    ``allocate`` as in SC-120: False is about the node without the allocations that could be preempted. ``uses`` is for how many
    placements they may (SC-160); None is any number.
    """

    predicate: str
    node_id: NodeID
    allocate: bool
    error: str
    uses: int | None = None

    @property
    def words(self) -> str:
        return f"the answer of the predicate service about {self.predicate} on node {self.node_id}"


class ForgetPredicates(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Earlier answers about a class on a node do not hold any more; each of the two may be "" for all."""

    predicate: str
    node_id: str

    @property
    def words(self) -> str:
        return "the request to forget answers of the predicate service"


class SetPredicateService(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A resource manager that answers predicate questions is connected (``is_there``), or none is."""

    is_there: bool

    @property
    def words(self) -> str:
        return f"a predicate service that is {'there' if self.is_there else 'not there'}"


class WantSchedulingStates(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A resource manager that wants to know why its asks are pending is connected, or none is (AP-146)."""

    is_wanted: bool

    @property
    def words(self) -> str:
        return f"a resource manager that {'wants' if self.is_wanted else 'does not want'} to know why its asks wait"


class ApplyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A validated configuration of this partition, in force from the next decision on (CF-59)."""

    config: PartitionConfig

    @property
    def words(self) -> str:
        return "a configuration"


class RefuseConfig(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A configuration was refused before it reached the partition, which only publishes that (CF-52)."""

    reason: str

    @property
    def words(self) -> str:
        return "a configuration that was refused"


#: The refusal of one entry.
Rejected = AllocationRejected | ApplicationRejected | NodeRejected


class RefuseEntry(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """An entry of a request was refused before it reached the partition, which only publishes that, at its own time (AP-138)."""

    rejected: Rejected

    @property
    def words(self) -> str:
        return "an entry that was refused"


class RemovePartition(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The partition has left the configuration (CF-56). The last submission that a partition gets, and alone in its input."""

    @property
    def words(self) -> str:
        return "the removal of the partition from the configuration"


class Reset(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A new registration: remove applications and nodes without notifying the resource manager (SC-141)."""

    @property
    def words(self) -> str:
        return "a new registration"


#: What is told about an application that is in a leaf; ``words`` of all submissions say what a turn was because of.
ApplicationNews = RemoveApplication | RecordTask | ReportJob
#: What leaves handle, of which foreign allocations and their releases are handled with nodes.
LeafSubmission = Ask | ReleaseAllocations | AddApplication | ApplicationNews
#: What nodes handle, or the scheduler because of a node.
NodeSubmission = UpdateNode | Ask | ReleaseAllocations | AnswerPredicate | ForgetPredicates | SetPredicateService
Submission = (
    LeafSubmission | NodeSubmission | WantSchedulingStates | ApplyConfig | RefuseConfig | RefuseEntry | RemovePartition | Reset
)


#: Resource types of one entry, of a configuration, and beside these of a partition: queues and nodes multiply them.
TYPES_MAX = 256


class HeldLimits(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The limits of what the sender of input may hold in a partition at the same time (SE-48).

    Attributes:
        identity: its name.
        asks: asks and allocations, foreign ones too.
        queues: those that placement creates.
        resource_types: those that objects name, without those of the configuration; None: any number, as in older journals.
    """

    identity: str
    applications: int
    asks: int
    nodes: int
    queues: int
    resource_types: int | None = None


def exceeded(limit: str, value: int, identity: str, found: str) -> str:
    """A sentence about a limit that is exceeded."""
    return f"limit {limit} = {value} of identity {identity}: {found}"
