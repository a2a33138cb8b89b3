"""Gangs as YuniKorn's annotations describe them: task groups, and the pods that hold their room.

The first pod of an application defines the gang: it says how many pods of which size each group has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ykactor.kubernetes import quantities
from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.pods import ALLOW_PREEMPTION, APP_LABEL, NOBODY_INFO, QUEUE_LABEL, USER_ANNOTATION, Amounts, queue_of

GROUPS, GROUP_NAME = "yunikorn.apache.org/task-groups", "yunikorn.apache.org/task-group-name"
PARAMETERS, PLACEHOLDER = "yunikorn.apache.org/schedulingPolicyParameters", "yunikorn.apache.org/placeholder"
#: The definition of the gang on its placeholders, from which a later process of the adapter knows it.
DEFINITION = "yunikorn.apache.org/task-groups-definition"
_TIMEOUT, _STYLE = "placeholderTimeoutInSeconds", "gangSchedulingStyle"
_STYLES = ("Soft", "Hard")
_TIMEOUT_MAX_S = 10**9
#: Members of all groups together.
MEMBERS_MAX = 10_000
_GROUP_FORM = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
#: What the API server takes as a resource of containers.
_RESOURCE_FORM = re.compile(
    r"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGTP]i|[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
#: Characters of an application and of a group in the name of a placeholder, which has to be a DNS label.
_NAME_PART, _GROUP_PART = 24, 20


class GangError(ValueError):
    """The annotations describe no gang that could run."""


class TaskGroup(Struct, rename="camel", frozen=True):
    """Pods of one size, and where they may run."""

    name: str
    min_member: int
    min_resource: Mapping[str, str]
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] | UnsetType = UNSET
    tolerations: Sequence[Any] | UnsetType = UNSET
    affinity: Any | UnsetType = UNSET
    topology_spread_constraints: Sequence[Any] | UnsetType = UNSET


class Gang(Struct, frozen=True):
    """A gang.

    Attributes:
        groups: with different names.
        timeout_s: how long placeholders wait; 0: as long as the daemon says.
        style: ``Soft`` or ``Hard``.
        definition: the two annotations as they were given.
    """

    groups: tuple[TaskGroup, ...]
    timeout_s: int
    style: str
    definition: str

    def total(self) -> Amounts:
        """The amounts of all placeholders, in base units, with their ``pods``."""
        total = Amounts()
        for group in self.groups:
            for name, amount in size_of(group).items():
                total[name] = total.get(name, 0) + amount * group.min_member
        return total


def size_of(group: TaskGroup) -> Amounts:
    """The amounts of one placeholder of a group."""
    return quantities.amounts(group.min_resource, up=True) | {"pods": 1}


def gang_of(annotations: Mapping[str, str]) -> Gang | None:
    """The gang that annotations of a pod describe; None if they describe none.

    Raises:
        GangError
    """
    text = annotations.get(GROUPS, "")
    if not text:
        return None
    try:
        groups = tuple(msgspec.json.decode(text, type=list[TaskGroup]))
    except (msgspec.DecodeError, RecursionError) as error:
        raise GangError(f"annotation {GROUPS}: {error}") from None
    for group in groups:
        _check(group)
    if not groups or len({group.name for group in groups}) < len(groups):
        raise GangError(f"annotation {GROUPS}: found {len(groups)} groups, expected at least one, each with a name of its own")
    if sum(group.min_member for group in groups) > MEMBERS_MAX:
        raise GangError(f"annotation {GROUPS}: expected at most {MEMBERS_MAX} members")
    parameters = annotations.get(PARAMETERS, "")
    timeout_s, style = _parameters(parameters)
    gang = Gang(groups, timeout_s, style, msgspec.json.encode({GROUPS: text, PARAMETERS: parameters}).decode())
    for name, amount in gang.total().items():
        if amount > quantities.QUANTITY_MAX:
            raise GangError(f"annotation {GROUPS}: found {amount} of {name} in all groups, expected at most 2**63 - 1")
    return gang


def gang_from(definition: str) -> Gang | None:
    """The gang of ``Gang.definition``; None if it cannot be read."""
    try:
        return gang_of(msgspec.json.decode(definition, type=dict[str, str]))
    except (msgspec.DecodeError, RecursionError, GangError):
        return None


def _check(group: TaskGroup) -> None:
    if not _GROUP_FORM.fullmatch(group.name):
        raise GangError(f"annotation {GROUPS}: found the name {group.name[:80]!r}, expected lower-case letters, digits and -")
    if group.min_member < 1:
        raise GangError(f"annotation {GROUPS}: group {group.name}: found minMember {group.min_member}, expected 1 or more")
    for name in group.min_resource:
        if not _RESOURCE_FORM.fullmatch(name):
            raise GangError(f"annotation {GROUPS}: group {group.name}: minResource: unknown resource {name[:80]!r}")
    try:
        quantities.amounts(group.min_resource, up=True)
    except quantities.QuantityError as error:
        raise GangError(f"annotation {GROUPS}: group {group.name}: minResource: {error}") from None


def _parameters(text: str) -> tuple[int, str]:
    """``placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard``: the timeout in seconds and the style."""
    given = dict(word.partition("=")[::2] for word in text.split())
    timeout, style = given.get(_TIMEOUT, "0"), given.get(_STYLE, "Soft")
    if not (timeout.isascii() and timeout.isdigit() and len(timeout) <= len(str(_TIMEOUT_MAX_S))):
        raise GangError(f"annotation {PARAMETERS}: found {_TIMEOUT}={timeout[:40]}, expected seconds")
    if style not in _STYLES:
        raise GangError(f"annotation {PARAMETERS}: found {_STYLE}={style[:40]}, expected Soft or Hard")
    return int(timeout), style


def fits(size: Amounts, group: TaskGroup) -> bool:
    """True if a pod of this size can take the place of a placeholder of the group."""
    room = size_of(group)
    return all(amount <= room.get(name, 0) for name, amount in size.items())


# ---- placeholders


class PlaceholderSettings(Struct, frozen=True):
    """Settings of placeholder pods.

    Attributes:
        image: it only has to sleep.
        run_as_user, run_as_group, fs_group: numbers in its security context.
    """

    image: str = "registry.k8s.io/pause:3.10"
    run_as_user: int = 1000
    run_as_group: int = 3000
    fs_group: int = 2000


class Placeholder(NamedTuple):
    """A placeholder of a gang; its name is the same in another process."""

    name: str
    application_id: str
    group: TaskGroup
    gang: Gang


def placeholders(first: Pod, application_id: str, gang: Gang) -> Iterator[Placeholder]:
    """All placeholders of a gang, which belong to the first pod of its application."""
    part, number = _name_part(application_id), 0
    for group in gang.groups:
        for _ in range(group.min_member):
            name = f"tg-{part}-{group.name[:_GROUP_PART].rstrip('-')}-{first.metadata.uid[:8]}-{number}"
            yield Placeholder(name, application_id, group, gang)
            number += 1


def placeholder_pod(first: Pod, placeholder: Placeholder, settings: PlaceholderSettings) -> dict[str, Any]:
    """A pod that holds the room of one member of a group; it belongs to the first pod of the application, and goes with it."""
    group = placeholder.group
    meta, queue = first.metadata, queue_of(first).name
    # Admission policies trust the adapter, so a user is always named, or the group could name one.
    asked = {each: meta.annotations[each] for each in (USER_ANNOTATION, ALLOW_PREEMPTION) if each in meta.annotations}
    asked.setdefault(USER_ANNOTATION, NOBODY_INFO)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": placeholder.name,
            "namespace": meta.namespace,
            "labels": dict(group.labels),
            "annotations": {
                **group.annotations,
                **asked,
                APP_LABEL: placeholder.application_id,
                **({QUEUE_LABEL: queue} if queue else {}),
                PLACEHOLDER: "true",
                GROUP_NAME: group.name,
                DEFINITION: placeholder.gang.definition,
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": False}],
        },
        "spec": _spec(first, group, settings),
    }


def _spec(first: Pod, group: TaskGroup, settings: PlaceholderSettings) -> dict[str, Any]:
    where = {
        "nodeSelector": group.node_selector,
        "tolerations": group.tolerations,
        "affinity": group.affinity,
        "topologySpreadConstraints": group.topology_spread_constraints,
        "priorityClassName": first.spec.priority_class_name or UNSET,
        "imagePullSecrets": [{"name": each.name} for each in first.spec.image_pull_secrets] or UNSET,
    }
    return {
        "schedulerName": first.spec.scheduler_name,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.run_as_user,
            "runAsGroup": settings.run_as_group,
            "fsGroup": settings.fs_group,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(group, settings)],
        **{name: value for name, value in where.items() if value is not UNSET},
    }


def _container(group: TaskGroup, settings: PlaceholderSettings) -> dict[str, Any]:
    amounts = dict(group.min_resource)
    return {
        "name": "pause",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": amounts, "limits": {name: amounts[name] for name in amounts if name not in ("cpu", "memory")}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _name_part(application_id: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", application_id.lower())[:_NAME_PART].strip("-") or "app"
