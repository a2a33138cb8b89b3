"""The attempts to preempt in a partition: asks that preempt, their victims, the last attempt of each ask (PE-93), a guard
against cycles.

A victim counts as running until the resource manager confirms its release; only the laws of preemption treat it as gone
(SC-130). An ask that preempts counts as used by its queues (its *claim*) until it runs or loses its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from ykactor.core.messages import facts
from ykactor.core.messages.asks import Ask, AskID, ask_id
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.kept_rows import KeptRows
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource, add_to, subtract_from
from ykactor.core.values.times import NEVER, S_NS

#: Time before the next attempt of an ask: after a failed one, or after its victims ended and the ask still waits (PE-15, PE-55).
RETRY_NS = 15 * S_NS
#: The most entries of the cycle guard; the oldest are forgotten first.
TAKEN_MAX = 10_000
#: Facts about external changes. The end of a task may be external or not: ``PreemptionAttempts.confirm`` decides.
OUTSIDE = frozenset(
    {
        facts.Allocated,
        facts.AllocationResized,
        facts.ApplicationAdded,
        facts.ApplicationLeft,
        facts.ApplicationMoved,
        facts.ConfigurationChanged,
        facts.ForeignChanged,
        facts.NodeAdded,
        facts.NodeAttributesChanged,
        facts.NodeCapacityChanged,
        facts.NodeRemoved,
        facts.NodeSchedulable,
        facts.QueueAdded,
        facts.QueueLimitChanged,
        facts.QueueRemoved,
    }
)


class PreemptionAttempt(Struct, frozen=True):
    """An ask that preempts. While its attempt lasts, the ask does not try again.

    Attributes:
        claim: the amounts of the ask, as counted in its queues; empty if it requires its node, as guarantees do not apply then.
        waits_for: victims whose release is not confirmed yet.
        victims_count: number of victims in all.
        room_made_ns: when the release of the last victim was confirmed.
    """

    ask: Ask
    application: PendingApplication
    claim: Resource
    waits_for: dict[AskID, None]
    victims_count: int = 0
    room_made_ns: int | None = None


class LastAttempt(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The last attempt of an ask to preempt. Being handed back counts as one: the next attempt has to wait as long.

    Attributes:
        why: the reason why it failed; "" if it succeeded.
        runs: ``runs_count`` at that time, if it found nothing while others had preempted.
    """

    at_ns: int
    why: str
    runs: int | None = None


class Counts(Struct, forbid_unknown_fields=True):
    """Counters of preemption in a partition since its start, for operators.

    Attributes:
        preemptions: attempts that found victims; an ask that preempts twice counts twice.
        evictions: tasks released by any kind of preemption.
        work_lost: what victims of asks had used, in base units times seconds.
        in_vain: attempts that ended without the ask running.
        refused: attempts refused because they would have closed a preemption cycle.
    """

    preemptions: int = 0
    evictions: int = 0
    work_lost: Resource = field(default_factory=dict)
    in_vain: int = 0
    refused: int = 0

    def note(self, entry: facts.Preempted) -> None:
        """Count an attempt that found victims."""
        self.preemptions += 1
        add_to(self.work_lost, entry.work_lost)


class CycleGuard:
    """The guard against preemption cycles: the resource types that leaves have taken from each other.

    The laws already prevent two leaves from taking the same type from each other: law 4 lets only a queue below its guarantee
    take, and law 2 leaves the other queue at or above its guarantee. The guard checks this at run time. A preemption that would
    close a cycle is refused and reported, whatever mistake led to it.

    The guard starts anew after an *external* change: configuration, nodes, applications, sizes, or the end of a task that was not
    a victim. A preempted task that is asked for again is not an external change. Guarantees do not apply to asks that require
    their node (PE-60, PE-62), so what these take is an external change too.
    """

    def __init__(self, changed: Changed) -> None:
        #: (leaf of the victim, leaf of the preemptor, type that the preemptor's leaf lacked), the oldest first.
        self.taken: KeptRows[tuple[QueuePath, QueuePath, str], None] = KeptRows(lambda taken: changed.taken(*taken))

    def note(self, victim: QueuePath, preemptor: QueuePath, names: Iterable[str]) -> None:
        """Note that a task of leaf ``victim`` is preempted for an ask of leaf ``preemptor``, which lacks the types ``names``."""
        for name in names:
            self.taken[victim, preemptor, name] = None
        while len(self.taken) > TAKEN_MAX:
            del self.taken[next(iter(self.taken))]

    def objection(self, victim: QueuePath, preemptor: QueuePath, names: Iterable[str]) -> str:
        """The reason why an ask of ``preemptor`` may not preempt a task of ``victim``: it takes a type back. "" if it may."""
        for name in names:
            if (preemptor, victim, name) in self.taken:
                return f"preempting would take {name} back from {victim}, for which {preemptor} was preempted: a preemption cycle"
        return ""

    def reset(self) -> None:
        """Forget everything: there was an external change."""
        self.taken.clear()

    def cycles(self) -> Iterator[tuple[QueuePath, QueuePath, str]]:
        """(victim, preemptor, type) of leaves that have taken the same type from each other; there must be none."""
        return ((victim, preemptor, name) for victim, preemptor, name in self.taken if (preemptor, victim, name) in self.taken)


