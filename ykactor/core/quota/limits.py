"""Limits of users and groups (QU-60 to QU-78), and the usage that counts against them.

A ``Tracker`` has the limit and the usage of one user or group in one queue and below. There are trackers only where there are
limits. An application has the trackers of its user and of its group from its leaf to root; all of them must have room (QU-64,
QU-72). Whenever the configuration changes they are rebuilt from what applications use (QU-76), so that a new limit counts what
already runs, and no error can accumulate.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ykactor.core.config.access import Principal, PrincipalKind, UserGroups
from ykactor.core.config.model import Limit
from ykactor.core.values.ids import ApplicationID, QueuePath
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, add_to, first_exceeded, subtract_from

#: All users or groups that are not named.
_OTHERS = "*"


class QueueLimits:
    """The limits of one queue by name; groups in the order of the configuration, which decides among a user's groups (QU-68)."""

    __slots__ = ("_positions", "groups", "path", "users")

    def __init__(self, path: QueuePath, limits: tuple[Limit, ...]) -> None:
        self.path = path
        self.users = {user: limit for limit in limits for user in limit.users}
        self.groups = {group: limit for limit in limits for group in limit.groups}
        self._positions = {group: position for position, group in enumerate(self.groups)}

    def of_user(self, user: str) -> Limit | None:
        """The user's own limit, else that of ``*``; never both (QU-62)."""
        return self.users.get(user) or self.users.get(_OTHERS)

    def first_group(self, groups: frozenset[str]) -> str | None:
        """The first listed group that is among ``groups``, else ``*`` if it is listed. O(the smaller set)."""
        members = self.groups.keys() & groups
        if not members:
            return _OTHERS if _OTHERS in self.groups else None
        return min(members, key=self._positions.__getitem__)


class GroupChoice(Struct, frozen=True, forbid_unknown_fields=True):
    """The group that an application counts against, and the queue whose limits name the group (QU-70)."""

    group: str
    path: QueuePath


class Tracker:
    """One user or group in one queue.

    Attributes:
        whose: the user or group.
        max, max_applications: as configured; None or 0 is "not limited".
        allocated: base units, of all applications that have this tracker.
        applications: those that count as running: from their first allocation until nothing is pending or allocated (QU-74).
        application_count: the number of applications that have this tracker; at 0 it is forgotten (QU-78).
    """

    __slots__ = ("allocated", "application_count", "applications", "max", "max_applications", "path", "whose")

    def __init__(self, path: QueuePath, whose: Principal, limit: Limit) -> None:
        self.path = path
        self.whose = whose
        self.max = limit.max_resources
        self.max_applications = limit.max_applications
        self.allocated: Resource = {}
        self.applications: dict[ApplicationID, None] = {}
        self.application_count = 0

    def shortage(self, items: tuple[tuple[str, int], ...]) -> str | None:
        """The first type of an ask that does not fit; None when all do."""
        return first_exceeded(self.max, self.allocated, items)

    def slots_used(self) -> int:
        """The number of applications that count as running."""
        return len(self.applications)

    def lacks_slot(self, application_id: ApplicationID) -> bool:
        """True if one more application would be too many (QU-73)."""
        limit = self.max_applications
        return bool(limit) and application_id not in self.applications and self.slots_used() + 1 > limit

    def __repr__(self) -> str:
        return f"<Tracker {self.whose} in {self.path}>"


TrackerTuple = tuple[Tracker, ...]


def _user(name: str) -> Principal:
    return Principal(PrincipalKind.USER, name)


def _group(name: str) -> Principal:
    return Principal(PrincipalKind.GROUP, name)


