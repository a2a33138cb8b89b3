"""What pods may ask for that the adapter does not do: it is said in an Event, never ignored silently."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.kubernetes.model import Pod


def needs(pod: Pod) -> Iterator[str]:
    """What the pod must have and cannot get: it is not asked for."""
    if pod.spec.resource_claims:
        yield "resource claims"


def wishes(pod: Pod) -> Iterator[str]:
    """What the pod would like and does not get: it runs without."""
    spec, affinity = pod.spec, pod.spec.affinity
    if affinity is not None:
        kinds = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
        if any(each is not None and each.preferred for each in kinds):
            yield "preferred terms of affinity"
    if any(each.when_unsatisfiable == "ScheduleAnyway" for each in spec.topology_spread_constraints):
        yield "topologySpreadConstraints with ScheduleAnyway"
