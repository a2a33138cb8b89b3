"""Amounts times whole seconds (AP-90): what tasks have used, and for what they have waited, by UTC day.

A time belongs to the Unix second in which it falls. A task counts from the second in which it begins up to that in which it ends,
so that the parts of a task that is counted in several parts add up to the whole, whatever the fractions.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from ykactor.core.values.ids import QueuePath
from ykactor.core.values.resources import QUANTITY_MAX, Resource

DAY_S = 86_400
#: Days as they are counted: by their number since 1970, in UTC; up to the end of the year 9999.
ALL_DAYS = range(2_932_897)
#: Resource types of one account, and of the past of one application; further ones are not counted.
TYPES_MAX = 100


class AccountKey(NamedTuple):
    """The owner of an account. Empty names stand for all accounts that were summed up (AP-142)."""

    queue: QueuePath
    user: str
    group: str
    application: str


class Account(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Resource-seconds of one day; exact at any size, of at most ``TYPES_MAX`` resource types each.

    Attributes:
        allocated: what tasks, placeholders too, have used.
        waited: what asks have been pending for.
        lost: the part of ``allocated`` that was used by tasks which were preempted.
    """

    allocated: Resource = field(default_factory=dict)
    waited: Resource = field(default_factory=dict)
    lost: Resource = field(default_factory=dict)

    def add(self, other: Account) -> None:
        """Add what another account has."""
        add_times(self.allocated, other.allocated, 1)
        add_times(self.waited, other.waited, 1)
        add_times(self.lost, other.lost, 1)


def add_times(target: Resource, resource: Resource, times: int) -> None:
    """Add ``resource`` times ``times`` in place; types whose quantity is 0, and new ones beyond ``TYPES_MAX``, are not added."""
    for name, quantity in resource.items():
        if quantity and (name in target or len(target) < TYPES_MAX):
            target[name] = target.get(name, 0) + quantity * times


def told(resource: Resource) -> dict[str, int | str]:
    """Resource-seconds as messages carry them: without zeros, and beyond 64 bits as text, as msgpack has no larger integers."""
    return {name: amount if amount <= QUANTITY_MAX else str(amount) for name, amount in resource.items() if amount}


def by_day(since_s: int, until_s: int) -> list[tuple[int, int]]:
    """Each UTC day between two Unix seconds, by its number, with the seconds that fall into it."""
    days = []
    while since_s < until_s:
        day = since_s // DAY_S
        end_s = min(until_s, (day + 1) * DAY_S)
        days.append((day, end_s - since_s))
        since_s = end_s
    return days
