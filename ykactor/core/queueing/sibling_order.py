"""The order of sibling queues (PR-71): updated when a key changes, and never rebuilt for a decision.

A queue in which nothing could be placed is *parked*: it keeps its position but is not offered again until the generation changes
(capacity, quota or a running slot became available) or the queue is woken. Parking makes a full cluster cheap: what cannot run
costs nothing until something changes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Generic, Protocol, TypeVar

from ykactor.core.queueing.priorities import Priority
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import Resource, ahead


class Child(Protocol):
    """A child of a ``ChildOrder``: a queue."""

    #: None while nothing is pending in it (PR-16).
    priority: Priority
    share: float
    pending: Resource
    #: True if it is not offered until the generation changes; written by the order only, as is ``place``.
    parked: bool
    place: ChildPlace[Any]

    @property
    def path(self) -> QueuePath:
        """The path of the queue, which decides between otherwise equal queues."""

    def __hash__(self) -> int: ...


Q = TypeVar("Q", bound=Child)
#: Pending amounts as a key: equal whatever the order in which the types came.
Amounts = frozenset[tuple[str, int]]


class Effort:
    """Counts the work of a plan, in units of looking at one node."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0


class _Bucket(Generic[Q]):
    """The queues of a group that have the same pending resources."""

    __slots__ = ("ahead_count", "pending", "point", "ready", "size", "vector")

    def __init__(self, vector: Amounts) -> None:
        self.vector = vector
        self.pending: Resource = dict(vector)
        #: The amounts of the group's one or two types.
        self.point = (0, 0)
        #: Members, parked ones included.
        self.size = 0
        #: The number of queues of the group that have strictly more pending (PR-36).
        self.ahead_count = 0
        #: Members that are not parked: (rank of priority, path, queue).
        self.ready: list[tuple[int, str, Q]] = []


#: After more changes than this, counting again is cheaper than updating the counts.
_CHANGES_MAX = 16


