"""The books of preemption: which asks have fought for room, who has to go for them, and who tried in vain (PE-93).

Victims are told to go and go on counting until the resource manager confirms; only the mathematics of preemption takes
them as gone (SC-130). What an ask has fought for counts as used by its queues until it runs or loses its node.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from ykactor.core.messages.asks import Ask, AskID, ask_id
from ykactor.core.messages.facts import Preempted
from ykactor.core.preemption.cycles import CycleGuard
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.ledger import QueueUsage
from ykactor.core.values.resources import Resource, add_to, subtract_from
from ykactor.core.values.times import S_NS

#: How long an ask waits after it tried in vain, or after its victims have gone and it still waits (PE-15, PE-55).
RETRY_NS = 15 * S_NS


class PreemptionAttempt(Struct):
    """An ask that has others go for it; while it lasts it does not try again.

    Attributes:
        claim: what it wants, as counted in its queues; nothing for one that requires its node, which follows no guarantees.
        waits_for: victims that have not gone yet; there were ``victims_count`` in all.
        room_made_ns: when the last of them went.
    """

    ask: Ask
    application: PendingApplication
    claim: Resource
    waits_for: dict[AskID, None]
    victims_count: int = 0
    room_made_ns: int | None = None


class LastAttempt(Struct, frozen=True, gc=False):
    """That an ask tried to preempt, when, and why it came to nothing ("" if it did not)."""

    at_ns: int
    why: str


class Counts(Struct):
    """What came of preemption in a partition since it began, for operators.

    Attributes:
        preemptions: asks for which others were told to go; one that fights twice counts twice.
        evictions: tasks that were told to go, whatever for.
        work_lost: what these had used, in base units times seconds.
        in_vain: preemptions after which the ask did not come to run.
        refused: preemptions that would have gone round in circles.
    """

    preemptions: int = 0
    evictions: int = 0
    work_lost: Resource = field(default_factory=dict)
    in_vain: int = 0
    refused: int = 0

    def note(self, entry: Preempted) -> None:
        """Another entry of the ledger."""
        self.preemptions += 1
        add_to(self.work_lost, entry.work_lost)


class PreemptionAttempts:
    """All attempts of a partition, their victims, and the attempts of asks that wait."""

    def __init__(self) -> None:
        self.by_ask: dict[AskID, PreemptionAttempt] = {}
        #: What has to go, with the size that counts as going, and for which ask; None for a queue over its quota.
        self.victims: dict[AskID, tuple[Resource, AskID | None]] = {}
        #: One more whenever what queues will use has changed by a attempt or a victim.
        self.changes = 0
        self.counts = Counts()
        self.cycle_guard = CycleGuard()
        #: The last attempt of asks that wait; of one that requires its node: the last in vain.
        self.last_attempts: dict[AskID, LastAttempt] = {}

    def begin(self, leaf: QueueUsage, application: PendingApplication, ask: Ask, claim: Resource) -> None:
        """An ask has others go for it."""
        self.changes += 1
        self.by_ask[ask_id(ask)] = PreemptionAttempt(ask, application, claim, {})
        for queue in leaf.path_up:
            add_to(queue.claims, claim)

    def end(self, leaf: QueueUsage, ask: Ask, *, runs: bool = False) -> None:
        """The ask ``runs``, is gone, or has lost its node: what it fought for is nobody's."""
        self.changes += 1
        attempt = self.by_ask.pop(ask_id(ask))
        self.counts.in_vain += not runs
        for queue in leaf.path_up:
            subtract_from(queue.claims, attempt.claim)

    def add_victim(self, leaf: QueueUsage, task: Ask, preemptor: Ask | None) -> None:
        """A task has been told to go."""
        self.changes += 1
        identity = None if preemptor is None else ask_id(preemptor)
        self.victims[ask_id(task)] = task.spec.resource, identity
        self.counts.evictions += 1
        for queue in leaf.path_up:
            add_to(queue.preempting, task.spec.resource)
        if identity is not None:
            attempt = self.by_ask[identity]
            attempt.waits_for[ask_id(task)] = None
            attempt.victims_count += 1

    def resize_victim(self, leaf: QueueUsage, task: Ask) -> None:
        """A task that has been told to go has another size."""
        size, identity = self.victims[ask_id(task)]
        self.victims[ask_id(task)] = task.spec.resource, identity
        for queue in leaf.path_up:
            subtract_from(queue.preempting, size)
            add_to(queue.preempting, task.spec.resource)

    def confirm(self, at_ns: int, leaf: QueueUsage, task: Ask) -> bool:
        """A task has gone; answers whether it had been told to. If not, that is a change from outside."""
        found = self.victims.pop(ask_id(task), None)
        if found is None:
            self.cycle_guard.reset()
            return False
        size, identity = found
        for queue in leaf.path_up:
            subtract_from(queue.preempting, size)
        attempt = self.by_ask.get(identity) if identity is not None else None
        if attempt is not None and ask_id(task) in attempt.waits_for:  # not of an earlier attempt of the ask
            del attempt.waits_for[ask_id(task)]
            if not attempt.waits_for:
                attempt.room_made_ns = at_ns
        return True

    def move(self, leaf: QueueUsage, to_leaf: QueueUsage, application: PendingApplication) -> None:
        """What counts for an application in one leaf counts in another."""
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
        """Whose victims have all gone a while ago although the ask still waits (PE-55)."""
        for attempt in list(self.by_ask.values()):
            if attempt.room_made_ns is not None and attempt.room_made_ns + RETRY_NS <= now_ns:
                yield attempt

    def next_ns(self) -> int | None:
        """When the next attempt is overdue."""
        times = [attempt.room_made_ns + RETRY_NS for attempt in self.by_ask.values() if attempt.room_made_ns is not None]
        return min(times, default=None)

    # ---- attempts

    def note_attempt(self, now_ns: int, ask: Ask, why: str = "") -> None:
        """The ask tried; ``why`` it was in vain, if it was."""
        self.last_attempts[ask_id(ask)] = LastAttempt(now_ns, why)

    def last_attempt(self, ask: Ask) -> LastAttempt | None:
        """The last attempt of an ask that waits."""
        return self.last_attempts.get(ask_id(ask))

    def next_attempt_ns(self, ask: Ask) -> int:
        """When it may try again; 0 for one that has not tried."""
        tried = self.last_attempts.get(ask_id(ask))
        return 0 if tried is None else tried.at_ns + RETRY_NS

    def forget(self, ask: Ask) -> None:
        """The ask waits no more."""
        self.last_attempts.pop(ask_id(ask), None)
