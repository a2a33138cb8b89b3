"""The account of an application: what its tasks have used and waited for (AP-90), counted when they end, are resized, or move.

What lasts is counted when it is over: also the wait for an allocation, so that nearly nothing is to be done when a task begins.
"""

from __future__ import annotations

from msgspec import structs

from ykactor.core.accounting.accounts import DAY_S, Account, AccountKey, Accounts, Lasting, add_times, oldest_day
from ykactor.core.accounting.books import Books
from ykactor.core.accounting.past import MESSAGE_MAX, Past
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.states import NAME_MAX, JobReport, TaskRecord
from ykactor.core.objects.tasks import ApplicationTasks
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, subtract_from
from ykactor.core.values.times import S_NS

_DAY_NS = DAY_S * S_NS


def account_key(application_id: ApplicationID, who: UserGroups, queue: QueuePath) -> AccountKey:
    """The key of the accounts of an application in a queue; long names are cut."""
    group = who.groups[0] if who.groups else ""
    return AccountKey(queue, who.user[:NAME_MAX], group[:NAME_MAX], application_id[:NAME_MAX])


class ApplicationAccount:
    """The account of one application; ``Application`` has one.

    Attributes:
        books: where it is counted in the end.
        past: the past of the application.
        key: of its account in the accounts of the partition: its queue, its user, the user's first group, its name.
        used: the sum of its allocations.
        has_grown: True if ``used`` may be more than ever.
        counted_ns: the time when it came into its queue; everything before is counted.
        day, of_day: what was counted on that day; it is not in the accounts of the partition yet.
    """

    __slots__ = ("_application_id", "_tasks", "books", "counted_ns", "day", "has_grown", "key", "of_day", "past", "used")

    def __init__(
        self, application_id: ApplicationID, key: AccountKey, counted_ns: int, books: Books, tasks: ApplicationTasks
    ) -> None:
        self._application_id = application_id
        self._tasks = tasks
        self.books = books
        self.past = Past()
        self.key = key
        self.used: Resource = {}
        self.has_grown = False
        self.counted_ns = counted_ns
        self.day = 0
        self.of_day = Account()

    def move_to(self, queue: QueuePath) -> None:
        """Count in another queue from now on; everything before must have been counted."""
        self.key = self.key._replace(queue=queue)

    def restart(self, now_ns: int) -> None:
        """Count from now on; everything before is in the accounts of the partition."""
        self.of_day, self.counted_ns = Account(), now_ns
        self.books.changed.application(self._application_id)
        self._note()

    def record(self, record: TaskRecord) -> None:
        """Keep the record of an ended task; its node is known here until it is released (AP-152)."""
        key, allocations = record.allocation_key, self._tasks.allocations
        kept = structs.replace(
            record,
            allocation_key=AllocationKey(key[:NAME_MAX]),
            node_id=NodeID(allocations[key][1][:NAME_MAX] if key in allocations else ""),
            queue=QueuePath(self.key.queue[:NAME_MAX]),
            message=record.message[:MESSAGE_MAX],
        )
        self.past.record(kept)
        self._note()

    def report(self, job: JobReport) -> None:
        """Keep what the application is a job of; it replaces what was said before (AP-160)."""
        self.past.job = structs.replace(job, name=job.name[:NAME_MAX])
        self._note()

    def _note(self) -> None:
        self.books.changed.use(self._application_id)

    def is_kept(self) -> bool:
        """True if the application needs a row for its account and past."""
        past, of_day = self.past, self.of_day
        return bool(past.max_used or past.records or past.job or of_day.allocated or of_day.waited)

    # ---- what is over

    def items(self, now_ns: int, since_ns: int) -> int:
        """The items that an ending task counts as: one, and one for each day that it has waited or run."""
        return 1 + max(0, now_ns - max(since_ns, self.counted_ns)) // _DAY_NS

    def count_begin(self, resource: Resource) -> None:
        """Count an allocation of this size that has begun."""
        used = self.used
        for name, quantity in resource.items():
            used[name] = used.get(name, 0) + quantity
        self.has_grown = True

    def count_end(self, now_ns: int, ask: Ask, node_id: NodeID) -> None:
        """Count an allocation that ends, or has another size from now on, and its wait before."""
        if self.has_grown:
            self.reach()
        key, resource = ask.allocation_key, ask.resource
        began_ns, is_preempted = self._tasks.began_ns[key], key in self._tasks.preempted
        self.count_wait(began_ns, ask)
        subtract_from(self.used, resource)
        seconds = now_ns // S_NS - self._sized_ns(ask, began_ns) // S_NS
        if seconds > 0:
            self._count_use(ask, self._since_s(ask, began_ns), now_ns // S_NS, is_lost=is_preempted)
            history = self.past.history(is_preempted=is_preempted, is_placeholder=ask.placeholder)
            add_times(self.past.amounts(history, self.books.instance_type(node_id)), resource, seconds)
            self._note()

    def reach(self) -> None:
        """Note the present usage if it is a new peak."""
        self.has_grown = False
        if self.past.reach(self.used):
            self._note()

    def count_wait(self, until_ns: int, ask: Ask) -> None:
        """Count the wait of a task that has begun, ends without having run, or has another size from now on."""
        since_s, until_s, resource = self._since_s(ask, ask.since_ns), until_ns // S_NS, ask.resource
        if since_s < until_s:
            today_s = until_s - until_s % DAY_S
            if since_s < today_s:
                self.books.accounts.wait(self.key, resource, since_s, today_s)
                since_s = today_s
            if since_s < until_s:
                add_times(self._today(until_s).waited, resource, until_s - since_s)

    def _count_use(self, ask: Ask, since_s: int, until_s: int, *, is_lost: bool) -> None:
        today_s = until_s - until_s % DAY_S
        if since_s < today_s:
            self.books.accounts.use(self.key, ask.resource, since_s, today_s, is_lost=is_lost)
            since_s = today_s
        if since_s < until_s:
            account = self._today(until_s)
            add_times(account.allocated, ask.resource, until_s - since_s)
            if is_lost:
                add_times(account.lost, ask.resource, until_s - since_s)

    # ---- the account of the day

    def _today(self, now_s: int) -> Account:
        """The account of a day, which is about to change."""
        if now_s // DAY_S != self.day:
            self.close()
            self.day = now_s // DAY_S
        self._note()
        return self.of_day

    def close(self) -> None:
        """Add the account of the day to the accounts of the partition."""
        self.books.accounts.add(self.day, self.key, self.of_day)
        self.of_day = Account()
        self._note()

    # ---- what lasts

    def count_so_far(self, accounts: Accounts, now_ns: int) -> Steps[None]:
        """Add to ``accounts`` what lasts, and is not counted yet. Cost: 2 us for each task and for each day since the first."""
        tasks = self._tasks
        accounts.add(self.day, self.key, self.of_day)
        lasting = Lasting()
        for ask in (*tasks.asks.values(), *(real for real, _ in tasks.replacing.values())):
            self._add_wait(lasting, now_ns, ask)
            yield 1
        for ask, _ in tasks.allocations.values():
            self._add_use(lasting, now_ns, ask)
            yield 1
        oldest = oldest_day(now_ns // S_NS)
        for day, account in lasting.by_day():
            if day >= oldest:
                accounts.add(day, self.key, account)
            yield 1

    def _add_wait(self, lasting: Lasting, until_ns: int, ask: Ask) -> None:
        """Add what a task waited for up to then, in this queue and with this size."""
        lasting.waited.add(ask.resource, self._since_s(ask, ask.since_ns), until_ns // S_NS)

    def _add_use(self, lasting: Lasting, now_ns: int, ask: Ask) -> None:
        """Add what an allocation has used up to now, and waited for before, in this queue and with this size."""
        began_ns = self._tasks.began_ns[ask.allocation_key]
        self._add_wait(lasting, began_ns, ask)
        resource, since_s, until_s = ask.resource, self._since_s(ask, began_ns), now_ns // S_NS
        lasting.allocated.add(resource, since_s, until_s)
        if ask.allocation_key in self._tasks.preempted:
            lasting.lost.add(resource, since_s, until_s)

    def _sized_ns(self, ask: Ask, since_ns: int) -> int:
        """The time when a task began to wait or to run with its present size, in whatever queue."""
        known = self._tasks.sized_ns
        if not known:
            return since_ns
        sized_ns = known.get(ask.allocation_key, since_ns)
        return sized_ns if sized_ns > since_ns else since_ns

    def _since_s(self, ask: Ask, since_ns: int) -> int:
        """The second from which a task counts in this queue and with this size."""
        since_ns = self._sized_ns(ask, since_ns)
        return (since_ns if since_ns > self.counted_ns else self.counted_ns) // S_NS
