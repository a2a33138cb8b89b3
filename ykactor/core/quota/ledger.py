"""The ledger: usage of every queue along the tree, in one place and with one writer, the scheduler.

Usage along a path is one fact. If each queue kept its own and passed changes upwards, an ancestor would lag behind
and a walk could pass its ``max``. ``charge`` is the only way to take usage up with a check; what was charged and is
not yet settled is *unconfirmed*, and there is none of it between two cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.states import COUNTED_AS_RUNNING
from ykactor.core.queueing.leaf_order import LeafOrder
from ykactor.core.queueing.pending import WaitingApplication
from ykactor.core.queueing.priorities import Priority, PriorityBag, queue_priority
from ykactor.core.queueing.sibling_order import ChildOrder, ChildPlace, Effort
from ykactor.core.quota.limits import QueueLimits
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.resources import QUANTITY_MAX, Resource, add_to, subtract_from

#: Queues looked at before other tasks get their turn (about 10 us each).
BREATH = 200


class Account:
    """What the scheduler keeps of one queue.

    Attributes:
        path_up: this account and its ancestors, root last.
        allocated, pending: base units; parents hold the sum of their children (QU-47).
        running: the applications that hold a running slot here (QU-53, QU-55).
        preempting: the part of ``allocated`` that was told to go for others and has not gone yet.
        claims: what waiting asks have fought for: a node is kept for each, and its victims go (PE-19).
        accepted: those that hold one although they have only placeholders so far (QU-54).
        priorities: of the children, or of the leaf's applications; ``priority`` is what the parent sees (PR-11).
        share: fair share, see ``reckon_share``; of ``denominators``, which come from ``fair_max`` (section 3 of QU).
    """

    __slots__ = (
        "_effort",
        "accepted",
        "allocated",
        "applications",
        "children",
        "claims",
        "config",
        "denominators",
        "fair_max",
        "is_leaf",
        "limits",
        "max",
        "parent",
        "parked",
        "path",
        "path_up",
        "pending",
        "place",
        "preempting",
        "priorities",
        "priority",
        "running",
        "share",
    )

    def __init__(self, config: QueueConfig, is_leaf: bool, parent: Account | None, effort: Effort) -> None:
        self._effort = effort
        self.path: QueuePath = config.path
        self.parent = parent
        self.path_up: tuple[Account, ...] = (self, *(parent.path_up if parent else ()))
        self.allocated: Resource = {}
        self.pending: Resource = {}
        self.preempting: Resource = {}
        self.claims: Resource = {}
        self.running: dict[ApplicationID, None] = {}
        self.accepted: dict[ApplicationID, None] = {}
        self.priorities = PriorityBag()
        self.priority: Priority = None
        self.share = 0.0
        self.fair_max: Resource = {}
        self.denominators: dict[str, float] = {}
        self.place = ChildPlace()
        self.parked = False
        self.configure(config, is_leaf)

    def configure(self, config: QueueConfig, is_leaf: bool) -> None:
        """Take over new settings; usage stays, the order of children begins anew."""
        self.config = config
        self.is_leaf = is_leaf
        self.max = config.max
        #: None when there are none, as in most queues.
        self.limits = QueueLimits(config.path, config.limits) if config.limits else None
        #: A parent's children in order, a leaf's applications in order.
        self.children = ChildOrder(self._effort, by_priority=config.properties.sort_by_priority)
        self.applications = LeafOrder(config)
        self.place = ChildPlace()
        self.parked = False

    def limits_up(self) -> list[QueueLimits]:
        """The limits of this queue and of those above, as far as there are any."""
        return [account.limits for account in self.path_up if account.limits is not None]

    def __repr__(self) -> str:
        return f"<Account {self.path}>"


class Ledger:
    """All accounts of a partition."""

    def __init__(self) -> None:
        self.accounts: dict[QueuePath, Account] = {}
        self.root: Account
        #: What comparing sibling queues costs.
        self.effort = Effort()
        #: Sum of all node capacities (QU-30); None while it has no positive value.
        self.root_max: Resource | None = None
        #: Charges that are not yet settled, as (leaf, resource).
        self.unconfirmed: list[tuple[Account, Resource]] = []
        self._shares_are_stale = True
        #: One higher whenever an amount in use changes.
        self.changes = 0

    # ---- the tree

    def configure(self, queues: Iterable[tuple[QueueConfig, bool]]) -> Iterator[None]:
        """Take over a queue tree: settings and "is a leaf", parents before children. Breathes (see ``Indexes.observe``).

        Accounts that are not named are dropped; they must be empty.
        """
        old, self.accounts = self.accounts, {}
        for number, (config, is_leaf) in enumerate(queues, 1):
            account = old.get(config.path)
            if account is None:
                account = self.add(config, is_leaf)
            else:
                if not account.is_leaf:  # a leaf's applications are still in its bag, its children show themselves below
                    account.priorities = PriorityBag()
                account.configure(config, is_leaf)
                self.accounts[config.path] = account
            account.priority = None
            if number % BREATH == 0:
                yield
        self.root = next(iter(self.accounts.values()))
        self.root.max = self.root_max
        for number, account in enumerate(reversed(self.accounts.values()), 1):  # children before parents
            self.refresh_priority(account)
            if number % BREATH == 0:
                yield
        self._shares_are_stale = True

    def reconfigure_leaf(self, leaf: Account, config: QueueConfig) -> None:
        """One leaf has other settings; its properties stay as they are. Its applications have to line up again."""
        assert leaf.parent is not None
        leaf.parent.children.remove(leaf)
        leaf.configure(config, is_leaf=True)
        self._reckon_denominators(leaf)
        leaf.share = reckon_share(leaf.allocated, leaf.denominators)

    def add(self, config: QueueConfig, is_leaf: bool) -> Account:
        """A queue more; its parent must be there."""
        above = config.path.rpartition(".")[0]
        account = Account(config, is_leaf, self.accounts[QueuePath(above)] if above else None, self.effort)
        self.accounts[config.path] = account
        self._reckon_denominators(account)
        return account

    def remove(self, path: QueuePath) -> None:
        """An empty queue less."""
        del self.accounts[path]

    def set_root_max(self, total: Resource | None) -> None:
        """The nodes offer ``total`` together from now on."""
        self.root_max = self.root.max = total
        self._shares_are_stale = True

    # ---- priorities

    def refresh_priority(self, account: Account) -> None:
        """Recompute what ``account`` shows to its parent, and pass a change upwards (PR-18)."""
        while True:
            priority = queue_priority(account.priorities.highest, account.config.properties)
            if priority == account.priority:
                return
            parent = account.parent
            if parent is not None:
                parent.priorities.replace(account.priority, priority)
            account.priority = priority
            if parent is None:
                return
            account = parent

    # ---- the walk

    def first_of(self, leaves: Iterable[Account]) -> Account:
        """The leaf that the walk from root comes to first; each of ``leaves`` must have something pending."""
        return next(self.in_order(leaves))

    def in_order(self, leaves: Iterable[Account]) -> Iterator[Account]:
        """At least one leaf, in the order in which the walk from root comes to them as far as they are asked for."""
        children: dict[Account, list[Account]] = {}
        for account in {account for leaf in leaves for account in leaf.path_up}:
            if account.parent is not None:
                children.setdefault(account.parent, []).append(account)
        ahead = [self.root]
        while ahead:
            queue = ahead.pop()
            if queue in children:
                ahead += sorted(children[queue], key=queue.children.rank, reverse=True)
            else:
                yield queue

    def children_of(self) -> dict[Account, list[Account]]:
        """The children of every parent that has some, in name order, those too in which nobody waits."""
        children: dict[Account, list[Account]] = {}
        for _, account in sorted(self.accounts.items()):
            if account.parent is not None:
                children.setdefault(account.parent, []).append(account)
        return children

    # ---- shares

    def refresh_shares(self) -> Iterator[None]:
        """Recompute every denominator and share, if a max, a guarantee or the cluster changed since the last time. Breathes."""
        if not self._shares_are_stale:
            return
        self._shares_are_stale = False
        for number, account in enumerate(self.accounts.values(), 1):  # parents before children
            self._reckon_denominators(account)
            account.share = reckon_share(account.allocated, account.denominators)
            if account.parent is not None:
                account.parent.children.update(account)
            if number % BREATH == 0:
                yield

    def _reckon_denominators(self, account: Account) -> None:
        """Own values replace those of the parent; without a cluster there are none (section 3 of QU)."""
        parent = account.parent
        own = account.max or {} if parent is None or self.root_max else {}
        account.fair_max = {**parent.fair_max, **own} if parent else dict(own)
        bounds = {**account.fair_max, **(account.config.guaranteed or {})}
        account.denominators = {name: float(quantity) for name, quantity in bounds.items()}

    # ---- usage

    def shortage(self, path_up: tuple[Account, ...], items: tuple[tuple[str, int], ...]) -> tuple[Account, str] | None:
        """Where a charge would not fit: the first queue of ``path_up``, and the type. None when it fits.

        One check serves headroom and commit (QU-36, QU-40): only the types of the ask count; a type that a queue's max does not
        list is unlimited there, except at root, where it is 0.
        """
        for account in path_up:
            limit = account.max
            if limit is None:
                if account.parent is None:
                    return account, items[0][0]
                continue
            allocated = account.allocated
            for name, quantity in items:
                if name in limit:
                    if allocated.get(name, 0) + quantity > limit[name]:
                        return account, name
                elif account.parent is None and allocated.get(name, 0) + quantity > 0:
                    return account, name
        return None

    def change_pending(self, leaf: Account, change: Resource) -> None:
        """Asks of ``leaf`` came or went: add the signed amounts along the path.

        Saturates upwards (QU-1), and so is cut at 0 when what was cut off above is taken away again (QU-43). Nothing is lost by
        that: whether somebody waits at all is told by the priority.
        """
        for account in leaf.path_up:
            pending = account.pending
            for name, quantity in change.items():
                value = pending.get(name, 0) + quantity
                if value > 0:
                    pending[name] = min(value, QUANTITY_MAX)
                else:
                    pending.pop(name, None)

    def charge(self, leaf: Account, resource: Resource) -> None:
        """Turn pending into unconfirmed usage along the path. ``shortage`` must have said that it fits. O(depth)."""
        for account in leaf.path_up:
            allocated, pending, denominators = account.allocated, account.pending, account.denominators
            for name, quantity in resource.items():
                used = allocated[name] = allocated.get(name, 0) + quantity
                left = pending.get(name, 0) - quantity
                if left > 0:
                    pending[name] = left
                else:
                    pending.pop(name, None)
                denominator = denominators.get(name)
                if denominator is not None:  # usage only grows here: the share is the old one or this type's
                    ratio = used / denominator if denominator > 0 else float(used != 0)
                    if ratio > account.share:
                        account.share = ratio
        self.unconfirmed.append((leaf, resource))
        self.changes += 1

    def confirm(self) -> None:
        """All charges are settled."""
        self.unconfirmed.clear()

    def refund(self, leaf: Account, resource: Resource) -> None:
        """A node refused: turn unconfirmed usage back into pending."""
        self.unconfirmed.remove((leaf, resource))
        self.change_pending(leaf, resource)
        self.free(leaf, resource)

    def use(self, leaf: Account, resource: Resource) -> None:
        """Usage that is there whether it fits or not: recovered allocations (QU-41)."""
        self.changes += 1
        for account in leaf.path_up:
            add_to(account.allocated, resource)
            account.share = reckon_share(account.allocated, account.denominators)

    def free(self, leaf: Account, resource: Resource) -> None:
        """Usage that ended (QU-42)."""
        self.changes += 1
        for account in leaf.path_up:
            subtract_from(account.allocated, resource)
            account.share = reckon_share(account.allocated, account.denominators)

    def move(self, leaf: Account, to_leaf: Account, application: WaitingApplication) -> None:
        """An application goes from one leaf to another with all it uses, its running slot, and the priority it showed there."""
        self.free(leaf, application.allocated)
        self.use(to_leaf, application.allocated)
        self.give_slot_back(leaf, application.application_id)
        if application.state in COUNTED_AS_RUNNING:
            self.take_slot(to_leaf, application.application_id)
        elif application.holds_slot:
            self.hold_slot(to_leaf, application.application_id)
        leaf.applications.remove(application)
        leaf.priorities.replace(application.shown_priority, None)
        application.shown_priority = None
        application.leave_lines()

    # ---- running slots

    def lacks_slot(self, leaf: Account, application_id: ApplicationID) -> Account | None:
        """The queue that has no room for one more running application; None when every level has (QU-52)."""
        for account in leaf.path_up:
            limit = account.config.max_applications
            if not limit or application_id in account.running or application_id in account.accepted:
                continue
            if len(account.running) + len(account.accepted) + 1 > limit:
                return account
        return None

    def take_slot(self, leaf: Account, application_id: ApplicationID) -> None:
        """Count the application as running on every level, above a lowered limit too (QU-55)."""
        for account in leaf.path_up:
            account.running[application_id] = None
            account.accepted.pop(application_id, None)

    def hold_slot(self, leaf: Account, application_id: ApplicationID) -> None:
        """Keep a slot for an Accepted application that has its first placeholder (QU-54)."""
        for account in leaf.path_up:
            account.accepted[application_id] = None

    def give_slot_back(self, leaf: Account, application_id: ApplicationID) -> None:
        """Count the application as running no more, and keep nothing for it."""
        for account in leaf.path_up:
            account.running.pop(application_id, None)
            account.accepted.pop(application_id, None)


def reckon_share(allocated: Resource, denominators: dict[str, float]) -> float:
    """The fair share (PR-70): the largest used part of a guarantee, or of the fair max where none is given.

    Args:
        allocated: base units.
        denominators: per type the own guarantee, else the fair max; a type in neither is left out.
    """
    share = 0.0
    for name, used in allocated.items():
        denominator = denominators.get(name)
        if denominator is None or used < 0:
            continue
        share = max(share, float(used) / denominator if denominator > 0 else float(used != 0))
    return share
