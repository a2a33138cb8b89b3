"""The use and the limits of users and groups in each queue, and past use."""

from __future__ import annotations

from collections.abc import Sequence

from ykactor.core.accounting.accounts import Account
from ykactor.core.inspection.accounting import Column, named, sums
from ykactor.core.inspection.user_status import APPLICATION_ITEMS, Scope, group_statuses, user_statuses
from ykactor.core.values.parts import Steps, sorted_in_parts
from ykactor.core.values.resources import pruned
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import usage
from ykactor.wire.rest.codec import encode_each


def users(look: Look) -> Steps[list[bytes]]:
    """All users that use something or have a limit of their own, by name; encoded."""
    found = yield from user_statuses(Scope(look.state, look.shows))
    return (yield from encode_each(map(usage.user, found), APPLICATION_ITEMS))


def user(look: Look, name: str) -> Steps[usage.UserUse | None]:
    """One user; None if it uses nothing and has no limit of its own."""
    return next(map(usage.user, (yield from user_statuses(Scope(look.state, look.shows, name)))), None)


def groups(look: Look) -> Steps[list[bytes]]:
    """All groups with a limit, by name; encoded."""
    found = yield from group_statuses(Scope(look.state, look.shows))
    return (yield from encode_each(map(usage.group, found), APPLICATION_ITEMS))


def group(look: Look, name: str) -> Steps[usage.GroupUse | None]:
    """One group; None if it has no limit."""
    return next(map(usage.group, (yield from group_statuses(Scope(look.state, look.shows, name)))), None)


# ---- the use and the waiting of a partition, summed up by the columns of a request


def resource_seconds(look: Look, columns: Sequence[Column], days: range) -> Steps[list[bytes]]:
    """Sums by these columns, in the order of their values, of these days; encoded. What lasts counts up to now (AP-141)."""
    found = yield from sums(look.core.registry, look.now_ns, columns, days, look.shows)
    rows = yield from sorted_in_parts(found.items())
    return (yield from encode_each((_sum(columns, *row) for row in rows), 2))


def _sum(columns: Sequence[Column], values: tuple[str | int, ...], account: Account) -> usage.ResourceSeconds:
    allocated, waited, lost = map(pruned, (account.allocated, account.waited, account.lost))
    return usage.ResourceSeconds(**named(columns, values), allocated=allocated, waited=waited, lost=lost)
