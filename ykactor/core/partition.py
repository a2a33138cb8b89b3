"""The partition: it orders the input, gives each submission to its owner, and rings the timers.

Owns the order of input, the sets of queues, nodes and applications (the ``Roster``), placement, and the cluster's
total. ``ingest`` and ``fire`` are generators as in ``scheduler``: they yield commands for owners and answer facts.

Submissions are handled in *rounds*: neighbours that different owners can handle at the same time go out together, and
the answers are put back into the order of the input. Leaves take asks, releases and applications in one round,
because none of these looks at a node; what they change on nodes follows in a second exchange. What looks at several
owners (a node that leaves, a configuration) is a round of its own.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from itertools import groupby
from typing import cast

from ykactor.core.applications import NEGATIVE_RESOURCES
from ykactor.core.decisions import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    ApplicationRejected,
    ConfigurationChanged,
    Decision,
    NodeAdded,
    NodeCapacityChanged,
    NodeRejected,
    NodeRemoved,
    QueueLimitChanged,
    Released,
)
from ykactor.core.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.messages import (
    AddApplication,
    AllocationSpec,
    ApplyConfig,
    Ask,
    RefuseConfig,
    ReleaseAllocations,
    RemoveApplication,
    Reset,
    Submission,
    SubmitAllocation,
    UpdateNode,
)
from ykactor.core.nodes import (
    ChangeAllocations,
    Decommission,
    NodeCore,
    PlaceForeign,
    Register,
    ReleaseForeign,
    SetCapacity,
    SetSchedulable,
)
from ykactor.core.placement import place
from ykactor.core.queueconfig import PartitionConfig
from ykactor.core.queues import EndAllocations, Entry, FireTimers, LeafCore, Positioned, SubmitBatch
from ykactor.core.reload import cleaning, difference, needs_cleaning, objection
from ykactor.core.resources import Resource, add_to, saturated, strictly_positive, subtract_from
from ykactor.core.roster import Roster, Sends
from ykactor.core.states import QUEUE_CLEANER_NS, ApplicationState
from ykactor.core.timetable import EndedApplication, Timetable

Round = Generator[Sends, list[object], list[Decision]]

_ROOT = QueuePath("root")
#: Letters or ``_`` first, at most one ``$`` at the end (CF-21).
_USER_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9:#/_.@-]*\$?")


def _is_foreign(spec: AllocationSpec) -> bool:
    return bool(spec.tags) and "foreign" in spec.tags


def _kind(numbered: tuple[int, Submission]) -> tuple[str, int]:
    """What may share a round with its neighbours: equal kinds."""
    number, submission = numbered
    match submission:
        case SubmitAllocation(spec) if _is_foreign(spec):
            return "nodes", 0
        case ReleaseAllocations("", _, _):
            return "nodes", 0
        case UpdateNode(_, "DECOMISSION"):
            return "alone", number
        case UpdateNode():
            return "nodes", 0
        case ApplyConfig() | RefuseConfig() | Reset():
            return "alone", number
    return "leaves", 0


class PartitionCore:
    """One partition. Its queues come with the first ``ApplyConfig``."""

    def __init__(self, config: PartitionConfig) -> None:
        self.name = config.name
        self.roster = Roster(config)
        self.timetable = Timetable()
        #: Sum of all node capacities, schedulable or not (QU-30).
        self._total: Resource = {}
        self._capacities: dict[NodeID, Resource] = {}
        self._foreign: dict[AllocationKey, NodeID] = {}
        self._arrivals = 0
        self._last_arrival_ns = 0

    # ---- input

    def ingest(self, now_ns: int, submissions: Iterable[Submission]) -> Round:
        """Handle submissions in order; answers what became true, in order."""
        facts: list[Decision] = []
        for (kind, _), group in groupby(enumerate(submissions), _kind):
            round_submissions = [submission for _, submission in group]
            if kind == "leaves":
                facts += yield from self._leaf_round(now_ns, round_submissions)
            elif kind == "nodes":
                facts += yield from self._node_round(now_ns, round_submissions)
            else:
                facts += yield from self._single_round(now_ns, round_submissions[0])
        self.note(facts)
        return facts

    def _stamp(self, now_ns: int) -> tuple[int, int]:
        """A later arrival is a little younger than an earlier one, whatever the clock's resolution; and its number."""
        self._arrivals += 1
        self._last_arrival_ns = max(now_ns, self._last_arrival_ns + 1)
        return self._last_arrival_ns, self._arrivals

    # ---- applications, asks, releases

    def _leaf_round(self, now_ns: int, submissions: list[Submission]) -> Round:
        positioned: dict[int, list[Decision]] = {}
        batches: dict[LeafCore, list[Entry]] = {}
        for position, submission in enumerate(submissions):
            routed = self._route(now_ns, submission)
            if isinstance(routed, LeafCore):
                entry = Entry(position, cast("AddApplication", submission), *self._stamp(now_ns))
                batches.setdefault(routed, []).append(entry)
            elif routed is not None:
                positioned[position] = [routed]
        answers = yield [(leaf, SubmitBatch(now_ns, entries)) for leaf, entries in batches.items()]
        for answer in answers:
            positioned.update(cast("Positioned", answer))
        facts = [fact for position in sorted(positioned) for fact in positioned[position]]
        yield from self._change_nodes(facts)
        return facts

    def _route(self, now_ns: int, submission: Submission) -> LeafCore | Decision | None:
        """The leaf that handles a submission, or the refusal, or None for what is silently ignored (section 6.1 of AP)."""
        applications = self.roster.applications
        match submission:
            case SubmitAllocation(spec):
                if spec.application_id not in applications:  # AP-103
                    reason = f"failed to find application {spec.application_id}"
                elif spec.node_id is not None and spec.node_id not in self.roster.nodes:  # AP-104
                    reason = f"failed to find node {spec.node_id}"
                else:
                    return self.roster.leaf_of(spec.application_id)
                return AllocationRejected(now_ns, spec.allocation_key, spec.application_id, reason)
            case ReleaseAllocations(application_id, _, _):
                return self.roster.leaf_of(application_id) if application_id in applications else None
            case RemoveApplication(application_id):
                if application_id not in applications:
                    return None  # AP-83
                return self.roster.leaf(applications.pop(application_id))
            case AddApplication():
                return self._admit(now_ns, submission)
        raise AssertionError(f"{submission} is not for a leaf")

    def _admit(self, now_ns: int, spec: AddApplication) -> LeafCore | ApplicationRejected:
        """The leaf of a new application, or why it is refused (section 2 of AP)."""
        reason = ""
        leaf = None
        if not spec.user:
            reason = "empty user cannot resolve"
        elif not _USER_NAME.fullmatch(spec.user):
            reason = "invalid username, it contains invalid characters"
        elif spec.application_id in self.roster.applications:
            reason = (
                f"adding application {spec.application_id} to partition {self.name}, but application already existed"
            )
        elif strictly_positive(spec.placeholder_ask):
            reason = f"application {spec.application_id} asks for placeholders: gang scheduling is not supported in this version"
        else:
            placed = place(self.roster, spec)
            if isinstance(placed, LeafCore):
                leaf = placed
            else:
                reason = f"failed to place application {spec.application_id}: {placed}"
        if leaf is None:
            ended = EndedApplication(spec.application_id, spec.queue_name, ApplicationState.REJECTED, now_ns, reason)
            self.timetable.note_rejected(ended)
            return ApplicationRejected(now_ns, spec.application_id, reason)
        self.roster.applications[spec.application_id] = leaf.path
        return leaf

    def _change_nodes(self, facts: list[Decision]) -> Round:
        """Tell the nodes what leaves reported to have begun and ended on them."""
        changes: dict[NodeID, list[tuple[bool, Ask]]] = {}
        for fact in facts:
            if type(fact) is Released:
                changes.setdefault(fact.node_id, []).append((False, fact.ask))
            elif type(fact) is Allocated:
                changes.setdefault(fact.node_id, []).append((True, fact.ask))
            elif type(fact) is AllocationResized:
                changes.setdefault(fact.node_id, []).extend([(False, fact.before), (True, fact.after)])
        if changes:
            yield [(self.roster.nodes[node_id], ChangeAllocations(batch)) for node_id, batch in changes.items()]
        return facts

    # ---- nodes

    def _node_round(self, now_ns: int, submissions: list[Submission]) -> Round:
        facts: list[Decision] = []
        sends: Sends = []
        order: list[Decision | int] = []  # a refusal, or the place of an answer
        for submission in submissions:
            for routed in self._route_to_node(now_ns, submission):
                if isinstance(routed, tuple):
                    order.append(len(sends))
                    sends.append(routed)
                else:
                    order.append(routed)
        answers = yield sends
        for item in order:
            for fact in cast("list[Decision]", answers[item]) if isinstance(item, int) else [item]:
                facts += self._reckon_total(fact)
        return facts

    def _route_to_node(
        self, now_ns: int, submission: Submission
    ) -> list[tuple[NodeCore, object] | Decision]:
        match submission:
            case UpdateNode(node_id, "CREATE" | "CREATE_DRAIN" as action):
                if node_id in self.roster.nodes:
                    return [NodeRejected(now_ns, node_id, self._duplicate_text(node_id))]
                core = NodeCore(node_id, submission.capacity or {}, action == "CREATE", submission.attributes)
                self.roster.nodes[node_id] = core
                return [(core, Register(now_ns))]
            case UpdateNode(node_id) if node_id not in self.roster.nodes:
                return []
            case UpdateNode(node_id, "UPDATE", capacity):
                return [(self.roster.nodes[node_id], SetCapacity(now_ns, capacity))] if capacity is not None else []
            case UpdateNode(node_id, "DRAIN_NODE" | "DRAIN_TO_SCHEDULABLE" as action):
                return [(self.roster.nodes[node_id], SetSchedulable(now_ns, action == "DRAIN_TO_SCHEDULABLE"))]
            case SubmitAllocation(spec):
                return self._route_foreign(now_ns, spec)
            case ReleaseAllocations(_, key) if key is not None and key in self._foreign:
                return [(self.roster.nodes[self._foreign.pop(key)], ReleaseForeign(now_ns, key))]
        return []

    def _route_foreign(self, now_ns: int, spec: AllocationSpec) -> list[tuple[NodeCore, object] | Decision]:
        """A task that somebody else placed (section 8 of SC)."""
        key = spec.allocation_key
        if spec.node_id is None:
            reason = f"trying to add a foreign request (non-allocation) {key}"
            return [AllocationRejected(now_ns, key, spec.application_id, reason)]
        if spec.node_id not in self.roster.nodes:
            reason = f"failed to find node {spec.node_id} for allocation {key}"
            return [AllocationRejected(now_ns, key, spec.application_id, reason)]
        if any(quantity < 0 for quantity in spec.resource.values()):
            return [AllocationRejected(now_ns, key, spec.application_id, NEGATIVE_RESOURCES)]
        routed: list[tuple[NodeCore, object] | Decision] = []
        before = self._foreign.get(key)
        if before is not None and before != spec.node_id:  # SC-82: it moved
            routed.append((self.roster.nodes[before], ReleaseForeign(now_ns, key)))
        self._foreign[key] = spec.node_id
        routed.append((self.roster.nodes[spec.node_id], PlaceForeign(now_ns, spec)))
        return routed

    def _duplicate_text(self, node_id: NodeID) -> str:
        return (
            "failure while adding new node, node rejected with error: \n"
            f"failed to add node {node_id} to partition {self.name}, error: "
            f"partition {self.name} has an existing node {node_id}, node name must be unique"
        )

    def _reckon_total(self, fact: Decision) -> list[Decision]:
        """Root's max follows every change of capacity, and is told before the node's own news (EV-22)."""
        if not isinstance(fact, NodeAdded | NodeCapacityChanged | NodeRemoved):
            return [fact]
        before = self._capacities.pop(fact.node_id, {})
        subtract_from(self._total, before)
        if not isinstance(fact, NodeRemoved):
            self._capacities[fact.node_id] = fact.capacity
            add_to(self._total, fact.capacity)
            if fact.capacity == before:
                return [fact]
        elif not before:
            return [fact]
        total = saturated(self._total) if any(value > 0 for value in self._total.values()) else None
        return [QueueLimitChanged(fact.at_ns, _ROOT, "max", total), fact]

    # ---- what is a round of its own

    def _single_round(self, now_ns: int, submission: Submission) -> Round:
        match submission:
            case UpdateNode(node_id):
                if node_id not in self.roster.nodes:
                    return []
                return (yield from self._decommission(now_ns, node_id))
            case ApplyConfig(config):
                return (yield from self._apply_config(now_ns, config))
            case RefuseConfig(reason):
                return [ConfigurationChanged(now_ns, "rejected", reason)]
            case Reset():
                return (yield from self._reset(now_ns))
        raise AssertionError(f"{submission} is not a round of its own")

    def _decommission(self, now_ns: int, node_id: NodeID) -> Round:
        """The node leaves, and what ran on it ends (SC-112)."""
        core = self.roster.nodes[node_id]
        answers = yield [(core, SetSchedulable(now_ns, False)), (core, Decommission())]
        facts = cast("list[Decision]", answers[0])
        orphans: dict[LeafCore, list[tuple[ApplicationID, AllocationKey]]] = {}
        for ask in cast("list[Ask]", answers[1]):
            leaf = self.roster.leaf_of(ask.spec.application_id)
            orphans.setdefault(leaf, []).append((ask.spec.application_id, ask.spec.allocation_key))
        del self.roster.nodes[node_id]
        for key in core.foreign:  # SC-84
            del self._foreign[key]
        *root_max, removed = self._reckon_total(NodeRemoved(now_ns, node_id))
        facts += root_max
        if orphans:
            answers = yield [
                (leaf, EndAllocations(now_ns, keys, f"Node {node_id} Removed")) for leaf, keys in orphans.items()
            ]
            facts += [fact for answer in answers for fact in cast("list[Decision]", answer)]
        return [*facts, removed]

    def _reset(self, now_ns: int) -> Round:
        """A fresh registration: applications first, so that nodes leave empty (SC-141)."""
        applications: list[Submission] = [RemoveApplication(name) for name in self.roster.applications]
        facts = yield from self._leaf_round(now_ns, applications)
        for node_id in list(self.roster.nodes):
            facts += yield from self._decommission(now_ns, node_id)
        self.timetable.forget_ended()
        return facts

    # ---- configuration

    def _apply_config(self, now_ns: int, config: PartitionConfig) -> Round:
        """Switch to another queue tree between two decisions, or change nothing (CF-58, CF-59)."""
        refusal = objection(self.roster, config)
        if refusal:
            return [ConfigurationChanged(now_ns, "rejected", refusal)]
        reload = difference(self.roster, config, now_ns)
        self.roster.config = config
        self.roster.queues = reload.queues
        yield reload.sends
        if needs_cleaning(self.roster):
            self.timetable.cleaning_ns = self.timetable.cleaning_ns or now_ns + QUEUE_CLEANER_NS
        return [*reload.facts, ConfigurationChanged(now_ns, "accepted", "")]

    def _clean_queues(self, now_ns: int) -> Round:
        """Remove what drains and is empty; the next cleaning is due while something drains (QU-96)."""
        reload = cleaning(self.roster, now_ns)
        self.roster.queues = reload.queues
        yield reload.sends
        self.timetable.cleaning_ns = now_ns + QUEUE_CLEANER_NS if needs_cleaning(self.roster) else None
        return reload.facts

    # ---- time

    def fire(self, now_ns: int) -> Round:
        """Ring every timer that is due, in the order of their deadlines, then clean up."""
        facts: list[Decision] = []
        leaves = [self.roster.queues.get(path) for path in self.timetable.due_leaves(now_ns)]
        answers = yield [(leaf, FireTimers(now_ns)) for leaf in leaves if isinstance(leaf, LeafCore)]
        rung = [timer for answer in answers for timer in cast("list[tuple[tuple[int, int], list[Decision]]]", answer)]
        for _, caused in sorted(rung, key=lambda timer: timer[0]):
            facts += caused
        for leaf in leaves:
            if isinstance(leaf, LeafCore):
                self.timetable.note_leaf(leaf.path, leaf.deadline_ns)
        self._keep_ended(facts)
        for ended in self.timetable.due_expiries(now_ns):
            path, state = QueuePath(ended.queue), ApplicationState.EXPIRED.value
            facts.append(ApplicationChanged(now_ns, ended.application_id, path, state, "expireApplication"))
        if self.timetable.cleaning_ns is not None and self.timetable.cleaning_ns <= now_ns:
            facts += yield from self._clean_queues(now_ns)
        self.note(facts)
        return facts

    def _keep_ended(self, facts: list[Decision]) -> None:
        """Applications that a timer ended leave the roster and stay visible for a while (AP-70, AP-71)."""
        states: dict[ApplicationID, str] = {}
        for fact in facts:
            if type(fact) is ApplicationChanged:
                states[fact.application_id] = fact.state
            elif type(fact) is ApplicationLeft:
                del self.roster.applications[fact.application_id]
                state = ApplicationState(states[fact.application_id])
                self.timetable.note_ended(EndedApplication(fact.application_id, fact.queue, state, fact.at_ns))

    def note(self, facts: list[Decision]) -> None:
        """Look through facts, own and the scheduler's, for what sets a timer in a leaf."""
        for fact in facts:
            if type(fact) is ApplicationChanged:
                queue = self.roster.queues.get(fact.queue)
                if isinstance(queue, LeafCore):
                    self.timetable.note_leaf(queue.path, queue.deadline_ns)
