"""A partition that checks itself while it plays a history, and one that the reference schedules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from histories import S_NS, Batch, History
from keeping import Event, events
from reference import Reference
from seeds import IS_NIGHT

from ykactor.core.config.model import PartitionConfig
from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.facts import Allocated, Fact, Reserved, Unreserved
from ykactor.core.messages.planned import Budget, Cancellation, Planned, Replacement
from ykactor.core.messages.submissions import Submission
from ykactor.core.objects.commands import PlaceBatch, SettleBatch
from ykactor.core.objects.queues import LeafCore
from ykactor.core.objects.registry import Exchange, send
from ykactor.core.state import wakeups
from ykactor.core.turn.scheduler import Cycle, Decide, Observe, SchedulerCore, SchedulerPhase
from ykactor.core.values.ids import AllocationKey
from ykactor.sim.direct import DirectPartition
from ykactor.wire.decision_log import decision_log

ONE_BY_ONE, SMALL, LARGE = Budget(1, 10**9), Budget(7, 5), Budget(256, 10**9)


def cancelled(decided: list[Event]) -> list[Event]:
    """The cancellations of a pass of asks that it did not place; it may as well end with those (SC-60, GA-21; or SC-10)."""
    placed = {event[1:3] for event in decided if event[0] == "allocated"}
    return [event for event in decided if event[0] in ("unreserved", "ended") and event[1:3] not in placed]


def above_max(scheduler: SchedulerCore) -> list[str]:
    """Queues that use more than their ``max``. The planner never exceeds it; recovery, resizes and lower limits may (QU-41)."""
    found = []
    for path, queue in scheduler.state.tree.nodes.items():
        for name, used in queue.allocated.items():
            limit = (queue.max or {}).get(name, used if queue.parent else 0)
            if used > limit:
                found.append(f"queue {path}: uses {used} {name}, expected at most {limit}")
    return found


class World(DirectPartition):
    """A partition that checks itself: invariants after every step (SC-131); with ``compare`` each cycle against the reference.

    However it is scheduled, what ends reservations between cycles must be what the rules say.

    Args:
        is_thorough: False: the invariants are checked only at the end of a play, because another partition that decides the same
            is checked after every step.
    """

    def __init__(
        self,
        config: PartitionConfig,
        budget: Budget = LARGE,
        *,
        compare: bool = False,
        strict_max: bool = False,
        is_thorough: bool = True,
        confirms: bool = True,
        reserves: bool = True,
    ) -> None:
        self.facts: list[Fact] = []
        #: How many of the facts were reported before the last look at the invariants.
        self.checked_count = 0
        self.compare, self.strict_max, self.is_thorough = compare, strict_max, is_thorough
        #: Now, and when the last cycle was.
        self.now_ns = self.cycled_ns = 0
        self.reference: Reference | None = None
        after_step = (lambda *_: self.check()) if is_thorough else None
        super().__init__(config, budget, self.facts.extend, after_step, confirms=confirms, reserves=reserves)
        self.reference = Reference(self.core, reserves=reserves)
        # the reference knows nothing of PE-60 to PE-66, which has tests of its own
        self.scheduler.planner.preemptor.attempt_on_node = lambda *_: None  # type: ignore[method-assign]

    def check(self) -> None:
        """The invariants, if there are new facts: what a silent step breaks is still broken at the next one."""
        if len(self.facts) > self.checked_count:
            self.checked_count = len(self.facts)
            found = violations(self.core, self.scheduler) + (above_max(self.scheduler) if self.strict_max else [])
            assert not found, "\n".join(found)

    def cycle(self, now_ns: int) -> tuple[Cycle, bool]:
        if self.reference is None:  # the first one, of a partition without anything
            return super().cycle(now_ns)
        self.cycled_ns = now_ns
        self.reference.hear(self.facts)
        self.reference.keeping.check()
        expected = self.reference.next_step(now_ns, self.facts) if self.compare else []
        is_behind = bool(self.core.registry.unsent.behind)
        result, has_confirmed = super().cycle(now_ns)
        found = events(result.facts)
        # un-reserving may end a pass (SC-11), and what reads nodes waits until they have been sent all placements
        is_part = found == cancelled(expected)[: len(found)] if found else is_behind and not result.at_rest
        if self.compare and not is_part:
            assert sorted(found) == sorted(expected), f"decided {found}, expected {expected}"
        self.reference.follow(result.facts)
        return result, has_confirmed

    def is_eligible(self, now_ns: int) -> bool:
        """A cycle runs also when the partition is at rest: the reference must agree that nothing is to be done."""
        return True

    def advance(self, now_ns: int) -> None:
        """Stop wherever an ask or a reservation gets old enough for something (SC-5)."""
        while self.now_ns < now_ns:
            instant = self.reference.next_instant(self.now_ns)
            self.now_ns = now_ns if instant is None else min(instant, now_ns)
            super().advance(self.now_ns)
            if self.now_ns < now_ns:
                self.stop()

    def stop(self) -> None:
        """A partition that has an alarm clock set it early enough."""
        if self.compare and (expected := self.reference.next_step(self.now_ns, self.facts)):
            alarm_ns = wakeups.next_ns(self.scheduler.state, self.cycled_ns)
            assert alarm_ns is not None, f"no alarm for {expected}"
            assert alarm_ns <= self.now_ns, f"alarm at {alarm_ns} for {expected}"
        self.schedule(self.now_ns)

    def play(self, batches: Iterable[Batch]) -> bytes:
        """The decision log of these batches and what was before."""
        for batch in batches:
            self.intake(batch.at_ns, batch.submissions)
        self.check()
        return decision_log(self.facts)

    def tell(self, *submissions: Submission, at_s: float = 0.0) -> None:
        self.intake(int(at_s * S_NS), submissions)

    def placed(self) -> list[str]:
        return [fact.ask.allocation_key for fact in self.facts if isinstance(fact, Allocated)]


def check_history(history: History, *, reserves: bool = True) -> World:
    """Each decision is the reference's, and the budget of a cycle changes none. Returns the partition that was compared.

    By day the invariants are checked after every step of small cycles only, which also have searches that are not finished.
    """
    compared = World(history.config, ONE_BY_ONE, compare=True, is_thorough=IS_NIGHT, reserves=reserves)
    log = compared.play(history.batches)
    assert World(history.config, SMALL, reserves=reserves).play(history.batches) == log
    assert World(history.config, LARGE, is_thorough=IS_NIGHT, reserves=reserves).play(history.batches) == log
    return compared


class NaiveScheduler:
    """Does what the reference says, one decision at a time."""

    def __init__(self, world: NaiveWorld) -> None:
        self.world = world

    def handle(self, phase: SchedulerPhase) -> Exchange[Any]:
        match phase:
            case Observe(facts):
                return self._observe(facts)
            case Decide(now_ns, _):
                return (yield from self._decide(now_ns))

    def _observe(self, facts: list[Fact]) -> list[Fact]:
        """The facts, then the reservations that end by them."""
        keeping = self.world.reference.keeping
        before = dict(keeping.kept)
        self.world.reference.hear([*self.world.facts, *facts])
        ended = [kept for name, kept in before.items() if name not in keeping.kept]
        return [*facts, *(Unreserved(facts[-1].at_ns, kept.ask, kept.queue, kept.node_id) for kept in ended)]

    def _decide(self, now_ns: int) -> Exchange[Cycle]:
        reference = self.world.reference
        reference.hear(self.world.facts)
        reference.keeping.check()
        decided: list[Fact] = []
        for event in reference.next_step(now_ns, self.world.facts):
            decided += yield from self.carry_out(now_ns, event)
        reference.follow(decided)
        return Cycle(decided, at_rest=not decided, is_full=bool(decided), work=0)

    def carry_out(self, now_ns: int, event: Event) -> Exchange[list[Fact]]:
        word, application_id, key, node_id = event
        registry = self.world.core.registry
        leaf = registry.leaf_of(application_id)
        application = leaf.applications[application_id]
        ask = application.tasks.asks[key] if key in application.tasks.asks else application.tasks.allocations[key][0]
        match word.split():
            case ["allocated"]:
                fact = Allocated(now_ns, ask, leaf.path, node_id)
                node = registry.nodes[node_id]
                yield from send([(node, PlaceBatch(node.revision, [ask]))])
                return [*(yield from self.settle(now_ns, leaf, fact)), fact]
            case ["replaces", holder]:
                place = application.tasks.allocations[AllocationKey(holder)][1]
                return (yield from self.settle(now_ns, leaf, Replacement(ask, AllocationKey(holder), place)))
            case ["ended"]:
                return (yield from self.settle(now_ns, leaf, Cancellation(ask, key)))
            case ["reserved"]:
                return [Reserved(now_ns, ask, leaf.path, node_id)]
        return [Unreserved(now_ns, ask, leaf.path, node_id)]

    def settle(self, now_ns: int, leaf: LeafCore, planned: Planned) -> Exchange[list[Fact]]:
        (changes,) = yield from send([(leaf, SettleBatch(now_ns, [(0, planned)]))])
        return dict(changes).get(0, [])


class NaiveWorld(World):
    """A partition that the reference schedules: what the rules say happens, without the planner."""

    def __init__(self, config: PartitionConfig) -> None:
        super().__init__(config)
        self.scheduler = NaiveScheduler(self)  # type: ignore[assignment]

    def cycle(self, now_ns: int) -> tuple[Cycle, bool]:
        return DirectPartition.cycle(self, now_ns)

    def check(self) -> None:
        """Do nothing: there are no orders or books that could be wrong."""

    def stop(self) -> None:
        self.schedule(self.now_ns)
