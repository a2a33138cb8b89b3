"""Requests to submissions."""

import pytest

from ykactor.core.config.access import UserGroups
from ykactor.core.messages import facts
from ykactor.core.messages import submissions as messages
from ykactor.core.messages.acts import MoveApplication, SetQueueQuotas, TerminateApplication
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.messages.kinds import RejectionCode as Code
from ykactor.core.messages.states import TaskOutcome, TaskRecord
from ykactor.core.messages.submissions import RefuseEntry
from ykactor.core.values.ids import PartitionName
from ykactor.wire.si import messages as si
from ykactor.wire.si import requests
from ykactor.wire.si.acts import administration, quotas
from ykactor.wire.si.codec import JSON
from ykactor.wire.si.protocol_error import ProtocolError
from ykactor.wire.si.requests import running, submissions, unknown_partition


def allocation(**fields: object) -> si.Allocation:
    return si.Allocation(**{"allocation_key": "t1", "application_id": "app-1", **fields})


def ask_of(wire: si.Allocation) -> Ask:
    ((submission,),) = submissions(si.AllocationRequest(allocations=[wire])).values()
    assert isinstance(submission, Ask)
    return submission


def test_every_field_of_an_ask_arrives():
    """All fields of an ask arrive in its submission; quantities are base units, or text as in the queue file."""
    wire = allocation(
        resource_per_alloc={"vcore": "500m", "memory": "2Gi", "gpu": 3},
        priority=-7,
        allocation_tags={"creationTime": "5"},
        task_group_name="tg",
        placeholder=True,
        originator=True,
        node_id="n1",
    )
    assert ask_of(wire) == Ask(
        allocation_key="t1",
        application_id="app-1",
        resource={"vcore": 500, "memory": 2 * 2**30, "gpu": 3},
        priority=-7,
        node_id="n1",
        tags={"creationTime": "5"},
        task_group_name="tg",
        placeholder=True,
        originator=True,
    )
    assert ask_of(allocation()).node_id is None


@pytest.mark.parametrize(("node_id", "expected"), [("n1", True), ("", False)])
def test_only_what_runs_can_be_ending(node_id, expected):
    """AP-145: without a node it has no effect."""
    assert ask_of(allocation(node_id=node_id, releasing=True)).releasing is expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, (True, False)),
        ({}, (True, False)),
        ({"allowPreemptSelf": False}, (False, False)),
        ({"allowPreemptSelf": True}, (True, False)),
        ({"allowPreemptOther": True}, (True, True)),
        ({"allowPreemptOther": False}, (True, False)),
        ({"allowPreemptSelf": False, "allowPreemptOther": True}, (False, True)),
    ],
)
def test_absent_preemption_policy(policy, expected):
    """AP-53: without a policy, or without one of its fields, an ask may be preempted and may not preempt others."""
    wire = JSON.decode_request(
        JSON.encode(si.AllocationRequest(allocations=[allocation()]))
        if policy is None
        else b'{"type":"AllocationRequest","allocations":[{"allocationKey":"t1","preemptionPolicy":%s}]}' % JSON.encode(policy)
    )
    assert isinstance(wire, si.AllocationRequest)
    ask = ask_of(wire.allocations[0])
    assert (ask.allow_preempt_self, ask.allow_preempt_other) == expected


def test_equal_parts_of_asks_are_kept_once():
    """Equal resources of asks, as numbers or as text, are one object, and so are equal identifiers; keys are not compared."""
    wire = [{"vcore": 7, "memory": 2**30}, {"vcore": "7m", "memory": "1Gi"}]
    for resource in wire:
        first, second = (
            ask_of(allocation(resource_per_alloc=dict(resource), application_id="".join(("app", "-7")), node_id="".join("n7")))
            for _ in range(2)
        )
        assert first.resource is second.resource
        assert first.resource == wire[0]
        assert first.application_id is second.application_id
        assert first.node_id is second.node_id


def test_remembered_resources_are_bounded():
    """Remembered resources are bounded in number and in size, whatever is sent; others are kept by their asks only."""
    large = {"x" * 600: 1}
    sizes = [{"vcore": number} for number in range(10_000)]
    for resource in (large, *sizes):
        assert ask_of(allocation(resource_per_alloc=resource)).resource == resource
    assert len(requests._RESOURCES) <= requests._RESOURCES_MAX
    assert not any(len(str(items)) > requests._RESOURCE_TEXT_MAX for items in requests._RESOURCES)


def test_quantities_that_the_core_judges():
    """AP-105, AP-106: empty, zero and negative resources do not make the request wrong; the core refuses them."""
    for resource in ({}, {"vcore": 0}, {"vcore": -1}):
        assert ask_of(allocation(resource_per_alloc=resource)).resource == resource


