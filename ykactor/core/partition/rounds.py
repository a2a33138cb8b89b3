"""Rounds: submissions that are handled together, by different owners.

Neighbours in the input that different owners can handle at the same time are sent out together, and the replies are put back
into the order of the input. Leaves take asks, releases and applications in one round, because none of these looks at a node;
the changes that they cause on nodes follow in a second exchange. A submission that concerns several owners (a node that
leaves, a configuration) is handled alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from msgspec import Struct

from ykactor.core.messages.asks import FOREIGN_TAG, Ask
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    Fact,
    PlaceGivenUp,
    PreemptionPolicyChanged,
    Released,
)
from ykactor.core.messages.kinds import NodeAction, RejectionCode
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.messages.submissions import (
    AddApplication,
    ApplicationNews,
    LeafSubmission,
    NodeSubmission,
    RefuseEntry,
    ReleaseAllocations,
    RemoveApplication,
    Submission,
    UpdateNode,
)
from ykactor.core.objects.application import Application
from ykactor.core.objects.commands import Arrived, ChangeAllocations, ForLeaf, Positioned, SubmitBatch
from ykactor.core.objects.holdings import Holdings, kind_of
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import Exchange, Registry, Send, send
from ykactor.core.partition import timers
from ykactor.core.partition.cluster import Cluster
from ykactor.core.partition.timers import EndedApplication, Timers
from ykactor.core.placement.admission import Admission
from ykactor.core.placement.users import Users
from ykactor.core.values.ids import ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import Steps, in_parts, joined, paced

#: Work that returns what became true, in order.
Round = Exchange[list[Fact]]

#: Facts of leaves that change what runs on a node.
_ON_NODES = frozenset((Released, PlaceGivenUp, Allocated, AllocationResized, PreemptionPolicyChanged))

#: The leaf that handles a submission, what it gets, and the facts before that; or the facts alone, if no leaf does.
_Routed = tuple[LeafCore, ForLeaf, list[Fact]] | list[Fact]


class ForLeaves(Struct):
    """A round of submissions for leaves."""

    submissions: list[LeafSubmission]


class ForNodes(Struct):
    """A round of submissions for nodes, or for the scheduler because of a node."""

    submissions: list[NodeSubmission]


def _is_for_leaf(submission: Submission) -> TypeGuard[LeafSubmission]:
    if type(submission) is ReleaseAllocations:
        return bool(submission.application_id)
    return isinstance(submission, AddApplication | ApplicationNews)


def _is_for_nodes(submission: Submission) -> TypeGuard[NodeSubmission]:
    if isinstance(submission, UpdateNode):
        return submission.action is not NodeAction.DECOMISSION
    return isinstance(submission, NodeSubmission)


def in_rounds(submissions: Iterable[Submission]) -> Iterator[ForLeaves | ForNodes | Submission]:
    """Divide the input into rounds, in order; a submission that is handled alone comes as it is."""
    current: ForLeaves | ForNodes | None = None
    for submission in submissions:
        if (type(submission) is Ask and FOREIGN_TAG not in submission.tags) or _is_for_leaf(submission):
            if type(current) is not ForLeaves:
                if current is not None:
                    yield current
                current = ForLeaves([])
            current.submissions.append(submission)
        elif _is_for_nodes(submission):
            if not isinstance(current, ForNodes):
                if current is not None:
                    yield current
                current = ForNodes([])
            current.submissions.append(submission)
        else:
            if current is not None:
                yield current
            current = None
            yield submission
    if current is not None:
        yield current


def in_limited_rounds(submissions: Sequence[Submission], holdings: Holdings) -> Iterator[ForLeaves | ForNodes | Submission]:
    """Divide input that may be too much like ``in_rounds``, with a refusal for each submission that exceeds a limit (SE-48).

    That is only known when those before it have been handled: they may be refused themselves, replace an object, or end one. So
    where a submission could exceed a limit, a round ends before it, and it has a round of its own.
    """
    waiting: list[Submission] = []
    left, types_left = holdings.left(), holdings.types_left()
    for submission in submissions:
        kind = kind_of(submission)
        is_full = kind is not None and left[kind] < 1
        names_new = types_left is not None and bool(holdings.new_types(submission))
        if is_full or names_new or (types_left is not None and types_left < 0):
            yield from in_rounds(waiting)
            waiting.clear()
            rejected = holdings.refused(submission, kind)
            yield from in_rounds([submission]) if rejected is None else [RefuseEntry(rejected)]
            left, types_left = holdings.left(), holdings.types_left()
            continue
        if kind is not None:
            left[kind] -= 1
        waiting.append(submission)
    yield from in_rounds(waiting)


def expiry(now_ns: int, ended: EndedApplication) -> Fact:
    """The fact that an ended application is no longer visible."""
    path, event = QueuePath(ended.queue), ApplicationEvent.EXPIRE
    return ApplicationChanged(now_ns, ended.application_id, path, ApplicationState.EXPIRED, event)


def _changes_of_nodes(facts: list[Fact]) -> Steps[dict[NodeID, list[tuple[bool, Ask]]]]:
    """The allocations that begin (True) and end on each node, in order."""
    changes: dict[NodeID, list[tuple[bool, Ask]]] = defaultdict(list)
    for part in in_parts(facts):
        for fact in part:
            if type(fact) is Allocated:
                changes[fact.node_id].append((True, fact.ask))
            elif type(fact) is Released or type(fact) is PlaceGivenUp:
                changes[fact.node_id].append((False, fact.ask))
            elif (type(fact) is AllocationResized or type(fact) is PreemptionPolicyChanged) and fact.node_id is not None:
                changes[fact.node_id] += [(False, fact.before), (True, fact.after)]
        yield len(part)
    return changes


class Rounds:
    """Gives the submissions of one partition to leaves and nodes."""

    def __init__(self, registry: Registry, cluster: Cluster, users: Users, timers: Timers, holdings: Holdings) -> None:
        self._holdings = holdings
        self._registry = registry
        self._cluster = cluster
        self._users = users
        self._timers = timers
        #: The newest arrival number, and its time.
        self.arrivals = 0
        self.last_arrival_ns = 0

    # ---- leaves: applications, asks, releases

    def of_leaves(self, now_ns: int, submissions: Sequence[LeafSubmission]) -> Round:
        """Let leaves handle submissions, and tell the nodes what begins and ends on them."""
        caused: list[list[Fact]] = [[]] * len(submissions)
        admission = Admission(self._registry, self._users, self._holdings)
        batches = yield from paced(self._routed(now_ns, submissions, caused, admission))
        if preparations := admission.sends():
            yield from send(preparations)
        replies: list[Positioned] = yield [(leaf, SubmitBatch(now_ns, entries)) for leaf, entries in batches.items()]
        for reply in replies:
            for position, facts in reply:
                caused[position] = [*caused[position], *facts] if caused[position] else facts
        facts = joined(caused)
        kinds = {*map(type, facts)}
        if not _ON_NODES.isdisjoint(kinds):
            yield from self.change_nodes(facts)
        if ApplicationLeft in kinds:
            yield from paced(self.keep_ended(facts))
        return facts

    def _routed(
        self, now_ns: int, submissions: Sequence[LeafSubmission], caused: list[list[Fact]], admission: Admission
    ) -> Steps[dict[LeafCore, list[Arrived]]]:
        """The submissions of each leaf. Refusals and created queues are added to ``caused`` at their positions."""
        batches: dict[LeafCore, list[Arrived]] = defaultdict(list)
        #: By application with an ask in this round, the batch of its leaf.
        known: dict[ApplicationID, list[Arrived]] = {}
        for position, submission in enumerate(submissions):
            accepted: ForLeaf
            if type(submission) is Ask and submission.application_id in known and submission.node_id is None:
                batch, accepted = known[submission.application_id], submission
            else:
                if type(submission) is AddApplication:
                    routed = yield from self._admitted(now_ns, admission, submission)
                else:
                    routed = self._route(now_ns, submission)
                if isinstance(routed, list):
                    caused[position] = routed
                    continue
                leaf, accepted, caused[position] = routed
                batch = batches[leaf]
                if type(submission) is Ask:
                    known[submission.application_id] = batch
                elif type(submission) is RemoveApplication:
                    known.pop(submission.application_id, None)
            self.arrivals += 1
            last_ns = self.last_arrival_ns  # arrivals differ, whatever the resolution of the clock
            self.last_arrival_ns = now_ns if now_ns > last_ns else last_ns + 1
            batch.append((position, accepted, self.last_arrival_ns, self.arrivals))
        return batches

    def _admitted(self, now_ns: int, admission: Admission, submission: AddApplication) -> Steps[_Routed]:
        """Admit an application; what ``_route`` returns for other submissions."""
        admitted = yield from admission.admit(now_ns, submission)
        if isinstance(admitted, tuple):
            return admitted
        self._timers.note_rejected(timers.rejected(submission, now_ns, admitted.reason))  # it stays visible (AP-22)
        return [admitted]

    def _route(self, now_ns: int, submission: Ask | ReleaseAllocations | ApplicationNews) -> _Routed:
        """The leaf for a submission, what it gets, and the facts before that.

        Without a leaf: the refusal, or no fact if the submission is silently ignored (AP-131, AP-132).
        """
        registry = self._registry
        if type(submission) is Ask:
            rejected = self._rejection(now_ns, submission)
            return (registry.leaf_of(submission.application_id), submission, []) if rejected is None else [rejected]
        if submission.application_id not in registry.applications:
            return []  # AP-83
        leaf = registry.leaf_of(submission.application_id)
        if type(submission) is RemoveApplication:
            del registry.applications[submission.application_id]
        return leaf, submission, []

    def _rejection(self, now_ns: int, ask: Ask) -> AllocationRejected | None:
        if ask.application_id not in self._registry.applications:  # AP-103
            code, reason = RejectionCode.NO_APPLICATION, f"failed to find application {ask.application_id}"
        elif ask.node_id is not None and ask.node_id not in self._registry.nodes:  # AP-104
            code, reason = RejectionCode.NO_NODE, f"failed to find node {ask.node_id}"
        else:
            return None
        return AllocationRejected(now_ns, ask.allocation_key, ask.application_id, reason, code)

    def change_nodes(self, facts: list[Fact]) -> Exchange[None]:
        """Tell the nodes which allocations began and ended on them according to the leaves."""
        if _ON_NODES.isdisjoint(map(type, facts)):
            return
        changes = yield from paced(_changes_of_nodes(facts))
        yield from self._registry.unsent.send()
        nodes = self._registry.nodes
        yield from send([(nodes[node_id], ChangeAllocations(batch)) for node_id, batch in changes.items()])

    def keep_ended(self, facts: list[Fact]) -> Steps[None]:
        """Keep ended applications visible for a while outside the registry (AP-70, AP-71); adds those that expire."""
        if ApplicationLeft not in map(type, facts):
            return
        ended: dict[QueuePath, Iterator[Application]] = {}
        for part in in_parts(facts):
            for fact in part:
                if type(fact) is ApplicationLeft and not fact.is_removed:
                    path = self._registry.applications.get(fact.application_id)
                    # the leaf still has it if it is a new application with the same id
                    if path is not None and fact.application_id not in self._registry.leaf(path).applications:
                        del self._registry.applications[fact.application_id]
                    if fact.queue not in ended:
                        ended[fact.queue] = iter(self._registry.leaf(fact.queue).ended)
                    self._timers.note_ended(timers.ended(next(ended[fact.queue]), fact.at_ns))
            yield len(part)
        facts += [expiry(facts[-1].at_ns, one) for one in self._timers.surplus()]

    # ---- nodes

    def of_nodes(self, now_ns: int, submissions: Iterable[NodeSubmission]) -> Round:
        """Let nodes handle submissions; the total of the partition follows their capacities."""
        yield from self._registry.unsent.send()
        sends: list[Send[list[Fact]]] = []
        order: list[Fact | int] = []  # a fact, or the position of a reply
        for submission in submissions:
            for routed in self._cluster.route(now_ns, submission):
                if isinstance(routed, tuple):
                    order.append(len(sends))
                    sends.append(routed)
                else:
                    order.append(routed)
        replies = yield from send(sends)
        facts: list[Fact] = []
        for item in order:
            for fact in replies[item] if isinstance(item, int) else [item]:
                facts += self._cluster.update_total(fact)
        return facts
