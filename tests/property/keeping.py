"""Reservations for the reference (SC-149, SC-151): which node is kept for which ask, and when that ends by itself.

Decisions come from the cycles, which the reference has checked. Everything else that ends a reservation follows here from the
facts (SC-151); the partition must have reported the same.
"""

from __future__ import annotations

from collections import Counter

from msgspec import structs
from queuetree import Amounts

from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import (
    Allocated,
    ApplicationAdded,
    ApplicationChanged,
    ApplicationHeld,
    ApplicationLeft,
    ApplicationMoved,
    AskAdded,
    AskPriorityChanged,
    AskReadmitted,
    AskRemoved,
    AskResized,
    AskReturned,
    Fact,
    NodeAdded,
    NodeAttributesChanged,
    NodeCapacityChanged,
    NodeRemoved,
    NodeSchedulable,
    PreemptionPolicyChanged,
    QueueHeld,
    ReleaseStarted,
    Reserved,
    TaskGroupChanged,
    Unreserved,
)
from ykactor.core.values import selector
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID

S_NS = 10**9
#: SC-50; SC-60.
DELAY_NS, LONGEST_NS = 2 * S_NS, 3600 * S_NS

Name = tuple[ApplicationID, AllocationKey]
#: What is done: "allocated", "reserved", "unreserved", a placeholder "ended", or "replaces p1"; then to whom, and where.
Event = tuple[str, ApplicationID, AllocationKey, NodeID]


def required_node(ask: Ask) -> NodeID | None:
    """AP-54: the first one wins; empty is not set."""
    for tag in ("kubernetes.io/meta/requiredNode", "yunikorn.apache.org/requiredNode"):
        if ask.tags.get(tag):
            return NodeID(ask.tags[tag])
    return None


def name_of(ask: Ask) -> Name:
    return ask.application_id, ask.allocation_key


def fits(available: Amounts, wanted: Amounts) -> bool:
    """QU-104: an absent type is 0, a negative one too."""
    return all(quantity <= max(0, available.get(name, 0)) for name, quantity in wanted.items())


def events(facts: list[Fact]) -> list[Event]:
    """The events that a cycle has decided."""
    return [(word, *name, node_id) for word, name, node_id in map(in_words, facts) if word]


def in_words(fact: Fact) -> tuple[str, Name, NodeID]:
    match fact:
        case Allocated(_, ask, _, node_id):
            return "allocated", name_of(ask), node_id
        case Reserved(_, ask, _, node_id):
            return "reserved", name_of(ask), node_id
        case Unreserved(_, ask, _, node_id):
            return "unreserved", name_of(ask), node_id
        case ReleaseStarted(_, ask, _, node_id, "PLACEHOLDER_REPLACED", message):
            (key,) = message.removeprefix("replacing allocationKey: ").split()
            return f"replaces {ask.allocation_key}", (ask.application_id, AllocationKey(key)), NodeID(str(node_id))
        case ReleaseStarted(_, ask, _, node_id, "TIMEOUT", "cancel placeholder: resource incompatible"):
            return "ended", name_of(ask), NodeID(str(node_id))
    return "", (ApplicationID(""), AllocationKey("")), NodeID("")