def test_applications():
    """All fields of a new application arrive in its submission; ``new`` comes before ``remove``."""
    request = si.ApplicationRequest(
        new=[
            si.AddApplicationRequest(
                application_id="a1",
                queue_name="root.a",
                ugi=si.UserGroupInformation(user="alice", groups=["dev", "ops"]),
                tags={"k": "v"},
                execution_timeout_milli_seconds=1500,
                placeholder_ask={"vcore": "2"},
                gang_scheduling_style="Hard",
            ),
            si.AddApplicationRequest(application_id="a2"),
        ],
        records=[
            si.TaskRecord(
                application_id="a1",
                allocation_key="t1",
                state="Failed",
                exit_code=137,
                signal="SIGKILL",
                start_time=1,
                finished_time=2,
                peak_memory=3,
            )
        ],
        remove=[si.RemoveApplicationRequest(application_id="a0")],
    )
    assert submissions(request) == {
        "default": [
            messages.AddApplication("a1", "root.a", "alice", ("dev", "ops"), {"k": "v"}, 1500, {"vcore": 2000}, "Hard"),
            messages.AddApplication("a2", "", ""),
            messages.RecordTask("a1", TaskRecord("t1", TaskOutcome.FAILED, 137, "SIGKILL", 1, 2, 3)),
            messages.RemoveApplication("a0"),
        ]
    }


def test_releases_follow_allocations():
    """Allocations come before releases; without a key all allocations of the application are released."""
    release = si.AllocationRelease
    request = si.AllocationRequest(
        allocations=[allocation()],
        releases=si.AllocationReleasesRequest(
            allocations_to_release=[
                release(application_id="app-1", allocation_key="t0", termination_type="TIMEOUT"),
                release(application_id="app-1"),
                release(allocation_key="f1", termination_type="STOPPED_BY_RM"),
            ]
        ),
    )
    assert submissions(request)["default"][1:] == [
        messages.ReleaseAllocations("app-1", "t0", TerminationType.TIMEOUT),
        messages.ReleaseAllocations("app-1", None, TerminationType.UNKNOWN_TERMINATION_TYPE),
        messages.ReleaseAllocations("", "f1", TerminationType.STOPPED_BY_RM),
    ]


def test_a_task_that_is_handed_back():
    """AP-144: the node where it could not start arrives."""
    request = releases(application_id="a", allocation_key="t", termination_type="SCHEDULING_FAILED_ON_RM", node_id="n1")
    (release,) = submissions(request)["default"]
    assert release == messages.ReleaseAllocations("a", "t", TerminationType.SCHEDULING_FAILED_ON_RM, "n1")


@pytest.mark.parametrize(
    ("name", "expected"), [("", "default"), ("default", "default"), ("DeFault", "default"), ("gpu", "gpu"), ("GPU", "GPU")]
)
def test_partition_names(name, expected):
    """SC-143: an empty name and ``default`` in any case mean ``default``; a node names its partition in an attribute."""
    node = si.NodeInfo(node_id="n1", action="CREATE", attributes={"si/node-partition": name})
    for request in (
        si.NodeRequest(nodes=[node]),
        si.ApplicationRequest(new=[si.AddApplicationRequest(application_id="a", partition_name=name)]),
        si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id="a", partition_name=name)]),
        si.AllocationRequest(allocations=[allocation(partition_name=name)]),
    ):
        assert list(submissions(request)) == [expected]


def test_order_inside_a_partition_is_the_messages():
    """The submissions of a partition keep the order of the message; a node without the attribute is in ``default``."""

    def node(name: str, partition: str | None) -> si.NodeInfo:
        attributes = {} if partition is None else {"si/node-partition": partition}
        return si.NodeInfo(node_id=name, action="CREATE_DRAIN", attributes=attributes, schedulable_resource={"vcore": "1"})

    routed = submissions(si.NodeRequest(nodes=[node("n1", None), node("n2", "gpu"), node("n3", "Default")]))
    assert {name: [entry.node_id for entry in entries] for name, entries in routed.items()} == {
        "default": ["n1", "n3"],
        "gpu": ["n2"],
    }
    assert routed["gpu"] == [
        messages.UpdateNode("n2", NodeAction.CREATE_DRAIN, {"vcore": 1000}, {"si/node-partition": "gpu"}),
    ]
    assert submissions(si.NodeRequest(nodes=[si.NodeInfo(node_id="n", action="UPDATE")]))["default"][0].capacity is None


def told(**fields):
    """The record of a task."""
    known = {"application_id": "a", "allocation_key": "t", "state": "Completed"}
    return si.ApplicationRequest(records=[si.TaskRecord(**known | fields)])


