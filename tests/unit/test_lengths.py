"""Texts of entries that are too long (AP-138)."""

import pytest

from ykactor.core.messages import facts
from ykactor.core.messages import submissions as messages
from ykactor.core.values.ids import PartitionName
from ykactor.wire.si import messages as si
from ykactor.wire.si.lengths import TEXT_MAX
from ykactor.wire.si.requests import submissions, unknown_partition

LONG = "x" * (TEXT_MAX + 1)
FOUND = f"found {TEXT_MAX + 1} bytes, expected at most {TEXT_MAX}"
FOUND_KEY = f"found a key of {TEXT_MAX + 1} bytes, expected at most {TEXT_MAX}"
CUT = "x" * TEXT_MAX + "..."


def allocation(**fields: object) -> si.Allocation:
    return si.Allocation(**{"allocation_key": "t1", "application_id": "app-1", **fields})  # type: ignore[arg-type]


def application(**fields: object) -> si.AddApplicationRequest:
    return si.AddApplicationRequest(**{"application_id": "app-1", **fields})  # type: ignore[arg-type]


def node(**fields: object) -> si.NodeInfo:
    return si.NodeInfo(**{"node_id": "n1", "action": "CREATE", **fields})  # type: ignore[arg-type]


def of(entry: si.Allocation | si.AddApplicationRequest | si.NodeInfo) -> tuple[PartitionName, messages.Submission]:
    """The only submission of a request with ``entry``, and its partition."""
    match entry:
        case si.Allocation():
            routed = submissions(si.AllocationRequest(allocations=[entry]))
        case si.AddApplicationRequest():
            routed = submissions(si.ApplicationRequest(new=[entry]))
        case si.NodeInfo():
            routed = submissions(si.NodeRequest(nodes=[entry]))
    (partition,) = routed
    (submission,) = routed[partition]
    return partition, submission


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"task_group_name": LONG}, f"taskGroupName: {FOUND}"),
        ({"node_id": LONG}, f"nodeID: {FOUND}"),
        ({"allocation_tags": {"zone": LONG}}, f"allocationTags.zone: {FOUND}"),
        ({"allocation_tags": {"queueName": LONG}}, f"allocationTags.queueName: {FOUND}"),
        ({"allocation_tags": {LONG: "a"}}, f"allocationTags: {FOUND_KEY}"),
        ({"resource_per_alloc": {"vcore": 1, LONG: 1}}, f"resourcePerAlloc: {FOUND_KEY}"),
    ],
)
def test_a_long_text_of_an_allocation(fields: dict[str, object], mistake: str) -> None:
    """AP-138: the allocation is rejected; the reason has the path, the bytes found and the bytes allowed."""
    rejected = facts.AllocationRejected(0, "t1", "app-1", f"allocations[0].{mistake}")  # type: ignore[arg-type]
    assert of(allocation(**fields)) == ("default", messages.RefuseEntry(rejected))


@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"ugi": si.UserGroupInformation(user=LONG)}, f"ugi.user: {FOUND}"),
        ({"ugi": si.UserGroupInformation(groups=["dev", LONG])}, f"ugi.groups[1]: {FOUND}"),
        ({"tags": {"namespace": LONG}}, f"tags.namespace: {FOUND}"),
        ({"placeholder_ask": {LONG: 1}}, f"placeholderAsk: {FOUND_KEY}"),
        ({"gang_scheduling_style": LONG}, f"gangSchedulingStyle: {FOUND}"),
        ({"queue_name": "a" * 16385}, "queueName: found 16385 bytes, expected at most 16384"),
    ],
)
def test_a_long_text_of_an_application(fields: dict[str, object], mistake: str) -> None:
    """AP-138: the application is rejected; a path of queues may be longer than other texts."""
    rejected = facts.ApplicationRejected(0, "app-1", f"new[0].{mistake}")  # type: ignore[arg-type]
    assert of(application(**fields)) == ("default", messages.RefuseEntry(rejected))


@pytest.mark.parametrize("action", ["CREATE", "UPDATE", "DECOMISSION"])
@pytest.mark.parametrize(
    ("fields", "mistake"),
    [
        ({"attributes": {"zone": LONG}}, f"attributes.zone: {FOUND}"),
        ({"attributes": {LONG: ""}}, f"attributes: {FOUND_KEY}"),
        ({"schedulable_resource": {LONG: 1}}, f"schedulableResource: {FOUND_KEY}"),
    ],
)
def test_a_long_text_of_a_node(action: str, fields: dict[str, object], mistake: str) -> None:
    """AP-138, SC-153: the entry is rejected, whatever its action."""
    rejected = facts.NodeRejected(0, "n1", f"nodes[0].{mistake}")  # type: ignore[arg-type]
    assert of(node(action=action, **fields)) == ("default", messages.RefuseEntry(rejected))


