"""Pods as asks and allocations: what they want, whose they are, how they are called, and which wishes are not fulfilled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from ykactor.kubernetes import quantities
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import Container, Pod, PodGroup
from ykactor.wire.si import messages as si

#: Characters of a pod's uid in its allocation key: pods of one name follow each other.
_UID_PART = 8
_ENDED = ("Succeeded", "Failed")
APP_LABEL, _APP_OLD_LABEL, _APP_SPARK_LABEL = "yunikorn.apache.org/app-id", "applicationId", "spark-app-selector"
QUEUE_LABEL, _QUEUE_OLD_LABEL = "yunikorn.apache.org/queue", "queue"
USER_ANNOTATION = "yunikorn.apache.org/user.info"
ALLOW_PREEMPTION = "yunikorn.apache.org/allow-preemption"

Amounts = dict[str, int]


def key_of(pod: Pod) -> str:
    """The allocation key: ``NAMESPACE.NAME-UID8``."""
    return f"{pod.metadata.namespace}.{pod.metadata.name}-{pod.metadata.uid[:_UID_PART]}"


def has_ended(pod: Pod) -> bool:
    """True if no container of the pod runs any more."""
    return pod.status.phase in _ENDED


def created_s(pod: Pod) -> int:
    """The creation time in Unix seconds; 0 if the server has not said it."""
    try:
        created = datetime.fromisoformat(pod.metadata.creation_timestamp or "")
    except ValueError:
        return 0
    return int(created.timestamp()) if created.tzinfo is not None else 0


# ---- what it wants


def requests_of(pod: Pod) -> Amounts:
    """The amounts that the scheduler counts for a pod, in base units, with ``pods: 1``.

    The larger of all containers and sidecars together and of each init step with the sidecars before it; requests of the pod as a
    whole override this; overhead is added.

    Raises:
        QuantityError: a quantity cannot be read, or a sum is above 2**63 - 1.
    """
    spec, status = pod.spec, pod.status
    is_refused = any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in status.conditions)
    statuses = {each.name: each for each in (*status.container_statuses, *status.init_container_statuses)}

    def of(container: Container) -> Amounts:
        given = statuses.get(container.name)
        promised = () if given is None else (given.allocated_resources, given.resources.requests)
        return _largest(container.resources.requests, promised, is_refused=is_refused)

    steps, sidecars = _of_init_containers(spec.init_containers, of)
    total = _sum([*map(of, spec.containers), sidecars])
    for name, amount in steps.items():
        total[name] = max(amount, total.get(name, 0))
    if spec.resources.requests:
        promised = status.allocated_resources, status.resources.requests
        total.update(_largest(spec.resources.requests, promised, is_refused=is_refused))
    total = _sum([total, quantities.amounts(spec.overhead, up=True)])
    return total | {"pods": 1}


def _of_init_containers(containers: Iterable[Container], of: Callable[[Container], Amounts]) -> tuple[Amounts, Amounts]:
    """Returns the most that one init step needs with the sidecars before it, and the sum of the sidecars."""
    most, sidecars = Amounts(), Amounts()
    for container in containers:
        if container.restart_policy == "Always":
            sidecars = step = _sum([sidecars, of(container)])
        else:
            step = _sum([sidecars, of(container)])
        for name, amount in step.items():
            most[name] = max(amount, most.get(name, 0))
    return most, sidecars


def _largest(wanted: Mapping[str, str], given: Iterable[Mapping[str, str]], *, is_refused: bool) -> Amounts:
    """The requests of a container, or of a pod as a whole: while it is resized the largest of what is wanted and given.

    Args:
        given: what the node has promised, and what it has given.
        is_refused: the node has refused the resize for good, so only what is given counts.
    """
    counted = [quantities.amounts(each, up=True) for each in given if each]
    if not (is_refused and any(counted)):
        counted.append(quantities.amounts(wanted, up=True))
    if len(counted) == 1:
        return counted[0]
    names = {name for each in counted for name in each}
    return {name: max(each.get(name, 0) for each in counted) for name in names}


def _sum(amounts: Iterable[Mapping[str, int]]) -> Amounts:
    """Raises ``QuantityError`` for a sum that the daemon could not read."""
    total = Amounts()
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
            if total[name] > quantities.QUANTITY_MAX:
                raise quantities.QuantityError(f"{name}: found {total[name]} in all, expected at most 2**63 - 1")
    return total


# ---- whose it is


class Names(Struct, frozen=True):
    """Names that a pod gives, with a complaint if it gives two different ones."""

    name: str
    complaint: str = ""


def application_of(pod: Pod) -> Names:
    """The application of a pod: of its own for a PodGroup; pods without one share one for each namespace."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    given = [labels.get(APP_LABEL), annotations.get(APP_LABEL), labels.get(_APP_OLD_LABEL), labels.get(_APP_SPARK_LABEL)]
    group = group_of(pod)
    if group is None:
        return _first(given, "application", f"yunikorn-{pod.metadata.namespace}-autogen")
    named = _first(given, "application", group.namespace)
    return Names(f"{named.name}.{group.name}", named.complaint)


