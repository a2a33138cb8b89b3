"""The use and the limits of users and groups in each queue."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.inspection.user_status import APPLICATION_ITEMS, Scope, group_statuses, user_statuses
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import usage
from ykactor.wire.rest.codec import encode_part


def users(look: Look) -> Steps[list[bytes]]:
    """All users that use something or have a limit of their own, by name; encoded."""
    return (yield from _encoded(map(usage.user, (yield from user_statuses(Scope(look.state, look.shows))))))


def user(look: Look, name: str) -> Steps[usage.UserUse | None]:
    """One user; None if it uses nothing and has no limit of its own."""
    return next(map(usage.user, (yield from user_statuses(Scope(look.state, look.shows, name)))), None)


def groups(look: Look) -> Steps[list[bytes]]:
    """All groups with a limit, by name; encoded."""
    return (yield from _encoded(map(usage.group, (yield from group_statuses(Scope(look.state, look.shows))))))


def group(look: Look, name: str) -> Steps[usage.GroupUse | None]:
    """One group; None if it has no limit."""
    return next(map(usage.group, (yield from group_statuses(Scope(look.state, look.shows, name)))), None)


def _encoded(uses: Iterable[usage.UserUse | usage.GroupUse]) -> Steps[list[bytes]]:
    found = []
    for use in uses:
        found.append(encode_part(use))
        yield APPLICATION_ITEMS
    return found