class _Group(Generic[Q]):
    """Queues whose keys are equal up to "more pending"; that, and what follows it, decides between them.

    The members are divided into buckets when the best of several is needed, and stay so. Most groups never are: their queues are
    served, and so leave the group, one by one, or are alone.

    The counts of PR-36 are computed when the best of several buckets is needed: in one sweep, O(n log n), if all buckets together
    have one or two types; else by comparing all pairs, O(n²). A few changes update them, O(n) each; after more changes they are
    dropped until they are needed again.
    """

    __slots__ = ("_changes", "_effort", "_types", "buckets", "members", "ready_count")

    def __init__(self, effort: Effort) -> None:
        #: Parked ones included.
        self.members: dict[Q, None] = {}
        self.ready_count = 0
        #: By pending vector; empty while the group is not divided.
        self.buckets: dict[Amounts, _Bucket[Q]] = {}
        self._effort = effort
        #: Changes since the counts were last used; None while there are no counts.
        self._changes: int | None = None
        #: The types of all buckets together if they are one or two, else None; set with the counts.
        self._types: tuple[str, str] | None = None

    def join(self, child: Q) -> None:
        """Add a member; the caller offers it."""
        self.members[child] = None
        if self.buckets:
            self._put_in_bucket(child)

    def leave(self, child: Q) -> None:
        """Remove a member that is parked or withdrawn."""
        del self.members[child]
        bucket, child.place.bucket = child.place.bucket, None
        if bucket is not None:
            bucket.size -= 1
            if self._changes is not None:
                self._count(bucket, -1)
            if bucket.size == 0:
                del self.buckets[bucket.vector]

    def unite(self) -> None:
        """Drop the buckets: the only member has changed."""
        if self.buckets:
            self.buckets, self._changes = {}, None
            for child in self.members:
                child.place.bucket = None

    def first(self) -> Q:
        """The best member that is not parked; there must be one."""
        if not self.buckets:
            if len(self.members) == 1:
                return next(iter(self.members))
            self._divide()
        if len(self.buckets) == 1:
            (bucket,) = self.buckets.values()
            return bucket.ready[0][2]
        self.reckon()
        self._effort.spent += len(self.buckets)
        return min((bucket.ahead_count, *bucket.ready[0]) for bucket in self.buckets.values() if bucket.ready)[3]

    def _divide(self) -> None:
        self._effort.spent += 5 * len(self.members)
        for child in self.members:
            bucket = self._put_in_bucket(child)
            if not child.parked:
                bucket.ready.append(child.place.member)
        for bucket in self.buckets.values():
            bucket.ready.sort()

    def _put_in_bucket(self, child: Q) -> _Bucket[Q]:
        vector = frozenset(child.pending.items())
        bucket = self.buckets.get(vector)
        if bucket is None:
            bucket = self.buckets[vector] = _Bucket(vector)
            if self._changes is not None:
                self._place(bucket)
        child.place.bucket = bucket
        bucket.size += 1
        if self._changes is not None:
            self._count(bucket, 1)
        return bucket

    # ---- counts

    def reckon(self) -> None:
        """Compute the counts of PR-36, which are about to be used, unless they are valid."""
        if not self.buckets:
            self._divide()
        if self._changes is None:
            self._count_all()
        self._changes = 0

    def _count(self, bucket: _Bucket[Q], step: int) -> None:
        """Count a member that joined the bucket (``step`` 1) or left it (-1); after many changes drop all counts."""
        assert self._changes is not None
        self._changes += 1
        if self._changes > _CHANGES_MAX:
            self._changes = None
            return
        for other in self._behind(bucket):
            other.ahead_count += step

    def _place(self, bucket: _Bucket[Q]) -> None:
        """Count the queues ahead of a new bucket; if it has a type beyond ``_types``, drop all counts instead."""
        if self._types is not None:
            if not bucket.pending.keys() <= set(self._types):
                self._changes = None
                return
            bucket.point = self._point_of(bucket.pending)
        bucket.ahead_count = sum(other.size for other in self._ahead_of(bucket))

    def _behind(self, bucket: _Bucket[Q]) -> list[_Bucket[Q]]:
        self._effort.spent += len(self.buckets) // 2
        if self._types is None:
            return [other for other in self.buckets.values() if ahead(bucket.pending, other.pending)]
        x, y = bucket.point
        return [other for other in self.buckets.values() if other.point[0] <= x and other.point[1] <= y and other is not bucket]

    def _ahead_of(self, bucket: _Bucket[Q]) -> list[_Bucket[Q]]:
        self._effort.spent += len(self.buckets) // 2
        if self._types is None:
            return [other for other in self.buckets.values() if ahead(other.pending, bucket.pending)]
        x, y = bucket.point
        return [other for other in self.buckets.values() if other.point[0] >= x and other.point[1] >= y and other is not bucket]

    def _point_of(self, pending: Resource) -> tuple[int, int]:
        assert self._types is not None
        return pending.get(self._types[0], 0), pending.get(self._types[1], 0)

    def _count_all(self) -> None:
        names = sorted({name for bucket in self.buckets.values() for name in bucket.pending})
        if len(names) > 2:
            self._types = None
            for bucket in self.buckets.values():
                bucket.ahead_count = sum(other.size for other in self._ahead_of(bucket))
            return
        self._types = names[0], names[-1]
        for bucket in self.buckets.values():
            bucket.point = self._point_of(bucket.pending)
        seen: list[int] = []  # second amounts of all queues whose first amount is at least as large
        for bucket in sorted(self.buckets.values(), key=lambda bucket: bucket.point, reverse=True):
            bucket.ahead_count = len(seen) - bisect_left(seen, bucket.point[1])
            for _ in range(bucket.size):
                insort(seen, bucket.point[1])
        self._effort.spent += 10 * len(self.buckets)


class ChildPlace(Generic[Q]):
    """The position of a queue in its parent's order."""

    __slots__ = ("bucket", "group_key", "member")

    def __init__(self) -> None:
        self.group_key: tuple[float, ...] | None = None
        self.member: tuple[int, str, Q]
        #: None while the group is not divided.
        self.bucket: _Bucket[Q] | None = None


