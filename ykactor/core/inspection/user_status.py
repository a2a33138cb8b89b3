"""The status of users and groups: what each uses in a queue and below, and may use there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import NamedTuple

from ykactor.core.config.access import PrincipalKind
from ykactor.core.inspection.queue_status import parent_path
from ykactor.core.inspection.shown import Shown
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.limits import QueueLimits, Terms, named, of_others
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.parts import Steps
from ykactor.core.values.resources import Resource, add_to, saturated, saturated_and_pruned

#: An application takes as long as so many other items: 10 us.
APPLICATION_ITEMS = 5
_ROOT = "root"


class UseStatus(Shown, frozen=True, kw_only=True):
    """The use of a user or group in a queue and below.

    Attributes:
        applications: those that use something, by name.
        max: empty without a limit of resources.
        max_applications: 0 is no limit.
    """

    allocated: Resource
    applications: list[str]
    max: Resource
    max_applications: int


class UserStatus(Shown, frozen=True, kw_only=True):
    """The use of a user.

    Attributes:
        groups: by application the group that its use is charged to.
        queues: by path, with all queues above each.
    """

    name: str
    groups: dict[str, str]
    queues: dict[str, UseStatus]


class GroupStatus(Shown, frozen=True, kw_only=True):
    """The use of a group, by these applications; ``queues`` as those of users."""

    name: str
    applications: list[str]
    queues: dict[str, UseStatus]


class Scope(NamedTuple):
    """The part of a partition that is shown: some queues; and all users and groups, or only one with a name."""

    state: SchedulerState
    shows_queue: Callable[[str], bool]
    only: str | None = None

    def limits(self) -> Iterator[QueueLimits]:
        """The limits in queues that are shown."""
        nodes = self.state.tree.nodes.values()
        return (node.limits for node in nodes if node.limits is not None and self.shows_queue(node.path))

    def terms(self, kind: PrincipalKind) -> dict[str, dict[str, Terms]]:
        """The limits of users or groups that name them, by name and then by queue."""
        found: dict[str, dict[str, Terms]] = {}
        for limits in self.limits():
            for (path, whose), terms in named(limits).items():
                if whose.kind is kind and self.only in (None, whose.name):
                    found.setdefault(whose.name, {})[path] = terms
        return found

    def terms_of_others(self) -> dict[str, Terms]:
        """The limits of users that are not named, by queue."""
        return {limits.path: terms for limits in self.limits() if (terms := of_others(limits)) is not None}


class _Use:
    """The use of a user or group: amounts and applications by queue, and what each application is counted for."""

    __slots__ = ("allocated", "applications", "groups")

    def __init__(self) -> None:
        self.allocated: dict[str, Resource] = {}
        self.applications: dict[str, list[str]] = {}
        self.groups: dict[str, str] = {}

    def add(self, application: PendingApplication, scope: Scope) -> None:
        """Count an application in its leaf and in each queue above that is shown."""
        name = application.application_id
        self.groups |= {} if application.group is None else {name: application.group.group}
        for queue in takewhile(lambda queue: scope.shows_queue(queue.path), application.leaf.path_up):
            add_to(self.allocated.setdefault(queue.path, {}), application.allocated)
            self.applications.setdefault(queue.path, []).append(name)

    def statuses(self, own: dict[str, Terms], others: dict[str, Terms]) -> dict[str, UseStatus]:
        """The status by queue where anything is used or an own limit set; ``others`` hold without an own limit."""
        paths = {_ROOT: None}
        for path in [*self.allocated, *own]:
            while path not in paths:
                paths[path] = None
                path = parent_path(path)
        terms = others | own
        return {path: self._status(path, *terms.get(path, (None, 0))) for path in paths}

    def _status(self, path: str, most: Resource | None, applications_max: int) -> UseStatus:
        return UseStatus(
            allocated=saturated_and_pruned(self.allocated.get(path, {})),
            applications=sorted(self.applications.get(path, [])),
            max=saturated(most or {}),
            max_applications=applications_max,
        )


def user_statuses(scope: Scope) -> Steps[Iterator[UserStatus]]:
    """The users that use something or have a limit of their own, by name."""
    uses = yield from _uses(scope, lambda application: application.who.user)
    terms, others = scope.terms(PrincipalKind.USER), scope.terms_of_others()
    names = sorted(uses.keys() | terms.keys())
    users = ((name, uses.get(name, _Use())) for name in names)
    return (UserStatus(name=name, groups=use.groups, queues=use.statuses(terms.get(name, {}), others)) for name, use in users)


def group_statuses(scope: Scope) -> Steps[Iterator[GroupStatus]]:
    """The groups that use something or have a limit, by name."""
    uses = yield from _uses(scope, lambda application: None if application.group is None else application.group.group)
    terms = scope.terms(PrincipalKind.GROUP)
    names = sorted(uses.keys() | terms.keys())
    groups = ((name, uses.get(name, _Use())) for name in names)
    return (
        GroupStatus(name=name, applications=sorted(use.groups), queues=use.statuses(terms.get(name, {}), {}))
        for name, use in groups
    )


def _uses(scope: Scope, name_of: Callable[[PendingApplication], str | None]) -> Steps[dict[str, _Use]]:
    """The use by name; an application without a name counts for nobody."""
    uses: dict[str, _Use] = {}
    for application in scope.state.applications.values():
        name = name_of(application)
        is_shown = scope.shows_queue(application.leaf.path)  # first: the work must not tell whose application is hidden (SE-88)
        if is_shown and name is not None and scope.only in (None, name) and application.allocated:
            uses.setdefault(name, _Use()).add(application, scope)
        yield APPLICATION_ITEMS
    return uses
