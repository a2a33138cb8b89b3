"""The accounts of a partition by UTC day: a bounded number of days and of rows (AP-142)."""

from __future__ import annotations

from ykactor.core.accounting.account import DAY_S, Account, AccountKey, add_times, by_day
from ykactor.core.messages.changed import Changed
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource
from ykactor.core.values.times import S_NS

#: Days that are kept: the present one, and so many before.
DAYS_MAX = 366
#: Accounts that are kept; when there are more, they are summed up until there are at most half as many.
ROWS_MAX = 10_000
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

    def tidy(self, now_ns: int) -> Pausing[None]:
        """Delete the accounts of old days, and sum up if there are too many accounts (AP-142)."""
        self.tidy_ns = (now_ns // S_NS // DAY_S + 1) * DAY_S * S_NS
        yield from self._forget(oldest_day(now_ns // S_NS))
        if self._count > ROWS_MAX:
            yield from self._sum_up()

    def _forget(self, first_day: int) -> Pausing[None]:
        pace = Pace()
        for day in [day for day in self.days if day < first_day]:
            for key in list(self.days[day]):
                self._drop(day, key)
                if pace.is_due():
                    yield ()
            del self.days[day]

    def _sum_up(self) -> Pausing[None]:
        """Sum up the oldest days first: by application; when no day has applications left, whole days."""
        for keeps_names in (True, False):
            for day in sorted(self.days):
                if self._count <= ROWS_MAX // 2:
                    return
                yield from self._sum_up_day(day, keeps_names=keeps_names)

    def _sum_up_day(self, day: int, *, keeps_names: bool) -> Pausing[None]:
        pace = Pace()
        for key in list(self.days[day]):
            into = key._replace(application="") if keeps_names else _ALL
            if key != into:
                account = self._drop(day, key)
                self._account(day, into).add(account)
                if pace.is_due():
                    yield ()


def oldest_day(now_s: int) -> int:
    """The oldest day kept at a Unix second."""
    return now_s // DAY_S - DAYS_MAX
