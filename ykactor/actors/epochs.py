"""The epochs of resource managers, which keep out processes that were replaced (SC-158)."""

from __future__ import annotations

from ykactor.core.values.names import Names

#: Epochs that are remembered of registrations that serve the same partitions.
EPOCHS_MAX = 100


class Epochs:
    """The highest epochs above 0 with which resource managers have registered.

    An epoch keeps out only registrations that serve no partition beyond those that it was registered for: a resource manager that
    is limited to partitions cannot keep out the one that serves more.

    Attributes:
        highest: by ``rmID`` and partitions, in the order of the last registrations.
    """

    def __init__(self) -> None:
        self.highest: dict[tuple[str, Names], int] = {}

    def lowest(self, rm_id: str, partitions: Names) -> int:
        """The lowest epoch that may register for these partitions."""
        found = (number for (known, served), number in self.highest.items() if known == rm_id and served.includes(partitions))
        return max(found, default=0)

    def highest_within(self, rm_id: str, partitions: Names) -> int:
        """The highest epoch of registrations that served none but these partitions; 0 if there is none."""
        return max((self.highest[key] for key in self._within(rm_id, partitions)), default=0)

    def forget(self, rm_id: str, partitions: Names) -> None:
        """Forget the epochs of registrations that served none but these partitions."""
        for key in self._within(rm_id, partitions):
            del self.highest[key]

    def _within(self, rm_id: str, partitions: Names) -> list[tuple[str, Names]]:
        return [key for key in self.highest if key[0] == rm_id and partitions.includes(key[1])]

    def raise_to(self, number: int, rm_id: str, partitions: Names) -> bool:
        """Remember an epoch that may register; returns whether anything has changed."""
        key = rm_id, partitions
        if not number or next(reversed(self.highest.items()), None) == (key, number):
            return False
        self.highest.pop(key, None)
        self.highest[key] = number  # as the last one
        alike = [other for other in self.highest if other[1] == partitions]
        if len(alike) > EPOCHS_MAX:
            del self.highest[alike[0]]
        return True
