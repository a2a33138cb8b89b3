"""Texts of entries that are too long (AP-138)."""

from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest
from msgspec import inspect

from ykactor.core.messages import facts
from ykactor.core.messages import submissions as messages
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import RejectionCode
from ykactor.core.values.ids import PartitionName
from ykactor.surfaces.sessions.peer import error_response
from ykactor.wire.queuefile.text import SUMMARY_MAX, Mistake, summary
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON, MSGPACK, Encoding
from ykactor.wire.si.lengths import TEXT_MAX
from ykactor.wire.si.protocol_error import ProtocolError
from ykactor.wire.si.requests import PartitionRequest, submissions, unknown_partition

LONG = "x" * (TEXT_MAX + 1)
FOUND = f"found {TEXT_MAX + 1} bytes, expected at most {TEXT_MAX}"
FOUND_KEY = f"found a key of {TEXT_MAX + 1} bytes, expected at most {TEXT_MAX}"
CUT = "x" * TEXT_MAX + "..."
TOO_LONG = RejectionCode.OUT_OF_RANGE


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
    rejected = facts.AllocationRejected(0, "t1", "app-1", f"allocations[0].{mistake}", TOO_LONG)  # type: ignore[arg-type]
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
    rejected = facts.ApplicationRejected(0, "app-1", f"new[0].{mistake}", TOO_LONG)  # type: ignore[arg-type]
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
    rejected = facts.NodeRejected(0, "n1", f"nodes[0].{mistake}", TOO_LONG)  # type: ignore[arg-type]
    assert of(node(action=action, **fields)) == ("default", messages.RefuseEntry(rejected))


def test_long_identifiers_are_cut() -> None:
    """AP-138: what is reported is short, and is no identifier that another entry could have."""
    key = facts.AllocationRejected(0, CUT, "app-1", f"allocations[0].allocationKey: {FOUND}", TOO_LONG)  # type: ignore[arg-type]
    assert of(allocation(allocation_key=LONG)) == ("default", messages.RefuseEntry(key))
    owner = facts.AllocationRejected(0, "t1", CUT, f"allocations[0].applicationID: {FOUND}", TOO_LONG)  # type: ignore[arg-type]
    assert of(allocation(application_id=LONG)) == ("default", messages.RefuseEntry(owner))
    new = facts.ApplicationRejected(0, CUT, f"new[0].applicationID: {FOUND}", TOO_LONG)  # type: ignore[arg-type]
    assert of(application(application_id=LONG)) == ("default", messages.RefuseEntry(new))
    created = facts.NodeRejected(0, CUT, f"nodes[0].nodeID: {FOUND}", TOO_LONG)  # type: ignore[arg-type]
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
    assert isinstance(of(allocation(allocation_tags=just))[1], Ask)
    assert isinstance(of(application(queue_name="a" * 16384))[1], messages.AddApplication)
    longer = "\u00e4" * (TEXT_MAX // 2 + 1)
    _, submission = of(allocation(allocation_key=longer))
    assert isinstance(submission, messages.RefuseEntry)
    assert isinstance(submission.rejected, facts.AllocationRejected)
    assert submission.rejected.allocation_key == longer + "..."


def numbered(count: int) -> dict[str, str]:
    return {f"key-{number}": "value" for number in range(count)}


#: 3 bytes for the name of each group more than is allowed.
SUM = {f"{number:03}": "x" * 4093 for number in range(64)} | {"": "y"}


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        (allocation(allocation_tags=numbered(4097)), "allocations[0].allocationTags: found 4097 items, expected at most 4096"),
        (application(tags=numbered(4097)), "new[0].tags: found 4097 items, expected at most 4096"),
        (node(attributes=numbered(4097)), "nodes[0].attributes: found 4097 items, expected at most 4096"),
        (
            application(ugi=si.UserGroupInformation(groups=[""] * 4097)),
            "new[0].ugi.groups: found 4097 items, expected at most 4096",
        ),
        (
            allocation(allocation_tags=SUM),
            "allocations[0].allocationTags: found 262145 bytes in all its texts, expected at most 262144",
        ),
        (
            application(ugi=si.UserGroupInformation(groups=["x" * 4096] * 65)),
            "new[0].ugi.groups: found 266240 bytes in all its texts, expected at most 262144",
        ),
    ],
)
def test_too_many_texts(entry: si.Allocation | si.AddApplicationRequest | si.NodeInfo, mistake: str) -> None:
    """AP-138: the number of tags, attributes and groups, and the sum of their lengths, have limits; the entry is rejected."""
    _, submission = of(entry)
    assert isinstance(submission, messages.RefuseEntry)
    assert submission.rejected.reason == mistake


def test_just_enough_texts() -> None:
    """AP-138: at the limits an entry is taken."""
    assert isinstance(of(allocation(allocation_tags=numbered(4096)))[1], Ask)
    just = dict(SUM)
    del just[""]
    assert isinstance(of(allocation(allocation_tags=just))[1], Ask)


