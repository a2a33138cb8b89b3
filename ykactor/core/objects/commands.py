"""The commands that queues and nodes carry out, and what each returns."""

from msgspec import Struct

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.asks import AllocationSpec, Ask
from ykactor.core.messages.facts import Decision
from ykactor.core.messages.planned import Planned
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import AddApplication, ReleaseAllocations, RemoveApplication, SubmitAllocation
from ykactor.core.objects.application import Application
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.resources import Resource


class Entry(Struct, frozen=True, gc=False):
    """One submission for a leaf: its place in the batch, what it says, and the partition's stamp on it."""

    position: int
    submission: AddApplication | SubmitAllocation | ReleaseAllocations | RemoveApplication
    arrival_ns: int
    arrival: int
    #: Who a new application runs as.
    who: UserGroups | None = None


class SubmitBatch(Struct, frozen=True, gc=False):
    """Submissions in order. Answer: for each its position and facts, in the same order."""

    now_ns: int
    entries: list[Entry]


class SettleBatch(Struct, frozen=True, gc=False):
    """What a plan decided for this leaf, with the places in the plan. Answer: what follows from each, by place."""

    now_ns: int
    decisions: list[tuple[int, Planned]]


class EndAllocations(Struct, frozen=True, gc=False):
    """These allocations, or what was to become one, ended with their node (SC-112). Answer: facts, state changes first."""

    now_ns: int
    keys: list[tuple[ApplicationID, AllocationKey]]
    message: str


class FailAll(Struct, frozen=True, gc=False):
    """Every application fails because of ``why``, and what it runs ends with ``message``. Answer: facts."""

    now_ns: int
    why: str
    message: str


class Terminate(Struct, frozen=True, gc=False):
    """An application fails because somebody ended it. Answer: facts."""

    now_ns: int
    application_id: ApplicationID


class GiveAway(Struct, frozen=True, gc=False):
    """An application goes to another leaf. Answer: the ``Application``, which has no other owner until it is taken over."""

    application_id: ApplicationID


class TakeOver(Struct, frozen=True):
    """Another leaf has given this application away."""

    application: Application


class FireTimers(Struct, frozen=True, gc=False):
    """Fire what is due. Answer: ((deadline, arrival number), facts) for each timer, in order."""

    now_ns: int


class Configure(Struct, frozen=True):
    """The queue's settings and state from now on; ``config`` is None for a queue that has left the configuration."""

    config: QueueConfig | None
    state: QueueState


class Adopt(Struct, frozen=True, gc=False):
    """A parent has these children more."""

    children: tuple[QueuePath, ...]


class Disown(Struct, frozen=True, gc=False):
    """A parent has these children no more."""

    children: tuple[QueuePath, ...]


class Close(Struct, frozen=True, gc=False):
    """The queue is gone (the actor ends). The last command a queue gets."""


LeafCommand = (
    SubmitBatch | SettleBatch | EndAllocations | FailAll | Terminate | GiveAway | TakeOver | FireTimers | Configure | Close
)


ParentCommand = Configure | Adopt | Disown | Close


Positioned = list[tuple[int, list[Decision]]]


class PlaceBatch(Struct, frozen=True, gc=False):
    """Put these asks on the node, all or nothing, if it is still at ``revision``."""

    revision: int
    asks: list[Ask]


class Placed(Struct, frozen=True, gc=False):
    """The batch is on the node, which is at ``revision`` now."""

    revision: int


class Refused(Struct, frozen=True, gc=False):
    """The batch is not on the node; nothing changed."""

    revision: int
    reason: str


class ChangeAllocations(Struct, frozen=True, gc=False):
    """Facts the resource manager reported, in order: allocations that run here (True) or ended (False). Never refused (QU-41)."""

    changes: list[tuple[bool, Ask]]


class Register(Struct, frozen=True, gc=False):
    """The first command a node gets: tell the world."""

    now_ns: int


class SetCapacity(Struct, frozen=True, gc=False):
    now_ns: int
    capacity: Resource


class SetSchedulable(Struct, frozen=True, gc=False):
    now_ns: int
    schedulable: bool


class PlaceForeign(Struct, frozen=True, gc=False):
    """A task that somebody else placed takes room here (SC-81); the same key again replaces it (SC-82)."""

    now_ns: int
    spec: AllocationSpec


class ReleaseForeign(Struct, frozen=True, gc=False):
    now_ns: int
    allocation_key: AllocationKey


class Decommission(Struct, frozen=True, gc=False):
    """The node leaves: answers what ran on it. The last command a node gets."""


NodeCommand = (
    PlaceBatch
    | ChangeAllocations
    | Register
    | SetCapacity
    | SetSchedulable
    | PlaceForeign
    | ReleaseForeign
    | Decommission
)
