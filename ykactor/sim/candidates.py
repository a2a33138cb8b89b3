"""The changes that might let a pending ask be placed: only where something is short, and none that leaves it short.

Each has a lower bound that is exact for the present state. Whether it suffices, only a try can tell: others may get in first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations, islice

from msgspec import Struct, structs

from ykactor.core.config.access import PrincipalKind
from ykactor.core.config.model import QueueConfig
from ykactor.core.inspection.changes import AddNode, Amount, Change, DropTerm, EndHold, Free, Prioritise, Raise, Resize, Undrain
from ykactor.core.messages.acts import Hold
from ykactor.core.messages.asks import REQUIRED_NODE_TAGS, Ask, AskID, Shape, shape_of
from ykactor.core.messages.kinds import PendingCode
from ykactor.core.nodes.index import IndexedNode
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.headroom import Place
from ykactor.core.quota.limits import Tracker
from ykactor.core.state.state import SchedulerState
from ykactor.core.values import selector
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.resources import QUANTITY_MAX, Resource, add_to
from ykactor.core.values.selector import selects
from ykactor.core.waiting.causes import PendingCauses
from ykactor.sim.direct import DirectPartition

#: Nodes, kinds of nodes and sets of tasks that are tried of each family.
ALTERNATIVES_MAX = 10
#: Sets of tasks that are looked at, and of one node; with more there the largest tasks are taken.
_SETS_MAX, _SETS_OF_NODE_MAX = 100_000, 2_000
#: Sets of tasks that are tried.
FREES_MAX = 30
_VCORE, _PART, _MIB = 1000, 100, 2**20
#: Types of which an ask is not made to want nothing.
_ESSENTIAL = ("vcore", "memory")
_PRIORITY_MAX = 2**31 - 1


class Part(Struct, frozen=True):
    """A change, at its lower bound if it has an amount.

    Attributes:
        step: between amounts; 0 without an amount.
        most: the largest amount that may be tried; of what becomes less, the smallest.
    """

    change: Change
    step: int = 0
    most: int = 0

    def at(self, amount: int) -> Part:
        """The same with another amount."""
        assert isinstance(self.change, Amount)
        return structs.replace(self, change=structs.replace(self.change, after=amount))


#: The families of changes that can be tried alone: of each the alternatives, the first that suffices counts.
Family = list[Part]


class Situation:
    """A pending ask with what it needs, and all that is short for it.

    Attributes:
        places: the queues from root down, each with its limits of the user and the group.
        short: per place the types of which too little is left.
        slots: the places without a running slot for its application.
        holds: the queues that are held, "" for the application itself.
        reserved: the node that is reserved for it; None without one.
        nodes: the code of AP-150 for which no node takes it; ``NEXT`` if one does.
        kept_back: True if the application waits for something else.
    """

    def __init__(self, partition: DirectPartition, ask_id: AskID) -> None:
        self.partition, self.state = partition, partition.scheduler.state
        self.application: PendingApplication = self.state.applications[ask_id[0]]
        self.ask: Ask = self.application.asks[ask_id[1]][0]
        self.shape: Shape = shape_of(self.ask)
        self.leaf = self.state.tree.leaf_of(self.application)
        self._slot_holders: dict[Place, dict[ApplicationID, frozenset[AskID]]] = {}
        self.places = list(self._places())
        checked = [place for place in self.places if self.shape[1] is None or isinstance(place, Tracker) or place.parent]
        self.short = [(place, name) for place in checked for name, wanted in self.shape[0] if _lacks(place, name, wanted)]
        needed = self.application.slots_needed()
        self.slots = [place for place in self.places if needed and place.lacks_slot(ask_id[0])]
        held: list[tuple[QueuePath, Hold | None]] = [(queue.path, queue.hold) for queue in self.leaf.path_up]
        self.holds = [path for path, hold in [(QueuePath(""), self.application.hold), *held] if hold is not None]
        is_reserving = ask_id[1] in self.application.reserving
        self.reserved = self.state.reservations.of(self.ask).node.node_id if is_reserving else None
        causes = PendingCauses(self.state)
        self.nodes = causes.nodes(self.shape).code
        self.kept_back = not self.holds and not self.slots and self._is_kept_back(causes, ask_id[1])

    def _places(self) -> Iterator[Place]:
        for queue in reversed(self.leaf.path_up):
            yield queue
            yield from (tracker for tracker in self.application.trackers if tracker.path == queue.path)

    def _is_kept_back(self, causes: PendingCauses, key: AllocationKey) -> bool:
        code = causes.of_ask(self.application, key).code
        return code in (PendingCode.FAILING, PendingCode.BACKOFF, PendingCode.ORDER, PendingCode.PLACEHOLDER)

    def is_cluster(self, place: Place) -> bool:
        """True if the place is root, of which the ``max`` is the size of the cluster."""
        return place is self.leaf.path_up[-1]

    def slot_holders(self, place: Place, tasks: frozenset[AskID]) -> list[frozenset[AskID]]:
        """The applications that give their running slots in a place back when some tasks end, each as its tasks."""
        if place not in self._slot_holders:
            names = place.applications if isinstance(place, Tracker) else place.running
            registry, waiting = self.partition.core.registry, self.state.applications
            idle = (registry.leaf_of(name).applications[name] for name in names if not waiting[name].asks)
            self._slot_holders[place] = {
                each.application_id: frozenset((each.application_id, key) for key in each.tasks.allocations) for each in idle
            }
        by_application = self._slot_holders[place]
        found = (by_application.get(name, frozenset()) for name in sorted({application_id for application_id, _ in tasks}))
        return [held for held in found if held and held <= tasks]

    @property
    def lacks_nodes(self) -> bool:
        """True if no node has room, or all nodes together have too little."""
        return self.nodes is not PendingCode.NEXT or any(self.is_cluster(place) for place, _ in self.short)

    @property
    def limited(self) -> list[tuple[Place, str]]:
        """The part of ``short`` that the configuration decides, without the size of the cluster."""
        return [(place, name) for place, name in self.short if not self.is_cluster(place)]


def _lacks(place: Place, name: str, wanted: int) -> bool:
    limit = place.max
    if limit is None or name not in limit:
        return False
    return place.allocated.get(name, 0) + wanted > limit[name]


# ---- what is tried alone


def families(found: Situation, now_ns: int, *, may_preempt: bool) -> Iterator[Family]:
    """The families of changes of which one alone could suffice, what is likely to be the smallest first."""
    if found.kept_back:
        return
    if found.holds:
        if len(found.holds) == 1:
            yield [Part(EndHold(found.holds[0]))]
        return
    limits, has_slots = found.limited, not found.slots
    if may_preempt or not found.lacks_nodes:  # preemption may make room on nodes
        if len(limits) == 1 and has_slots:
            yield _raise(found, *limits[0])
        if len(found.slots) == 1 and not limits:
            yield _raise(found, found.slots[0], "")
    if has_slots:
        yield from ([part] for part in _smaller_asks(found))
        if not limits and found.lacks_nodes:
            yield [Part(change) for change in islice(_undrains(found), ALTERNATIVES_MAX)]
            yield from ([Part(change)] for change in _without_terms(found))
            yield [Part(change) for change in _new_nodes(found)[:ALTERNATIVES_MAX]]
    yield [Part(change) for change in _frees(found, now_ns)]
    if may_preempt and found.ask.allow_preempt_other:
        own = found.ask.priority
        yield [Part(Prioritise(own, own + 1), 1, _PRIORITY_MAX)]


def next_part(found: Situation, now_ns: int) -> Part | None:
    """The change of what binds first, to be made with others; None if nothing can be done about it."""
    if found.kept_back:
        return None
    if found.holds:
        return Part(EndHold(found.holds[0]))
    if found.slots:
        return next(iter(_raise(found, found.slots[0], "")), None)
    if found.limited:
        return next(iter(_raise(found, *found.limited[0])), None)
    if found.lacks_nodes:
        changes: list[Change] = [*islice(_undrains(found), 1), *_new_nodes(found)[:1], *_frees(found, now_ns)[:1]]
        return Part(changes[0]) if changes else next(_smaller_asks(found), None)
    return None


# ---- raises


def _raise(found: Situation, place: Place, resource: str) -> Family:
    """The raise of an amount, or of running applications with "", to what the ask needs there; none if that is not possible."""
    queue = found.state.tree.nodes[place.path]
    is_dynamic = not queue.config.managed  # it has no limits of users and groups
    whose = _entry(queue.config, place) if isinstance(place, Tracker) else ""
    if not resource:
        used, before = place.slots_used(), place.max_applications
        return [Part(Raise(place.path, whose, "", before, used + 1, is_dynamic), 1, QUANTITY_MAX)]
    before, wanted = (place.max or {})[resource], dict(found.shape[0])[resource]
    need = place.allocated.get(resource, 0) + wanted
    step = _step(resource, (before, need, wanted))
    after = -(-need // step) * step
    if after > QUANTITY_MAX:
        return []
    return [Part(Raise(place.path, whose, resource, before, after, is_dynamic), step, QUANTITY_MAX)]


def _entry(config: QueueConfig, tracker: Tracker) -> str:
    """The name of a limit in the queue file: that of the user or group, or ``*``."""
    kind, name = tracker.whose
    named = (limit.users if kind is PrincipalKind.USER else limit.groups for limit in config.limits)
    return f"{kind} {name if any(name in names for names in named) else '*'}"


def _step(resource: str, amounts: Iterable[int]) -> int:
    """The unit in which amounts of a type are shown: whole cores if all are whole, else tenths; MiB; 1 of other types."""
    if resource == "vcore":
        return _PART if any(amount % _VCORE for amount in amounts) else _VCORE
    if resource == "memory":
        return _MIB if all(amount >= _MIB for amount in amounts) else 1
    return 1


# ---- a smaller ask


def _smaller_asks(found: Situation) -> Iterator[Part]:
    """Smaller asks: less of one type, where only this type is short; at most what is free now.

    An ask may do without any of a type, but for those that every task needs.
    """
    for name, wanted in found.shape[0]:
        if wanted <= 0 or any(other != name for _, other in found.short):
            continue
        others = tuple((other, amount) for other, amount in found.shape[0] if other != name)
        free = [node.available.get(name, 0) for node in _open_nodes(found) if node.fits(others, ())]
        left = [(place.max or {})[name] - place.allocated.get(name, 0) for place in found.places if name in (place.max or {})]
        most = min([max(free, default=0), *left, wanted])
        step = _step(name, (wanted,))
        after = min(most, wanted - step) // step * step
        may_drop = name not in _ESSENTIAL and any(amount > 0 for _, amount in others)
        lowest = 0 if may_drop else step
        if after >= lowest:
            yield Part(Resize(name, wanted, after), step, lowest)


def _open_nodes(found: Situation) -> Iterator[IndexedNode]:
    """The nodes that may take the ask, whatever is free there."""
    for node in found.state.nodes.nodes.values():
        if _is_open(found, node) and selects(found.shape[2], node.attributes):
            yield node


def _is_open(found: Situation, node: IndexedNode) -> bool:
    """True if the node takes the ask if it has room and is selected."""
    required = found.shape[1]
    if required is not None:
        return node.node_id == required
    return node.offered or (node.schedulable and node.node_id == found.reserved)


# ---- nodes


def _undrains(found: Situation) -> Iterator[Change]:
    """Drained nodes that would have room."""
    needs, required, wanted, _ = found.shape
    if required is None:
        for name, node in sorted(found.state.nodes.nodes.items()):
            if not node.schedulable and not node.reserved and node.fits(needs, wanted):
                yield Undrain(name)


def _new_nodes(found: Situation) -> list[Change]:
    """A node of each kind that could take the ask if it was empty, the smallest kind first."""
    needs, required, wanted, _ = found.shape
    kinds: dict[tuple[object, ...], NodeID] = {}
    for name, node in sorted(found.state.nodes.nodes.items()):
        if required is None and node.could_fit(needs, wanted):
            capacity = sorted(node.capacity.items())
            attributes = sorted((key, value) for key, value in node.attributes.items() if key != selector.NODE_ID)
            kinds.setdefault((tuple(capacity), tuple(attributes)), name)
    return [AddNode(name) for _, name in sorted((_size(found.state, name), name) for name in kinds.values())]


def _size(state: SchedulerState, name: NodeID) -> list[tuple[str, int]]:
    return sorted(state.nodes.nodes[name].capacity.items())


def _without_terms(found: Situation) -> Iterator[Change]:
    """Terms of the selector without which a node would have room."""
    needs, required, _, _ = found.shape
    if found.ask.task_group_name:
        return
    terms = selector.parse(found.ask.tags.get(selector.TAG, ""))
    nodes = [node for node in found.state.nodes.nodes.values() if node.fits(needs, ())]
    if required is not None and any(node.offered and selects(terms, node.attributes) for node in nodes):
        name = next(found.ask.tags[tag] for tag in REQUIRED_NODE_TAGS if found.ask.tags.get(tag))
        yield DropTerm(name, None)
    needless: set[int] = set()
    for node in nodes:
        if _is_open(found, node):
            failed = list(islice((at for at, term in enumerate(terms) if not selects((term,), node.attributes)), 2))
            needless.update(failed if len(failed) == 1 else () if failed else range(len(terms)))
    yield from (DropTerm(selector.text(terms[index]), index) for index in sorted(needless))


# ---- freed tasks


class _Task(Struct, frozen=True):
    """A task that could be ended."""

    name: tuple[ApplicationID, AllocationKey]
    resource: Resource
    ran_ns: int
    places: frozenset[Place]


def _frees(found: Situation, now_ns: int) -> list[Change]:
    """Sets of tasks of one node whose end makes room as far as amounts tell: fewest, then least work lost.

    Asks ahead, or one for which the node is reserved, may take the room, so sets with one more task follow. Nodes come by the
    fewest tasks that could suffice; those that need more than enough other sets are not looked at.
    """
    if not found.short and not found.slots and not found.lacks_nodes:
        return []
    has_room = any(node.fits(found.shape[0], ()) for node in _open_nodes(found))
    nodes = found.state.nodes.nodes.values() if has_room else filter(partial(_may_open, found), found.state.nodes.nodes.values())
    bounds = ((_fewest_there(found, node, has_room=has_room), node.node_id) for node in nodes)
    left, frees = _SETS_MAX, list[Free]()
    for bound, node_id in sorted((count, name) for count, name in bounds if count):
        if left <= 0 or (len(frees) >= FREES_MAX and bound > len(frees[FREES_MAX - 1].tasks)):
            break
        node, tasks = found.state.nodes.nodes[node_id], list(_tasks_on(found, node_id, now_ns))
        for chosen in _sets(found, node, tasks, bound, has_room=has_room):
            frees.append(Free(node_id, sorted(task.name for task in chosen), sum(task.ran_ns for task in chosen)))
        left -= 1 + len(tasks) ** 2
        frees.sort(key=lambda free: (len(free.tasks), free.lost_ns, free.node_id, free.tasks))
        del frees[FREES_MAX:]
    return [*frees]


def _may_open(found: Situation, node: IndexedNode) -> bool:
    """True if the node could take the ask if it had room and was not reserved."""
    required = found.shape[1]
    is_open = node.schedulable if required is None else node.node_id == required
    return is_open and node.could_fit(found.shape[0], found.shape[2])


def _fewest_there(found: Situation, node: IndexedNode, *, has_room: bool) -> int:
    """A lower bound of the tasks of a node that have to end; 0 if even all of them do not suffice."""
    allocations, most = found.partition.core.registry.nodes[node.node_id].allocations.values(), 1
    for name, wanted in found.shape[0] if not has_room else ():
        missing, count = wanted - node.available.get(name, 0), 0
        for amount in sorted((ask.resource.get(name, 0) for ask in allocations), reverse=True) if missing > 0 else ():
            if missing > 0:
                missing, count = missing - amount, count + 1
        if missing > 0:
            return 0
        most = max(most, count)
    return most if len(allocations) >= most else 0


def _tasks_on(found: Situation, node_id: NodeID, now_ns: int) -> Iterator[_Task]:
    """The tasks of a node that are not being released."""
    registry = found.partition.core.registry
    for (application_id, key), ask in registry.nodes[node_id].allocations.items():
        tasks = registry.leaf_of(application_id).applications[application_id].tasks
        if key in tasks.allocations and key not in tasks.released:
            other = found.state.applications[application_id]
            places: frozenset[Place] = frozenset((*found.state.tree.leaf_of(other).path_up, *other.trackers))
            yield _Task((application_id, key), ask.resource, max(0, now_ns - tasks.began_ns[key]), places)


def _sets(
    found: Situation, node: IndexedNode, tasks: Sequence[_Task], bound: int, *, has_room: bool
) -> Iterator[Sequence[_Task]]:
    """The sets of tasks of a node whose end makes room: all with the fewest tasks and those with one more; of very many one."""
    names = [name for name, wanted in found.shape[0] if wanted > 0]
    there = frozenset(task.name for task in tasks)
    holders = [found.slot_holders(place, there) for place in found.slots]
    holding = frozenset[AskID]().union(*(held for place in holders for held in place))
    helpful = [task for task in tasks if task.name in holding or any(task.resource.get(name) for name in names)]
    suffices = partial(_suffices, found, node, holders, has_room=has_room)
    if not suffices(helpful):
        return
    fewest = len(helpful)
    for count in range(bound, len(helpful) + 1):
        if count > fewest + 1:
            return
        sets = list(islice(combinations(helpful, count), _SETS_OF_NODE_MAX + 1))
        if len(sets) > _SETS_OF_NODE_MAX:
            break
        for chosen in filter(suffices, sets):
            fewest = min(fewest, count)
            yield chosen
    else:
        return
    helpful.sort(key=lambda task: ([-task.resource.get(name, 0) for name in names], task.name))
    # If some tasks suffice, they do with more tasks too.
    yield helpful[: bisect_left(range(len(helpful)), True, count, key=lambda length: suffices(helpful[:length]))]


def _suffices(
    found: Situation,
    node: IndexedNode,
    holders: list[list[frozenset[AskID]]],
    chosen: Sequence[_Task],
    *,
    has_room: bool,
) -> bool:
    """True if nothing is short for the ask when these tasks of a node have ended, as far as amounts tell.

    Args:
        holders: per place without a running slot the sets of tasks of the node whose end gives one back.
    """
    freed: Resource = {}
    for task in chosen:
        add_to(freed, task.resource)
    for name, wanted in () if has_room else found.shape[0]:
        if wanted > max(0, node.available.get(name, 0) + freed.get(name, 0)):
            return False
    needs = dict(found.shape[0])
    for place, name in found.short:
        back = sum(task.resource.get(name, 0) for task in chosen if place in task.places)
        if place.allocated.get(name, 0) - back + needs[name] > (place.max or {})[name]:
            return False
    ended = {task.name for task in chosen}
    return all(any(held <= ended for held in of_place) for of_place in holders)