class PreemptionAttempts:
    """The running attempts of a partition, their victims, and the last attempt of each pending ask."""

    def __init__(self, changed: Changed) -> None:
        self.by_ask: KeptRows[AskID, PreemptionAttempt] = KeptRows(changed.attempt)
        #: Tasks that are being released: the size counted as preempting, and the ask they make room for, if any.
        self.victims: KeptRows[AskID, tuple[Resource, AskID | None]] = KeptRows(changed.victim)
        #: Grows by one whenever an attempt or a victim changes what queues will use.
        self.changes = 0
        self.counts = Counts()
        self.cycle_guard = CycleGuard(changed)
        #: The last attempt of each pending ask; of an ask that requires its node: the last that failed.
        self.last_attempts: KeptRows[AskID, LastAttempt] = KeptRows(changed.last_attempt)

    def begin(self, leaf: QueueUsage, application: PendingApplication, ask: Ask, claim: Resource) -> None:
        """Begin an attempt: count the claim of the ask in all queues on its path."""
        self.changes += 1
        self.by_ask[ask_id(ask)] = PreemptionAttempt(ask, application, claim, {})
        for queue in leaf.path_up:
            add_to(queue.claims, claim)

    def end(self, leaf: QueueUsage, ask: Ask, *, runs: bool = False) -> None:
        """End an attempt: the ask ``runs``, is removed, or has lost its node. Its claim no longer counts."""
        self.changes += 1
        attempt = self.by_ask.pop(ask_id(ask))
        self.counts.in_vain += not runs
        for queue in leaf.path_up:
            subtract_from(queue.claims, attempt.claim)

    def renew(self, ask: Ask) -> None:
        """Update the attempt of an ask, if there is one, to the ask with another priority."""
        attempt = self.by_ask.get(ask_id(ask))
        if attempt is not None:
            self.by_ask[ask_id(ask)] = replace(attempt, ask=ask)

    def add_victim(self, leaf: QueueUsage, task: Ask, preemptor: Ask | None) -> None:
        """Add a victim of ``preemptor``; None: a queue is above its quota, or the task was ending already."""
        self.changes += 1
        identity = None if preemptor is None else ask_id(preemptor)
        self.victims[ask_id(task)] = task.resource, identity
        for queue in leaf.path_up:
            add_to(queue.preempting, task.resource)
        if identity is not None:
            attempt = self.by_ask[identity]
            attempt.waits_for[ask_id(task)] = None
            self.by_ask[identity] = replace(attempt, victims_count=attempt.victims_count + 1)

    def resize_victim(self, leaf: QueueUsage, task: Ask) -> None:
        """Count a resized victim."""
        size, identity = self.victims[ask_id(task)]
        self.victims[ask_id(task)] = task.resource, identity
        for queue in leaf.path_up:
            subtract_from(queue.preempting, size)
            add_to(queue.preempting, task.resource)

    def confirm(self, at_ns: int, leaf: QueueUsage, task: Ask) -> None:
        """Note the end of a task: of a victim, or one that is an external change (see ``CycleGuard``)."""
        found = self.victims.discard(ask_id(task))
        if found is None:
            self.cycle_guard.reset()
            return
        size, identity = found
        for queue in leaf.path_up:
            subtract_from(queue.preempting, size)
        attempt = self.by_ask.get(identity) if identity is not None else None
        if attempt is not None and ask_id(task) in attempt.waits_for:  # else it belongs to an earlier attempt of the ask
            del attempt.waits_for[ask_id(task)]
            self.by_ask[ask_id(attempt.ask)] = replace(attempt, room_made_ns=None if attempt.waits_for else at_ns)

    def move(self, leaf: QueueUsage, to_leaf: QueueUsage, application: PendingApplication) -> None:
        """Move the victims and claims of an application to another leaf."""
        name = application.application_id
        amounts = [size for (owner, _), (size, _) in self.victims.items() if owner == name]
        claims = [attempt.claim for attempt in self.by_ask.values() if attempt.application is application]
        for queues, change in ((leaf.path_up, subtract_from), (to_leaf.path_up, add_to)):
            for queue in queues:
                for amount in amounts:
                    change(queue.preempting, amount)
                for claim in claims:
                    change(queue.claims, claim)

    def overdue(self, now_ns: int) -> Iterator[PreemptionAttempt]:
        """Attempts whose victims have all ended more than ``RETRY_NS`` ago although the ask still waits (PE-55)."""
        for attempt in list(self.by_ask.values()):
            if attempt.room_made_ns is not None and attempt.room_made_ns + RETRY_NS <= now_ns:
                yield attempt

    def next_ns(self) -> int:
        """The time when the next attempt becomes overdue; ``NEVER`` if there is none."""
        times = [attempt.room_made_ns + RETRY_NS for attempt in self.by_ask.values() if attempt.room_made_ns is not None]
        return min(times, default=NEVER)

    # ---- attempts

    def note_attempt(self, now_ns: int, ask: Ask, why: str = "", *, is_vain: bool = False) -> None:
        """Note an attempt of an ask, and ``why`` it failed ("" if it did not); ``is_vain``: it may have found too few nodes."""
        runs = self.runs_count() if is_vain and self.by_ask else None
        self.last_attempts[ask_id(ask)] = LastAttempt(now_ns, why, runs)

    def runs_count(self) -> int:
        """The number of asks that have preempted and were placed. It only grows."""
        return self.counts.preemptions - self.counts.in_vain - len(self.by_ask)

    def last_attempt(self, ask: Ask) -> LastAttempt | None:
        """The last attempt of a pending ask; None if it has not tried."""
        return self.last_attempts.get(ask_id(ask))

    def next_attempt_ns(self, ask: Ask) -> int:
        """The time when the ask may try again; 0 if it never tried, or an ask was placed whose node it could not use (PE-15)."""
        last = self.last_attempt(ask)
        if last is None or (last.runs is not None and last.runs < self.runs_count()):
            return 0
        return last.at_ns + RETRY_NS

    def forget(self, ask: Ask) -> None:
        """Forget the last attempt of an ask that is no longer pending."""
        self.last_attempts.discard(ask_id(ask))
