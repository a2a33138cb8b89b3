"""What users and groups use in each queue, and may use there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from ykactor.core.config.access import PrincipalKind
from ykactor.core.queueing.pending import PendingApplication
from ykactor.core.quota.limits import Terms, named, of_others
from ykactor.core.values.ids import ApplicationID
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, add_to
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import usage
from ykactor.wire.rest.amounts import limit, used
from ykactor.wire.rest.codec import encode_part

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


def users(look: Look) -> Pausing[list[bytes]]:
    """All users that use something or have a limit of their own, by name; encoded."""
    found, pace = [], Pace()
    for use in (yield from _users(look)):
        found.append(encode_part(use))
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    return found


def user(look: Look, name: str) -> Pausing[usage.UserUse | None]:
    """One user; None if it uses nothing and has no limit of its own."""
    return next((yield from _users(look, name)), None)


def _users(look: Look, only: str | None = None) -> Pausing[Iterator[usage.UserUse]]:
    """All users, or the one with a name."""
    uses, groups, pace = dict[str, _Use](), dict[str, dict[str, str]](), Pace()
    for application in look.state.applications.values():
        user = application.who.user
        if look.shows(application.leaf.path) and application.allocated and only in (None, user):
            uses.setdefault(user, _Use()).add(look, application)
            if application.group is not None:
                groups.setdefault(user, {})[application.application_id] = application.group.group
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    terms, others = _terms(look, PrincipalKind.USER, only), _of_others(look)
    return (
        usage.UserUse(
            user_name=name, groups=groups.get(name, {}), queues=_tree(uses.get(name, _Use()), terms.get(name, {}), others)
        )
        for name in sorted(uses.keys() | terms.keys())
    )


#: An application takes as long as so many other items: 10 us.
_APPLICATION_ITEMS = 5


def groups(look: Look) -> Pausing[list[bytes]]:
    """All groups with a limit, by name; encoded."""
    found, pace = [], Pace()
    for use in (yield from _groups(look)):
        found.append(encode_part(use))
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    return found


def group(look: Look, name: str) -> Pausing[usage.GroupUse | None]:
    """One group; None if it has no limit."""
    return next((yield from _groups(look, name)), None)


def _groups(look: Look, only: str | None = None) -> Pausing[Iterator[usage.GroupUse]]:
    """All groups, or the one with a name."""
    uses, applications, pace = dict[str, _Use](), dict[str, list[str]](), Pace()
    for application in look.state.applications.values():
        group = "" if application.group is None else application.group.group
        if look.shows(application.leaf.path) and group and application.allocated and only in (None, group):
            uses.setdefault(group, _Use()).add(look, application)
            applications.setdefault(group, []).append(application.application_id)
        if pace.is_due(_APPLICATION_ITEMS):
            yield ()
    terms = _terms(look, PrincipalKind.GROUP, only)
    return (
        usage.GroupUse(
            group_name=name,
            applications=sorted(applications.get(name, [])),
            queues=_tree(uses.get(name, _Use()), terms.get(name, {}), {}),
        )
        for name in sorted(uses.keys() | terms.keys())
    )


def _terms(look: Look, kind: PrincipalKind, only: str | None) -> dict[str, dict[str, Terms]]:
    """The limits of named users or groups, or of the one with a name, by name and then by queue."""
    found: dict[str, dict[str, Terms]] = {}
    for node in look.state.tree.nodes.values():
        if node.limits is not None and look.shows(node.path):
            for (path, whose), terms in named(node.limits).items():
                if whose.kind is kind and only in (None, whose.name):
                    found.setdefault(whose.name, {})[path] = terms
    return found


def _of_others(look: Look) -> dict[str, Terms]:
    """The limits of users that are not named, by queue."""
    limited = [node.limits for node in look.state.tree.nodes.values() if node.limits is not None and look.shows(node.path)]
    return {limits.path: terms for limits in limited if (terms := of_others(limits)) is not None}


def _tree(use: _Use, terms: dict[str, Terms], others: dict[str, Terms]) -> usage.QueueUse:
    """The queues in which something is used or has a limit of its own; ``others`` hold where there is no own limit."""
    for path in terms:
        use.at(path)
    return _queue(_ROOT, use, others | terms)


def _queue(path: str, use: _Use, terms: dict[str, Terms]) -> usage.QueueUse:
    most, applications_max = terms.get(path, (None, 0))
    return usage.QueueUse(
        queue_path=path,
        resource_usage=used(use.allocated),
        running_applications=sorted(use.applications),
        max_resources=limit(most),
        max_applications=applications_max,
        children=[_queue(below, child, terms) for below, child in sorted(use.children.items())],
    )
