"""Pods as the entries that the daemon is told."""

from __future__ import annotations

from ykactor.kubernetes.constraints import required_node
from ykactor.kubernetes.gangs import GROUP_NAME, PLACEHOLDER, TaskGroup, fits
from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.namespaces import PARENT_TAG, Quotas
from ykactor.kubernetes.pods import created_s, queue_of, user_of
from ykactor.kubernetes.records import ApplicationRecord, PodRecord
from ykactor.wire.si import messages as si

#: Tags of asks: the predicate class, the only node, and how users know the pod.
CLASS_TAG, NODE_TAG = "ykactor.io/predicate", "yunikorn.apache.org/requiredNode"
NAME_TAG, NAMESPACE_TAG = "kubernetes.io/meta/podName", "kubernetes.io/meta/namespace"
FOREIGN_TAG, FORCE_TAG = "foreign", "application.create.force"


def is_placeholder(pod: Pod) -> bool:
    """True for a pod that only holds room for another one."""
    return pod.metadata.annotations.get(PLACEHOLDER, "").lower() == "true"


def group_of(record: PodRecord, application: ApplicationRecord) -> TaskGroup | None:
    """The task group that a pod names, if its gang has it."""
    name = record.pod.metadata.annotations.get(GROUP_NAME, "")
    groups = application.gang.groups if application.gang is not None else ()
    return next((group for group in groups if group.name == name), None)


def allocation(record: PodRecord, application: ApplicationRecord, node: str, *, allows_preemption: bool) -> si.Allocation:
    """A pod of ours: an ask, or with ``node`` a task that runs there."""
    pod, group = record.pod, group_of(record, application)
    tags = {CLASS_TAG: record.class_name, NAME_TAG: record.ref.name, NAMESPACE_TAG: record.ref.namespace}
    tags["creationTime"] = str(created_s(pod))
    required = required_node(pod)
    if required:
        tags[NODE_TAG] = required
    holds_room = is_placeholder(pod)
    return si.Allocation(
        allocation_key=record.key,
        application_id=application.name,
        resource_per_alloc=record.size,
        priority=pod.spec.priority,
        allocation_tags=tags,
        task_group_name=group.name if group is not None and (holds_room or fits(record.size, group)) else "",
        placeholder=holds_room and group is not None,
        originator=record.key == application.first,
        preemption_policy=si.PreemptionPolicy(
            allow_preempt_self=allows_preemption, allow_preempt_other=pod.spec.preemption_policy != "Never"
        ),
        node_id=node,
        releasing=bool(node) and pod.metadata.deletion_timestamp is not None,
    )


def foreign(record: PodRecord) -> si.Allocation:
    """A pod of another scheduler, which only takes room on its node."""
    kind = "static" if any(owner.kind == "Node" for owner in record.pod.metadata.owner_references) else "default"
    tags = {FOREIGN_TAG: kind, NAME_TAG: record.ref.name, NAMESPACE_TAG: record.ref.namespace}
    return si.Allocation(
        allocation_key=record.key,
        resource_per_alloc=record.size,
        priority=record.pod.spec.priority,
        allocation_tags=tags | {"creationTime": str(created_s(record.pod))},
        node_id=record.pod.spec.node_name,
    )


def new_application(
    application: ApplicationRecord, first: PodRecord, quotas: Quotas, *, is_forced: bool
) -> si.AddApplicationRequest:
    """An application with what its first pod and its namespace say.

    Args:
        is_forced: one of its pods runs already, so it has to be accepted.
    """
    gang = application.gang
    tags = {"namespace": application.namespace, **{name: value for name, value in quotas.tags.items() if value}}
    if quotas.parent:
        tags[PARENT_TAG] = quotas.parent
    if is_forced:
        tags[FORCE_TAG] = "true"
    return si.AddApplicationRequest(
        application_id=application.name,
        queue_name=queue_of(first.pod).name,
        ugi=user_of(first.pod)[0],
        tags=tags,
        execution_timeout_milli_seconds=gang.timeout_s * 1000 if gang is not None else 0,
        placeholder_ask=gang.total() if gang is not None and not application.is_started else None,
        gang_scheduling_style=gang.style if gang is not None else "",
    )


#: The fields of a known key that the daemon takes again (AP-110, AP-111, AP-116, AP-145).
def is_news(told: si.Allocation, wanted: si.Allocation) -> bool:
    """True if the daemon has to be told a known key again."""
    return (told.resource_per_alloc, told.node_id, told.releasing, told.preemption_policy) != (
        wanted.resource_per_alloc,
        wanted.node_id,
        wanted.releasing,
        wanted.preemption_policy,
    )