class ChildOrder(Generic[Q]):
    """The children of a parent in the order of PR-71.

    With priorities: higher priority, lower share, more pending, name. Without: lower share, more pending, higher priority,
    name. Only children with pending resources are in it (PR-29).
    """

    __slots__ = ("_by_priority", "_effort", "_generation", "_groups", "_parked", "_ready_keys")

    def __init__(self, effort: Effort, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._effort = effort
        self._groups: dict[tuple[float, ...], _Group[Q]] = {}
        #: Keys of the groups with a member that is not parked.
        self._ready_keys: list[tuple[float, ...]] = []
        self._parked: dict[Q, None] = {}
        self._generation = 0

    def update(self, child: Q) -> None:
        """Bring the position of ``child`` up to date with its priority, share and pending resources."""
        if child.priority is None:
            self.remove(child)
            return
        place, groups, rank = child.place, self._groups, -child.priority
        key = (rank, child.share) if self._by_priority else (child.share,)
        old_key = place.group_key
        if old_key is not None:
            group = groups[old_key]
            is_alone = len(group.members) == 1
            if is_alone:
                group.unite()
            if key == old_key and place.bucket is None:  # pending amounts do not matter yet
                place.member = rank, child.path, child
                return
            if is_alone and key not in groups:
                place.member, place.group_key = (rank, child.path, child), key
                self._rename(group, old_key, key)
                return
            self._take_out(child, group, old_key)
        place.member, place.group_key = (rank, child.path, child), key
        joined = groups.get(key)
        if joined is None:
            joined = groups[key] = _Group(self._effort)
        joined.join(child)
        if not child.parked:
            self._offer(child, joined, key)

    def remove(self, child: Q) -> None:
        """Take out a child; it is no longer parked."""
        key = child.place.group_key
        if key is not None:
            self._take_out(child, self._groups[key], key)
        if child.parked:
            child.parked = False
            del self._parked[child]

    def _rename(self, group: _Group[Q], old_key: tuple[float, ...], key: tuple[float, ...]) -> None:
        """Give a group the new key of its only member."""
        self._groups[key] = self._groups.pop(old_key)
        if group.ready_count:
            del self._ready_keys[bisect_left(self._ready_keys, old_key)]
            insort(self._ready_keys, key)

    def _take_out(self, child: Q, group: _Group[Q], key: tuple[float, ...]) -> None:
        if not child.parked:
            self._withdraw(child, group, key)
        group.leave(child)
        if not group.members:
            del self._groups[key]
        child.place.group_key = None

    def _offer(self, child: Q, group: _Group[Q], key: tuple[float, ...]) -> None:
        if child.place.bucket is not None:
            insort(child.place.bucket.ready, child.place.member)
        group.ready_count += 1
        if group.ready_count == 1:
            insort(self._ready_keys, key)

    def _withdraw(self, child: Q, group: _Group[Q], key: tuple[float, ...]) -> None:
        if child.place.bucket is not None:
            ready = child.place.bucket.ready
            del ready[bisect_left(ready, child.place.member)]
        group.ready_count -= 1
        if group.ready_count == 0:
            del self._ready_keys[bisect_left(self._ready_keys, key)]

    def first(self, generation: int) -> Q | None:
        """The best child that is not parked; None if all are."""
        if generation != self._generation:
            self._generation = generation
            for child in list(self._parked):
                self.wake(child)
        return self._groups[self._ready_keys[0]].first() if self._ready_keys else None

    def rank(self, child: Q) -> tuple[object, ...]:
        """A sort key of ``child`` among its siblings, lower is earlier; it must have something pending."""
        place = child.place
        assert place.group_key is not None
        self._groups[place.group_key].reckon()
        assert place.bucket is not None
        return place.group_key, place.bucket.ahead_count, place.member[:2]

    def park(self, child: Q) -> None:
        """Do not offer ``child`` until the generation changes or it is woken."""
        if not child.parked:
            key = child.place.group_key
            assert key is not None
            self._withdraw(child, self._groups[key], key)
            child.parked = True
            self._parked[child] = None

    def wake(self, child: Q) -> None:
        """Offer ``child`` again."""
        if child.parked:
            child.parked = False
            del self._parked[child]
            key = child.place.group_key
            if key is not None:
                self._offer(child, self._groups[key], key)
