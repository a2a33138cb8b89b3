"""The answers of the REST API about users and groups, and about past use (``types``)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from ykactor.core.inspection.queue_status import parent_path
from ykactor.core.inspection.user_status import GroupStatus, UserStatus, UseStatus
from ykactor.core.values.resources import Resource
from ykactor.wire.rest.types import Payload


class QueueUse(Payload, frozen=True, kw_only=True):
    """The use and the limits of a user or group in a queue and below."""

    queue_path: str
    allocated: Resource = field(name="resourceUsage", default={})
    applications: list[str] = field(name="runningApplications", default=[])
    max: Resource = field(name="maxResources", default={})
    max_applications: int = 0
    children: list[QueueUse] = []


class UserUse(Payload, frozen=True, kw_only=True):
    """The use of a user. ``groups`` has by application the group that its use is charged to."""

    name: str = field(name="userName")
    groups: dict[str, str] = {}
    queues: QueueUse | None = None


class GroupUse(Payload, frozen=True, kw_only=True):
    """The use of a group, by application."""

    name: str = field(name="groupName")
    applications: list[str] = []
    queues: QueueUse | None = None


class ResourceSeconds(Payload, frozen=True, kw_only=True):
    """Amounts times seconds, summed up by the columns that were asked for; the others are left out.

    Attributes:
        day: a date such as ``2026-01-31``, in UTC.
        allocated, waited: what tasks have used, and what asks have waited for.
        lost: the part of ``allocated`` that preempted tasks have used.
    """

    day: str = ""
    queue: str = ""
    user: str = ""
    group: str = ""
    application: str = ""
    allocated: Resource = {}
    waited: Resource = {}
    lost: Resource = {}


class ApplicationSample(Payload, frozen=True, kw_only=True):
    """The number of running applications, as text."""

    timestamp: int
    total_applications: str


class ContainerSample(Payload, frozen=True, kw_only=True):
    """The number of allocations, as text."""

    timestamp: int
    total_containers: str


def user(status: UserStatus) -> UserUse:
    """A user."""
    return UserUse.of(status, queues=_tree(status.queues))


def group(status: GroupStatus) -> GroupUse:
    """A group."""
    return GroupUse.of(status, queues=_tree(status.queues))


def _tree(queues: Mapping[str, UseStatus]) -> QueueUse:
    """The queues as a tree, of which each has all queues above it."""
    children: dict[str, list[str]] = {}
    for path in sorted(queues):
        children.setdefault(parent_path(path), []).append(path)
    return _queue("root", queues, children)


def _queue(path: str, queues: Mapping[str, UseStatus], children: Mapping[str, list[str]]) -> QueueUse:
    below = [_queue(child, queues, children) for child in children.get(path, ())]
    return QueueUse.of(queues[path], queue_path=path, children=below)
