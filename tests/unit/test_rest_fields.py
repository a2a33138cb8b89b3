"""The fields of the REST API: those of Apache YuniKorn are filled from the state, or named as absent, with the reason (RE-6)."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct, UnsetType, structs

import ykactor
from ykactor.core.config.model import ChildTemplate
from ykactor.core.inspection.application_status import (
    ApplicationDetails,
    ApplicationStatus,
    JobStatus,
    RecordStatus,
    StateStatus,
    TaskGroupStatus,
)
from ykactor.core.inspection.node_status import NodeStatus
from ykactor.core.inspection.queue_status import QueueStatus
from ykactor.core.inspection.task_status import AllocationStatus, AskStatus, ForeignStatus
from ykactor.core.inspection.user_status import GroupStatus, UserStatus, UseStatus
from ykactor.rules import load
from ykactor.wire.rest import applications, configuration, events, history, jobs, nodes, partitions, queues, types, usage

HTTP = Path(ykactor.__file__).parent / "surfaces" / "http"
REST = Path(ykactor.__file__).parent / "wire" / "rest"
_ALLOCATION = """allocationKey allocationTags requestTime allocationTime allocationDelay resource priority nodeId applicationId
    placeholder placeholderUsed taskGroupName preempted originator"""
#: The fields that Apache YuniKorn has, by our struct.
YUNIKORN = {
    types.Error: "status_code message description",
    types.Cluster: "startTime rmBuildInformation partition clusterName",
    partitions.Capacity: "capacity usedCapacity utilization",
    partitions.NodeSorting: "type resourceWeights",
    partitions.Partition: """clusterId name capacity nodeSortingPolicy preemptionEnabled quotaPreemptionEnabled totalNodes
        applications totalContainers state lastStateTransitionTime""",
    queues.Template: "maxApplications maxResource guaranteedResource properties",
    queues.Queue: """
        queuename status partition pendingResource maxResource guaranteedResource allocatedResource preemptingResource
        headroom isLeaf isManaged properties parent template children childNames absUsedCapacity maxRunningApps
        runningApps currentPriority allocatingAcceptedApps sortingPolicy prioritySorting preemptionEnabled
        isPreemptionFence preemptionDelay quotaPreemptionDelay isQuotaPreemptionRunning quotaPreemptionStartTime
        isPriorityFence priorityOffset unschedAskBackoff askBackoffDelay""",
    applications.Request: """allocationKey allocationTags requestTime resource priority requiredNodeId applicationId placeholder
        taskGroupName allocationLog triggeredPreemption originator schedulingAttempted triggeredScaleUp""",
    applications.Allocation: _ALLOCATION,
    applications.StateChange: "time applicationState",
    applications.TaskGroup: "taskGroupName count minResource replaced timedout",
    applications.ResourceHistory: "resourceUsage preemptedResource placeholderResource",
    applications.Application: """applicationID usedResource maxUsedResource pendingResource partition queueName submissionTime
        finishedTime requests allocations applicationState user groups rejectedMessage stateLog placeholderData hasReserved
        reservations maxRequestPriority startTime resourceHistory backoffDeadline""",
    applications.ForeignAllocation: "allocationKey allocationTags allocationTime resource priority nodeId preemptable",
    nodes.Node: """nodeID hostName rackName attributes capacity allocated occupied available utilized allocations
        foreignAllocations schedulable isReserved reservations""",
    nodes.UtilizationBand: "bucketName numOfNodes nodeNames",
    nodes.TypeUtilization: "type utilization",
    nodes.NodeUtilizations: "clusterId partition utilizations",
    partitions.RuleFilter: "type userList groupList userExp groupExp",
    partitions.PlacementRule: "name parameters filter parentRule",
    usage.QueueUse: "queuePath resourceUsage runningApplications maxResources maxApplications children",
    usage.UserUse: "userName groups queues",
    usage.GroupUse: "groupName applications queues",
    usage.ApplicationSample: "timestamp totalApplications",
    usage.ContainerSample: "timestamp totalContainers",
    types.HealthCheck: "Name Succeeded Description DiagnosisMessage",
    types.Health: "Healthy HealthChecks",
    types.Verdict: "allowed reason checksum checksumMatch",
    events.Event: "type objectID referenceID message timestampNano eventChangeType eventChangeDetail resource",
    events.Events: "InstanceUUID LowestID HighestID EventRecords",
    events.StreamHead: "InstanceUUID",
    configuration.Configuration: "Partitions Checksum Extra DeadlockDetectionEnabled DeadlockTimeoutSeconds",
}
#: Answers of routes that Apache YuniKorn does not have, and the parts of an amount of an event.
OWN = (
    types.Session,
    applications.PendingAsk,
    applications.TaskRecord,
    jobs.Job,
    usage.ResourceSeconds,
    events.Quantity,
    events.Amounts,
    history.PartitionSample,
)
#: Fields that are put in beside the struct (``codec.encode_with``).
ENCODED = {"requests", "allocations", "attempts"}
#: The structs of the read model, or of the configuration, whose fields of the same names are shown.
SHOWN: dict[type[types.Payload], tuple[type[Struct], ...]] = {
    applications.Application: (ApplicationStatus, ApplicationDetails),
    applications.StateChange: (StateStatus,),
    applications.TaskGroup: (TaskGroupStatus,),
    applications.ResourceHistory: (ApplicationDetails,),
    applications.Request: (AskStatus,),
    applications.Allocation: (AllocationStatus,),
    applications.ForeignAllocation: (ForeignStatus,),
    applications.TaskRecord: (RecordStatus,),
    jobs.Job: (JobStatus,),
    nodes.Node: (NodeStatus,),
    queues.Queue: (QueueStatus,),
    queues.Template: (ChildTemplate,),
    usage.QueueUse: (UseStatus,),
    usage.UserUse: (UserStatus,),
    usage.GroupUse: (GroupStatus,),
}


def payloads() -> Iterator[type[types.Payload]]:
    waiting = [*types.Payload.__subclasses__()]
    while waiting:
        waiting += (kind := waiting.pop()).__subclasses__()
        yield kind


def absent() -> set[str]:
    """The fields that the rule names."""
    return {name.lower() for name in re.findall(r"^\|[^|]*\| `(\w+)` \|", load()["RE-6"].text, re.MULTILINE)}


@cache
def keywords() -> dict[str, set[str]]:
    """The keywords of all calls where answers are made, by the name of the struct or function that is called."""
    found: dict[str, set[str]] = {}
    for path in [*HTTP.rglob("*.py"), *REST.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                *above, name = ast.unparse(node.func).split(".")
                called = above[-1] if above and name == "of" else name
                found.setdefault(called, set()).update(keyword.arg or "**" for keyword in node.keywords)
    return found


def test_every_payload_is_compared() -> None:
    """A new answer is listed here, with the fields of Apache YuniKorn or as our own."""
    assert {*payloads()} - YUNIKORN.keys() - {*OWN} == set()


@pytest.mark.parametrize("kind", YUNIKORN, ids=lambda kind: kind.__name__)
def test_every_field_is_there_or_named_as_absent(kind: type[types.Payload]) -> None:
    """RE-1, RE-6: no field is missing without a word, and none has a name that clients do not know."""
    expected, found = set(YUNIKORN[kind].split()), {known.encode_name for known in structs.fields(kind)}
    assert found - expected == set()
    assert {name.lower() for name in expected - found} - absent() == set()


@pytest.mark.parametrize("kind", [*YUNIKORN, *OWN], ids=lambda kind: kind.__name__)
def test_every_field_is_filled(kind: type[types.Payload]) -> None:
    """RE-1: a field that no reading fills would have its default for ever."""
    given = keywords()
    filled = given.get(kind.__name__, set()) | (given["replace"] if kind is partitions.Partition else set())
    filled = filled.union(*(shown.__struct_fields__ for shown in SHOWN.get(kind, ())))
    never = {known.name for known in structs.fields(kind)} - filled - ENCODED
    assert "**" in filled or never == set()


@pytest.mark.parametrize("kind", SHOWN, ids=lambda kind: kind.__name__)
def test_a_field_of_the_read_model_has_the_same_meaning(kind: type[types.Payload]) -> None:
    """A field that is taken over by its name has the type that it has in the read model, unless the call gives it a value."""
    given = keywords()[kind.__name__]
    shown = {known.name: known.type for each in SHOWN[kind] for known in structs.fields(each)}
    taken = {known.name: (known.type, shown[known.name]) for known in structs.fields(kind) if known.name in shown}
    differing = {name for name, (ours, theirs) in taken.items() if not {theirs, theirs | UnsetType} & {ours, ours | UnsetType}}
    assert differing - given - ENCODED == set()
