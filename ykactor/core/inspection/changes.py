"""The changes with which a pending ask would be placed (AP-155). How they are found and made is no matter of the core."""

from __future__ import annotations

from msgspec import Struct, field

from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath


class Raise(Struct, frozen=True, tag=True, rename="camel"):
    """More of a ``max``, of the limit of a user or group, or of running applications.

    Attributes:
        whose: ``user bob`` or ``group dev``, ``*`` as the queue file names it; "" for the queue itself.
        resource: "" for running applications.
        before, after: base units, or running applications.
        is_dynamic: True if the queue is not in the queue file: its quota comes with applications (QU-107).
    """

    queue_name: QueuePath
    whose: str
    resource: str
    before: int
    after: int
    is_dynamic: bool = False

    @property
    def target(self) -> tuple[str, ...]:
        return ("queue", self.queue_name, self.whose)


class Resize(Struct, frozen=True, tag=True, rename="camel"):
    """Less of one type for the ask, in base units."""

    resource: str
    before: int
    after: int

    @property
    def target(self) -> tuple[str, ...]:
        return ("ask",)


class Prioritise(Struct, frozen=True, tag=True, rename="camel"):
    """Another priority of the ask."""

    before: int
    after: int

    @property
    def target(self) -> tuple[str, ...]:
        return ("ask",)


class DropTerm(Struct, frozen=True, tag=True, rename="camel"):
    """The ask is sent again without a term of its selector, or without the node that it requires.

    Attributes:
        term: as text, such as ``zone=a``; of a required node its name.
        index: of the term in the selector; None: the required node.
    """

    term: str
    index: int | None

    @property
    def target(self) -> tuple[str, ...]:
        return ("ask",)


class Free(Struct, frozen=True, tag=True, rename="camel"):
    """The end of tasks on one node.

    Attributes:
        tasks: application and key of each.
        lost_ns: the times that they have run, together.
    """

    node_id: NodeID = field(name="nodeID")
    tasks: list[tuple[ApplicationID, AllocationKey]]
    lost_ns: int

    @property
    def target(self) -> tuple[str, ...]:
        return ("tasks", self.node_id)


class AddNode(Struct, frozen=True, tag=True, rename="camel"):
    """One more node, with the capacity and the attributes of one that there is."""

    like: NodeID

    @property
    def target(self) -> tuple[str, ...]:
        return ("new node", self.like)


class Undrain(Struct, frozen=True, tag=True, rename="camel"):
    """The end of the drain of a node."""

    node_id: NodeID = field(name="nodeID")

    @property
    def target(self) -> tuple[str, ...]:
        return ("node", self.node_id)


class EndHold(Struct, frozen=True, tag=True, rename="camel"):
    """The end of a hold: of the queue, or with "" of the application of the ask."""

    queue_name: QueuePath

    @property
    def target(self) -> tuple[str, ...]:
        return ("hold", self.queue_name)


class Wait(Struct, frozen=True, tag=True, rename="camel"):
    """Nothing, for so long.

    Attributes:
        task: application and key of the one of which the end lets the ask begin, as far as run times were told; None: time alone.
        node_id: where it runs.
    """

    seconds: float
    task: tuple[ApplicationID, AllocationKey] | None = None
    node_id: NodeID = field(name="nodeID", default=NodeID(""))

    @property
    def target(self) -> tuple[str, ...]:
        return ("time",)


#: A change with an amount, which may be more or less.
Amount = Raise | Resize | Prioritise
Change = Amount | DropTerm | Free | AddNode | Undrain | EndHold | Wait


class Found(Struct, frozen=True, rename="camel"):
    """Changes with which the ask is placed.

    Attributes:
        at_ns: the Unix time at which it begins to run.
        is_least: False if even less may suffice: not all of it was tried.
        too_little: of one change with an amount the next smaller amount, which does not suffice; None if that is no change.
    """

    changes: list[Change]
    node_id: str = field(name="nodeID")
    at_ns: int
    is_least: bool = True
    too_little: int | None = None


class Search(Struct, frozen=True, rename="camel"):
    """The result of a search.

    Attributes:
        found: at most five, the smallest first.
        is_ended: True if it was ended by the number of tries or the time.
        tries: their number.
        reason: why the ask waits with what was tried last; "" if something was found.
        others: the number of further results, of which a limited reader is told no more.
    """

    found: list[Found]
    is_ended: bool
    tries: int
    reason: str = ""
    others: int = 0
