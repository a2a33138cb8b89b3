"""What the tasks of an application have used and waited for is counted (AP-90): when they end, are resized, or change queues.

What lasts is counted when it is over, so that nearly nothing is to be done when a task begins.
"""

from __future__ import annotations

from ykactor.core.accounting.account import AccountKey
from ykactor.core.accounting.accounts import Accounts
from ykactor.core.accounting.books import Books
from ykactor.core.config.access import UserGroups
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.submissions import AddApplication
from ykactor.core.objects.lifecycle import Lifecycle
from ykactor.core.values.ids import AllocationKey, NodeID, QueuePath
from ykactor.core.values.resources import Resource, add_to, subtract_from
from ykactor.core.values.times import S_NS

#: Names in accounts are cut after so many characters.
NAME_MAX = 256


class CountedApplication(Lifecycle):
    """An application whose tasks are counted.

    Attributes:
        books: where it is counted.
        who: the user and its groups, the first of which is that of its accounts.
        used: the sum of its allocations.
        counted_ns: when it came into its queue: what was before is counted.
        sized_ns: of tasks that were resized, since when they have their size: what was before is counted.
        preempted: allocations that are preempted and have not ended.
        account_key: the account in which its tasks count.
    """

    __slots__ = ("account_key", "books", "counted_ns", "preempted", "sized_ns", "used", "who")

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
        self.counted_ns = counted_ns
        self.sized_ns: dict[AllocationKey, int] = {}
        self.preempted: set[AllocationKey] = set()
        group = who.groups[0] if who.groups else ""
        self.account_key = AccountKey(queue, who.user[:NAME_MAX], group[:NAME_MAX], spec.application_id[:NAME_MAX])

    def move_to(self, queue: QueuePath) -> None:
        """As of ``Lifecycle``; what was before must have been counted."""
        super().move_to(queue)
        self.account_key = self.account_key._replace(queue=queue)

    # ---- what is over

    def count_wait(self, now_ns: int, ask: Ask) -> None:
        """An ask waits no longer, or for another amount."""
        if now_ns // S_NS != ask.since_ns // S_NS:  # seldom where much is placed
            self.add_wait(self.books.accounts, now_ns, ask)
        if self.sized_ns:
            self.sized_ns.pop(ask.spec.allocation_key, None)

    def count_end(self, now_ns: int, ask: Ask, node_id: NodeID, began_ns: int) -> None:
        """An allocation has ended, or has another size from now on."""
        key, resource = ask.spec.allocation_key, ask.spec.resource
        if self.past.reach(self.used):
            self.touch()
        subtract_from(self.used, resource)
        seconds = now_ns // S_NS - self._sized_ns(ask, began_ns) // S_NS
        if seconds > 0:
            self.add_use(self.books.accounts, now_ns, ask, began_ns)
            self._remember(ask, node_id, seconds)
        if self.sized_ns:
            self.sized_ns.pop(key, None)
        self.preempted.discard(key)

    def _remember(self, ask: Ask, node_id: NodeID, seconds: int) -> None:
        past = self.past
        if ask.spec.allocation_key in self.preempted:
            history = past.preempted
        else:
            history = past.placeholders if ask.spec.placeholder else past.used
        past.end(history, self.books.instance_type(node_id), ask.spec.resource, seconds)
        self.touch()

    def count_resize(self, now_ns: int, before: Ask, after: Ask, node_id: NodeID, began_ns: int) -> None:
        """An allocation has another size from now on."""
        is_preempted = before.spec.allocation_key in self.preempted
        self.count_end(now_ns, before, node_id, began_ns)
        add_to(self.used, after.spec.resource)
        self.sized_ns[after.spec.allocation_key] = now_ns
        if is_preempted:
            self.preempted.add(after.spec.allocation_key)

    # ---- what lasts

    def add_wait(self, accounts: Accounts, now_ns: int, ask: Ask) -> None:
        """Add to ``accounts`` for what an ask has waited up to now in this queue and with this size."""
        since_ns = max(self._sized_ns(ask, ask.since_ns), self.counted_ns)
        accounts.wait(self.account_key, ask.spec.resource, since_ns // S_NS, now_ns // S_NS)

    def add_use(self, accounts: Accounts, now_ns: int, ask: Ask, began_ns: int) -> None:
        """Add to ``accounts`` what an allocation has used up to now in this queue and with this size."""
        since_ns = max(self._sized_ns(ask, began_ns), self.counted_ns)
        is_lost = ask.spec.allocation_key in self.preempted
        accounts.use(self.account_key, ask.spec.resource, since_ns // S_NS, now_ns // S_NS, is_lost=is_lost)

    def _sized_ns(self, ask: Ask, began_ns: int) -> int:
        return self.sized_ns.get(ask.spec.allocation_key, began_ns) if self.sized_ns else began_ns
