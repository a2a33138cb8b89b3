"""The codes and sentences that say why asks are pending (AP-150) and queues stay above their max.

Sentences are for people, in the feed, snapshots and summaries. Functions get present numbers in base units; ``causes`` chooses
the sentence for an ask. No decision depends on a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ykactor.core.messages.acts import AN_OPERATOR, Hold
from ykactor.core.messages.conditions import counted
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.quantities import quantity_text
from ykactor.core.values.resources import Resource
from ykactor.core.values.times import utc_text
from ykactor.core.values.words import plural, some


class Place(Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """The place that keeps an ask back: a queue, the limit of a user or group in it, or a node that is reserved for it.

    Attributes:
        whose: the user or group of a limit, such as ``user bob``.
        resource: the type of which too little is left; "" of a running slot, a hold or a node.
        used, max: base units of that type, or numbers of running applications; None of a hold or a node, and where they are
            not shown (SE-84).
    """

    queue_name: QueuePath = QueuePath("")
    whose: str = ""
    resource: str = ""
    used: int | None = None
    max: int | None = None
    node_id: NodeID = NodeID("")


class PendingCause(Struct, frozen=True, gc=False):
    """The reason of a pending ask.

    Attributes:
        text: a sentence for people, with present numbers and names.
        left_out: the nodes where the ask could not start, each with the Unix nanosecond until which it is left out (AP-144).
    """

    code: PendingCode
    text: str
    place: Place | None = None
    left_out: Mapping[NodeID, int] = {}


#: Sizes in which memory is shown.
_MEMORY_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))

BACKOFF = "its application is in back-off, because too many of its asks fit on no node (application.unschedasks.backoff)"
FAILING = "its application is Failing: it ends when the resource manager has confirmed its releases"
OTHER_STARTS_FIRST = "another application of the queue starts first (application.sort.policy: stateaware)"
FITS = "it fits, and is tried in the next cycle"

PREDICATE_UNKNOWN = "waits for the resource manager to say where it may run"

NOT_BELOW_GUARANTEE = "may not preempt: its queue has no guarantee left for it"
NO_VICTIMS = "Preemption does not help"
NO_VICTIMS_ON_NODE = "too little can be preempted for it on its node"
REQUIRES_NODE = "it requires this node"


# ---- holds


def held(hold: Hold) -> str:
    """``held by ops since 2026-07-31T09:30:00Z``: an operator keeps an application from anything new."""
    return f"held by {hold.by} since {utc_text(hold.since_ns)}"


def held_with_queue(hold: Hold, path: QueuePath) -> str:
    """An operator keeps everything in or below a queue from anything new."""
    return f"{held(hold)} with queue {path}"


# ---- quotas and limits


def quota(name: str, wanted: int, used: int, limit: int, where: str) -> str:
    """``wants 2, has 1 of 4 vcore in queue root.a``: a queue, the cluster, a node or a limit has too little left of a type."""
    size, unit = _unit(name, wanted or used)
    if not wanted:  # an ask that lists the type does not fit in what is above its max, however little it wants (QU-40)
        return f"{_shown(used, size)} of {_shown(limit, size)} {unit} are in use {where}"
    needed, free = _shown(wanted, size, rounds_up=True), _shown(max(0, limit - used), size)
    return f"wants {needed}, has {free} of {_shown(limit, size)} {unit} {where}"


def no_room(place: Place, wanted: Resource) -> str:
    """A queue, or the limit of a user or group in it, has no room for an ask; in numbers if ``place`` has some."""
    queue = f"queue {place.queue_name}"
    if not place.resource:
        whose = f"{place.whose} in {queue}" if place.whose else queue
        return f"{whose} runs as many applications as it may" if place.max is None else running(whose, place.used, place.max)
    if place.whose:
        where = f"in the limit of {place.whose} in {queue}"
    else:
        where = "in the cluster" if place.queue_name == "root" else f"in {queue}"
    amount = wanted.get(place.resource, 0)
    if place.used is not None and place.max is not None:
        if amount > place.max and (place.whose or place.queue_name != "root"):
            size, unit = _unit(place.resource, amount)
            most = _shown(place.max, size)
            return f"can never fit: wants {_shown(amount, size, rounds_up=True)}, may have at most {most} {unit} {where}"
        return quota(place.resource, amount, place.used, place.max, where)
    if not amount:
        return f"too much {place.resource} is in use {where}"
    return f"wants {amounts({place.resource: amount})}, more than is left {where}"


def running(whose: str, count: int | None, most: int) -> str:
    """A queue, or a user or group in a queue, has no slot for one more running application."""
    return f"{whose} runs {count} of at most {plural(most, 'application')}"


# ---- queues above their max

QUOTA_PREEMPTION_OFF = "nothing is taken because quota preemption is off"
HAS_GIVEN_BACK = "it has given back what it could"


def above_max(amounts: Resource, why: str) -> str:
    """``2 vcore above its maximum; it has given back what it could``."""
    much = ", ".join(f"{quantity_text(name, quantity)} {name}" for name, quantity in sorted(amounts.items()))
    return f"{much} above its maximum; {why}"


def gives_back_at(start_ns: int) -> str:
    """Quota preemption has not started."""
    return f"it gives back from {utc_text(start_ns)} on"


def guarded_by(guarded: Sequence[str]) -> str:
    """Guarantees keep a queue from giving back; ``guarded`` has sentences of the function of this name."""
    return f"nothing is taken because {some(guarded)}"


def guarded(name: str, missing: int, path: str) -> str:
    """``memory is 2Gi below its guarantee``: of the queue itself, or of the queue above it at ``path``."""
    whose = f" of {path}" if path else ""
    return f"{name}{whose} is {f'{quantity_text(name, missing)} below' if missing else 'at'} its guarantee"


# ---- nodes

NO_NODE = "there is no node"
NONE_SELECTED = "no node has the attributes that it selects"
NO_OTHER_NODE = "there is no other node that it may use"
ALL_DRAINED = "every node is drained"
NODE_DRAINED = "the node is drained"


def not_selected(node_id: NodeID) -> str:
    """The node that an ask requires does not have the attributes that the ask selects."""
    return f"its required node {node_id} does not have the attributes that it selects"


def never_fits(name: str, wanted: int, largest: int, node: str) -> str:
    """A type of which even an empty node has too little; ``node`` names the largest one."""
    size, unit = _unit(name, wanted)
    most = _shown(largest, size) if largest > 0 else "no"
    return f"can never fit: {node} has {most} {unit}, it wants {_shown(wanted, size, rounds_up=True)}"


def never_fits_together(names: Sequence[str]) -> str:
    """Types of which each has a node that is large enough, but all of them have none."""
    return f"can never fit: no node is large enough in {_listed(names)} at the same time"


def large_are_drained(nodes: Sequence[NodeID]) -> str:
    """All nodes on which the ask could run if they were empty are drained."""
    return f"every node that is large enough is drained: {some(nodes)}"


def all_reserved(nodes: Sequence[NodeID]) -> str:
    """All nodes with room are reserved for other asks."""
    return f"the nodes with room are reserved for others: {some(nodes)}"


def also_reserved(nodes: Sequence[NodeID]) -> str:
    """These nodes are large enough, but reserved for other asks."""
    return f"reserved for others: {some(nodes)}"


def not_together(names: Sequence[str]) -> str:
    """Types of which each has a node with enough free, but all of them have none."""
    return f"no node has enough free {_listed(names)} at the same time"


def unknown_node(node_id: NodeID) -> str:
    """The node that an ask requires is not registered."""
    return f"its required node {node_id} is not registered"


def refused(refusals: Mapping[str, int]) -> str:
    """Predicates refuse all nodes with room: each reason with the number of nodes."""
    return f"no node that has room for it may run it: {counted(refusals)}"


def left_out(until: Mapping[NodeID, int]) -> str:
    """Nodes are left out for the ask, each until a Unix time in nanoseconds."""
    nodes = [f"{node_id} until {utc_text(until_ns)}" for node_id, until_ns in until.items()]
    return f"back-off: it could not start on {some(nodes)}"


# ---- why one node cannot take an ask, to be counted

DRAINED = "drained"
NOT_SELECTED = "does not have the attributes that it selects"
LEFT_OUT = "left out, because it could not start there"
RESERVED_FOR_OTHERS = "reserved for others"
HAS_ROOM = "has room"
OTHERS = "other reasons"


def too_small(name: str) -> str:
    """Even an empty node has too little of a type."""
    return f"too little {name}, even if empty"


def too_full(name: str) -> str:
    """A node has too little of a type left."""
    return f"too little {name} free"


# ---- reservations, gangs and preemption


def reserved(node_id: NodeID) -> str:
    """The ask has a reservation."""
    return f"node {node_id} is reserved for it"


def waits_for_victims(released: int, count: int, others: Sequence[tuple[ApplicationID, AllocationKey]]) -> str:
    """The ask preempts: ``released`` of ``count`` victims have been released, ``others`` have not."""
    progress = f"{released} of {count} victims have been released"
    return f"{progress}, waiting for {some([f'{key} of {owner}' for owner, key in others])}" if others else progress


def waits_for_placeholder(group: str, predicate: str) -> str:
    """A real ask of a gang waits for its turn to replace a placeholder."""
    where = f" on a node where the resource manager lets class {predicate} run" if predicate else ""
    return f"waits for a placeholder of task group {group}{where}"


def below_guarantee(path: QueuePath | None, missing: Resource) -> str:
    """The queue of an ask (None), or one above it, is below its guarantee, which allows the ask to preempt (law 4)."""
    return f"{'its queue' if path is None else f'queue {path}'} is {amounts(missing)} below its guarantee (law 4)"


# ---- for readers that are limited to queues (SE-84)

#: Replaces sentences that name nodes, tasks of others or an operator, or may name anything.
_WITHOUT_NAMES = {
    PendingCode.FAILING: FAILING,
    PendingCode.BACKOFF: BACKOFF,
    PendingCode.ORDER: OTHER_STARTS_FIRST,
    PendingCode.PLACEHOLDER: "waits for a placeholder of its task group",
    PendingCode.NO_NODE: NO_NODE,
    PendingCode.UNKNOWN_NODE: "the node that it requires is not registered",
    PendingCode.NOT_SELECTED: NONE_SELECTED,
    PendingCode.LEFT_OUT: NO_OTHER_NODE,
    PendingCode.TOO_LARGE: "can never fit: no node is large enough, even if it is empty",
    PendingCode.DRAINED: "every node that is large enough is drained",
    PendingCode.NODES: "no node has room for it at present",
    PendingCode.PREDICATE: "the resource manager does not let it run on any node that has room",
    PendingCode.NEXT: FITS,
}


def without_others(code: PendingCode, place: Place | None, wanted: Resource, until: Mapping[NodeID, int]) -> str:
    """The reason of a pending ask, for a reader that sees nothing of others.

    Args:
        place: with numbers only if its queue is in view.
        wanted: base units, of one ask.
        until: as in ``left_out``.
    """
    reason = _without_others(code, place, wanted)
    return f"{reason}; {left_out(until)}" if until else reason


def _without_others(code: PendingCode, place: Place | None, wanted: Resource) -> str:
    match code:
        case PendingCode.HELD:
            return f"held by {AN_OPERATOR}" + (f" with queue {place.queue_name}" if place is not None else "")
        case PendingCode.MAX_APPLICATIONS | PendingCode.LIMIT | PendingCode.QUOTA if place is not None:
            return no_room(place, wanted)
        case PendingCode.RESERVED if place is not None:
            return reserved(place.node_id)
        case PendingCode.PREEMPTING if place is not None:
            return f"{reserved(place.node_id)}, and what it preempts there has not ended yet"
        case _:
            return _WITHOUT_NAMES[code]


# ---- numbers and lists


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def amounts(resource: Resource) -> str:
    """``1.5 GiB memory, 0.5 vcore``: amounts in the units of these sentences."""
    units = ((quantity, *_unit(name, quantity)) for name, quantity in sorted(resource.items()))
    return ", ".join(f"{_shown(quantity, size, rounds_up=True)} {unit}" for quantity, size, unit in units) or "nothing"


def _unit(name: str, quantity: int) -> tuple[int, str]:
    """The unit that fits ``quantity`` of a type: its size and its name."""
    if name == "vcore":
        return 1000, name
    if name != "memory":
        return 1, name
    unit, size = next((known for known in _MEMORY_UNITS if quantity >= known[1]), ("B", 1))
    return size, f"{unit} memory"


def _shown(quantity: int, size: int, *, rounds_up: bool = False) -> str:
    """A quantity in units of ``size``, to thousandths. Wanted amounts are rounded up, so that every shortage can be seen."""
    whole, part = divmod(-(-quantity * 1000 // size) if rounds_up else quantity * 1000 // size, 1000)
    return f"{whole}.{part:03}".rstrip("0") if part else str(whole)
