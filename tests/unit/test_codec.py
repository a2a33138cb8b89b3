"""Bytes to wire structs and back."""

import json

import msgspec
import pytest
from costs import Memory

from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.core.values.parts import finished
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON, MSGPACK, Encoding
from ykactor.wire.si.protocol_error import ProtocolError

MESSAGES = [
    si.RegisterResourceManagerRequest(rm_id="rm-1", build_info={"arch": "arm64"}, config="partitions: []", resume_from=7),
    si.NodeRequest(
        id="r-1",
        nodes=[si.NodeInfo(node_id="n1", action="CREATE", schedulable_resource={"vcore": "4", "memory": 2**63 - 1})],
    ),
    si.ApplicationRequest(
        new=[
            si.AddApplicationRequest(
                application_id="app-1",
                queue_name="root.a",
                ugi=si.UserGroupInformation(user="alice", groups=["dev"]),
                tags={"namespace": "näme"},
                placeholder_ask={"vcore": 10},
            )
        ],
        remove=[si.RemoveApplicationRequest(application_id="app-0", partition_name="gpu")],
    ),
    si.AllocationRequest(
        allocations=[
            si.Allocation(
                allocation_key="t1",
                application_id="app-1",
                resource_per_alloc={"vcore": 1},
                priority=-(2**31),
                preemption_policy=si.PreemptionPolicy(allow_preempt_self=False),
            )
        ],
        releases=si.AllocationReleasesRequest(allocations_to_release=[si.AllocationRelease(allocation_key="t0")]),
    ),
    si.UpdateConfigurationRequest(config="partitions: []", if_checksum="AB"),
    si.TerminateApplication(application_id="app-1"),
    si.MoveApplication(application_id="app-1", queue_name="root.b"),
    si.SetQueueQuotas(queue_name="root.a", tags={"namespace.resourcemaxapps": ""}),
    si.ScheduleRequest(steps=3),
]


OPERATOR_MESSAGES = [
    si.ReloadConfiguration(id="1"),
    si.ReleaseResourceManager(id="2", rm_id="rm-1"),
    si.NodeRequest(nodes=[si.NodeInfo(node_id="n1", action="DRAIN_NODE")]),
]


@pytest.mark.parametrize("message", OPERATOR_MESSAGES, ids=lambda message: type(message).__name__)
def test_requests_of_operators_survive_both_encodings(message):
    """They are other ones than those of resource managers."""
    for encoding in ENCODINGS.values():
        assert finished(encoding.decoding_operator_request(encoding.encode(message))) == message


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"type": "RegisterResourceManagerRequest", "rmID": "rm-1"}', "UNKNOWN_TYPE"),
        (b'{"type": "ReleaseResourceManager"}', "MISSING_FIELD"),
        (b'{"type": "ReleaseResourceManager", "rmID": "a", "rmID": "b"}', "DUPLICATE_KEY"),
        (b'{"type": "ReleaseResourceManager", "rmID": "%b"}' % (b"a" * 5000), "OUT_OF_RANGE"),
    ],
)
def test_wrong_requests_of_operators(body, code):
    """Operators' requests are checked as strictly as those of resource managers."""
    with pytest.raises(ProtocolError) as caught:
        finished(JSON.decoding_operator_request(body))
    assert caught.value.code == code


def mistake(body: object, encoding: Encoding = JSON) -> ProtocolError:
    """The error of ``decode_request`` for ``body``: bytes as they are, anything else as JSON."""
    with pytest.raises(ProtocolError) as caught:
        encoding.decode_request(body if isinstance(body, bytes) else json.dumps(body).encode())
    return caught.value


def ask(**fields: object) -> dict[str, object]:
    return {"type": "AllocationRequest", "id": "r-9", "allocations": [{"allocationKey": "t1", **fields}]}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_requests_survive_both_encodings(message):
    """A request is the same after JSON and after msgpack, and its names on the wire are the SI's."""
    for encoding in ENCODINGS.values():
        assert encoding.decode_request(encoding.encode(message)) == message
    assert JSON.decode_request(JSON.encode(message).decode()) == message
    assert msgspec.json.decode(JSON.encode(message)) == msgspec.msgpack.decode(MSGPACK.encode(message))


def test_names_are_the_scheduler_interfaces():
    """Field names are written as the SI writes them."""
    assert JSON.encode(MESSAGES[1]) == (
        b'{"type":"NodeRequest","id":"r-1","nodes":[{"nodeID":"n1","action":"CREATE",'
        b'"schedulableResource":{"vcore":"4","memory":9223372036854775807}}]}'
    )
    assert b'"executionTimeoutMilliSeconds":5' in JSON.encode(
        si.AddApplicationRequest(application_id="a", execution_timeout_milli_seconds=5)
    )


