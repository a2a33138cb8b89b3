"""Preemption read literally: what the seven laws say of a preemption, and which tasks would be preempted (PE-91).

Nothing here is the product's but the owners' own records (leaves, nodes, configuration) and the facts. All amounts
are sums made anew for each question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache, cached_property

from msgspec import Struct

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.asks import Ask, AskID, ask_id
from ykactor.core.messages.facts import (
    Allocated,
    AskRemoved,
    AskResized,
    EndReported,
    Fact,
    Preempted,
    Released,
    ReleaseStarted,
    Reserved,
    Unreserved,
)
from ykactor.core.objects.queues import LeafCore
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.values.resources import Resource

S_NS = 10**9
HOUR_NS = 3600 * S_NS
REQUIRED = "yunikorn.apache.org/requiredNode"
LOWEST, HIGHEST = -(2**31), 2**31 - 1
PREEMPTED = "PREEMPTED_BY_SCHEDULER"


class Contest(Struct):
    """An ask that has preempted, and how that ended ("" is not yet)."""

    fact: Preempted
    waits_for: set[AskID]
    room_made_ns: int = 0
    ended_ns: int = 0
    outcome: str = ""


class Watch:
    """The state that follows from the facts of a partition alone."""

    def __init__(self) -> None:
        #: NotifiedAsks to end, whoever wanted it, and not confirmed.
        self.leaving: set[AskID] = set()
        self.preempting: set[AskID] = set()
        self.contests: dict[AskID, Contest] = {}
        self.all_contests: list[Contest] = []
        self.reserved: dict[AskID, Reserved] = {}
        self.handed_back_ns: dict[AskID, int] = {}

    def hear(self, facts: Iterable[Fact]) -> None:
        for decision in facts:
            match decision:
                case ReleaseStarted(ask=ask):
                    self.leaving.add(ask_id(ask))
                    if decision.termination_type == PREEMPTED:
                        self.preempting.add(ask_id(ask))
                case Released(ask=ask):
                    self._end_victim(decision.at_ns, ask_id(ask))
                    if decision.termination_type == "SCHEDULING_FAILED_ON_RM":
                        self.handed_back_ns[ask_id(ask)] = decision.at_ns
                case Preempted():
                    self._begin(decision)
                case Reserved(ask=ask):
                    self.reserved[ask_id(ask)] = decision
                case Unreserved(ask=ask):
                    self.reserved.pop(ask_id(ask), None)
                    contest = self.contests.get(ask_id(ask))
                    if contest is not None and contest.fact.node_id == decision.node_id:  # else it has only moved
                        self._end(decision.at_ns, ask_id(ask), "reservation lost")
                case Allocated(ask=ask):
                    self._end(decision.at_ns, ask_id(ask), "placed")
                    if ask.releasing:  # AP-145
                        self.leaving.add(ask_id(ask))
                        self.preempting.add(ask_id(ask))
                case EndReported(ask=ask):  # AP-145
                    self.leaving.add(ask_id(ask))
                    self.preempting.add(ask_id(ask))
                case AskRemoved(ask=ask):
                    self._end(decision.at_ns, ask_id(ask), "ask gone")
                case AskResized(before=ask):
                    self._end(decision.at_ns, ask_id(ask), "ask resized")

    def _begin(self, fact: Preempted) -> None:
        victims = {(application_id, key) for _, application_id, key in fact.victims}
        contest = self.contests[ask_id(fact.ask)] = Contest(fact, victims)
        self.all_contests.append(contest)

    def _end_victim(self, at_ns: int, identity: AskID) -> None:
        self.leaving.discard(identity)
        self.preempting.discard(identity)
        for contest in self.contests.values():
            if identity in contest.waits_for:
                contest.waits_for.discard(identity)
                contest.room_made_ns = at_ns

    def _end(self, at_ns: int, identity: AskID, outcome: str) -> None:
        contest = self.contests.pop(identity, None)
        if contest is not None:
            contest.ended_ns, contest.outcome = at_ns, outcome

    def let_time_pass(self, now_ns: int) -> None:
        """PE-55: all have gone 15 s ago, and the ask still waits."""
        for identity, contest in list(self.contests.items()):
            if not contest.waits_for and now_ns >= contest.room_made_ns + 15 * S_NS:
                self._end(now_ns, identity, "no room")


class Task(Struct, frozen=True):
    ask: Ask
    leaf: str
    node_id: str

    @property
    def id(self) -> AskID:
        return ask_id(self.ask)

    def uses(self, name: str) -> int:
        return self.ask.resource.get(name, 0)


def requires(ask: Ask) -> str:
    return ask.tags.get(REQUIRED, "")


@cache
def path_up(path: str) -> tuple[str, ...]:
    """The queue and all above it."""
    parts = path.split(".")
    return tuple(".".join(parts[:n]) for n in range(len(parts), 0, -1))


class State:
    """A partition at one moment, before anything of a plan is carried out."""

    def __init__(self, partition: PartitionCore, watch: Watch, now_ns: int) -> None:
        registry = partition.registry
        self.now_ns = now_ns
        self.enabled = registry.config.preemption.enabled
        self.queues: dict[str, QueueConfig] = {path: queue.config for path, queue in registry.queues.items()}
        self.leaving, self.reserved = set(watch.leaving), dict(watch.reserved)
        self.contests = set(watch.contests)
        self.running: list[Task] = []
        self.waiting: dict[AskID, Task] = {}
        for leaf in registry.queues.values():
            if isinstance(leaf, LeafCore):
                for application in leaf.applications.values():
                    self.running += [Task(ask, leaf.path, node_id) for ask, node_id in application.tasks.allocations.values()]
                    self.waiting |= {ask_id(ask): Task(ask, leaf.path, "") for ask in application.tasks.asks.values()}
        self.capacity = {node_id: dict(node.capacity) for node_id, node in registry.nodes.items()}
        self.schedulable = {node_id for node_id, node in registry.nodes.items() if node.schedulable}
        self.occupied = {node_id: [task.resource for task in node.foreign.values()] for node_id, node in registry.nodes.items()}
        self.preempting = set(watch.preempting)
        self.claiming = [self.waiting[identity] for identity in self.contests]

    @cached_property
    def _use(self) -> Counter[tuple[str, str]]:
        """Usage by queue and resource; summed only when it is asked for, because most moments bring no preemption."""
        counted = [task for task in self.running if task.id not in self.preempting]
        # one that requires its node follows no guarantees, and claims nothing
        counted += [task for task in self.claiming if not requires(task.ask)]
        use: Counter[tuple[str, str]] = Counter()
        for task in counted:
            for queue in path_up(task.leaf):
                for name, amount in task.ask.resource.items():
                    use[queue, name] += amount
        return use

    # ---- terms

    def use(self, queue: str, name: str) -> int:
        return self._use[queue, name]

    def guarantee(self, queue: str, name: str) -> int:
        return (self.queues[queue].guaranteed or {}).get(name, 0)

    def limits(self, queue: str) -> Resource:
        if queue == "root":
            names = {name for capacity in self.capacity.values() for name in capacity}
            return {name: sum(capacity.get(name, 0) for capacity in self.capacity.values()) for name in names}
        return self.queues[queue].max or {}

    def available(self, node_id: str, name: str) -> int:
        used = sum(task.uses(name) for task in self.running if task.node_id == node_id)
        foreign = sum(resource.get(name, 0) for resource in self.occupied[node_id])
        return self.capacity[node_id].get(name, 0) - used - foreign

    def above_max(self, task: Task, queue: str, name: str) -> int:
        """The amount by which the task would lead the queue above its max."""
        limits = self.limits(queue)
        return max(0, self.use(queue, name) + task.uses(name) - limits[name]) if name in limits else 0

    def fence_root(self, asker: Task) -> str:
        """PE-20."""
        for queue in path_up(asker.leaf):
            is_full = any(self.above_max(asker, queue, name) for name in wanted(asker))
            if queue == "root" or self.queues[queue].properties.preemption_policy == "fence" or is_full:
                return queue
        raise AssertionError

    def trigger(self, asker: Task) -> str:
        """PE-24 to PE-27: "own", "inherited", or "" when the ask may not."""
        remaining: dict[str, int] = {}
        for name in wanted(asker):
            listing = [queue for queue in path_up(asker.leaf) if self.guarantee(queue, name)]
            if asker.leaf in listing:
                listing = [asker.leaf]
            if listing:
                remaining[name] = min(self.guarantee(queue, name) - self.use(queue, name) for queue in listing)
        if not remaining or any(amount <= 0 for amount in remaining.values()):  # PE-25
            return ""
        is_own = any(self.guarantee(asker.leaf, name) for name in remaining)
        return "own" if is_own else "inherited"

    def priority(self, task: Task, below: str) -> int:
        """PE-28."""
        value = task.ask.priority
        for queue in path_up(task.leaf):
            if queue == below:
                break
            properties = self.queues[queue].properties
            shifted = min(HIGHEST, max(LOWEST, value + properties.priority_offset))
            value = properties.priority_offset if properties.priority_fence else shifted
        return value

    def spares(self, asker: Task, victims: list[Task], trigger: str) -> bool:
        """Law 2, PE-41: every queue that the victims are in can do without them."""
        shared = set(path_up(asker.leaf))
        for queue in {queue for victim in victims for queue in path_up(victim.leaf)}:
            inside = [victim for victim in victims if queue in path_up(victim.leaf)]
            for name in {name for victim in inside for name in wanted(victim)}:
                bound = self.guarantee(queue, name)
                left = self.use(queue, name) - sum(victim.uses(name) for victim in inside)
                if bound and queue in shared and trigger == "own":  # (c)
                    if left + asker.uses(name) < min(self.use(queue, name), bound):
                        return False
                elif bound and left < bound:  # (a), (b)
                    return False
        return True

    def needs(self, asker: Task, node_id: str) -> Resource:
        """PE-39."""
        found = {}
        for name in wanted(asker):
            on_node = max(0, asker.uses(name) - self.available(node_id, name))
            found[name] = max(on_node, *(self.above_max(asker, queue, name) for queue in path_up(asker.leaf)))
        return {name: amount for name, amount in found.items() if amount}

    def needs_on_node(self, asker: Task, node_id: str) -> Resource:
        """PE-62."""
        found = {name: asker.uses(name) - self.available(node_id, name) for name in wanted(asker)}
        return {name: amount for name, amount in found.items() if amount > 0}

    def is_candidate(self, asker: Task, victim: Task, fence: str) -> bool:
        """PE-30."""
        common = next(queue for queue in path_up(victim.leaf) if queue in path_up(asker.leaf))
        return (
            fence in path_up(victim.leaf)
            and victim.leaf != asker.leaf
            and self.queues[victim.leaf].properties.preemption_policy != "disabled"
            and victim.ask.application_id != asker.ask.application_id
            and any(victim.uses(name) > 0 for name in wanted(asker))
            and not requires(victim.ask)
            and victim.id not in self.leaving
            and self.priority(victim, common) <= self.priority(asker, common)
        )

    def is_open(self, asker: Task, node_id: str) -> bool:
        """PE-38, PE-52."""
        if any(failure.node_id == node_id and failure.until_ns for failure in asker.ask.failures):  # AP-144
            return False
        if node_id not in self.schedulable or any(self.capacity[node_id].get(n, 0) < asker.uses(n) for n in wanted(asker)):
            return False
        return all(
            not requires(other.ask)
            and identity not in self.contests
            and other.ask.priority < asker.ask.priority
            and other.at_ns <= self.now_ns - HOUR_NS
            for identity, other in self.reserved.items()
            if other.node_id == node_id and identity != asker.id
        )

    # ---- who goes

    def solve(self, asker: Task) -> list[Task]:
        """The victims of the best node, in PE-32 order; none when preemption does not help."""
        trigger = self.trigger(asker)
        if not trigger:
            return []
        found = [
            chosen
            for node_id in self.capacity
            if self.is_open(asker, node_id) and (chosen := self._solve_on(asker, node_id, trigger))
        ]
        return min(found, key=lambda victims: self._cost(asker, victims), default=[])

    def _cost(self, asker: Task, victims: list[Task]) -> tuple[bool, bool, int, int, str]:
        """PE-44: where the node has room and only a queue has not, newer victims come before the node id."""
        asks = [victim.ask for victim in victims]
        is_last_resort = any(not ask.allow_preempt_self for ask in asks)
        node_id = victims[0].node_id
        has_room = all(asker.uses(name) <= self.available(node_id, name) for name in wanted(asker))
        age = -min(victim.ask.created_ns for victim in victims) if has_room else 0
        return is_last_resort, any(ask.originator for ask in asks), len(asks), age, node_id

    def _solve_on(self, asker: Task, node_id: str, trigger: str) -> list[Task]:
        fence = self.fence_root(asker)
        on_node = [task for task in self.running if task.node_id == node_id and self.is_candidate(asker, task, fence)]
        needs, chosen = self.needs(asker, node_id), []
        for victim in sorted(on_node, key=_rank):
            left = _left(needs, chosen)
            if any(victim.uses(name) > 0 for name in left) and self.spares(asker, [*chosen, victim], trigger):
                chosen.append(victim)
        return _pruned(needs, chosen)

    def solve_on_node(self, asker: Task) -> list[Task]:
        """PE-60 to PE-62."""
        node_id = requires(asker.ask)
        on_node = [
            task
            for task in self.running
            if task.node_id == node_id
            and not requires(task.ask)
            and task.ask.priority <= asker.ask.priority
            and task.id not in self.leaving
            and task.ask.application_id != asker.ask.application_id
        ]

        def rank(task: Task) -> tuple[object, ...]:
            ask = task.ask
            sizes = [task.uses(name) for name in sorted(wanted(asker))]
            key = ask.allocation_key
            return not ask.allow_preempt_self, ask.originator, ask.priority, -task.ask.created_ns, sizes, key

        needs, chosen = self.needs_on_node(asker, node_id), []
        for victim in sorted(on_node, key=rank):
            if any(victim.uses(name) > 0 for name in _left(needs, chosen)):
                chosen.append(victim)
        return _pruned(needs, chosen)


def wanted(task: Task) -> list[str]:
    return [name for name, amount in task.ask.resource.items() if amount > 0]


def _rank(task: Task) -> tuple[bool, bool, int, str]:
    """PE-32."""
    ask = task.ask
    return not ask.allow_preempt_self, ask.originator, -task.ask.created_ns, ask.allocation_key


def _left(needs: Resource, chosen: list[Task]) -> Resource:
    left = {name: amount - sum(victim.uses(name) for victim in chosen) for name, amount in needs.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _pruned(needs: Resource, chosen: list[Task]) -> list[Task]:
    """PE-42; nothing when all together do not suffice."""
    if _left(needs, chosen):
        return []
    for victim in reversed(list(chosen)):
        others = [other for other in chosen if other is not victim]
        if not _left(needs, others):
            chosen = others
    return chosen


# ---- the verdict


def check(state: State, fact: Preempted) -> None:
    """Check that a preemption keeps all laws and has chosen the right victims.

    Args:    state: as it was before.
    Raises:  AssertionError.
    """
    asker = state.waiting[ask_id(fact.ask)]
    by_id = {task.id: task for task in state.running}
    victims = [by_id[application_id, key] for _, application_id, key in fact.victims]
    assert victims
    assert {victim.node_id for victim in victims} == {fact.node_id}, "same node (PE-43)"
    assert ask_id(fact.ask) not in state.contests, "one attempt at a time (PE-12)"
    assert all(victim.id not in state.leaving for victim in victims), "no task is preempted twice (PE-30)"
    assert all(victim.ask.application_id != asker.ask.application_id for victim in victims), "law 3"
    assert not any(requires(victim.ask) for victim in victims), "SC-79"
    if requires(asker.ask):
        assert requires(asker.ask) == fact.node_id
        assert all(victim.ask.priority <= asker.ask.priority for victim in victims), "PE-60"
        _check_enough(state.needs_on_node(asker, fact.node_id), victims)
        assert [other.id for other in victims] == [other.id for other in state.solve_on_node(asker)], "PE-61, PE-62"
        return
    assert state.enabled
    assert asker.ask.allow_preempt_other, "PE-11"
    delay_ns = state.queues[asker.leaf].properties.preemption_delay_ns
    assert state.now_ns >= asker.ask.since_ns + delay_ns, "PE-14"
    trigger = state.trigger(asker)
    assert trigger, "law 4"
    fence = state.fence_root(asker)
    for victim in victims:
        common = next(queue for queue in path_up(victim.leaf) if queue in path_up(asker.leaf))
        assert state.priority(victim, common) <= state.priority(asker, common), "law 6"
        assert fence in path_up(victim.leaf), "law 7"
        assert victim.leaf != asker.leaf, "no preemption inside a queue"
        assert state.queues[victim.leaf].properties.preemption_policy != "disabled"
        for name in wanted(victim):
            for queue in path_up(victim.leaf):
                if queue not in path_up(asker.leaf) and (bound := state.guarantee(queue, name)):
                    assert state.use(queue, name) > bound, "law 5"
    assert state.spares(asker, victims, trigger), "law 2"
    assert state.is_open(asker, fact.node_id), "PE-38"
    _check_enough(state.needs(asker, fact.node_id), victims)
    best = state.solve(asker)
    if any(not victim.ask.allow_preempt_self for victim in victims):
        assert any(not victim.ask.allow_preempt_self for victim in best), "law 1: a last resort"
    assert [other.id for other in victims] == [other.id for other in best], "PE-40, PE-44"


def _check_enough(needs: Resource, victims: list[Task]) -> None:
    assert needs, "nothing is preempted for room that is there (PE-39)"
    assert not _left(needs, victims), "the ask fits when they have gone (PE-40)"
    for victim in victims:
        assert _left(needs, [other for other in victims if other is not victim]), "no victim is superfluous (PE-42)"
