"""What users and groups use in each queue, and may use there."""

from __future__ import annotations

from itertools import takewhile

from ykactor.core.config.access import PrincipalKind
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.limits import Terms, named
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, add_to
from ykactor.surfaces.http.readings.look import Look, limit, used
from ykactor.wire.rest import types

_ROOT = "root"


class _Use:
    """What a user or group uses in one queue and below."""

    __slots__ = ("allocated", "applications", "children")

    def __init__(self) -> None:
        self.allocated: Resource = {}
        self.applications: list[ApplicationID] = []
        self.children: dict[str, _Use] = {}

    def at(self, path: str) -> _Use:
        """The use in the queue at ``path``; this one is that of root."""
        use, above = self, _ROOT
        for name in path.split(".")[1:]:
            above = f"{above}.{name}"
            use = use.children.setdefault(above, _Use())
        return use

    def add(self, look: Look, application: PendingApplication) -> None:
        """Count an application in its leaf and in each queue above that is shown."""
        for queue in takewhile(lambda queue: look.shows(queue.path), application.leaf.path_up):
            use = self.at(queue.path)
            add_to(use.allocated, application.allocated)
            use.applications.append(application.application_id)


def users(look: Look) -> Pausing[list[types.UserUse]]:
    """All users that use something or have a limit of their own, by name."""
    uses, groups, pace = dict[str, _Use](), dict[str, dict[str, str]](), Pace()
    for application in look.state.applications.values():
        if application.allocated and look.shows(application.leaf.path):
            uses.setdefault(application.who.user, _Use()).add(look, application)
            if application.group is not None:
                groups.setdefault(application.who.user, {})[application.application_id] = application.group.group
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    terms, found = _terms(look, PrincipalKind.USER), []
    for user in sorted(uses.keys() | terms.keys() - {"*"}):
        queues = _tree(uses.get(user, _Use()), terms.get(user, {}))
        found.append(types.UserUse(user_name=user, groups=groups.get(user, {}), queues=queues))
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    return found


#: An application takes as long as so many other items: 10 us.
_APPLICATION_ITEMS = 5


def groups(look: Look) -> Pausing[list[types.GroupUse]]:
    """All groups with a limit, by name."""
    uses, applications, pace = dict[str, _Use](), dict[str, list[str]](), Pace()
    for application in look.state.applications.values():
        if application.group is not None and application.allocated and look.shows(application.leaf.path):
            uses.setdefault(application.group.group, _Use()).add(look, application)
            applications.setdefault(application.group.group, []).append(application.application_id)
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    terms = _terms(look, PrincipalKind.GROUP)
    return [
        types.GroupUse(
            group_name=group,
            applications=sorted(applications.get(group, [])),
            queues=_tree(uses.get(group, _Use()), terms.get(group, {})),
        )
        for group in sorted(uses.keys() | terms.keys())
    ]


def _terms(look: Look, kind: PrincipalKind) -> dict[str, dict[str, Terms]]:
    """The limits of named users or groups, by name and then by queue."""
    found: dict[str, dict[str, Terms]] = {}
    for node in look.state.tree.nodes.values():
        if node.limits is not None and look.shows(node.path):
            for (path, whose), terms in named(node.limits).items():
                if whose.kind is kind:
                    found.setdefault(whose.name, {})[path] = terms
    return found


def _tree(use: _Use, terms: dict[str, Terms]) -> types.QueueUse:
    for path in terms:
        use.at(path)
    return _queue(_ROOT, use, terms)


def _queue(path: str, use: _Use, terms: dict[str, Terms]) -> types.QueueUse:
    most, applications_max = terms.get(path, (None, 0))
    return types.QueueUse(
        queue_path=path,
        resource_usage=used(use.allocated),
        running_applications=sorted(use.applications),
        max_resources=limit(most),
        max_applications=applications_max,
        children=[_queue(below, child, terms) for below, child in sorted(use.children.items())],
    )


def user(look: Look, name: str) -> Pausing[types.UserUse | None]:
    """One user; None if it uses nothing and has no limit of its own."""
    return next((found for found in (yield from users(look)) if found.user_name == name), None)


def group(look: Look, name: str) -> Pausing[types.GroupUse | None]:
    """One group; None if it has no limit."""
    return next((found for found in (yield from groups(look)) if found.group_name == name), None)