def test_long_identifiers_are_cut() -> None:
    """AP-138: what is reported is short, and is no identifier that another entry could have."""
    key = facts.AllocationRejected(0, CUT, "app-1", f"allocations[0].allocationKey: {FOUND}")  # type: ignore[arg-type]
    assert of(allocation(allocation_key=LONG)) == ("default", messages.RefuseEntry(key))
    owner = facts.AllocationRejected(0, "t1", CUT, f"allocations[0].applicationID: {FOUND}")  # type: ignore[arg-type]
    assert of(allocation(application_id=LONG)) == ("default", messages.RefuseEntry(owner))
    new = facts.ApplicationRejected(0, CUT, f"new[0].applicationID: {FOUND}")  # type: ignore[arg-type]
    assert of(application(application_id=LONG)) == ("default", messages.RefuseEntry(new))
    created = facts.NodeRejected(0, CUT, f"nodes[0].nodeID: {FOUND}")  # type: ignore[arg-type]
    assert of(node(node_id=LONG)) == ("default", messages.RefuseEntry(created))


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (allocation(partition_name=LONG), "allocations[0].partitionName"),
        (application(partition_name=LONG), "new[0].partitionName"),
        (node(attributes={"si/node-partition": LONG}), "nodes[0].attributes.si/node-partition"),
    ],
)
def test_a_long_partition_is_rejected_for_its_length(
    entry: si.Allocation | si.AddApplicationRequest | si.NodeInfo, path: str
) -> None:
    """AP-138 comes before AP-10, AP-100 and SC-153: the reason does not repeat the name."""
    partition, submission = of(entry)
    assert partition == CUT
    rejected = unknown_partition(submission, partition, 5)
    assert isinstance(rejected, facts.AllocationRejected | facts.ApplicationRejected | facts.NodeRejected)
    assert (rejected.at_ns, rejected.reason) == (5, f"{path}: {FOUND}")


def test_limits_count_bytes() -> None:
    """AP-138: a text of just the limit is taken; letters of several bytes count as such."""
    just = {"a" * TEXT_MAX: "b" * TEXT_MAX, "c": "\u00e4" * (TEXT_MAX // 2)}
    assert isinstance(of(allocation(allocation_tags=just))[1], messages.SubmitAllocation)
    assert isinstance(of(application(queue_name="a" * 16384))[1], messages.AddApplication)
    longer = "\u00e4" * (TEXT_MAX // 2 + 1)
    _, submission = of(allocation(allocation_key=longer))
    assert isinstance(submission, messages.RefuseEntry)
    assert isinstance(submission.rejected, facts.AllocationRejected)
    assert submission.rejected.allocation_key == longer + "..."


def test_many_short_texts_are_no_mistake() -> None:
    """AP-138 is about each text, not about their sum."""
    tags = {f"key-{number}": "value" for number in range(10_000)}
    assert isinstance(of(allocation(allocation_tags=tags))[1], messages.SubmitAllocation)


def test_other_entries_are_not_affected() -> None:
    """AP-138: an entry is rejected alone, in its place."""
    entries = [allocation(), allocation(allocation_key="t2", allocation_tags={"a": LONG}), allocation(allocation_key="t3")]
    first, second, third = submissions(si.AllocationRequest(allocations=entries))[PartitionName("default")]
    assert isinstance(first, messages.SubmitAllocation)
    assert isinstance(second, messages.RefuseEntry)
    assert second.rejected.reason == f"allocations[1].allocationTags.a: {FOUND}"
    assert isinstance(third, messages.SubmitAllocation)


def test_releases_and_removals_have_no_limit() -> None:
    """AP-132, AP-138: they name nothing that exists, and a release with a long message is a release."""
    release = si.AllocationRelease(application_id=LONG, message=LONG, termination_type="STOPPED_BY_RM")
    request = si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))
    ((submission,),) = submissions(request).values()
    assert isinstance(submission, messages.ReleaseAllocations)
    ((removal,),) = submissions(si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id=LONG)])).values()
    assert isinstance(removal, messages.RemoveApplication)
