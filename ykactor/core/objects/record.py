"""The data of one application, and the steps that its ordinary tasks and its placeholders share.

``Application`` adds what happens to asks and allocations, ``placeholders`` what happens to placeholders.
"""

from __future__ import annotations

from ykactor.core.accounting.accounts import Accounts, oldest_day
from ykactor.core.accounting.books import Books
from ykactor.core.accounting.spans import Lasting
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.facts import ApplicationLeft, AskRemoved, Fact, ReleaseStarted
from ykactor.core.messages.holds import Hold
from ykactor.core.messages.kinds import TerminationType
from ykactor.core.messages.states import ApplicationEvent, ApplicationState
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.counted import CountedApplication
from ykactor.core.objects.gang import ON_COMPLETE, ON_TIMEOUT, Gang, timeout_ns
from ykactor.core.objects.lifecycle import Timer
from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.parts import Pace, Pausing, in_parts
from ykactor.core.values.times import S_NS

#: Looking up the member of an enum is slow in Python 3.11.
_FAILING = ApplicationState.FAILING


class ApplicationRecord(CountedApplication):
    """What is known of one application.

    Attributes:
        submission_ns: arrival, moved back to the earliest creation time of any ask or allocation (PR-40).
        arrival: registration number, the last criterion of every order (PR-31).
        asks, allocations: pending asks, and running allocations with their node; placeholders are in both.
        began_ns: when each allocation started to run.
        replaced_ns: of each allocation that has replaced a placeholder, when the placeholder was created.
        real_count, placeholder_count: how many of the allocations are real tasks, and how many are placeholders.
        gang: the task groups, and which real ask replaces which placeholder.
        handed_back: a heap of pending asks for which nodes are left out: when the first node no longer is, the arrival, and the
            key. Some entries do not hold any more.
        ending: the release message for allocations that start to run when the application is failing already (GA-47).
        hold: its own; None while it has none (OP-1).
    """

    __slots__ = (
        "allocations",
        "arrival",
        "asks",
        "began_ns",
        "ending",
        "gang",
        "handed_back",
        "hold",
        "placeholder_count",
        "real_count",
        "replaced_ns",
        "submission_ns",
    )

    def __init__(
        self, spec: AddApplication, who: UserGroups, queue: QueuePath, arrival_ns: int, arrival: int, books: Books
    ) -> None:
        self.gang = Gang(spec)
        # the execution timeout of a gang limits the wait for its placeholders instead (AP-62, AP-63)
        execution_timeout_ns = None if self.gang.total else timeout_ns(spec.execution_timeout_ms)
        super().__init__(spec, who, queue, execution_timeout_ns, arrival_ns, books)
        self.touch()
        self.books.types.add(self.gang.total)
        self.submission_ns = arrival_ns
        self.arrival = arrival
        self.ending = ON_TIMEOUT
        self.hold: Hold | None = None
        self.asks: dict[AllocationKey, Ask] = {}
        self.allocations: dict[AllocationKey, tuple[Ask, NodeID]] = {}
        self.began_ns: dict[AllocationKey, int] = {}
        self.replaced_ns: dict[AllocationKey, int] = {}
        self.handed_back: list[tuple[int, int, AllocationKey]] = []
        self.real_count = self.placeholder_count = 0

    def has_real_work(self) -> bool:
        """Whether an ask is pending or a real task runs; a real ask that waits for its placeholder is neither (AP-41, GA-60)."""
        return bool(self.asks or self.real_count)

    def has_task(self, key: AllocationKey) -> bool:
        """Whether there is an ask or allocation with this key."""
        return key in self.allocations or key in self.asks or self.gang.placeholder_of(key) is not None

    def ask_removed(self, now_ns: int, ask: Ask, *, pending: bool, timed_out: bool = False) -> AskRemoved:
        """The fact that tells the end of a task, which counts no more; what a pending one has waited for is counted."""
        self.changed.tasks -= 1
        self.books.types.remove(ask.resource)
        if pending:
            self.count_wait(now_ns, ask)
            self.changed.task(ask)
        return AskRemoved(now_ns, ask, self.queue, pending, timed_out)

    def take_asks(self) -> list[Ask]:
        """Drop all pending asks; the caller has to tell their end."""
        asks = list(self.asks.values())
        self.asks.clear()
        return asks

    def count_so_far(self, accounts: Accounts, now_ns: int, pace: Pace) -> Pausing[None]:
        """Add to ``accounts`` what lasts, and is not counted yet. Cost: 2 us for each task and for each day since the first."""
        accounts.add(self.day, self.account_key, self.account)
        lasting = Lasting()
        for ask in (*self.asks.values(), *(real for real, _ in self.gang.replacing.values())):
            self.add_wait(lasting, now_ns, ask)
            if pace.is_due():
                yield ()
        for key, (ask, _) in self.allocations.items():
            self.add_use(lasting, now_ns, ask, self.began_ns[key])
            if pace.is_due():
                yield ()
        oldest = oldest_day(now_ns // S_NS)
        for day, account in lasting.by_day():
            if day >= oldest:
                accounts.add(day, self.account_key, account)
            if pace.is_due():
                yield ()

    # ---- releases that the scheduler starts

    def start_release(
        self,
        now_ns: int,
        keys: list[AllocationKey],
        message: str,
        termination_type: TerminationType = TerminationType.TIMEOUT,
    ) -> list[Fact]:
        """Ask the resource manager to end these few allocations; usage goes down when it confirms (AP-133)."""
        facts: list[Fact] = []
        for key in keys:
            if key not in self.gang.released:
                self.gang.released.add(key)
                ask, node_id = self.allocations[key]
                self.changed.task(ask)
                facts.append(ReleaseStarted(now_ns, ask, self.queue, node_id, termination_type, message))
        return facts

    def start_releases(self, now_ns: int, keys: list[AllocationKey], message: str) -> Pausing[list[Fact]]:
        """The same for any number of allocations."""
        facts, pace = list[Fact](), Pace()
        for part in in_parts(keys):
            facts += self.start_release(now_ns, part, message)
            if pace.is_due(len(part)):
                yield ()
        return facts

    def release_if_late(self, now_ns: int, ask: Ask) -> list[Fact]:
        """Release a new allocation at once if all allocations of its kind are being released already (AP-50, GA-47)."""
        if self.state is _FAILING or (ask.placeholder and self.state is ApplicationState.RESUMING):
            return self.start_release(now_ns, [ask.allocation_key], self.ending)
        if ask.placeholder and self.state is ApplicationState.COMPLETING and Timer.STATE not in self.timers:
            return self.start_release(now_ns, [ask.allocation_key], ON_COMPLETE)
        return []

    # ---- the end

    def after_failing(self, now_ns: int) -> list[Fact]:
        """A failing application has failed when its last allocation is gone (AP-47)."""
        if self.state is not ApplicationState.FAILING or self.allocations:
            return []
        return [*self.move(now_ns, ApplicationEvent.FAIL), *self.leave_if_ended(now_ns)]

    def leave_if_ended(self, now_ns: int) -> list[Fact]:
        """Leave the queue in Completed and Failed (AP-70)."""
        return self.leave(now_ns) if self.has_ended() else []

    def leave(self, now_ns: int, *, is_removed: bool = False) -> list[Fact]:
        """Drop the remaining asks and leave the queue (AP-70)."""
        facts: list[Fact] = [self.ask_removed(now_ns, ask, pending=True) for ask in self.take_asks()]
        self.close_account()
        self.touch_use()
        self.touch()
        self.books.types.remove(self.gang.total)
        facts.append(ApplicationLeft(now_ns, self.application_id, self.queue, is_removed))
        return facts