def test_other_entries_are_not_affected() -> None:
    """AP-138: an entry is rejected alone, in its place."""
    entries = [allocation(), allocation(allocation_key="t2", allocation_tags={"a": LONG}), allocation(allocation_key="t3")]
    first, second, third = submissions(si.AllocationRequest(allocations=entries))[PartitionName("default")]
    assert isinstance(first, Ask)
    assert isinstance(second, messages.RefuseEntry)
    assert second.rejected.reason == f"allocations[1].allocationTags.a: {FOUND}"
    assert isinstance(third, Ask)


def releases(**fields: str) -> si.AllocationRequest:
    """A request with one release."""
    release = si.AllocationRelease(**{"application_id": "app-1", "termination_type": "STOPPED_BY_RM", **fields})
    return si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))


@pytest.mark.parametrize(
    "request_",
    [
        releases(application_id=LONG),
        releases(allocation_key=LONG),
        releases(partition_name=LONG),
        si.ApplicationRequest(remove=[si.RemoveApplicationRequest(application_id=LONG)]),
        si.PredicatesResponse(answers=[si.PredicateAnswer(predicate="p", node_id=LONG)]),
        si.PredicatesResponse(forget=[si.PredicateScope(predicate=LONG)]),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_names_nothing_is_ignored(request_: PartitionRequest) -> None:
    """AP-132, AP-138: nothing has so long a name. Cut, two names could become one."""
    assert submissions(request_) == {}


def test_free_texts_may_be_long() -> None:
    """AP-138: a release with a long message is a release; of a long reason the beginning is kept."""
    ((release,),) = submissions(releases(message=LONG)).values()
    assert release == messages.ReleaseAllocations("app-1", None, "STOPPED_BY_RM")  # type: ignore[arg-type]
    answers = [si.PredicateAnswer(predicate="p", node_id="n1", error=LONG)]
    ((answer,),) = submissions(si.PredicatesResponse(answers=answers)).values()
    assert answer == messages.AnswerPredicate("p", "n1", True, CUT)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "path", "mistake"),
    [
        (si.RegisterResourceManagerRequest(rm_id=LONG), "rmID", FOUND),
        (si.RegisterResourceManagerRequest(rm_id="rm-1", build_info={"a": LONG}), "buildInfo.a", FOUND),
        (si.NodeRequest(id=LONG), "id", FOUND),
        (si.TerminateApplication(application_id=LONG), "applicationID", FOUND),
        (si.TerminateApplication(application_id="a", ugi=si.UserGroupInformation(groups=[LONG])), "ugi.groups[0]", FOUND),
        (
            si.MoveApplication(application_id="a", queue_name="a" * 16385),
            "queueName",
            "found 16385 bytes, expected at most 16384",
        ),
        (si.PredicatesResponse(partition_name=LONG), "partitionName", FOUND),
        (
            si.UpdateConfigurationRequest(config="#" * (16 * 2**20 + 1)),
            "config",
            "found 16777217 bytes, expected at most 16777216",
        ),
        (si.NodeRequest(nodes=[node()] * 100_001), "nodes", "found more than 100000 items, expected at most that"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=["json", "msgpack"])
def test_a_long_text_of_a_request(encoding: Encoding, request_: si.Request, path: str, mistake: str) -> None:
    """AP-138: outside its entries a request is refused as a whole; the response is short."""
    with pytest.raises(ProtocolError) as refused:
        encoding.decode_request(encoding.encode(request_))
    assert (refused.value.code, refused.value.path, refused.value.message) == ("OUT_OF_RANGE", path, mistake)
    assert len(error_response(refused.value).id) <= TEXT_MAX + 3


@pytest.mark.parametrize("field", ["partitions", "queues", "applications", "kinds"])
@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=["json", "msgpack"])
def test_a_subscription_has_few_items(encoding: Encoding, field: str) -> None:
    """AP-138: every event is compared with the lists of every subscription, so 64 items are taken and 65 refused."""
    encoding.decode_feed_request(encoding.encode(si.Subscribe(**{field: ["x"] * 64})))
    with pytest.raises(ProtocolError, match=f"^{field}: found 65 items, expected at most 64$") as refused:
        encoding.decode_feed_request(encoding.encode(si.Subscribe(**{field: ["x"] * 65})))
    assert refused.value.code == "OUT_OF_RANGE"


def test_the_mistakes_of_a_configuration_have_room_in_a_response() -> None:
    """CF-52: the first ones, however long their lines, and how many more there are."""
    mistakes = [Mistake(LONG, 1, 1, LONG, LONG)] * (SUMMARY_MAX + 7)
    response = error_response(ProtocolError("CONFIG_REFUSED", f"update of configuration failed: {summary(mistakes)}"))
    assert response.message.endswith("\nand 7 more")


# ---- every text, list and mapping of every request, found by reflection

KINDS = [*get_args(si.Request), si.Subscribe]
#: More than any limit: characters of a text, and items.
HUGE = 17 * 2**20
MANY = 100_001
#: Texts that have to be known words.
WORDS = {"action": "CREATE", "terminationType": "STOPPED_BY_RM"}
#: What may be left of a request that is taken, and what is in a response: a few texts of the largest size.
BOUND = 100_000


def smallest(kind: inspect.Type, name: str = "") -> object:
    """A value of this type, as builtins; structs have all their texts."""
    match kind:
        case inspect.StructType(fields=fields, tag=tag):
            filled = [field for field in fields if field.required or isinstance(field.type, inspect.StrType)]
            values = {field.encode_name: smallest(field.type, field.encode_name) for field in filled}
            return values | ({"type": tag} if tag else {})
        case inspect.StrType():
            return WORDS.get(name, "x")
        case inspect.IntType():
            return 1
    raise AssertionError(f"{name}: a required field of a type that this test does not know: {kind}")


def spoiled(kind: inspect.Type) -> Iterator[tuple[str, object]]:
    """Values of this type with one text, list or mapping that is far too long, and the path of that."""
    match kind:
        case inspect.StructType(fields=fields):
            for field in fields:
                for path, value in spoiled(field.type):
                    yield f".{field.encode_name}{path}", smallest(kind) | {field.encode_name: value}  # type: ignore[operator]
        case inspect.ListType(item_type=item):
            yield "", [smallest(item)] * MANY
            for path, value in spoiled(item):
                yield f"[0]{path}", [value]
        case inspect.DictType(key_type=inspect.StrType(), value_type=of):
            plain = smallest(of.types[0] if isinstance(of, inspect.UnionType) else of)
            yield "", {str(number): plain for number in range(MANY)}
            yield "", {"x" * HUGE: plain}
            for path, value in spoiled(of):
                yield f".key{path}", {"key": value}
        case inspect.UnionType(types=types):
            for one in types:
                yield from spoiled(one)
        case inspect.StrType():
            yield "", "x" * HUGE
        case inspect.IntType() | inspect.BoolType() | inspect.NoneType() | inspect.LiteralType() | inspect.FloatType():
            pass
        case _:
            raise AssertionError(f"a type that this test does not know: {kind}")


def outcome(kind: type, message: object) -> object:
    """The decoded message or the error response with which the daemon goes on after this message."""
    data = msgspec.msgpack.encode(message)
    try:
        if kind is si.Subscribe:
            return MSGPACK.decode_feed_request(data)
        request = MSGPACK.decode_request(data)
        return submissions(request) if isinstance(request, PartitionRequest) else request
    except ProtocolError as error:
        return error_response(error)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_text_list_and_mapping_has_a_limit(kind: type) -> None:
    """AP-138: whatever is too long, neither what goes on nor the response is long; a refusal names the field, or where it is."""
    for path, message in spoiled(inspect.type_info(kind)):
        left = outcome(kind, message)
        assert len(repr(left)) < BOUND, f"{kind.__name__}{path} has no limit"
        if isinstance(left, si.ErrorResponse):
            assert left.path
            assert path.removeprefix(".").startswith(left.path)


def integers(kind: inspect.Type) -> Iterator[tuple[str, object, inspect.IntType]]:
    """Values of this type with an integer of a hundred digits, the path of that, and its type."""
    match kind:
        case inspect.StructType(fields=fields):
            for field in fields:
                for path, value, found in integers(field.type):
                    yield f".{field.encode_name}{path}", smallest(kind) | {field.encode_name: value}, found  # type: ignore[operator]
        case inspect.ListType(item_type=item):
            yield from ((f"[0]{path}", [value], found) for path, value, found in integers(item))
        case inspect.DictType(value_type=of):
            yield from ((f".key{path}", {"key": value}, found) for path, value, found in integers(of))
        case inspect.UnionType(types=types):
            for one in types:
                yield from integers(one)
        case inspect.IntType():
            yield "", 10**99, kind


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_integer_has_a_limit(kind: type) -> None:
    """JSON has integers of any length. One that fits in no other encoding is refused, and does not end the session."""
    for path, message, found in integers(inspect.type_info(kind)):
        assert found.le is not None, f"{kind.__name__}{path} has no limit"
        data = msgspec.json.encode(message)
        with pytest.raises(ProtocolError) as refused:
            JSON.decode_feed_request(data) if kind is si.Subscribe else JSON.decode_request(data)
        assert refused.value.path == path.removeprefix(".")


def test_reflection_finds_what_there_is() -> None:
    """The test above is not empty: it looks at these fields, among others."""
    found = {f"{kind.__name__}{path}" for kind in KINDS for path, _ in spoiled(inspect.type_info(kind))}
    assert found >= {
        "RegisterResourceManagerRequest.rmID",
        "RegisterResourceManagerRequest.extraConfig.key",
        "NodeRequest.nodes",
        "NodeRequest.nodes[0].attributes",
        "ApplicationRequest.new[0].ugi.groups",
        "ApplicationRequest.new[0].ugi.groups[0]",
        "AllocationRequest.allocations[0].resourcePerAlloc.key",
        "AllocationRequest.releases.allocationsToRelease[0].message",
        "PredicatesResponse.answers[0].error",
        "MoveApplication.ugi.user",
        "Subscribe.queues[0]",
    }
