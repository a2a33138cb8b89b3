"""The partition: it orders the input, gives each submission to its owner, and rings the timers.

Owns the order of input and the sets of queues, nodes and applications (the ``Roster``). ``ingest`` and ``fire`` are generators
as in ``scheduler``: they yield commands for owners and answer facts. Who may enter is ``admission``'s affair, which queues
there are ``reload``'s and ``cleaning``'s, and what nodes offer together the ``Cluster``'s.

Submissions are handled in *rounds*: neighbours that different owners can handle at the same time go out together, and
the answers are put back into the order of the input. Leaves take asks, releases and applications in one round,
because none of these looks at a node; what they change on nodes follows in a second exchange. What looks at several
owners (a node that leaves, a configuration) is a round of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import cast

from msgspec import structs

from ykactor.core.config.diff import partition_changes
from ykactor.core.config.model import PartitionConfig
from ykactor.core.messages.asks import AllocationSpec, Ask
from ykactor.core.messages.facts import (
    Allocated,
    AllocationRejected,
    AllocationResized,
    ApplicationChanged,
    ApplicationLeft,
    ApplicationMoved,
    ApplicationRejected,
    ConfigurationChanged,
    Decision,
    LookAgain,
    NodeRemoved,
    PlaceGivenUp,
    QueueRemoved,
    Released,
    RequestRefused,
)
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.states import QUEUE_CLEANER_NS, ApplicationEvent, ApplicationState
from ykactor.core.messages.submissions import (
    AddApplication,
    Administration,
    AnswerPredicate,
    ApplyConfig,
    ForgetPredicates,
    MoveApplication,
    RefuseConfig,
    ReleaseAllocations,
    RemoveApplication,
    RemovePartition,
    Reset,
    SetAnswering,
    Submission,
    SubmitAllocation,
    UpdateNode,
)
from ykactor.core.objects.commands import (
    ChangeAllocations,
    Close,
    Decommission,
    EndAllocations,
    Entry,
    FailAll,
    FireTimers,
    SetSchedulable,
    SubmitBatch,
    Terminate,
)
from ykactor.core.objects.exchange import Exchange, Send, send
from ykactor.core.objects.leaf import LeafCore
from ykactor.core.objects.registry import Roster
from ykactor.core.partition.administration import move, refusal_of, target_of
from ykactor.core.partition.cleaning import cleaning, is_due
from ykactor.core.partition.cluster import Cluster
from ykactor.core.partition.reload import difference, objection
from ykactor.core.partition.timers import EndedApplication, Timetable
from ykactor.core.placement.admission import Admission
from ykactor.core.placement.users import Users
from ykactor.core.state.state import Indexes
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath

Round = Exchange[list[Decision]]


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
        case UpdateNode(_, NodeAction.DECOMISSION):
            return "alone", number
        case UpdateNode() | AnswerPredicate() | ForgetPredicates() | SetAnswering():
            return "nodes", 0
        case ApplyConfig() | RefuseConfig() | RemovePartition() | Reset():
            return "alone", number
    return "leaves", 0


def refusal_in(facts: list[Decision]) -> str:
    """Why an administrator's request was refused, or "" if these facts are what it caused."""
    return next((fact.reason for fact in facts if type(fact) is RequestRefused), "")