def test_responses_and_feed_messages_survive_both_encodings():
    """A client can decode the daemon's messages in both encodings; it ignores unknown fields."""
    responses = [
        si.RegisterResourceManagerResponse(sequence=1),
        si.NodeResponse(sequence=2, accepted=[si.AcceptedNode(node_id="n1")]),
        si.SchedulingStateResponse(
            entries=[
                si.SchedulingStateEntry(
                    allocation_key="t", application_id="a", state="FAILED", cause="nodes", nodes={"drained": 1}
                )
            ]
        ),
        si.Ack(sequence=3, id="r-1"),
        si.ErrorResponse(sequence=4, code="WRONG_TYPE", message="m", path="nodes", id="r-2"),
        si.JournalStatus(writable=False, since_nano=5, reason="full"),
    ]
    record = si.EventRecord(
        sequence=5, type="APP", object_id="a", event_change_type="ADD", event_change_detail="APP_NEW", timestamp_nano=1
    )
    feed = [
        si.Events(events=[record]),
        si.Bookmark(sequence=5),
        si.Lagged(from_=1, to=4),
        si.Snapshot(sequence=9, partitions=[PartitionStatus(name="default", queues={}, applications={}, limits=[])]),
        si.SnapshotPart(partition="default", queues={}),
        si.JournalStatus(writable=True),
    ]
    for encoding in ENCODINGS.values():
        assert [encoding.decode_response(encoding.encode(message)) for message in responses] == responses
        assert [encoding.decode_feed(encoding.encode(message)) for message in feed] == feed
    assert JSON.decode_response('{"type":"Ack","id":"a","later":1}') == si.Ack(id="a")


def test_subscribe():
    """``from`` is a word or a sequence number; typos are refused as in requests."""
    assert JSON.decode_feed_request('{"type":"Subscribe","from":12}') == si.Subscribe(from_=12)
    assert JSON.decode_feed_request('{"type":"Subscribe"}').from_ == "now"
    for text, code in (
        ('{"type":"Subscribe","queue":["root"]}', "UNKNOWN_FIELD"),
        ('{"type":"Subscribe","kinds":["APP"],"kinds":[]}', "DUPLICATE_KEY"),
        ('{"type":"NodeRequest"}', "UNKNOWN_TYPE"),
        ("{}", "MISSING_FIELD"),
        ('{"from":"snapshot"}', "MISSING_FIELD"),
    ):
        with pytest.raises(ProtocolError) as caught:
            JSON.decode_feed_request(text)
        assert caught.value.code == code


QUANTITY = "allocations[0].resourcePerAlloc.vcore"


