"""What the tasks of an application have used and waited for is counted (AP-90): when they end, are resized, or change queues.

What lasts is counted when it is over: also the wait for an allocation, so that nearly nothing is to be done when a task begins.
"""

from __future__ import annotations

from ykactor.core.accounting.account import DAY_S, Account, AccountKey, add_times
from ykactor.core.accounting.books import Books
from ykactor.core.accounting.spans import Lasting
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.lifecycle import Lifecycle
from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.resources import Resource, subtract_from
from ykactor.core.values.times import S_NS

#: Names in accounts are cut after so many characters.
NAME_MAX = 256
_DAY_NS = DAY_S * S_NS


class CountedApplication(Lifecycle):
    """An application whose tasks are counted.

    Attributes:
        books: where it is counted.
        who: the user and its groups, the first of which is that of its accounts.
        used: the sum of its allocations.
        counted_ns: when it came into its queue: what was before is counted.
        sized_ns: of tasks that were resized, or that the resource manager has placed itself, since when they count: what was
            before is counted, or nothing.
        preempted: allocations that are preempted and have not ended.
        account_key: whose account its tasks count in.
        day, account: what was counted on that day; it is not in the accounts of the partition yet.
        has_grown: whether ``used`` may be more than ever.
    """

    __slots__ = ("account", "account_key", "books", "counted_ns", "day", "has_grown", "preempted", "sized_ns", "used", "who")

    def __init__(
        self,
        spec: AddApplication,
        who: UserGroups,
        queue: QueuePath,
        execution_timeout_ns: int | None,
        counted_ns: int,
        books: Books,
    ) -> None:
        super().__init__(spec.application_id, queue, spec.tags, execution_timeout_ns, books.changed)
        self.books = books
        self.who = who
        self.used: Resource = {}
        self.has_grown = False
        self.day = 0
        self.account = Account()
        self.counted_ns = counted_ns
        self.sized_ns: dict[AllocationKey, int] = {}
        self.preempted: set[AllocationKey] = set()
        group = who.groups[0] if who.groups else ""
        self.account_key = AccountKey(queue, who.user[:NAME_MAX], group[:NAME_MAX], spec.application_id[:NAME_MAX])

    def move_to(self, queue: QueuePath) -> None:
        """As of ``Lifecycle``; what was before must have been counted."""
        super().move_to(queue)
        self.account_key = self.account_key._replace(queue=queue)

    def touch_use(self) -> None:
        """More was counted or remembered of what the application has used and waited for."""
        self.changed.use(self.application_id)

    def has_use(self) -> bool:
        """Whether anything of that is to be kept with the application."""
        return bool(self.past.max_used or self.past.records or self.account.allocated or self.account.waited)

    # ---- what is over

    def count_items(self, now_ns: int, since_ns: int) -> int:
        """As how many items (``Pace``) a task counts that ends: each day that it has waited or run is one more."""
        return 1 + max(0, now_ns - max(since_ns, self.counted_ns)) // _DAY_NS

    def count_wait(self, now_ns: int, ask: Ask) -> None:
        """A task ends without having run, or has another size from now on."""
        self._count_wait(ask, now_ns)
        if self.sized_ns:
            self.sized_ns.pop(ask.allocation_key, None)

    def count_begin(self, resource: Resource) -> None:
        """An allocation of this size has begun."""
        used = self.used
        for name, quantity in resource.items():
            used[name] = used.get(name, 0) + quantity
        self.has_grown = True

    def count_placed(self, now_ns: int, ask: Ask) -> None:
        """The resource manager has placed a task itself, so that it has not waited."""
        if ask.since_ns < now_ns:
            self.sized_ns[ask.allocation_key] = now_ns

    def count_end(self, now_ns: int, ask: Ask, node_id: NodeID, began_ns: int) -> None:
        """An allocation has ended, or has another size from now on: only now counts what it waited for before."""
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
            self.touch_use()
        if self.sized_ns:
            self.sized_ns.pop(key, None)
        if is_preempted:
            self.preempted.remove(key)

    def reach(self) -> None:
        """Remember what is used now if it is more than ever."""
        self.has_grown = False
        if self.past.reach(self.used):
            self.touch_use()

    def _count_wait(self, ask: Ask, until_ns: int) -> None:
        since_s, until_s, resource = self._since_s(ask, ask.since_ns), until_ns // S_NS, ask.resource
        if since_s < until_s:
            today_s = until_s - until_s % DAY_S
            if since_s < today_s:
                self.books.accounts.wait(self.account_key, resource, since_s, today_s)
                since_s = today_s
            if since_s < until_s:
                add_times(self._today(until_s).waited, resource, until_s - since_s)

    def _count_use(self, ask: Ask, since_s: int, until_s: int, *, is_lost: bool) -> None:
        today_s = until_s - until_s % DAY_S
        if since_s < today_s:
            self.books.accounts.use(self.account_key, ask.resource, since_s, today_s, is_lost=is_lost)
            since_s = today_s
        if since_s < until_s:
            account = self._today(until_s)
            add_times(account.allocated, ask.resource, until_s - since_s)
            if is_lost:
                add_times(account.lost, ask.resource, until_s - since_s)

    def count_resize(self, now_ns: int, before: Ask, after: Ask, node_id: NodeID, began_ns: int) -> None:
        """An allocation has another size from now on."""
        key = after.allocation_key
        is_preempted = key in self.preempted
        self.count_end(now_ns, before, node_id, began_ns)
        self.count_begin(after.resource)
        self.sized_ns[key] = now_ns
        if is_preempted:
            self.preempted.add(key)

    # ---- its account

    def _today(self, now_s: int) -> Account:
        """The account of the day, which is about to change."""
        if now_s // DAY_S != self.day:
            self.close_account()
            self.day = now_s // DAY_S
        self.touch_use()
        return self.account

    def close_account(self) -> None:
        """What was counted is in the accounts of the partition from now on."""
        self.books.accounts.add(self.day, self.account_key, self.account)
        self.account = Account()

    # ---- what lasts

    def add_wait(self, lasting: Lasting, until_ns: int, ask: Ask) -> None:
        """Add what a task waited for up to then, in this queue and with this size."""
        lasting.waited.add(ask.resource, self._since_s(ask, ask.since_ns), until_ns // S_NS)

    def add_use(self, lasting: Lasting, now_ns: int, ask: Ask, began_ns: int) -> None:
        """Add what an allocation has used up to now, and waited for before, in this queue and with this size."""
        self.add_wait(lasting, began_ns, ask)
        resource, since_s, until_s = ask.resource, self._since_s(ask, began_ns), now_ns // S_NS
        lasting.allocated.add(resource, since_s, until_s)
        if ask.allocation_key in self.preempted:
            lasting.lost.add(resource, since_s, until_s)

    def _sized_ns(self, ask: Ask, since_ns: int) -> int:
        """When a task has begun to wait or to run with the size that it has, whatever queue it was in."""
        if not self.sized_ns:
            return since_ns
        sized_ns = self.sized_ns.get(ask.allocation_key, since_ns)
        return sized_ns if sized_ns > since_ns else since_ns

    def _since_s(self, ask: Ask, since_ns: int) -> int:
        """From which second on a task counts in this queue and with this size."""
        since_ns = self._sized_ns(ask, since_ns)
        return (since_ns if since_ns > self.counted_ns else self.counted_ns) // S_NS