class PartitionCore:
    """One partition. Its queues come with the first ``ApplyConfig``."""

    def __init__(self, config: PartitionConfig) -> None:
        self.name = config.name
        self.roster = Roster(config)
        self.timetable = Timetable()
        self._cluster = Cluster(self.name, self.roster.nodes)
        self._users = Users()
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
        admission = Admission(self.name, self.roster, self._users)
        for position, submission in enumerate(submissions):
            who = None
            routed: LeafCore | Decision | None
            if type(submission) is AddApplication:
                admitted = admission.admit(now_ns, submission)
                if isinstance(admitted, ApplicationRejected):
                    routed = self._keep_rejected(submission, admitted)
                else:
                    routed, who, positioned[position] = admitted
            else:
                routed = self._route(now_ns, submission)
            if isinstance(routed, LeafCore):
                entry = Entry(position, cast("AddApplication", submission), *self._stamp(now_ns), who)
                batches.setdefault(routed, []).append(entry)
            elif routed is not None:
                positioned[position] = [routed]
        preparations = admission.sends()
        if preparations:
            yield from send(preparations)
        replies = yield from send([(leaf, SubmitBatch(now_ns, entries)) for leaf, entries in batches.items()])
        for reply in replies:
            for position, facts in reply:
                positioned.setdefault(position, []).extend(facts)
        facts = [fact for position in sorted(positioned) for fact in positioned[position]]
        yield from self._change_nodes(facts)
        self._keep_ended(facts)
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
        raise AssertionError(f"{submission} is not for a leaf")

    def _keep_rejected(self, spec: AddApplication, fact: ApplicationRejected) -> ApplicationRejected:
        """Refused applications stay visible for a while (AP-22)."""
        ended = EndedApplication(spec.application_id, spec.queue_name, ApplicationState.REJECTED, fact.at_ns, fact.reason)
        self.timetable.note_rejected(ended)
        return fact

    def _change_nodes(self, facts: list[Decision]) -> Round:
        """Tell the nodes what leaves reported to have begun and ended on them."""
        changes: dict[NodeID, list[tuple[bool, Ask]]] = {}
        for fact in facts:
            if type(fact) is Released or type(fact) is PlaceGivenUp:
                changes.setdefault(fact.node_id, []).append((False, fact.ask))
            elif type(fact) is Allocated:
                changes.setdefault(fact.node_id, []).append((True, fact.ask))
            elif type(fact) is AllocationResized:
                changes.setdefault(fact.node_id, []).extend([(False, fact.before), (True, fact.after)])
        if changes:
            yield from send([(self.roster.nodes[node_id], ChangeAllocations(batch)) for node_id, batch in changes.items()])
        return facts

    # ---- nodes

    def _node_round(self, now_ns: int, submissions: list[Submission]) -> Round:
        facts: list[Decision] = []
        sends: list[Send[list[Decision]]] = []
        order: list[Decision | int] = []  # a refusal, or the place of a reply
        for submission in submissions:
            for routed in self._cluster.route(now_ns, submission):
                if isinstance(routed, tuple):
                    order.append(len(sends))
                    sends.append(routed)
                else:
                    order.append(routed)
        replies = yield from send(sends)
        for item in order:
            for fact in replies[item] if isinstance(item, int) else [item]:
                facts += self._cluster.reckon_total(fact)
        return facts

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
                return [ConfigurationChanged(now_ns, False, reason)]
            case Reset():
                return (yield from self._reset(now_ns))
            case RemovePartition():
                return (yield from self._remove(now_ns))
        raise AssertionError(f"{submission} is not a round of its own")

    def _decommission(self, now_ns: int, node_id: NodeID) -> Round:
        """The node leaves, and what ran on it ends (SC-112)."""
        core = self.roster.nodes[node_id]
        (facts,) = yield from send([(core, SetSchedulable(now_ns, False))])
        (asks,) = yield from send([(core, Decommission())])
        orphans: dict[LeafCore, list[tuple[ApplicationID, AllocationKey]]] = {}
        for ask in asks:
            leaf = self.roster.leaf_of(ask.spec.application_id)
            orphans.setdefault(leaf, []).append((ask.spec.application_id, ask.spec.allocation_key))
        self._cluster.take_out(node_id)
        *root_max, removed = self._cluster.reckon_total(NodeRemoved(now_ns, node_id))
        facts += root_max
        if orphans:
            message = f"Node {node_id} Removed"
            replies = yield from send([(leaf, EndAllocations(now_ns, keys, message)) for leaf, keys in orphans.items()])
            ended = [fact for reply in replies for fact in reply]
            self._keep_ended(ended)
            facts += ended
        return [*facts, removed]

    def _reset(self, now_ns: int) -> Round:
        """A fresh registration: applications first, so that nodes leave empty; queues that only they needed go next (SC-141)."""
        applications: list[Submission] = [RemoveApplication(name) for name in self.roster.applications]
        facts = yield from self._leaf_round(now_ns, applications)
        for node_id in list(self.roster.nodes):
            facts += yield from self._decommission(now_ns, node_id)
        self.timetable.cleaning_ns = now_ns
        self.timetable.forget_ended()
        return facts

    # ---- administration

    def administer(self, now_ns: int, request: Administration, indexes: Indexes) -> Round:
        """Carry out what an administrator asks for, or answer only why not.

        ``indexes`` are the scheduler's, which must have observed everything; they are only looked at.
        """
        name = request.application_id
        who = None if request.who is None else self._users.administrator(now_ns, request.who)
        refusal = refusal_of(self.roster, indexes, request, who)
        if refusal:
            return [RequestRefused(now_ns, name, refusal)]
        if isinstance(request, MoveApplication):
            facts = yield from move(self.roster, now_ns, name, target_of(request))
        else:
            (facts,) = yield from send([(self.roster.leaf_of(name), Terminate(now_ns, name))])
            self._keep_ended(facts)
        self.note(facts)
        return facts

    # ---- configuration

    def _apply_config(self, now_ns: int, config: PartitionConfig) -> Round:
        """Switch to another queue tree between two decisions, or change nothing (CF-58, CF-59)."""
        refusal = objection(self.roster, config)
        if refusal:
            return [ConfigurationChanged(now_ns, False, refusal)]
        reload = yield from difference(self.roster, config, now_ns)
        before = self.roster.config
        changes = (*partition_changes(before, config), *reload.changes)
        # chosen once for each partition (section 9.2 of CF)
        self.roster.config = structs.replace(config, user_group_resolver=before.user_group_resolver)
        self.roster.queues = reload.queues
        yield from send(reload.sends)
        if any(is_due(queue) for queue in reload.queues.values()):
            self._arm_cleaner(now_ns)
        return [*reload.facts, ConfigurationChanged(now_ns, True, "", changes)]

    def _arm_cleaner(self, now_ns: int) -> None:
        """A queue waits to be removed: it goes a while later, unless somebody needs it by then (QU-96)."""
        if self.timetable.cleaning_ns is None:
            self.timetable.cleaning_ns = now_ns + QUEUE_CLEANER_NS

    def _clean_queues(self, now_ns: int) -> Round:
        self.timetable.cleaning_ns = None
        reload = cleaning(self.roster, now_ns)
        self.roster.queues = reload.queues
        yield from send(reload.sends)
        return reload.facts

    def _remove(self, now_ns: int) -> Round:
        """The partition leaves the configuration: its applications fail, its nodes and queues go (CF-56)."""
        leaves = [queue for queue in self.roster.queues.values() if isinstance(queue, LeafCore)]
        failure = FailAll(now_ns, "PartitionRemoved", f"Partition {self.name} Removed")
        replies = yield from send([(leaf, failure) for leaf in leaves])
        facts = [fact for reply in replies for fact in reply]
        yield from self._change_nodes(facts)
        self._keep_ended(facts)
        for node_id in list(self.roster.nodes):
            facts += yield from self._decommission(now_ns, node_id)
        closing = list(self.roster.queues.values())[::-1]
        self.roster.queues = {}
        yield from send([(queue, Close()) for queue in closing])
        return [*facts, *(QueueRemoved(now_ns, queue.path, queue.config.managed) for queue in closing)]

    # ---- time

    def fire(self, now_ns: int) -> Round:
        """Ring every timer that is due, in the order of their deadlines, then clean up."""
        facts: list[Decision] = []
        leaves = [self.roster.queues.get(path) for path in self.timetable.due_leaves(now_ns)]
        replies = yield from send([(leaf, FireTimers(now_ns)) for leaf in leaves if isinstance(leaf, LeafCore)])
        expired = [timer for reply in replies for timer in reply]
        for _, caused in sorted(expired, key=lambda timer: timer[0]):
            facts += caused
        for leaf in leaves:
            if isinstance(leaf, LeafCore):
                self.timetable.note_leaf(leaf.path, leaf.deadline_ns)
        self._keep_ended(facts)
        for ended in self.timetable.due_expiries(now_ns):
            path, event = QueuePath(ended.queue), ApplicationEvent.EXPIRE
            facts.append(ApplicationChanged(now_ns, ended.application_id, path, ApplicationState.EXPIRED, event))
        if self.timetable.cleaning_ns is not None and self.timetable.cleaning_ns <= now_ns:
            facts += yield from self._clean_queues(now_ns)
        if self.timetable.look_ns is not None and self.timetable.look_ns <= now_ns:
            self.timetable.look_ns = None
            facts.append(LookAgain(now_ns))
        self.note(facts)
        return facts

    def _keep_ended(self, facts: list[Decision]) -> None:
        """Applications that ended leave the roster and stay visible for a while (AP-70, AP-71)."""
        states: dict[ApplicationID, ApplicationState] = {}
        for fact in facts:
            if type(fact) is ApplicationChanged:
                states[fact.application_id] = fact.state
            elif type(fact) is ApplicationLeft and not fact.is_removed:
                path = self.roster.applications.get(fact.application_id)
                if path is not None and fact.application_id not in self.roster.leaf(path).applications:  # else it is another one
                    del self.roster.applications[fact.application_id]
                state = states[fact.application_id]
                self.timetable.note_ended(EndedApplication(fact.application_id, fact.queue, state, fact.at_ns))

    def note(self, facts: list[Decision]) -> None:
        """Look through facts, own and the scheduler's, for what sets a timer."""
        for fact in facts:
            if type(fact) is ApplicationChanged or (type(fact) is Allocated and fact.ask.spec.placeholder):
                queue = self.roster.queues.get(fact.queue)
                if isinstance(queue, LeafCore):
                    self.timetable.note_leaf(queue.path, queue.deadline_ns)
            elif type(fact) is ApplicationLeft or type(fact) is ApplicationMoved:
                if type(fact) is ApplicationMoved:
                    self.timetable.note_leaf(fact.to_queue, self.roster.leaf(fact.to_queue).deadline_ns)
                queue = self.roster.queues.get(fact.queue)
                if queue is not None and is_due(queue):
                    self._arm_cleaner(fact.at_ns)
