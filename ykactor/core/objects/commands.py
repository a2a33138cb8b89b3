"""The commands that queues and nodes carry out, each with the type of its reply."""

from typing import Generic, TypeVar, final

from msgspec import Struct

from ykactor.core.config.access import UserGroups
from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.acts import ApplicationAct, Hold
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import Fact
from ykactor.core.messages.planned import Planned
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import AddApplication, ApplicationNews, ReleaseAllocations
from ykactor.core.objects.application import Application
from ykactor.core.values.ids import AllocationKey, ApplicationID, QueuePath
from ykactor.core.values.resources import Resource

R_co = TypeVar("R_co", covariant=True)

#: By position in a batch or plan: what an entry caused, in order.
Positioned = list[tuple[int, list[Fact]]]
#: By (deadline, arrival number of the application): what each expired timer caused, in order.
Expired = list[tuple[tuple[int, int], list[Fact]]]


class Command(Struct, Generic[R_co], frozen=True):
    """A command for an owner; the type argument is the type of its reply."""


class QueueCommand(Command[R_co], frozen=True):
    """A command for a leaf or a parent queue."""


class NodeCommand(Command[R_co], frozen=True):
    """A command for a node."""


# ---- leaves


@final
class Admitted(Struct, frozen=True, gc=False):
    """A new application, and its user."""

    spec: AddApplication
    who: UserGroups


#: What a leaf gets of the input.
ForLeaf = Admitted | Ask | ReleaseAllocations | ApplicationNews
#: A submission for a leaf: its position in the batch, and its arrival time and number.
Arrived = tuple[int, ForLeaf, int, int]


class SubmitBatch(QueueCommand[Positioned], frozen=True, gc=False):
    """Handle submissions in order. Reply: for each its position and its facts, in the same order."""

    now_ns: int
    entries: list[Arrived]


class SettleBatch(QueueCommand[Positioned], frozen=True, gc=False):
    """Record the steps of a plan that concern this leaf, with their positions in the plan.

    Reply: the consequences of each, by position; steps without any are left out.
    """

    now_ns: int
    decisions: list[tuple[int, Planned]]


class EndAllocations(QueueCommand[list[Fact]], frozen=True, gc=False):
    """End these allocations, and the places of real asks that wait for a placeholder, with their node (SC-112)."""

    now_ns: int
    keys: list[tuple[ApplicationID, AllocationKey]]
    message: str


class FailAll(QueueCommand[list[Fact]], frozen=True, gc=False):
    """Let every application fail because of ``why``; its allocations end with ``message``."""

    now_ns: int
    why: str
    message: str


class ActOn(QueueCommand[list[Fact]], frozen=True, gc=False):
    """Carry out an act of an administrator or operator on an application (``acts``)."""

    now_ns: int
    act: ApplicationAct


class GiveAway(QueueCommand[Application], frozen=True, gc=False):
    """Hand over an application. Reply: the application, which has no owner until another leaf takes it over."""

    application_id: ApplicationID


class TakeOver(QueueCommand[None], frozen=True):
    """Adopt an application that another leaf has given away."""

    application: Application


class FireTimers(QueueCommand[Expired], frozen=True, gc=False):
    """Fire every timer that is due."""

    now_ns: int


# ---- parents, and both kinds of queues


class Adopt(QueueCommand[None], frozen=True, gc=False):
    """Add these children to a parent."""

    children: tuple[QueuePath, ...]


class Disown(QueueCommand[None], frozen=True, gc=False):
    """Remove these children from a parent."""

    children: tuple[QueuePath, ...]


class Configure(QueueCommand[None], frozen=True):
    """Set the settings and the state of a queue."""

    config: QueueConfig
    state: QueueState


class SetHold(QueueCommand[None], frozen=True, gc=False):
    """Hold the queue, or end its hold (None)."""

    hold: Hold | None


class Close(QueueCommand[None], frozen=True, gc=False):
    """End: the queue is removed, and its actor ends. The last command a queue gets."""


# ---- nodes


class PlaceBatch(NodeCommand[int], frozen=True, gc=False):
    """Put these asks on the node, which must still be at ``revision``, all or none. Reply: its next revision."""

    revision: int
    asks: list[Ask]


class ChangeAllocations(NodeCommand[None], frozen=True, gc=False):
    """Changes that were reported, in order: allocations that run here (True) or ended (False). Never refused (QU-41)."""

    changes: list[tuple[bool, Ask]]


class Register(NodeCommand[list[Fact]], frozen=True, gc=False):
    """Report the new node. The first command a node gets."""

    now_ns: int


class SetCapacity(NodeCommand[list[Fact]], frozen=True, gc=False):
    """Change the capacity (SC-103)."""

    now_ns: int
    capacity: Resource


class SetAttributes(NodeCommand[list[Fact]], frozen=True, gc=False):
    """Replace the attributes (SC-159)."""

    now_ns: int
    attributes: dict[str, str]


class SetSchedulable(NodeCommand[list[Fact]], frozen=True, gc=False):
    """Set the schedulable flag (SC-110)."""

    now_ns: int
    schedulable: bool


class PlaceForeign(NodeCommand[list[Fact]], frozen=True, gc=False):
    """Place a foreign allocation, which uses resources here (SC-81); the same key again replaces it (SC-82)."""

    now_ns: int
    ask: Ask


class ReleaseForeign(NodeCommand[list[Fact]], frozen=True, gc=False):
    """End a foreign allocation."""

    now_ns: int
    allocation_key: AllocationKey


class Decommission(NodeCommand[list[Ask]], frozen=True, gc=False):
    """End: the node leaves. Reply: its allocations. The last command a node gets."""