@pytest.mark.parametrize(
    ("body", "code", "path", "words"),
    [
        (b"", "MALFORMED", "", "ykactor.v1.json"),
        (b"{", "MALFORMED", "", "truncated"),
        (b'{"type":"NodeRequest"} x', "MALFORMED", "", "trailing"),
        (b'{"type":"NodeRequest","id":"\xff"}', "MALFORMED", "", "utf-8"),
        (b"[" * 100_000, "WRONG_TYPE", "", "found array, expected object"),
        (b'{"type":"NodeRequest","x":' + b"[" * 100_000, "UNKNOWN_FIELD", "x", "does not exist"),
        ([], "WRONG_TYPE", "", "found array, expected object"),
        ({}, "MISSING_FIELD", "type", "required"),
        ({"type": "Nodes"}, "UNKNOWN_TYPE", "type", "found 'Nodes', expected one of RegisterResourceManagerRequest, NodeR"),
        ({"type": 3}, "WRONG_TYPE", "type", "str"),
        ({"type": "NodeRequest", "nodez": []}, "UNKNOWN_FIELD", "nodez", "does not exist"),
        ({"type": "NodeRequest", "nodes": None}, "WRONG_TYPE", "nodes", "found null, expected array"),
        ({"type": "NodeRequest", "nodes": [{"action": "CREATE"}]}, "MISSING_FIELD", "nodes[0].nodeID", "required"),
        (ask(prio=3), "UNKNOWN_FIELD", "allocations[0].prio", "does not exist"),
        (ask(priority="3"), "WRONG_TYPE", "allocations[0].priority", "found str, expected int"),
        # PR-1
        (ask(priority=2**31), "OUT_OF_RANGE", "allocations[0].priority", "found 2147483648, expected int <= 2147483647"),
        (ask(priority=-(2**31) - 1), "OUT_OF_RANGE", "allocations[0].priority", ">= -2147483648"),
        (ask(allocationTags={"a": "b", "c/d": 1}), "WRONG_TYPE", "allocations[0].allocationTags.c/d", "expected str"),
        (ask(preemptionPolicy={"allowPreemptSelf": 1}), "WRONG_TYPE", "allocations[0].preemptionPolicy.allowPreemptSelf", ""),
        (ask(resourcePerAlloc=[]), "WRONG_TYPE", "allocations[0].resourcePerAlloc", "found array, expected object"),
        (
            ask(resourcePerAlloc={"memory": 1, "vcore": 1.5}),
            "BAD_QUANTITY",
            QUANTITY,
            "found float, expected a whole number of base units",
        ),
        (
            ask(resourcePerAlloc={"memory": 1, "vcore": 1.0}),
            "BAD_QUANTITY",
            QUANTITY,
            "found float, expected a whole number of base units",
        ),
        (ask(resourcePerAlloc={"memory": 1, "vcore": True}), "BAD_QUANTITY", QUANTITY, "found bool"),
        (ask(resourcePerAlloc={"memory": 1, "vcore": None}), "BAD_QUANTITY", QUANTITY, "found null"),
        (ask(resourcePerAlloc={"memory": 1, "vcore": 2**63}), "BAD_QUANTITY", QUANTITY, "found 9223372036854775808, expected"),
        (ask(resourcePerAlloc={"memory": 1, "vcore": -(2**63) - 1}), "BAD_QUANTITY", QUANTITY, ">= -9223372036854775808"),
        (b'{"type":"AllocationRequest","id":1}', "WRONG_TYPE", "id", "found int, expected str"),
    ],
)
def test_mistakes_have_a_code_and_a_path(body, code, path, words):
    """An error has a code, the path of the wrong field (with mapping keys), and what was found and expected."""
    error = mistake(body)
    assert (error.code, error.path) == (code, path)
    assert words in error.message


def test_a_number_of_too_many_digits_is_an_error_with_a_path():
    """A quantity of thousands of digits is refused; the path names its mapping, because the key is not known."""
    error = mistake(
        b'{"type":"AllocationRequest","allocations":[{"allocationKey":"a","resourcePerAlloc":{"v":' + b"1" * 6000 + b"}}]}"
    )
    assert (error.code, error.path) == ("BAD_QUANTITY", "allocations[0].resourcePerAlloc")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"type":"NodeRequest","nodes":[{"nodeID":"n","action":"CREATE"},5],"nodes":[]}', "nodes[1]"),
        ('{"type":"NodeRequest","nodes":[5],"nodes":7}', "nodes[0]"),
        (
            '{"type":"AllocationRequest","allocations":[{"allocationKey":"a","resourcePerAlloc":{"v":0.5,"v":1}}]}',
            "allocations[0].resourcePerAlloc",
        ),
    ],
)
def test_a_mistake_in_the_first_value_of_a_repeated_key(text, path):
    """The first value is wrong, and lost because of the second: the error has the part of the path that is known."""
    assert mistake(text.encode()).path == path


@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=lambda encoding: encoding.name)
@pytest.mark.parametrize(
    ("make", "code"),
    [(lambda: [[]] * 500_000, "OUT_OF_RANGE"), (lambda: {str(number): [] for number in range(200_000)}, "WRONG_TYPE")],
    ids=["lists", "mapping"],
)
def test_a_mistake_in_a_long_message_costs_little(encoding, make, code):
    """The error has the request id, but the message is not decoded as a whole for it: that would delay all others for seconds."""
    data = encoding._library.encode({"type": "NodeRequest", "id": "r-9", "nodes": make()})
    with Memory() as memory:
        error = mistake(data, encoding)
    assert (error.code, error.path[:5], error.request_id) == (code, "nodes", "r-9")
    assert memory.peak < 25 * len(data)  # a reference to each of the first items


def test_a_mistake_before_a_deep_value_of_a_repeated_key():
    """The error does not show the second value, which is as deep as it can be decoded."""
    for depth in range(900, 1000):
        nested = "[" * depth + "]" * depth
        text = f'{{"type":"AllocationRequest","allocations":[{{"allocationKey":"t","priority":{2**32},"priority":{nested}}}]}}'
        error = mistake(text.encode())
        assert error.code == "OUT_OF_RANGE"
        assert "[[" not in error.message


