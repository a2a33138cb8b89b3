"""The scheduler's index of the task groups of one application: which real asks wait, and which placeholders they may replace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ykactor.core.messages.asks import Ask
from ykactor.core.values.ids import AllocationKey, NodeID
from ykactor.core.values.resources import Resource, add_to, subtract_from
from ykactor.core.values.sorted_list import SortedList, SortKey

#: A placeholder and its node.
PlacedPlaceholder = tuple[Ask, NodeID]


class PendingGang:
    """The task groups of one application.

    Attributes:
        total, allocated_ever: the announced amounts, and the sum of all placeholders ever allocated (AP-38, GA-61).
        open_groups: groups whose real asks wait for placeholders (GA-13).
        held: these asks, in ask order.
        replaceable: running placeholders that may be replaced, by group, in the order of their creation.
        is_over: True if the gang has timed out (GA-50).
    """

    __slots__ = ("_held_counts", "_places", "allocated_ever", "held", "is_over", "open_groups", "replaceable", "total")

    def __init__(self, total: Resource) -> None:
        self.total = total
        self.allocated_ever: Resource = {}
        self.open_groups: set[str] = set()
        self.held: SortedList[Ask] = SortedList()
        self._held_counts: Counter[str] = Counter()
        self.replaceable: dict[str, SortedList[PlacedPlaceholder]] = {}
        self._places: dict[AllocationKey, tuple[str, SortKey]] = {}
        self.is_over = False

    def keep_back(self, key: SortKey, ask: Ask) -> None:
        """Keep back a real ask, which waits for placeholders."""
        self.held.add(key, ask)
        self._held_counts[ask.task_group_name] += 1

    def drop(self, key: SortKey, ask: Ask) -> None:
        """Drop a real ask, which no longer waits for placeholders."""
        self.held.remove(key)
        self._held_counts[ask.task_group_name] -= 1

    def place(self, ask: Ask, node_id: NodeID) -> None:
        """Count an allocated placeholder, and offer it."""
        add_to(self.allocated_ever, ask.resource)
        self.offer(ask, node_id)

    def offer(self, ask: Ask, node_id: NodeID) -> None:
        """Offer a running placeholder, which may be replaced."""
        group, key = ask.task_group_name, (ask.created_ns, ask.allocation_key)
        self.replaceable.setdefault(group, SortedList()).add(key, (ask, node_id))
        self._places[ask.allocation_key] = group, key

    def resize(self, before: Ask, after: Ask) -> None:
        """Update a placeholder that has another size."""
        subtract_from(self.allocated_ever, before.resource)
        add_to(self.allocated_ever, after.resource)
        place = self._places.get(after.allocation_key)
        if place is not None:
            group, key = place
            _, node_id = self.replaceable[group].remove(key)
            self.replaceable[group].add(key, (after, node_id))

    def hand_back(self, ask: Ask) -> None:
        """Uncount a placeholder that was placed and is pending again."""
        subtract_from(self.allocated_ever, ask.resource)

    def withdraw(self, key: AllocationKey) -> None:
        """Withdraw a placeholder that has ended or will end, and cannot be replaced. A second call changes nothing."""
        place = self._places.pop(key, None)
        if place is not None:
            self.replaceable[place[0]].remove(place[1])

    def is_complete(self) -> bool:
        """True if placeholders were allocated for everything that was announced."""
        return bool(self.total) and all(self.allocated_ever.get(name, 0) >= quantity for name, quantity in self.total.items())

    def has_pair(self) -> bool:
        """True if a real ask waits and a placeholder of its group may be replaced."""
        return any(count and self.replaceable.get(group) for group, count in self._held_counts.items())

    def parts_count(self) -> int:
        """The number of asks that wait for placeholders plus the number of placeholders that may be replaced."""
        return len(self.held) + len(self._places)

    def placeholders_for(self, ask: Ask) -> Iterator[PlacedPlaceholder]:
        """The placeholders that a real ask may replace, in the order in which they are tried (GA-74).

        Lazy: usually only the first is needed. A placeholder that was yielded may be withdrawn meanwhile.
        """
        replaceable = self.replaceable.get(ask.task_group_name)
        return replaceable.walk() if replaceable else iter(())