class Trackers:
    """The trackers of one partition that applications have (QU-66)."""

    def __init__(self) -> None:
        self.in_use: dict[tuple[QueuePath, Principal], Tracker] = {}

    def track(self, path_up: Iterable[QueueLimits], who: UserGroups, choice: GroupChoice | None) -> TrackerTuple:
        """Count an application in its trackers, and return them; equal for applications of one leaf with equal user and choice.

        Args:
            path_up: the limits of its leaf and of every queue above that has any.
        """
        trackers = self.find(path_up, who, choice)
        for tracker in trackers:
            self.in_use[tracker.path, tracker.whose] = tracker
            tracker.application_count += 1
        return trackers

    def find(self, path_up: Iterable[QueueLimits], who: UserGroups, choice: GroupChoice | None) -> TrackerTuple:
        """The trackers that ``track`` would return; nothing changes."""
        trackers = []
        for limits in path_up:
            limit = limits.of_user(who.user)
            if limit is not None:
                trackers.append(self._find(limits.path, _user(who.user), limit))
            if choice is not None and choice.group in limits.groups:  # at every queue that names it (QU-71)
                trackers.append(self._find(limits.path, _group(choice.group), limits.groups[choice.group]))
        return tuple(trackers)

    def _find(self, path: QueuePath, whose: Principal, limit: Limit) -> Tracker:
        return self.in_use.get((path, whose)) or Tracker(path, whose, limit)

    def first_sights(self, path_up: Iterable[QueueLimits], user: str) -> list[QueuePath]:
        """The queues in which a user without a tracker there begins to count against the limit of ``*``."""
        return [
            limits.path
            for limits in path_up
            if user not in limits.users and _OTHERS in limits.users and (limits.path, _user(user)) not in self.in_use
        ]

    def untrack(self, trackers: TrackerTuple) -> None:
        """Stop counting an application in these trackers."""
        for tracker in trackers:
            tracker.application_count -= 1
            if not tracker.application_count:
                del self.in_use[tracker.path, tracker.whose]


def choose_group(path_up: Iterable[QueueLimits], who: UserGroups) -> GroupChoice | None:
    """The group that an application counts against: the first queue from its leaf upwards that limits one decides (QU-68)."""
    groups = frozenset(who.groups)
    for limits in path_up if groups else ():
        group = limits.first_group(groups)
        if group is not None:
            return GroupChoice(group, limits.path)
    return None


def keep_group(path_up: list[QueueLimits], who: UserGroups, choice: GroupChoice | None) -> GroupChoice | None:
    """The group in another leaf: the same if the queue that limits it is above this leaf too, else a new one (QU-68, QU-77)."""
    return choice if choice is not None and still_holds(path_up, choice) else choose_group(path_up, who)


def still_holds(path_up: Iterable[QueueLimits], choice: GroupChoice) -> bool:
    """True if the queue of a choice still limits the group (QU-77)."""
    return any(limits.path == choice.path and choice.group in limits.groups for limits in path_up)


#: The terms of a limit: resources and applications.
Terms = tuple[Resource | None, int]


def in_force(every: Iterable[QueueLimits], trackers: Trackers) -> Steps[dict[tuple[QueuePath, Principal], Terms]]:
    """Every limit by queue and ``Tracker.whose``: of named users and groups, and of users that count against ``*``."""
    terms = {key: (tracker.max, tracker.max_applications) for key, tracker in trackers.in_use.items()}
    for limits in every:
        yield 1
        terms |= named(limits)
    return terms


def named(limits: QueueLimits) -> dict[tuple[QueuePath, Principal], Terms]:
    """The limits of named users and groups in one queue."""
    users = {_user(user): limit for user, limit in limits.users.items() if user != _OTHERS}
    groups = {_group(group): limit for group, limit in limits.groups.items()}
    return {(limits.path, whose): (limit.max_resources, limit.max_applications) for whose, limit in (users | groups).items()}


def of_others(limits: QueueLimits) -> Terms | None:
    """The limit of users that are not named in one queue; None if there is none (QU-62)."""
    limit = limits.users.get(_OTHERS)
    return None if limit is None else (limit.max_resources, limit.max_applications)


def charge(trackers: TrackerTuple, resource: Resource) -> None:
    """Add the usage of a new allocation."""
    for tracker in trackers:
        add_to(tracker.allocated, resource)


def credit(trackers: TrackerTuple, resource: Resource) -> None:
    """Remove the usage of an allocation that has ended."""
    for tracker in trackers:
        subtract_from(tracker.allocated, resource)
