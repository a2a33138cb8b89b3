"""Sums of what was used and waited for, running tasks and pending asks included, by chosen columns (AP-141)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from ykactor.core.accounting.accounts import Account, AccountKey, Accounts
from ykactor.core.messages.changed import Changed
from ykactor.core.objects.registry import Registry
from ykactor.core.values.parts import Steps
from ykactor.core.values.times import DAY_NS, utc_text


class Column(StrEnum):
    """The columns by which accounts can be summed up."""

    DAY = "day"
    QUEUE = "queue"
    USER = "user"
    GROUP = "group"
    APPLICATION = "application"


#: The values of the columns, and the account.
Sums = dict[tuple[str | int, ...], Account]

_VALUES: dict[Column, Callable[[int, AccountKey], str | int]] = {
    Column.DAY: lambda day, _: day,
    Column.QUEUE: lambda _, key: key.queue,
    Column.USER: lambda _, key: key.user,
    Column.GROUP: lambda _, key: key.group,
    Column.APPLICATION: lambda _, key: key.application,
}


def sums(
    registry: Registry,
    now_ns: int,
    columns: Sequence[Column],
    days: range,
    shows_queue: Callable[[str], bool] = lambda _: True,
) -> Steps[Sums]:
    """The accounts of a partition between two turns, of some days, summed up by columns; a day is its number since 1970.

    Running tasks and pending asks count up to ``now_ns``. Cost: 2 us for each account, each such task, and each day of an
    application with such tasks.

    Args:
        shows_queue: True for queues whose accounts count; "" stands for accounts that were summed up.
    """
    lasting = Accounts(Changed())
    for path in filter(shows_queue, dict.fromkeys(registry.applications.values())):
        for application in registry.leaf(path).applications.values():
            yield from application.account.count_so_far(lasting, now_ns)
            yield 1
    found: Sums = {}
    for accounts in (registry.books.accounts, lasting):
        for day in sorted(day for day in accounts.days if day in days):
            for key, account in accounts.days[day].items():
                if shows_queue(key.queue):
                    values = tuple(_VALUES[column](day, key) for column in columns)
                    found.setdefault(values, Account()).add(account)
                yield 1
    return found


def named(columns: Sequence[Column], values: Sequence[str | int]) -> dict[str, str]:
    """The values of a row by the names of their columns; a day is a date such as ``2026-01-31``."""
    texts = (day_text(value) if isinstance(value, int) else value for value in values)
    return {column.value: text for column, text in zip(columns, texts, strict=True)}


def day_text(day: int) -> str:
    """The date of a day, counted from 1970."""
    return utc_text(day * DAY_NS)[:10]