def test_msgpack_mistakes():
    """Errors in msgpack have the same codes and paths; keys that are not text are refused."""
    for body, code, path in (
        (b"\xc1", "MALFORMED", ""),
        (msgspec.msgpack.encode(ask(resourcePerAlloc={"vcore": 0.5})), "BAD_QUANTITY", QUANTITY),
        (msgspec.msgpack.encode(ask(resourcePerAlloc={7: 1})), "WRONG_TYPE", "allocations[0].resourcePerAlloc"),
        (b"\x81\x81\x01\x01\x01", "WRONG_TYPE", ""),
    ):
        error = mistake(body, MSGPACK)
        assert (error.code, error.path) == (code, path)


def test_the_request_id_is_kept():
    """An error has the id of the request if it can be read."""
    assert mistake(ask(prio=3)).request_id == "r-9"
    assert mistake(b'{"id":"r-9",').request_id == ""
    assert mistake({"type": "NodeRequest", "id": 5}).request_id == ""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"type":"NodeRequest","id":"r","id":"r","nodes":[]}', "id"),
        ('{"type":"NodeRequest","id":"r","type":"NodeRequest"}', "type"),
        ('{"type":"NodeRequest","id":"r","nodes":[],"nodes":[]}', "nodes"),
        (
            (
                '{"type":"AllocationRequest","id":"r","allocations":[{"allocationKey":"a"},'
                '{"allocationKey":"b","resourcePerAlloc":{"vcore":1,"vcore":2}}]}'
            ),
            "allocations[1].resourcePerAlloc.vcore",
        ),
        (
            (
                '{"type":"AllocationRequest","id":"r","allocations":[{"allocationKey":"b",'
                '"preemptionPolicy":{"allowPreemptSelf":true},"allocationTags":{"a:":"\\u003a","a:":""}}]}'
            ),
            "allocations[0].allocationTags.a:",
        ),
        (
            (
                '{"type":"AllocationRequest","id":"r","allocations":[{"allocationKey":"b","priority":0},'
                '{"allocationKey":"b","allocationTags":{"x":"1"},"allocationTags":{"y":"1","y":"2"}}]}'
            ),
            "allocations[1].allocationTags",
        ),
    ],
)
def test_repeated_keys_are_refused(text, path):
    """JSON with a repeated key is refused with the path of the key, even if the message has escapes or other objects."""
    error = mistake(text.encode())
    assert (error.code, error.path, error.request_id) == ("DUPLICATE_KEY", path, "r")


def test_keys_that_only_look_repeated_are_fine():
    """Equal keys of different objects, explicit defaults, colons and escapes in texts are not repeated keys."""
    text = (
        '{ "type" : "AllocationRequest", "id": "a:b\\u003a\\"c\\":", "allocations": ['
        '{"allocationKey": "a", "priority": 0, "placeholder": false, "allocationTags": {"a": ":"}},'
        '{"allocationKey": "b", "priority": 0, "resourcePerAlloc": {}, "allocationTags": {"a": ":"}}]}'
    )
    request = JSON.decode_request(text)
    assert isinstance(request, si.AllocationRequest)
    assert [allocation.allocation_key for allocation in request.allocations] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"NodeRequest"}',
        '{"type":"NodeRequest","nodes":[{"nodeID":"n","action":"CREATE"}]}',
        '{"type":"ApplicationRequest","new":[{"applicationID":"a"}],"remove":[{"applicationID":"a"}]}',
        '{"type":"ApplicationRequest","new":[{"applicationID":"a","ugi":{}}]}',
        '{"type":"AllocationRequest","allocations":[{"allocationKey":"a","preemptionPolicy":{"allowPreemptOther":true}}]}',
        '{"type":"AllocationRequest","releases":{"allocationsToRelease":[{}]}}',
        '{"type":"UpdateConfigurationRequest"}',
        '{"type":"RegisterResourceManagerRequest","rmID":"a"}',
        '{"type":"TerminateApplication","applicationID":"a"}',
        '{"type":"MoveApplication","applicationID":"a","queueName":"b"}',
        '{"type":"ScheduleRequest"}',
    ],
)
def test_encoding_again_adds_nothing(text):
    """Requests do not grow when they are encoded again: the cheap test for repeated keys relies on this."""
    assert JSON.encode(JSON.decode_request(text)).decode() == text


def test_a_mistake_that_looks_like_a_path() -> None:
    """A type that holds what msgspec writes before a path, with a position of 5,000 digits, is an unknown type like any other."""
    message = b'{"type": "a - at `$.x[' + b"1" * 5000 + b']", "x": [1]}'
    with pytest.raises(ProtocolError) as caught:
        JSON.decode_request(message)
    assert caught.value.code == "UNKNOWN_TYPE"