class Keeping:
    """The one set of reservations (SC-57), and what is needed to know when there may be more."""

    def __init__(self, *, reserves: bool) -> None:
        self.reserves = reserves  # SC-50
        self.heard = 0
        #: Since when an ask has waited (AP-56).
        self.since: dict[Name, int] = {}
        self.kept: dict[Name, Reserved] = {}
        #: The same as the partition has reported it.
        self.told: dict[Name, NodeID] = {}
        #: States of applications, and who holds an accepted slot: since it reserved (SC-24) or has a placeholder, until it
        #: starts or leaves (QU-54).
        self.states: dict[ApplicationID, str] = {}
        self.slots: set[ApplicationID] = set()
        #: Where applications are, and the queues that are held.
        self.queues: dict[ApplicationID, str] = {}
        self.held: set[str] = set()
        self.capacity: dict[NodeID, Amounts] = {}
        #: How often reservations were made and ended in which way.
        self.ways: Counter[str] = Counter()

    def hear(self, facts: list[Fact]) -> None:
        for place in range(self.heard, len(facts)):
            self.hear_one(facts[place], facts[place:])
        self.heard = len(facts)

    def follow(self, decided: list[Fact]) -> None:
        """A cycle has decided this, and it will be heard next."""
        for fact in decided:
            match fact:
                case Reserved(_, ask):
                    name = name_of(ask)
                    assert name not in self.kept, f"{name} has a reservation already (SC-149)"
                    self.kept[name] = fact
                    self.take_slot(name[0])
                case Unreserved(_, ask) | Allocated(_, ask):
                    self.kept.pop(name_of(ask), None)
            self.hear_one(fact, decided)
        self.heard += len(decided)

    def hear_one(self, fact: Fact, facts: list[Fact]) -> None:
        match fact:
            case ApplicationChanged(_, application_id, _, state):
                self.enter(application_id, state)
            case ApplicationLeft(_, application_id):
                self.slots.discard(application_id)
            case AskAdded(at_ns, ask):
                self.since[name_of(ask)] = min(ask.created_ns, at_ns)
            case AskReturned(_, ask):  # with its age, also if it was never pending (AP-144)
                self.since.setdefault(name_of(ask), ask.since_ns)
            case AskReadmitted(after=after) | PreemptionPolicyChanged(after=after) if name_of(after) in self.kept:
                self.kept[name_of(after)] = structs.replace(self.kept[name_of(after)], ask=after)
            case AskRemoved(_, ask, _, True):
                leaves = any(
                    type(decision) is ApplicationLeft and decision.application_id == ask.application_id for decision in facts
                )
                self.end({name_of(ask)}, "application left" if leaves else "ask cancelled")
            case AskResized(_, _, after) if name_of(after) in self.kept:
                kept = self.kept[name_of(after)] = structs.replace(self.kept[name_of(after)], ask=after)
                self.ways["ask resized"] += 1
                self.end_what_does_not_fit(kept.node_id, "ask too large")
            case AskPriorityChanged(_, _, after) if name_of(after) in self.kept:  # OP-13
                self.kept[name_of(after)] = structs.replace(self.kept[name_of(after)], ask=after)
                self.ways["priority changed"] += 1
            case ApplicationAdded(_, application_id, queue) | ApplicationMoved(_, application_id, _, queue):
                self.queues[application_id] = queue
                self.end_what_is_held()
            case ApplicationHeld(_, application_id, _, _, True):  # OP-3
                self.end({name for name in self.kept if name[0] == application_id}, "application held")
            case QueueHeld(_, queue, _, is_held):
                (self.held.add if is_held else self.held.discard)(queue)
                self.end_what_is_held()
            case Allocated(_, ask):
                self.end({name_of(ask)}, "placed by the resource manager")
                if ask.placeholder:
                    self.take_slot(ask.application_id)
            case TaskGroupChanged(_, application_id, group, True):  # what waits for placeholders is not tried elsewhere (GA-13)
                asks = {name: kept.ask for name, kept in self.kept.items() if name[0] == application_id}
                waiting = {name for name, ask in asks.items() if ask.task_group_name == group and not ask.placeholder}
                self.end(waiting, "placeholder came")
            case NodeAdded() | NodeSchedulable() | NodeCapacityChanged() | NodeAttributesChanged() | NodeRemoved():
                self.hear_of_node(fact, facts)
            case Reserved(_, ask, _, node_id):
                self.told[name_of(ask)] = node_id
            case Unreserved(_, ask, _, node_id):
                assert self.told.pop(name_of(ask)) == node_id

    def hear_of_node(self, fact: Fact, facts: list[Fact]) -> None:
        match fact:
            case NodeAdded(_, node_id, capacity):
                self.capacity[node_id] = capacity
            case NodeSchedulable(_, node_id, False):  # SC-61
                goes = any(type(decision) is NodeRemoved and decision.node_id == node_id for decision in facts)
                normal = {name for name in self.on(node_id) if not required_node(self.kept[name].ask)}
                self.end(normal, "node removed" if goes else "node drained")
            case NodeCapacityChanged(_, node_id, capacity):  # SC-104
                self.capacity[node_id] = capacity
                self.end_what_does_not_fit(node_id, "node shrunk")
            case NodeAttributesChanged(_, node_id, attributes):  # SC-159
                tags = {name: self.kept[name].ask.tags for name in self.on(node_id)}
                wanted = {name: selector.parse(each.get(selector.TAG, "")) for name, each in tags.items()}
                self.end({name for name, each in wanted.items() if not selector.selects(each, attributes)}, "node not selected")
            case NodeRemoved(_, node_id):
                self.end(self.on(node_id), "node removed")

    def enter(self, application_id: ApplicationID, state: str) -> None:
        if state != "Expired":  # which another one was that ended under this id (AP-72)
            self.states[application_id] = state
        if state in ("Starting", "Running"):
            self.slots.discard(application_id)

    def take_slot(self, application_id: ApplicationID) -> None:
        if self.states[application_id] == "Accepted":
            self.slots.add(application_id)

    def check(self) -> None:
        """SC-151: the end of each reservation has been reported, and nothing else."""
        kept = {name: entry.node_id for name, entry in self.kept.items()}
        assert self.told == kept, f"told to be reserved {self.told}, expected {kept}"

    def on(self, node_id: NodeID) -> set[Name]:
        return {name for name, kept in self.kept.items() if kept.node_id == node_id}

    def end(self, names: set[Name], way: str) -> None:
        for name in names & self.kept.keys():
            del self.kept[name]
            self.ways[way] += 1

    def end_what_does_not_fit(self, node_id: NodeID, way: str) -> None:
        capacity = self.capacity[node_id]
        self.end({name for name in self.on(node_id) if not fits(capacity, self.kept[name].ask.resource)}, way)

    def end_what_is_held(self) -> None:
        """OP-3: in held queues and below nothing is reserved."""
        held = {name for name in self.kept for queue in self.held if f"{self.queues[name[0]]}.".startswith(f"{queue}.")}
        self.end(held, "queue held")

    def next_instant(self, after_ns: int, asks: dict[Name, Ask]) -> int | None:
        """SC-5: when an ask has waited long enough to reserve, or a reservation has lasted longest."""
        instants = [self.since[name] + DELAY_NS for name in asks] + [kept.at_ns + LONGEST_NS for kept in self.kept.values()]
        return min((instant for instant in instants if instant > after_ns), default=None)
