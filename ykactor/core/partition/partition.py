"""The partition: it orders the input, gives each submission to its owner, and fires the timers.

Owns the order of input and the sets of queues, nodes and applications (the ``Registry``). ``ingest``, ``administer`` and ``fire``
are generators (see ``objects.registry``): they yield commands for owners and return facts. ``rounds``
handles ordinary submissions, ``placement.admission`` admits applications, ``reload`` changes the set of queues,
and ``cluster`` has the nodes and their total.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from ykactor.core.config.model import PartitionConfig, partition_changes
from ykactor.core.messages.acts import Administration, HoldQueue, MoveApplication, SetQueueQuotas, TerminateApplication
from ykactor.core.messages.facts import (
    Allocated,
    ApplicationChanged,
    ApplicationLeft,
    ApplicationMoved,
    AskReturned,
    ConfigurationChanged,
    Fact,
    NodeRemoved,
    QueueHeld,
    QueueRemoved,
    RecheckDue,
    RequestRefused,
    SchedulingStatesWanted,
)
from ykactor.core.messages.states import QUEUE_CLEANER_NS
from ykactor.core.messages.submissions import (
    ApplyConfig,
    HeldLimits,
    RefuseConfig,
    RefuseEntry,
    RemoveApplication,
    RemovePartition,
    Reset,
    Submission,
    UpdateNode,
    WantSchedulingStates,
)
from ykactor.core.objects.commands import Close, Decommission, EndAllocations, FailAll, FireTimers, SetSchedulable
from ykactor.core.objects.holdings import Holdings
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import QueueCore, Registry, send
from ykactor.core.partition import administration
from ykactor.core.partition.administration import Objections
from ykactor.core.partition.cluster import Cluster
from ykactor.core.partition.reload import cleaning, configured_types, difference, is_due, objection
from ykactor.core.partition.rounds import ForLeaves, ForNodes, Round, Rounds, expiry, in_limited_rounds, in_rounds
from ykactor.core.partition.timers import Timers
from ykactor.core.placement.users import Users
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import Steps, in_parts, joined, paced


def refusal_in(facts: list[Fact]) -> str:
    """The reason of a refused request, or "" if these facts are its effects. A refusal is the only fact."""
    first = facts[0]
    return first.reason if type(first) is RequestRefused else ""


#: Facts that may set a timer.
_SET_TIMERS = frozenset((ApplicationChanged, Allocated, AskReturned, ApplicationLeft, ApplicationMoved))


class PartitionCore:
    """One partition. Its queues come with the first ``ApplyConfig``."""

    def __init__(self, config: PartitionConfig) -> None:
        self.name = config.name
        self.registry = Registry(config)
        changed = self.registry.changed
        #: The number of turns so far.
        self.turns = 0
        self.timers = Timers(changed)
        self.cluster = Cluster(self.name, self.registry.nodes, self.registry.books)
        self.users = Users(changed)
        self.holdings = Holdings(self.registry, self.cluster.foreign)
        self.rounds = Rounds(self.registry, self.cluster, self.users, self.timers, self.holdings)

    def begin_turn(self) -> None:
        """Begin a turn."""
        self.turns += 1
        self.registry.changed.clear()
        self.holdings.begin()

    # ---- input

    def ingest(self, now_ns: int, submissions: Sequence[Submission], limits: HeldLimits | None = None) -> Round:
        """Handle submissions in order, within the limits of their sender. Returns the facts, in order."""
        self.holdings.limits = limits
        accounts = self.registry.books.accounts
        if now_ns >= accounts.tidy_ns:
            yield from paced(accounts.tidy(now_ns))
        found: list[list[Fact]] = []
        has_room = limits is None or self.holdings.has_room_for(submissions)
        for part in in_rounds(submissions) if has_room else in_limited_rounds(submissions, self.holdings):
            if isinstance(part, ForLeaves):
                found.append((yield from self.rounds.of_leaves(now_ns, part.submissions)))
            elif isinstance(part, ForNodes):
                found.append((yield from self.rounds.of_nodes(now_ns, part.submissions)))
            else:
                found.append((yield from self._alone(now_ns, part)))
        facts = joined(found)
        yield from paced(self._note_in_parts(facts))
        return facts

    def _alone(self, now_ns: int, submission: Submission) -> Round:
        match submission:
            case UpdateNode(node_id):
                if node_id not in self.registry.nodes:
                    return []
                return (yield from self._decommission(now_ns, node_id))
            case ApplyConfig(config):
                return (yield from self._apply_config(now_ns, config))
            case RefuseConfig(reason):
                return [ConfigurationChanged(now_ns, False, reason)]
            case RefuseEntry(rejected):
                return [structs.replace(rejected, at_ns=now_ns)]
            case Reset():
                return (yield from self._reset(now_ns))
            case RemovePartition():
                return (yield from self._remove(now_ns))
            case WantSchedulingStates(is_wanted):
                return [SchedulingStatesWanted(now_ns, is_wanted)]
        raise AssertionError(f"{submission} belongs to a round")

    def _decommission(self, now_ns: int, node_id: NodeID) -> Round:
        """Remove a node; what ran on it ends (SC-112)."""
        yield from self.registry.unsent.send()
        core = self.registry.nodes[node_id]
        (facts,) = yield from send([(core, SetSchedulable(now_ns, False))])
        (asks,) = yield from send([(core, Decommission())])
        orphans: dict[LeafCore, list[tuple[ApplicationID, AllocationKey]]] = {}
        for ask in asks:
            leaf = self.registry.leaf_of(ask.application_id)
            orphans.setdefault(leaf, []).append((ask.application_id, ask.allocation_key))
        self.cluster.take_out(node_id)
        *root_max, removed = self.cluster.update_total(NodeRemoved(now_ns, node_id))
        facts += root_max
        if orphans:
            message = f"Node {node_id} Removed"
            replies = yield from send([(leaf, EndAllocations(now_ns, keys, message)) for leaf, keys in orphans.items()])
            ended = [fact for reply in replies for fact in reply]
            yield from paced(self.rounds.keep_ended(ended))
            facts += ended
        self.registry.books.remove_node(node_id)
        return [*facts, removed]

    def _reset(self, now_ns: int) -> Round:
        """Reset for a new registration: applications first, so that nodes leave empty; then dynamic queues (SC-141)."""
        facts = yield from self.rounds.of_leaves(now_ns, [RemoveApplication(name) for name in self.registry.applications])
        for node_id in list(self.registry.nodes):
            facts += yield from self._decommission(now_ns, node_id)
        self.timers.cleaning_ns = now_ns
        self.timers.forget_ended()
        return facts

    # ---- administration

    def administer(self, now_ns: int, request: Administration, objections: Objections) -> Round:
        """Carry out a request of an administrator, or return only a refusal (``refusal_in``).

        ``objections`` are those of the scheduler, which must have observed everything.
        """
        refusal = self._refusal(now_ns, request, objections)
        if refusal:
            name = ApplicationID("") if isinstance(request, HoldQueue | SetQueueQuotas) else request.application_id
            return [RequestRefused(now_ns, name, refusal)]
        facts = yield from self._carry_out(now_ns, request)
        yield from self.rounds.change_nodes(facts)
        yield from paced(self.rounds.keep_ended(facts))
        self.note(facts)
        return facts

    def _refusal(self, now_ns: int, request: Administration, objections: Objections) -> str:
        user = request.who if isinstance(request, TerminateApplication | MoveApplication) else None
        who = None if user is None else self.users.administrator(now_ns, user)
        return administration.refusal_of(self.registry, self.timers, objections, request, who)

    def _carry_out(self, now_ns: int, request: Administration) -> Round:
        facts = yield from administration.carry_out(self.registry, now_ns, request)
        if any(is_due(self.registry.queues[fact.queue]) for fact in facts if type(fact) is QueueHeld):
            self._arm_cleaner(now_ns)  # it was kept while it was held (OP-6)
        return facts

    # ---- configuration

    def _apply_config(self, now_ns: int, config: PartitionConfig) -> Round:
        """Switch to another queue tree between two decisions, or change nothing (CF-58, CF-59)."""
        refusal = objection(self.registry, config)
        if refusal:
            return [ConfigurationChanged(now_ns, False, refusal)]
        reload = yield from paced(difference(self.registry, config, now_ns))
        before = self.registry.config
        changes = (*partition_changes(before, config), *reload.changes)
        # chosen once for each partition (CF-79)
        self.registry.configure(structs.replace(config, user_group_resolver=before.user_group_resolver))
        self._replace_queues(reload.queues)
        self.registry.books.types.configured = yield from paced(configured_types(config))
        yield from send(reload.sends)
        self.registry.count_queues()
        if any(is_due(queue) for queue in reload.queues.values()):
            self._arm_cleaner(now_ns)
        return [*reload.facts, ConfigurationChanged(now_ns, True, "", changes)]

    def _arm_cleaner(self, now_ns: int) -> None:
        """Set the timer for queues to be removed: they are removed later, unless they are used again by then (QU-96)."""
        if self.timers.cleaning_ns is None:
            self.timers.cleaning_ns = now_ns + QUEUE_CLEANER_NS

    def _clean_queues(self, now_ns: int) -> Round:
        self.timers.cleaning_ns = None
        reload = cleaning(self.registry, now_ns)
        self._replace_queues(reload.queues)
        yield from send(reload.sends)
        return reload.facts

    def _replace_queues(self, queues: dict[QueuePath, QueueCore]) -> None:
        for path in self.registry.queues:
            if path not in queues:
                self.timers.forget_leaf(path)
        self.registry.replace_queues(queues)

    def _remove(self, now_ns: int) -> Round:
        """Remove the partition from the configuration: its applications fail, its nodes and queues leave (CF-56)."""
        leaves = [queue for queue in self.registry.queues.values() if isinstance(queue, LeafCore)]
        failure = FailAll(now_ns, "PartitionRemoved", f"Partition {self.name} Removed")
        replies = yield from send([(leaf, failure) for leaf in leaves])
        facts = [fact for reply in replies for fact in reply]
        yield from self.rounds.change_nodes(facts)
        yield from paced(self.rounds.keep_ended(facts))
        for node_id in list(self.registry.nodes):
            facts += yield from self._decommission(now_ns, node_id)
        closing = list(self.registry.queues.values())[::-1]
        self.registry.replace_queues({})
        yield from send([(queue, Close()) for queue in closing])
        return [*facts, *(QueueRemoved(now_ns, queue.path, queue.config.managed) for queue in closing)]

    # ---- time

    def fire(self, now_ns: int) -> Round:
        """Fire every timer that is due, in the order of their deadlines, then clean up."""
        accounts = self.registry.books.accounts
        if now_ns >= accounts.tidy_ns:
            yield from paced(accounts.tidy(now_ns))
        facts: list[Fact] = []
        leaves = [self.registry.queues.get(path) for path in self.timers.due_leaves(now_ns)]
        replies = yield from send([(leaf, FireTimers(now_ns)) for leaf in leaves if isinstance(leaf, LeafCore)])
        expired = [timer for reply in replies for timer in reply]
        for _, caused in sorted(expired, key=lambda timer: timer[0]):
            facts += caused
        for leaf in leaves:
            if isinstance(leaf, LeafCore):
                self.timers.note_leaf(leaf.path, leaf.deadline_ns)
        yield from paced(self.rounds.keep_ended(facts))
        facts += [expiry(now_ns, ended) for ended in self.timers.due_expiries(now_ns)]
        if self.timers.cleaning_ns is not None and self.timers.cleaning_ns <= now_ns:
            facts += yield from self._clean_queues(now_ns)
        if self.timers.recheck_ns is not None and self.timers.recheck_ns <= now_ns:
            self.timers.recheck_ns = None
            facts.append(RecheckDue(now_ns))
        self.note(facts)
        return facts

    def _note_in_parts(self, facts: list[Fact]) -> Steps[None]:
        for part in in_parts(facts):
            self.note(part)
            yield len(part)

    def note(self, facts: list[Fact]) -> None:
        """Set the timers that facts cause, own facts and the scheduler's."""
        if _SET_TIMERS.isdisjoint(map(type, facts)):
            return
        for fact in facts:
            if isinstance(fact, ApplicationChanged | AskReturned) or (type(fact) is Allocated and fact.ask.placeholder):
                queue = self.registry.queues.get(fact.queue)
                if isinstance(queue, LeafCore):
                    self.timers.note_leaf(queue.path, queue.deadline_ns)
            elif type(fact) is ApplicationLeft or type(fact) is ApplicationMoved:
                if type(fact) is ApplicationMoved:
                    self.timers.note_leaf(fact.to_queue, self.registry.leaf(fact.to_queue).deadline_ns)
                queue = self.registry.queues.get(fact.queue)
                if queue is not None and is_due(queue):
                    self._arm_cleaner(fact.at_ns)