def releases(**fields: object) -> si.AllocationRequest:
    return si.AllocationRequest(
        id="r", releases=si.AllocationReleasesRequest(allocations_to_release=[si.AllocationRelease(**fields)])
    )


def rejected_in(request: requests.PartitionRequest) -> list[facts.Fact]:
    """The rejections among the submissions of a request."""
    return [entry.rejected for entries in submissions(request).values() for entry in entries if type(entry) is RefuseEntry]


@pytest.mark.parametrize(
    ("fields", "code", "path"),
    [
        ({"action": "create"}, Code.UNKNOWN_NAME, "action: found 'create', expected one of CREATE, "),
        ({"action": "DECOMMISSION"}, Code.UNKNOWN_NAME, "action: "),
        ({"schedulable_resource": {"memory": "1Qi"}}, Code.BAD_QUANTITY, "schedulableResource.memory: "),
    ],
)
def test_a_wrong_node_is_rejected_alone(fields, code, path):
    """AP-143: the reason has the path with the entry's index; its neighbours, and those of other partitions, take effect."""
    good, gpu = si.NodeInfo(node_id="n1", action="CREATE"), {"si/node-partition": "gpu"}
    wrong = si.NodeInfo(**{"node_id": "n", "action": "CREATE", "attributes": gpu, **fields})
    routed = submissions(si.NodeRequest(id="r", nodes=[good, wrong, good]))
    assert routed["default"] == [messages.UpdateNode("n1", NodeAction.CREATE)] * 2
    ((rejection,),) = (routed["gpu"],)
    assert (rejection.rejected.node_id, rejection.rejected.code) == ("n", code)
    assert rejection.rejected.reason.startswith(f"nodes[1].{path}")


def test_a_wrong_ask_or_application_is_rejected_alone():
    """AP-143: in its place; the others take effect."""
    huge = allocation(allocation_key="t2", resource_per_alloc={"vcore": "9223372036854775807"})
    routed = submissions(si.AllocationRequest(allocations=[allocation(), huge, allocation()]))["default"]
    assert [type(entry) for entry in routed] == [Ask, RefuseEntry, Ask]
    assert (routed[1].rejected.allocation_key, routed[1].rejected.application_id) == ("t2", "app-1")
    assert routed[1].rejected.reason.startswith("allocations[1].resourcePerAlloc.vcore: ")
    gang = si.AddApplicationRequest(application_id="a", placeholder_ask={"vcore": "-1"})
    (rejection,) = rejected_in(si.ApplicationRequest(new=[gang]))
    assert (rejection.application_id, rejection.code) == ("a", Code.BAD_QUANTITY)
    assert rejection.reason.startswith("new[0].placeholderAsk.vcore: ")


def test_what_is_too_long_is_told_first():
    """AP-138 before AP-143, so that no reason repeats a text without a limit."""
    name = "x" * 5000
    (rejection,) = rejected_in(si.AllocationRequest(allocations=[allocation(resource_per_alloc={name: "1Qi"})]))
    assert (rejection.code, len(rejection.reason) < 200) == (Code.OUT_OF_RANGE, True)


@pytest.mark.parametrize(
    ("request_", "code", "path"),
    [
        (si.NodeRequest(nodes=[si.NodeInfo(node_id="", action="CREATE")]), "EMPTY_ID", "nodes[0].nodeID"),
        (si.NodeRequest(nodes=[si.NodeInfo(node_id="", action="x")]), "EMPTY_ID", "nodes[0].nodeID"),
        (si.ApplicationRequest(new=[si.AddApplicationRequest(application_id="")]), "EMPTY_ID", "new[0].applicationID"),
        (si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id="")]), "EMPTY_ID", "remove[0].applicationID"),
        (told(application_id=""), "EMPTY_ID", "records[0].applicationID"),
        (told(allocation_key=""), "EMPTY_ID", "records[0].allocationKey"),
        (told(state="Running"), "UNKNOWN_NAME", "records[0].state"),
        (told(signal="S" * 33), "OUT_OF_RANGE", "records[0].signal"),
        (si.AllocationRequest(id="r", allocations=[allocation(allocation_key="")]), "EMPTY_ID", "allocations[0].allocationKey"),
        (releases(), "EMPTY_ID", "releases.allocationsToRelease[0].applicationID"),
        (
            releases(application_id="a", termination_type="SCHEDULING_FAILED_ON_RM"),
            "EMPTY_ID",
            "releases.allocationsToRelease[0].allocationKey",
        ),
        (
            releases(application_id="a", termination_type="KILLED"),
            "UNKNOWN_NAME",
            "releases.allocationsToRelease[0].terminationType",
        ),
    ],
)
def test_what_cannot_be_told_in_a_rejection_refuses_the_request(request_, code, path):
    """AP-143: the error has the path with the entry's index, and the request's id."""
    with pytest.raises(ProtocolError) as caught:
        submissions(request_)
    assert (caught.value.code, caught.value.path, caught.value.request_id) == (code, path, request_.id)


