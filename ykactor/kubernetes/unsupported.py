"""Wishes of pods that the adapter does not fulfil: each is said in an Event, none is ignored silently."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.kubernetes.model import Pod, PodGroup

#: Names a group of another scheduler.
_VOLCANO = "scheduling.k8s.io/group-name"


def needs(pod: Pod) -> Iterator[str]:
    """The requirements that the pod cannot have: it is not asked for."""
    if pod.spec.resource_claims:
        yield "resource claims"


def wishes(pod: Pod) -> Iterator[str]:
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


def wishes_of_group(group: PodGroup) -> Iterator[str]:
    """The same of a PodGroup."""
    if group.spec.scheduling_constraints:
        yield "schedulingConstraints"
