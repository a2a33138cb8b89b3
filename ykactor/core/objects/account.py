"""The account of an application: what its tasks have used and waited for (AP-90), counted when they end, are resized, or move.

What lasts is counted when it is over: also the wait for an allocation, so that nearly nothing is to be done when a task begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.accounting.accounts import DAY_S, Account, AccountKey, Accounts, Lasting, add_times, oldest_day
from ykactor.core.accounting.books import Books
from ykactor.core.accounting.past import Past
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.asks import Ask
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, subtract_from
from ykactor.core.values.times import S_NS

#: Names in accounts are cut after so many characters.
NAME_MAX = 256
_DAY_NS = DAY_S * S_NS


def account_key(application_id: ApplicationID, who: UserGroups, queue: QueuePath) -> AccountKey:
    """The key of the accounts of an application in a queue."""
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
        sized_ns: of tasks that were resized, or that the resource manager has placed itself, since when they count: what was
            before is counted, or nothing.
        preempted: allocations that are preempted and have not ended.
        day, of_day: what was counted on that day; it is not in the accounts of the partition yet.
    """

    __slots__ = (
        "_application_id",
        "books",
        "counted_ns",
        "day",
        "has_grown",
        "key",
        "of_day",
        "past",
        "preempted",
        "sized_ns",
        "used",
    )

    def __init__(self, application_id: ApplicationID, key: AccountKey, counted_ns: int, books: Books, past: Past) -> None:
        self._application_id = application_id
        self.books = books
        self.past = past
        self.key = key
        self.used: Resource = {}
        self.has_grown = False
        self.counted_ns = counted_ns
        self.sized_ns: dict[AllocationKey, int] = {}
        self.preempted: set[AllocationKey] = set()
        self.day = 0
        self.of_day = Account()

    def move_to(self, queue: QueuePath) -> None:
        """Count in another queue from now on; everything before must have been counted."""
        self.key = self.key._replace(queue=queue)

    def restart(self, now_ns: int) -> None:
        """Count from now on; everything before is in the accounts of the partition."""
        self.of_day, self.counted_ns = Account(), now_ns
        self.touch()

    def touch(self) -> None:
        """Note a change, for its row."""
        self.books.changed.use(self._application_id)

    def is_kept(self) -> bool:
        """True if the application needs a row for its account and past."""
        return bool(self.past.max_used or self.past.records or self.of_day.allocated or self.of_day.waited)

    # ---- what is over

    def items(self, now_ns: int, since_ns: int) -> int:
        """The items that an ending task counts as: one, and one for each day that it has waited or run."""
        return 1 + max(0, now_ns - max(since_ns, self.counted_ns)) // _DAY_NS

    def count_wait(self, now_ns: int, ask: Ask) -> None:
        """Count the wait of a task that ends without having run, or has another size from now on."""
        self._count_wait(ask, now_ns)
        if self.sized_ns:
            self.sized_ns.pop(ask.allocation_key, None)

    def count_begin(self, resource: Resource) -> None:
        """Count an allocation of this size that has begun."""
        used = self.used
        for name, quantity in resource.items():
            used[name] = used.get(name, 0) + quantity
        self.has_grown = True

    def count_placed(self, now_ns: int, ask: Ask) -> None:
        """Note a task that the resource manager has placed itself, so that it has not waited."""
        if ask.since_ns < now_ns:
            self.sized_ns[ask.allocation_key] = now_ns

    def count_end(self, now_ns: int, ask: Ask, node_id: NodeID, began_ns: int) -> None:
        """Count an allocation that has ended, or has another size from now on, and its wait before."""
        if self.has_grown:
            self.reach()
        self._count_wait(ask, began_ns)
        key, resource = ask.allocation_key, ask.resource
        subtract_from(self.used, resource)
        is_preempted = key in self.preempted
        seconds = now_ns // S_NS - self._sized_ns(ask, began_ns) // S_NS
        if seconds > 0:
            self._count_use(ask, self._since_s(ask, began_ns), now_ns // S_NS, is_lost=is_preempted)
            history = self.past.history(is_preempted=is_preempted, is_placeholder=ask.placeholder)
            add_times(self.past.amounts(history, self.books.instance_type(node_id)), resource, seconds)
            self.touch()
        if self.sized_ns:
            self.sized_ns.pop(key, None)
        if is_preempted:
            self.preempted.remove(key)

    def reach(self) -> None:
        """Note the present usage if it is a new peak."""
        self.has_grown = False
        if self.past.reach(self.used):
            self.touch()

    def _count_wait(self, ask: Ask, until_ns: int) -> None:
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

    def count_resize(self, now_ns: int, before: Ask, after: Ask, node_id: NodeID, began_ns: int) -> None:
        """Count an allocation up to now that has another size from now on."""
        key = after.allocation_key
        is_preempted = key in self.preempted
        self.count_end(now_ns, before, node_id, began_ns)
        self.count_begin(after.resource)
        self.sized_ns[key] = now_ns
        if is_preempted:
            self.preempted.add(key)

    # ---- the account of the day

    def _today(self, now_s: int) -> Account:
        """The account of a day, which is about to change."""
        if now_s // DAY_S != self.day:
            self.close()
            self.day = now_s // DAY_S
        self.touch()
        return self.of_day

    def close(self) -> None:
        """Add the account of the day to the accounts of the partition."""
        self.books.accounts.add(self.day, self.key, self.of_day)
        self.of_day = Account()
        self.touch()

    # ---- what lasts

    def count_so_far(
        self, accounts: Accounts, now_ns: int, waiting: Iterable[Ask], running: Iterable[tuple[Ask, int]]
    ) -> Steps[None]:
        """Add to ``accounts`` what lasts, and is not counted yet. Cost: 2 us for each task and for each day since the first.

        Args:
            running: the allocations, with the times when they began.
        """
        accounts.add(self.day, self.key, self.of_day)
        lasting = Lasting()
        for ask in waiting:
            self._add_wait(lasting, now_ns, ask)
            yield 1
        for ask, began_ns in running:
            self._add_use(lasting, now_ns, ask, began_ns)
            yield 1
        oldest = oldest_day(now_ns // S_NS)
        for day, account in lasting.by_day():
            if day >= oldest:
                accounts.add(day, self.key, account)
            yield 1

    def _add_wait(self, lasting: Lasting, until_ns: int, ask: Ask) -> None:
        """Add what a task waited for up to then, in this queue and with this size."""
        lasting.waited.add(ask.resource, self._since_s(ask, ask.since_ns), until_ns // S_NS)

    def _add_use(self, lasting: Lasting, now_ns: int, ask: Ask, began_ns: int) -> None:
        """Add what an allocation has used up to now, and waited for before, in this queue and with this size."""
        self._add_wait(lasting, began_ns, ask)
        resource, since_s, until_s = ask.resource, self._since_s(ask, began_ns), now_ns // S_NS
        lasting.allocated.add(resource, since_s, until_s)
        if ask.allocation_key in self.preempted:
            lasting.lost.add(resource, since_s, until_s)

    def _sized_ns(self, ask: Ask, since_ns: int) -> int:
        """The time when a task began to wait or to run with its present size, in whatever queue."""
        if not self.sized_ns:
            return since_ns
        sized_ns = self.sized_ns.get(ask.allocation_key, since_ns)
        return sized_ns if sized_ns > since_ns else since_ns

    def _since_s(self, ask: Ask, since_ns: int) -> int:
        """The second from which a task counts in this queue and with this size."""
        since_ns = self._sized_ns(ask, since_ns)
        return (since_ns if since_ns > self.counted_ns else self.counted_ns) // S_NS