def test_other_requests_are_not_submissions():
    """A request that the session carries out itself raises TypeError: it should not be given to ``submissions``."""
    for request in (si.ScheduleRequest(), si.UpdateConfigurationRequest(), si.TerminateApplication(application_id="a")):
        with pytest.raises(TypeError, match="has no submissions"):
            submissions(request)


def test_unknown_partition():
    """AP-10, AP-100, SC-153: a submission to an unknown partition is refused with the SI's text, or ignored (AP-132)."""
    ask = Ask("t1", "app-1", {"vcore": 1})
    assert unknown_partition(ask, "gpu", 5) == facts.AllocationRejected(
        5, "t1", "app-1", "Failed to find partition gpu, for application app-1 and allocation t1", Code.NO_PARTITION
    )
    assert unknown_partition(messages.AddApplication("app-1", "root.a", "alice"), "gpu", 5) == facts.ApplicationRejected(
        5, "app-1", "Failed to add application app-1 to partition gpu, partition doesn't exist", Code.NO_PARTITION
    )
    for action in (NodeAction.CREATE, NodeAction.CREATE_DRAIN):
        assert unknown_partition(messages.UpdateNode("n1", action), "gpu", 5) == facts.NodeRejected(
            5, "n1", "failed to find partition gpu for new node n1", Code.NO_PARTITION
        )
    for ignored in (
        messages.UpdateNode("n1", NodeAction.UPDATE),
        messages.UpdateNode("n1", NodeAction.DECOMISSION),
        messages.RemoveApplication("app-1"),
        messages.ReleaseAllocations("app-1", None, TerminationType.STOPPED_BY_RM),
    ):
        assert unknown_partition(ignored, "gpu", 5) is None


def test_administrators() -> None:
    """``ugi`` becomes ``who``; without it the resource manager requests. The case of a partition's name does not matter."""
    ugi = si.UserGroupInformation(user="bob", groups=["ops"])
    ended = administration(si.TerminateApplication(application_id="a", partition_name="GPU", ugi=ugi))
    assert ended == ("GPU", TerminateApplication("a", UserGroups("bob", ("ops",))))
    moved = administration(si.MoveApplication(application_id="a", queue_name="root.b"))
    assert moved == ("default", MoveApplication("a", "root.b", None))
    assert running(PartitionName("GPU"), [PartitionName("default"), PartitionName("gpu")]) == "gpu"


def test_quotas_of_a_queue() -> None:
    """QU-107: a queue is named; its partition and tags go to the core."""
    found = quotas(si.SetQueueQuotas(queue_name="root.a", partition_name="GPU", tags={"namespace.resourcemaxapps": ""}))
    assert found == ("GPU", SetQueueQuotas("root.a", {"namespace.resourcemaxapps": ""}))
    with pytest.raises(ProtocolError, match="queueName"):
        quotas(si.SetQueueQuotas(queue_name="", tags={}))


def test_predicates_are_forgotten_before_new_answers():
    """All of a ``PredicatesResponse`` goes to its partition, ``forget`` first; ``allocate`` is true by default."""
    request = si.PredicatesResponse(
        partition_name="gpu",
        answers=[
            si.PredicateAnswer(predicate="a", node_id="n1", uses=3),
            si.PredicateAnswer(predicate="a", node_id="n2", allocate=False, error="no"),
        ],
        forget=[si.PredicateScope(node_id="n3")],
    )
    assert submissions(request) == {
        PartitionName("gpu"): [
            messages.ForgetPredicates("", "n3"),
            messages.AnswerPredicate("a", "n1", True, "", 3),
            messages.AnswerPredicate("a", "n2", False, "no"),
        ]
    }


@pytest.mark.parametrize(
    ("fields", "code", "path"),
    [
        ({"predicate": "", "node_id": "n1"}, "EMPTY_ID", "answers[0].predicate"),
        ({"predicate": "a", "node_id": ""}, "EMPTY_ID", "answers[0].nodeID"),
        ({"predicate": "a" * 254, "node_id": "n1"}, "OUT_OF_RANGE", "answers[0].predicate"),
        ({"predicate": "a", "node_id": "n1", "uses": 0}, "OUT_OF_RANGE", "answers[0].uses"),
    ],
)
def test_mistakes_in_predicate_answers(fields, code, path):
    """An answer needs a predicate class of at most 253 characters and a node; else the whole message is refused."""
    with pytest.raises(ProtocolError) as caught:
        submissions(si.PredicatesResponse(answers=[si.PredicateAnswer(**fields)]))
    assert (caught.value.code, caught.value.path) == (code, path)
