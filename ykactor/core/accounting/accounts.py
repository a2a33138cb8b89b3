"""The accounts of a partition by UTC day (AP-90): a bounded number of days and of rows (AP-142).

An account has amounts times whole seconds: what tasks have used, and for what they have waited. A time belongs to the Unix
second in which it falls. A task counts from the second in which it begins up to that in which it ends, so that the parts of a
task that is counted in several parts add up to the whole, whatever the fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct, field

from ykactor.core.messages.changed import Changed
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import QUANTITY_MAX, Resource, add_to, pruned
from ykactor.core.values.times import S_NS

DAY_S = 86_400
#: Days as they are counted: by their number since 1970, in UTC; up to the end of the year 9999.
ALL_DAYS = range(2_932_897)
#: Resource types of one account, and of the past of one application; further ones are not counted.
TYPES_MAX = 100
#: Days that are kept: the present one, and so many before.
DAYS_MAX = 366
#: Accounts that are kept; when there are more, they are summed up until there are at most half as many.
ROWS_MAX = 10_000


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


#: All that was summed up.
_ALL = AccountKey(QueuePath(""), "", "", "")


class Accounts:
    """The accounts of a partition. The order of additions makes no difference."""

    def __init__(self, changed: Changed) -> None:
        self._changed = changed
        #: By day, counted from 1 January 1970.
        self.days: dict[int, dict[AccountKey, Account]] = {}
        self._count = 0
        #: When the bounds are looked at next: at midnight, or at once when there are too many accounts.
        self.tidy_ns = 0

    def use(self, key: AccountKey, resource: Resource, since_s: int, until_s: int, *, is_lost: bool) -> None:
        """Count that a task has used ``resource`` between two Unix seconds; ``is_lost``: the task was preempted."""
        for day, seconds in by_day(max(since_s, oldest_day(until_s) * DAY_S), until_s):
            account = self._account(day, key)
            add_times(account.allocated, resource, seconds)
            if is_lost:
                add_times(account.lost, resource, seconds)

    def wait(self, key: AccountKey, resource: Resource, since_s: int, until_s: int) -> None:
        """Count that an ask was pending for ``resource`` between two Unix seconds."""
        for day, seconds in by_day(max(since_s, oldest_day(until_s) * DAY_S), until_s):
            add_times(self._account(day, key).waited, resource, seconds)

    def add(self, day: int, key: AccountKey, account: Account) -> None:
        """Add an account of a day."""
        if account.allocated or account.waited or account.lost:
            self._account(day, key).add(account)

    def _account(self, day: int, key: AccountKey) -> Account:
        self._changed.account(day, key)
        accounts = self.days.get(day)
        account = None if accounts is None else accounts.get(key)
        if account is None:
            account = Account()
            self.keep(day, key, account)
        return account

    def keep(self, day: int, key: AccountKey, account: Account) -> None:
        """Store an account under a new key."""
        self.days.setdefault(day, {})[key] = account
        self._count += 1
        if self._count > ROWS_MAX:
            self.tidy_ns = 0

    def _drop(self, day: int, key: AccountKey) -> Account:
        self._changed.account(day, key)
        self._count -= 1
        return self.days[day].pop(key)

    # ---- the bounds

    def tidy(self, now_ns: int) -> Steps[None]:
        """Delete the accounts of old days, and sum up if there are too many accounts (AP-142)."""
        self.tidy_ns = (now_ns // S_NS // DAY_S + 1) * DAY_S * S_NS
        yield from self._forget(oldest_day(now_ns // S_NS))
        if self._count > ROWS_MAX:
            yield from self._sum_up()

    def _forget(self, first_day: int) -> Steps[None]:
        for day in [day for day in self.days if day < first_day]:
            for key in list(self.days[day]):
                self._drop(day, key)
                yield 1
            del self.days[day]

    def _sum_up(self) -> Steps[None]:
        """Sum up the oldest days first: by application; when no day has applications left, whole days."""
        for keeps_names in (True, False):
            for day in sorted(self.days):
                if self._count <= ROWS_MAX // 2:
                    return
                yield from self._sum_up_day(day, keeps_names=keeps_names)

    def _sum_up_day(self, day: int, *, keeps_names: bool) -> Steps[None]:
        for key in list(self.days[day]):
            into = key._replace(application="") if keeps_names else _ALL
            if key != into:
                account = self._drop(day, key)
                self._account(day, into).add(account)
                yield 1


def oldest_day(now_s: int) -> int:
    """The oldest day kept at a Unix second."""
    return now_s // DAY_S - DAYS_MAX


class Spans:
    """Sums of amounts times the seconds of many spans, by day: a span costs the same however many days it lasts."""

    __slots__ = ("_parts", "_steps")

    def __init__(self) -> None:
        #: By day, the part of spans that begin or end on that day.
        self._parts: dict[int, Resource] = {}
        #: By day, the change of what other spans contribute to each day from this one on.
        self._steps: dict[int, Resource] = {}

    def add(self, resource: Resource, since_s: int, until_s: int) -> None:
        """Add ``resource`` for each second from ``since_s`` up to ``until_s``."""
        if since_s >= until_s:
            return
        first, last = since_s // DAY_S, until_s // DAY_S
        if first == last:
            _add(self._parts, first, resource, until_s - since_s)
            return
        _add(self._parts, first, resource, (first + 1) * DAY_S - since_s)
        _add(self._parts, last, resource, until_s - last * DAY_S)
        if first + 1 < last:
            _add(self._steps, first + 1, resource, DAY_S)
            _add(self._steps, last, resource, -DAY_S)

    def by_day(self) -> Iterator[tuple[int, Resource]]:
        """The parts of each day, one or two, which must not be changed."""
        yield from self._parts.items()
        level: Resource = {}
        for day, until in pairwise(sorted(self._steps)):
            total = dict(level)
            add_to(total, self._steps[day])
            level = pruned(total)
            for each in range(day, until if level else day):
                yield each, level


def _add(days: dict[int, Resource], day: int, resource: Resource, seconds: int) -> None:
    if seconds:
        add_to(days.setdefault(day, {}), {name: quantity * seconds for name, quantity in resource.items() if quantity})


class Lasting(Struct, eq=False):
    """Spans of what the tasks of one application have used, waited for and lost, as ``Account``."""

    allocated: Spans = field(default_factory=Spans)
    waited: Spans = field(default_factory=Spans)
    lost: Spans = field(default_factory=Spans)

    def by_day(self) -> Iterator[tuple[int, Account]]:
        """Parts of the accounts of each day, like ``Spans.by_day``."""
        for day, amounts in self.allocated.by_day():
            yield day, Account(allocated=amounts)
        for day, amounts in self.waited.by_day():
            yield day, Account(waited=amounts)
        for day, amounts in self.lost.by_day():
            yield day, Account(lost=amounts)
