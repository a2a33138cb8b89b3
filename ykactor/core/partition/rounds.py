"""Rounds: which submissions are handled together, and how the owners handle them.

Neighbours in the input that different owners can handle at the same time are sent out together, and the replies are put back
into the order of the input. Leaves take asks, releases and applications in one round, because none of these looks at a node;
the changes that they cause on nodes follow in a second exchange. What concerns several owners (a node that leaves, a
configuration) is handled alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from msgspec import Struct

from ykactor.core.messages.asks import Ask, is_foreign
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    ApplicationRejected,
    Fact,
    PlaceGivenUp,
    PreemptionPolicyChanged,
    Released,
)
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.rejections import RejectionCode
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.messages.submissions import (
    AddApplication,
    AnswerPredicate,
    ForgetPredicates,
    RecordTask,
    RefuseEntry,
    ReleaseAllocations,
    RemoveApplication,
    SetPredicateService,
    Submission,
    SubmitAllocation,
    UpdateNode,
)
from ykactor.core.objects.application import Application
from ykactor.core.objects.commands import ChangeAllocations, Entry, SubmitBatch
from ykactor.core.objects.exchange import Exchange, Send, send
from ykactor.core.objects.holdings import Holdings, kind_of
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Registry
from ykactor.core.partition import timers
from ykactor.core.partition.cluster import Cluster
from ykactor.core.partition.timers import EndedApplication, Timers
from ykactor.core.placement.admission import Admission
from ykactor.core.placement.users import Users
from ykactor.core.values.ids import NodeID, PartitionName, QueuePath
from ykactor.core.values.parts import PART_MAX, joined

#: Work that returns what became true, in order.
Round = Exchange[list[Fact]]

#: Facts of leaves that change what runs on a node.
_ON_NODES = frozenset((Released, PlaceGivenUp, Allocated, AllocationResized, PreemptionPolicyChanged))

LeafSubmission = SubmitAllocation | ReleaseAllocations | AddApplication | RemoveApplication | RecordTask
NodeSubmission = UpdateNode | SubmitAllocation | ReleaseAllocations | AnswerPredicate | ForgetPredicates | SetPredicateService


class ForLeaves(Struct):
    """Submissions that leaves handle."""

    submissions: list[LeafSubmission]


class ForNodes(Struct):
    """Submissions that nodes handle, or the scheduler because of a node."""

    submissions: list[NodeSubmission]


def _is_for_leaf(submission: Submission) -> TypeGuard[LeafSubmission]:
    if type(submission) is SubmitAllocation:
        return not is_foreign(submission.spec)
    if type(submission) is ReleaseAllocations:
        return bool(submission.application_id)
    return isinstance(submission, AddApplication | RemoveApplication | RecordTask)


def _is_for_nodes(submission: Submission) -> TypeGuard[NodeSubmission]:
    if isinstance(submission, UpdateNode):
        return submission.action is not NodeAction.DECOMISSION
    return isinstance(submission, NodeSubmission)


def in_rounds(submissions: Iterable[Submission]) -> Iterator[ForLeaves | ForNodes | Submission]:
    """Divide the input into rounds, in order; a submission that is handled alone comes as it is."""
    current: ForLeaves | ForNodes | None = None
    for submission in submissions:
        if _is_for_leaf(submission):
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
    """The same, with a refusal in the place of each submission that would be one too many (SE-48).

    Whether it would be is only known when those before it have been handled: they may be refused themselves, replace what is
    there, or end something. So where it could be, a round ends before it, and it has one of its own.
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
    """An application that has ended is not visible any more."""
    path, event = QueuePath(ended.queue), ApplicationEvent.EXPIRE
    return ApplicationChanged(now_ns, ended.application_id, path, ApplicationState.EXPIRED, event)


