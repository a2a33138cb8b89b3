"""The messages of the daemon, and what follows from them for the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from ykactor.client import Refusal
from ykactor.kubernetes import pods
from ykactor.kubernetes.messages import Bind, DeletePod, Event, FailPod, Ref, SetCondition
from ykactor.kubernetes.records import ApplicationRecord, PodRecord
from ykactor.wire.si import messages as si

if TYPE_CHECKING:
    from ykactor.kubernetes.state import State

#: States of an application in which its gang has all its room, or is over.
_STARTED = ("Starting", "Running", "Resuming")
_ENDED = ("Completed", "Failed", "Rejected", "Expired")


def hear(state: State, message: si.Response | Refusal) -> None:
    """Take a message of the daemon."""
    match message:
        case si.RegisterResourceManagerResponse():
            state.begin_anew()
        case si.AllocationResponse():
            for allocation in message.new:
                _placed(state, allocation)
            for release in message.released:
                _released(state, release)
            for rejected in message.rejected_allocations:
                _rejected(state, rejected)
        case si.ApplicationResponse():
            _applications(state, message)
        case si.PredicatesRequest(checks=checks):
            nodes = {name: record.node for name, record in state.nodes.items()}
            state.out.answers += [state.classes.answer(check, nodes) for check in checks]
        case si.SchedulingStateResponse(entries=entries):
            for entry in entries:
                _waits(state, entry)
        case si.Ack():  # others than those of configurations are not yielded
            state.configured("")
        case Refusal(request=si.UpdateConfigurationRequest(), answer=answer):
            state.configured(answer.message)
        case si.NodeResponse(rejected=rejected):
            for node in rejected:
                _node_rejected(state, node)


# ---- pods


def _placed(state: State, allocation: si.Allocation) -> None:
    """The scheduler has placed an ask. What runs already, or is bound there, is only confirmed."""
    record = state.pods.get(allocation.allocation_key)
    if record is None or record.told is None:
        state.out.releases.append(_release(allocation.application_id, allocation.allocation_key))
        return
    if record.place:
        return
    state.place(record, allocation.node_id)
    record.told = structs.replace(record.told, node_id=allocation.node_id)
    state.touch([record.key])


def begin_bind(state: State, record: PodRecord) -> None:
    """Bind a pod where the scheduler has placed it, unless another pod has taken its ports meanwhile."""
    if not record.node or record.told is None or record.pod.spec.node_name or record.is_binding or record.is_bound:
        return
    taken = state.classes.taken_ports(record.node, besides=record.key) if record.ports else ()
    if any(port.conflicts(other) for port in record.ports for other in taken):
        state.hand_back(record)
        return
    record.is_binding = True
    state.effects.append(Bind(record.key, record.ref, record.pod.metadata.uid, record.node))


def _released(state: State, release: si.AllocationRelease) -> None:
    """The scheduler ends a pod: its release goes back when the pod is gone. What the adapter has ended itself is repeated."""
    if release.termination_type == "STOPPED_BY_RM":
        return
    record = state.pods.get(release.allocation_key)
    if record is None or record.told is None:
        state.out.releases.append(_release(release.application_id, release.allocation_key, release.termination_type))
        return
    record.termination = release.termination_type
    state.effects.append(DeletePod(record.ref, record.pod.metadata.uid))
    if release.termination_type == "PREEMPTED_BY_SCHEDULER":
        state.event(record, "Preempted", "Preempting", release.message, is_warning=True)
    elif release.termination_type == "TIMEOUT":
        state.event(record, "GangScheduling", "Releasing", release.message, is_warning=True)


def _release(application_id: str, key: str, termination_type: str = "STOPPED_BY_RM") -> si.AllocationRelease:
    return si.AllocationRelease(application_id=application_id, allocation_key=key, termination_type=termination_type)


def _rejected(state: State, rejected: si.RejectedAllocation) -> None:
    """The daemon does not take a pod. If its application has ended meanwhile, it begins anew."""
    record = state.pods.get(rejected.allocation_key)
    if record is None:
        return
    record.told = None
    application = state.application_of(record)
    if rejected.code == "NO_APPLICATION" and application is not None:
        application.is_told = False
        state.touch([record.key])
    else:
        state.complain(record, "FailedScheduling", rejected.reason)


def _waits(state: State, entry: si.SchedulingStateEntry) -> None:
    """An ask waits: say so on the pod, if it does not say so already."""
    record = state.pods.get(entry.allocation_key)
    if record is None or record.told is None or record.place:
        return
    reason = "Unschedulable" if entry.state == "FAILED" else "SchedulingSkipped"
    known = next((each for each in record.pod.status.conditions if each.type == "PodScheduled"), None)
    if known is not None and (known.status, known.reason, known.message) == ("False", reason, entry.reason):
        return
    state.effects.append(SetCondition(record.ref, record.pod.metadata.uid, reason, entry.reason))
    state.complain(record, "FailedScheduling", entry.reason)


# ---- applications and nodes


def _applications(state: State, message: si.ApplicationResponse) -> None:
    for accepted in message.accepted:
        application = state.applications.get(accepted.application_id)
        if application is not None:
            application.queue = accepted.queue_name
    for moved in message.moved:
        application = state.applications.get(moved.application_id)
        if application is not None:
            application.queue = moved.queue_name
    for rejected in message.rejected:
        application = state.applications.get(rejected.application_id)
        if application is not None:
            application.is_told = False
            _fail(state, application, "ApplicationRejected", rejected.reason)
    for updated in message.updated:
        application = state.applications.get(updated.application_id)
        if application is not None:
            _updated(state, application, updated)


def _updated(state: State, application: ApplicationRecord, updated: si.UpdatedApplication) -> None:
    application.state = updated.state
    if updated.state in _STARTED and not application.is_started:
        application.is_started = True
        state.touch(application.keys)
    if updated.state not in _ENDED:
        return
    application.is_told = False
    if updated.state == "Failed":
        _fail(state, application, "ApplicationFailed", updated.message or "its gang could not start in time")
    state.forget_ended(application)


def _fail(state: State, application: ApplicationRecord, reason: str, message: str) -> None:
    """Pods of the application that wait will never run."""
    for key in application.keys:
        record = state.pods[key]
        record.told = record.told if record.place else None
        if record.place or record.is_refused or pods.has_ended(record.pod):
            continue
        record.is_refused = True
        state.complain(record, reason, message)
        state.effects.append(FailPod(record.ref, record.pod.metadata.uid, reason, message))


def _node_rejected(state: State, rejected: si.RejectedNode) -> None:
    record = state.nodes.get(rejected.node_id)
    if record is not None:
        ref, uid = Ref("", rejected.node_id), record.node.metadata.uid
        state.effects.append(Event("Node", ref, uid, "NodeRejected", "Reporting", rejected.reason))


def set_quotas(state: State, namespace: str) -> None:
    """Quotas of a namespace have changed: tell them for the queues of its applications."""
    tags = state.policies.quotas(namespace).tags
    queues = {each.queue for each in state.applications.values() if each.namespace == namespace and each.is_told and each.queue}
    state.out.quotas += [si.SetQueueQuotas(queue_name=queue, tags=tags) for queue in sorted(queues)]
