"""The fairness account of a partition: what its queues are entitled to over time, what they use less (debt) and more (credit).

At each change of demand (what is used and what is pending) the entitlement follows down the tree (``sim.entitlement``). Demand
counts within ``max``, of a queue and of those below it. All amounts are integers, in millionths of base units, so that a part
of a GPU counts; debt and credit are integers too, in such units times nanoseconds. Limits of users and running slots count for
nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.kinds import QueueLimit
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource, add_to, subtracted
from ykactor.sim.entitlement import dominant_share, entitlements, pace_of
from ykactor.sim.series import Series

#: The parts of a base unit.
PARTS = 10**6
_ROOT = QueuePath("root")


class QueueAccount:
    """The account of one queue; amounts are in millionths of base units, areas in these times nanoseconds.

    Attributes:
        wanted: what the applications of a leaf use and have pending.
        below: the demand of all children.
        demand: what the queue could use: ``wanted`` or ``below``, within its max.
        used: by this queue and below it.
        entitled: as of the last change of demand.
        weight, pace: as in ``entitlement.Claim``; of a pace of 0 both are to be computed.
        debt, credit, use: areas by type.
        has_all: every child is entitled to all that it demands.
        claims: the children that demand anything, or are entitled to anything.
        touched: the children for which, or below which, demand or a guarantee has changed since.
        since_ns: the areas count up to here.
        share: the used part of the guarantee over time (PR-70); None before it has been used with a guarantee.
    """

    __slots__ = (
        "below",
        "claims",
        "credit",
        "debt",
        "demand",
        "entitled",
        "guaranteed",
        "has_all",
        "max",
        "pace",
        "parent",
        "path",
        "path_up",
        "share",
        "since_ns",
        "touched",
        "use",
        "used",
        "wanted",
        "weight",
    )

    def __init__(self, path: QueuePath, parent: QueueAccount | None, now_ns: int) -> None:
        self.path = path
        self.parent = parent
        self.path_up: tuple[QueueAccount, ...] = (self, *(parent.path_up if parent else ()))
        self.max: Resource | None = None
        self.guaranteed: Resource = {}
        self.wanted: Resource = {}
        self.below: Resource = {}
        self.demand: Resource = {}
        self.used: Resource = {}
        self.entitled: Resource = {}
        self.weight, self.pace = 0, 0
        self.debt: Resource = {}
        self.credit: Resource = {}
        self.use: Resource = {}
        self.has_all = True
        self.claims: dict[QueuePath, QueueAccount] = {}
        self.touched: dict[QueuePath, QueueAccount] = {}
        self.since_ns = now_ns
        self.share: Series | None = None

    def within_max(self) -> Resource:
        """The present demand, a fresh resource without types that are 0."""
        bounds = self.max or {}
        demand = dict(self.below)
        add_to(demand, self.wanted)
        return {name: least for name, amount in demand.items() if (least := min(amount, bounds.get(name, amount))) > 0}


class FairnessAccount:
    """The queues of one partition.

    Args:
        now_ns: when the account begins.
        begin_ns, until_ns: begin and end of the run, for what is shown over time.
        root: the first configuration; None if the limits of all queues are told.
    """

    def __init__(self, now_ns: int, begin_ns: int, until_ns: int, root: QueueConfig | None = None) -> None:
        self.queues: dict[QueuePath, QueueAccount] = {}
        self.capacity: Resource = {}
        self._begin_ns, self._until_ns = begin_ns, until_ns
        self._now_ns = now_ns
        #: The queues whose own demand, max or guarantee has changed at the present time.
        self._changed: dict[QueuePath, QueueAccount] = {}
        self._has_new_capacity = False
        #: The area of the capacity, by type.
        self.offered: Resource = {}
        #: The used part of the capacity over time, by type.
        self.used_over_time: dict[str, Series] = {}
        self._root = self._queue(_ROOT)
        if root is not None:
            self._configure(root)

    def _configure(self, config: QueueConfig) -> None:
        self.set_limit(self._now_ns, config.path, QueueLimit.GUARANTEED, config.guaranteed)
        if config.path != _ROOT:
            self.set_limit(self._now_ns, config.path, QueueLimit.MAX, config.max)
        for child in config.children:
            self._configure(child)

    # ---- what happens, in the order of time

    def set_limit(self, at_ns: int, path: QueuePath, limit: QueueLimit, resource: Resource | None) -> None:
        """Set a ``max`` or guarantee in base units; the max of root is the capacity (QU-30)."""
        self.advance(at_ns)
        amounts = _parts(resource or {})
        queue = self._queue(path)
        self._settle(queue, at_ns)
        if queue is self._root and limit is QueueLimit.MAX:
            self.capacity, self._has_new_capacity = amounts, True
        elif limit is QueueLimit.MAX:
            queue.max = None if resource is None else amounts
        else:
            queue.guaranteed = {name: amount for name, amount in amounts.items() if amount > 0}
        self._changed[path] = queue

    def remove(self, at_ns: int, path: QueuePath) -> None:
        """Remove an empty queue; its account stays."""
        self.advance(at_ns)
        queue = self._queue(path)
        queue.max, queue.guaranteed = None, {}
        self._settle(queue, at_ns)
        self._changed[path] = queue

    def want(self, at_ns: int, path: QueuePath, resource: Resource, sign: int = 1) -> None:
        """Let the demand of a leaf grow, or with -1 shrink, by an amount in base units."""
        self.advance(at_ns)
        queue = self._queue(path)
        _change(queue.wanted, _parts(resource, sign))
        self._changed[path] = queue

    def use(self, at_ns: int, path: QueuePath, resource: Resource, sign: int = 1) -> None:
        """Let the usage of a leaf and of all queues above it grow, or with -1 shrink, by an amount in base units."""
        self.advance(at_ns)
        change = _parts(resource, sign)
        for queue in self._queue(path).path_up:
            self._settle(queue, at_ns)
            _change(queue.used, change)

    def advance(self, at_ns: int) -> None:
        """Let time go on: the changes of the time before hold from then on."""
        if at_ns > self._now_ns:
            if self._changed:
                self._update(self._now_ns)
            self._now_ns = at_ns

    def finish(self, end_ns: int) -> None:
        """Count up to the end of the run."""
        self.advance(end_ns)
        for queue in self.queues.values():
            self._settle(queue, end_ns)

    # ---- entitlements

    def _update(self, at_ns: int) -> None:
        """Compute the entitlements anew, of queues for which anything is different."""
        for queue in self._changed.values():
            self._touch(queue)
            self._demand_changed(queue)
        self._changed.clear()
        root, capacity = self._root, self.capacity
        entitled = {name: least for name, amount in root.demand.items() if (least := min(amount, capacity.get(name, 0))) > 0}
        self._entitle(root, entitled, at_ns)
        self._has_new_capacity = False

    def _touch(self, queue: QueueAccount) -> None:
        """Let the parents on the way down to this queue be divided anew."""
        queue.pace = 0
        for below in queue.path_up:
            if below.parent is not None:
                below.parent.touched[below.path] = below.parent.claims[below.path] = below

    def _demand_changed(self, queue: QueueAccount) -> None:
        """Update the demand of this queue and of those above it, as far as it is different."""
        while (demand := queue.within_max()) != queue.demand:
            more = subtracted(demand, queue.demand)
            queue.demand = demand
            self._touch(queue)
            if queue.parent is None:
                return
            queue = queue.parent
            _change(queue.below, more)

    def _entitle(self, queue: QueueAccount, entitled: Resource, at_ns: int) -> None:
        """Give a queue its entitlement, and divide it among its children where they, it or the cluster have changed."""
        is_new = entitled != queue.entitled
        if is_new:
            self._settle(queue, at_ns)
            queue.entitled = entitled
        if not (is_new or queue.touched or self._has_new_capacity):
            return
        had_all, queue.has_all = queue.has_all, queue.below == entitled
        touched, queue.touched = queue.touched, {}
        if queue.has_all and had_all:
            divided = [(child, child.demand) for child in touched.values()]
        elif queue.has_all:
            divided = [(child, child.demand) for child in queue.claims.values()]
        else:
            divided = self._divided(queue)
        for child, given in divided:
            self._entitle(child, given, at_ns)
            if not child.demand:
                queue.claims.pop(child.path, None)

    def _divided(self, queue: QueueAccount) -> list[tuple[QueueAccount, Resource]]:
        """The children of a queue that is entitled to less than they demand, each with its part."""
        claims = list(queue.claims.values())
        for child in claims:
            if not child.pace or self._has_new_capacity:
                child.weight = dominant_share(child.guaranteed, self.capacity)
                child.pace = pace_of(child.demand, child.weight, self.capacity)
        return list(zip(claims, entitlements(queue.entitled, claims), strict=True))

    # ---- areas

    def _settle(self, queue: QueueAccount, at_ns: int) -> None:
        """Count what was used and missing since the last time."""
        span_ns = at_ns - queue.since_ns
        if not span_ns:
            return
        entitled, used = queue.entitled, queue.used
        for name, amount in used.items():
            area = amount * span_ns
            queue.use[name] = queue.use.get(name, 0) + area
            gap = entitled.get(name, 0) * span_ns - area
            if gap:
                account = queue.debt if gap > 0 else queue.credit
                account[name] = account.get(name, 0) + abs(gap)
        for name, amount in entitled.items():
            if name not in used:
                queue.debt[name] = queue.debt.get(name, 0) + amount * span_ns
        self._plot(queue, at_ns)
        queue.since_ns = at_ns

    def _plot(self, queue: QueueAccount, at_ns: int) -> None:
        """Add what was used since the last time to what is shown over time, and what root has offered."""
        since_ns = queue.since_ns
        if queue.guaranteed and queue.used:
            if queue.share is None:
                queue.share = self._series()
            share = max(queue.used.get(name, 0) / amount for name, amount in queue.guaranteed.items())
            queue.share.add(since_ns, at_ns, share)
        if queue is not self._root:
            return
        for name, whole in self.capacity.items():
            self.offered[name] = self.offered.get(name, 0) + whole * (at_ns - since_ns)
            if name not in self.used_over_time:
                self.used_over_time[name] = self._series()
            if whole > 0:
                self.used_over_time[name].add(since_ns, at_ns, queue.used.get(name, 0) / whole)

    def _series(self) -> Series:
        return Series(self._begin_ns, self._until_ns)

    # ---- the tree

    def _queue(self, path: QueuePath) -> QueueAccount:
        queue = self.queues.get(path)
        if queue is None:
            above = path.rpartition(".")[0]
            parent = self._queue(QueuePath(above)) if above else None
            queue = self.queues[path] = QueueAccount(path, parent, self._now_ns)
        return queue

    def __iter__(self) -> Iterator[QueueAccount]:
        return iter(self.queues.values())


def _parts(resource: Resource, sign: int = 1) -> Resource:
    return {name: amount * sign * PARTS for name, amount in resource.items()}


def _change(amounts: Resource, change: Resource) -> None:
    """Add a signed change; types that become 0 are removed."""
    for name, amount in change.items():
        value = amounts.get(name, 0) + amount
        if value:
            amounts[name] = value
        else:
            amounts.pop(name, None)