class Rounds:
    """How leaves and nodes handle the submissions of one partition."""

    def __init__(
        self, name: PartitionName, registry: Registry, cluster: Cluster, users: Users, timers: Timers, holdings: Holdings
    ) -> None:
        self._name = name
        self._holdings = holdings
        self._registry = registry
        self._cluster = cluster
        self._users = users
        self._timers = timers
        #: The newest arrival number, and its time.
        self.arrivals = 0
        self.last_arrival_ns = 0

    def _stamp(self, now_ns: int) -> tuple[int, int]:
        """The arrival time, always later than the one before whatever the resolution of the clock, and the arrival number."""
        self.arrivals += 1
        self.last_arrival_ns = max(now_ns, self.last_arrival_ns + 1)
        return self.last_arrival_ns, self.arrivals

    # ---- leaves: applications, asks, releases

    def of_leaves(self, now_ns: int, submissions: Sequence[LeafSubmission]) -> Round:
        """Let leaves handle submissions, and tell the nodes what begins and ends on them."""
        caused: list[list[Fact]] = [[]] * len(submissions)
        batches: dict[LeafCore, list[Entry]] = defaultdict(list)
        admission = Admission(self._name, self._registry, self._users, self._holdings)
        for position, submission in enumerate(submissions):
            who = None
            routed: LeafCore | Fact | None
            if type(submission) is AddApplication:
                admitted = yield from admission.admit(now_ns, submission)
                if isinstance(admitted, ApplicationRejected):
                    routed = self._keep_rejected(submission, admitted)
                else:
                    routed, who, caused[position] = admitted
            else:
                routed = self._route(now_ns, submission)
            if isinstance(routed, LeafCore):
                batches[routed].append(Entry(position, submission, *self._stamp(now_ns), who))
            elif routed is not None:
                caused[position] = [routed]
        preparations = admission.sends()
        if preparations:
            yield from send(preparations)
        replies = yield from send([(leaf, SubmitBatch(now_ns, entries)) for leaf, entries in batches.items()])
        for reply in replies:
            for position, facts in reply:
                caused[position] = [*caused[position], *facts] if caused[position] else facts
        facts = joined(caused)
        yield from self.change_nodes(facts)
        yield from self.keep_ended(facts)
        return facts

    def _route(
        self, now_ns: int, submission: SubmitAllocation | ReleaseAllocations | RemoveApplication | RecordTask
    ) -> LeafCore | Fact | None:
        """The leaf that handles a submission, or the refusal, or None for what is silently ignored (AP-131, AP-132)."""
        registry = self._registry
        if type(submission) is SubmitAllocation:
            spec = submission.spec
            if spec.application_id not in registry.applications:  # AP-103
                code, reason = RejectionCode.NO_APPLICATION, f"failed to find application {spec.application_id}"
            elif spec.node_id is not None and spec.node_id not in registry.nodes:  # AP-104
                code, reason = RejectionCode.NO_NODE, f"failed to find node {spec.node_id}"
            else:
                return registry.leaf_of(spec.application_id)
            return AllocationRejected(now_ns, spec.allocation_key, spec.application_id, reason, code)
        if submission.application_id not in registry.applications:
            return None  # AP-83
        leaf = registry.leaf_of(submission.application_id)
        if type(submission) is RemoveApplication:
            del registry.applications[submission.application_id]
        return leaf

    def _keep_rejected(self, spec: AddApplication, rejected: ApplicationRejected) -> ApplicationRejected:
        """Refused applications stay visible for a while (AP-22)."""
        self._timers.note_rejected(timers.rejected(spec, rejected.at_ns, rejected.reason))
        return rejected

    def change_nodes(self, facts: list[Fact]) -> Exchange[None]:
        """Tell the nodes which allocations began and ended on them according to the leaves."""
        if _ON_NODES.isdisjoint(map(type, facts)):
            return
        changes: dict[NodeID, list[tuple[bool, Ask]]] = defaultdict(list)
        for number, fact in enumerate(facts, 1):
            if number % PART_MAX == 0:
                yield []
            if type(fact) is Allocated:
                changes[fact.node_id].append((True, fact.ask))
            elif type(fact) is Released or type(fact) is PlaceGivenUp:
                changes[fact.node_id].append((False, fact.ask))
            elif (type(fact) is AllocationResized or type(fact) is PreemptionPolicyChanged) and fact.node_id is not None:
                changes[fact.node_id] += [(False, fact.before), (True, fact.after)]
        nodes = self._registry.nodes
        yield from send([(nodes[node_id], ChangeAllocations(batch)) for node_id, batch in changes.items()])

    def keep_ended(self, facts: list[Fact]) -> Exchange[None]:
        """Applications that ended leave the registry and stay visible for a while (AP-70, AP-71); adds those that expire."""
        if ApplicationLeft not in map(type, facts):
            return
        ended: dict[QueuePath, Iterator[Application]] = {}
        for number, fact in enumerate(facts, 1):
            if number % PART_MAX == 0:
                yield []
            if type(fact) is ApplicationLeft and not fact.is_removed:
                path = self._registry.applications.get(fact.application_id)
                # the leaf still has it if it is a new application with the same id
                if path is not None and fact.application_id not in self._registry.leaf(path).applications:
                    del self._registry.applications[fact.application_id]
                if fact.queue not in ended:
                    ended[fact.queue] = iter(self._registry.leaf(fact.queue).ended)
                self._timers.note_ended(timers.ended(next(ended[fact.queue]), fact.at_ns))
        facts += [expiry(facts[-1].at_ns, one) for one in self._timers.surplus()]

    # ---- nodes

    def of_nodes(self, now_ns: int, submissions: Iterable[NodeSubmission]) -> Round:
        """Let nodes handle submissions; the total of the partition follows their capacities."""
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