def group_of(pod: Pod) -> Ref | None:
    """The PodGroup of a pod; None if it is in none."""
    group = pod.spec.scheduling_group
    return Ref(pod.metadata.namespace, group.pod_group_name) if group is not None and group.pod_group_name else None


def queue_of(pod: Pod) -> Names:
    """The queue that a pod names; empty if it names none."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    return _first([labels.get(QUEUE_LABEL), annotations.get(QUEUE_LABEL), labels.get(_QUEUE_OLD_LABEL)], "queue", "")


def _first(given: Iterable[str | None], what: str, default: str) -> Names:
    names = list(dict.fromkeys(name for name in given if name))
    if len(names) < 2:
        return Names(names[0] if names else default)
    others = ", ".join(names[1:])
    return Names(names[0], f"found different names of its {what}: {names[0]} is used, {others} is not")


#: The user of pods whose submitter is not known.
NOBODY = si.UserGroupInformation(user="nobody", groups=["nobody"])
#: The annotation that names nobody.
NOBODY_INFO = '{"user":"nobody","groups":["nobody"]}'


class _User(Struct):
    user: str = ""
    groups: list[str] | None = None


def user_of(pod: Pod) -> tuple[si.UserGroupInformation, str]:
    """The user who submitted a pod, and a complaint; ``nobody`` if the annotation is absent or cannot be read."""
    text = pod.metadata.annotations.get(USER_ANNOTATION, "")
    if not text:
        return NOBODY, ""
    try:
        found = msgspec.json.decode(text, type=_User)
    except (msgspec.DecodeError, RecursionError) as error:
        complaint = f"annotation {USER_ANNOTATION}: {error}, expected JSON with user and groups: its user is nobody"
        return NOBODY, complaint
    if not found.user:
        return NOBODY, f"annotation {USER_ANNOTATION}: found no user: its user is nobody"
    return si.UserGroupInformation(user=found.user, groups=found.groups or []), ""


# ---- wishes that are not fulfilled: each is said in an Event, none is ignored silently

#: Names a group of another scheduler.
_VOLCANO = "scheduling.k8s.io/group-name"


def unmet_needs(pod: Pod) -> Iterator[str]:
    """The requirements that the pod cannot have: it is not asked for."""
    if pod.spec.resource_claims:
        yield "resource claims"


def unmet_wishes(pod: Pod) -> Iterator[str]:
    """The preferences that the pod does not get: it runs without."""
    spec, affinity = pod.spec, pod.spec.affinity
    if affinity is not None:
        kinds = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
        if any(each is not None and each.preferred for each in kinds):
            yield "preferred terms of affinity"
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in spec.topology_spread_constraints):
        yield "topologySpreadConstraints with ScheduleAnyway"
    if _VOLCANO in pod.metadata.annotations:
        yield "a PodGroup of Volcano"


def unmet_wishes_of_group(group: PodGroup) -> Iterator[str]:
    """The same of a PodGroup."""
    if group.spec.scheduling_constraints:
        yield "schedulingConstraints"
