"""Entries for the daemon: pods and applications in its words, in few requests and in the order in which it needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import structs

from ykactor.kubernetes.constraints import required_node
from ykactor.kubernetes.gangs import GROUP_NAME, GROUPS, PLACEHOLDER, TaskGroup, fits
from ykactor.kubernetes.messages import Tell
from ykactor.kubernetes.model import Pod
from ykactor.kubernetes.pods import created_s, queue_of, user_of
from ykactor.kubernetes.policies import PARENT_TAG, Quotas
from ykactor.kubernetes.records import ApplicationRecord, PodRecord
from ykactor.wire.si import messages as si

# ---- requests


class Outgoing:
    """Entries for the daemon: nodes, answers about them, applications, what has ended, what is asked for, opened nodes.

    Nodes come first, so that what runs there is accepted. Answers come before asks, so that the daemon has no questions.
    New nodes get their capacity when what runs there is told, before the answers about them, which a new capacity ends (SC-156),
    and are opened last.
    """

    def __init__(self) -> None:
        self.nodes: list[si.NodeInfo] = []
        self.forgotten: list[si.PredicateScope] = []
        self.answers: list[si.PredicateAnswer] = []
        self.quotas: list[si.SetQueueQuotas] = []
        self.removals: list[si.RemoveApplicationRequest] = []
        self.applications: list[si.AddApplicationRequest] = []
        self.releases: list[si.AllocationRelease] = []
        self.allocations: list[si.Allocation] = []
        self.capacities: list[si.NodeInfo] = []
        self.openings: list[si.NodeInfo] = []

    def requests(self, request_id: str) -> list[Tell]:
        """The entries as requests, of which the last has this id: its answer confirms all of them."""
        requests = [Tell(request) for entries, request in self._requests() if entries]
        if request_id:
            requests[-1] = Tell(structs.replace(requests[-1].request, id=request_id))
        return requests

    def _requests(self) -> Iterator[tuple[Sequence[object], si.WorkRequest]]:
        """The requests with their entries; the client sends in parts what is too large."""
        filled = {entry.node_id for entry in self.capacities}
        known, new = ([each for each in self.answers if (each.node_id in filled) is is_new] for is_new in (False, True))
        yield self.nodes, si.NodeRequest(nodes=self.nodes)
        yield self.forgotten, si.PredicatesResponse(forget=self.forgotten)
        yield known, si.PredicatesResponse(answers=known)
        yield from (([each], each) for each in self.quotas)
        yield self.removals, si.ApplicationRequest(remove=self.removals)
        yield self.applications, si.ApplicationRequest(new=self.applications)
        released = si.AllocationReleasesRequest(allocations_to_release=self.releases)
        yield self.releases, si.AllocationRequest(releases=released)
        yield self.allocations, si.AllocationRequest(allocations=self.allocations)
        yield self.capacities, si.NodeRequest(nodes=self.capacities)
        yield new, si.PredicatesResponse(answers=new)
        yield self.openings, si.NodeRequest(nodes=self.openings)


# ---- pods and applications

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
    pod = record.pod
    tags = {CLASS_TAG: record.class_name, NAME_TAG: record.ref.name, NAMESPACE_TAG: record.ref.namespace}
    tags["creationTime"] = str(created_s(pod))
    required = required_node(pod)
    if required:
        tags[NODE_TAG] = required
    return si.Allocation(
        allocation_key=record.key,
        application_id=application.name,
        resource_per_alloc=record.size,
        priority=pod.spec.priority,
        allocation_tags=tags,
        task_group_name=_group_name(record, application),
        placeholder=is_placeholder(pod) and group_of(record, application) is not None,
        originator=record.key == application.first,
        preemption_policy=si.PreemptionPolicy(
            allow_preempt_self=allows_preemption, allow_preempt_other=pod.spec.preemption_policy != "Never"
        ),
        node_id=node,
        releasing=bool(node) and pod.metadata.deletion_timestamp is not None,
    )


def group_complaint(record: PodRecord, application: ApplicationRecord) -> str:
    """The reason why a pod that names a task group cannot be of it; "" if it can, or names none."""
    name = record.pod.metadata.annotations.get(GROUP_NAME, "")
    if not name or is_placeholder(record.pod) or application.group is not None:
        return ""
    if application.gang is None and record.key == application.first and record.pod.metadata.annotations.get(GROUPS):
        return ""  # why its definition is wrong has been said
    group = group_of(record, application)
    if group is None:
        return f"annotation {GROUP_NAME}: found {name[:80]!r}, which the first pod of {application.name} does not define"
    return "" if fits(record.size, group) else f"it is larger than a placeholder of its task group {name}"


def _group_name(record: PodRecord, application: ApplicationRecord) -> str:
    """The task group: members of a PodGroup that could take each other's places are in one."""
    if application.group is not None:
        sizes = ".".join(f"{name}={amount}" for name, amount in sorted(record.size.items()))
        return f"{record.class_name}.{sizes}"
    group = group_of(record, application)
    if group is None:
        return ""
    return group.name if is_placeholder(record.pod) or fits(record.size, group) else ""


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


# ---- entries that the daemon was told to forget


class Thing(Enum):
    """The kinds of things that the daemon can be told to forget."""

    NODE = 1
    APPLICATION = 2
    ASK = 3


class Entry(NamedTuple):
    """A node or an application by its name, or an ask by its key."""

    thing: Thing
    name: str


class Leaving:
    """The entries that are in requests without an answer. Requests are carried out in their order."""

    def __init__(self) -> None:
        self._requests: dict[Entry, str] = {}
        self._unsent: list[Entry] = []
        self._sent: dict[str, list[Entry]] = {}
        self._count = 0

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._requests

    def add(self, thing: Thing, name: str) -> None:
        """The requests that are sent next tell the daemon to forget this."""
        entry = Entry(thing, name)
        self._requests[entry] = ""
        self._unsent.append(entry)

    def seal(self) -> str:
        """The id for the last of the requests that are sent now; "" if none of them tells the daemon to forget anything."""
        if not self._unsent:
            return ""
        self._count += 1
        request_id = f"forget-{self._count}"
        self._requests.update(dict.fromkeys(self._unsent, request_id))
        self._sent[request_id], self._unsent = self._unsent, []
        return request_id

    def confirm(self, request_id: str) -> list[Entry]:
        """Returns what may be told again because the daemon has answered a request; without what is in a later request too."""
        entries = [entry for entry in self._sent.pop(request_id, ()) if self._requests.get(entry) == request_id]
        for entry in entries:
            del self._requests[entry]
        return entries
