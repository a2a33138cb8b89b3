"""The types that a user of the client may give to its structs, which do not change what is sent; and those that it gets."""

from typing import get_type_hints

import pytest
from world import app, ask, make_world, node, queue, tree

from ykactor.client import FollowedMessage
from ykactor.core.inspection.partition_status import PartitionStatus
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import JSON, MSGPACK


@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=["json", "msgpack"])
def test_enums_and_tuples_are_sent_as_texts_lists_and_mappings(encoding):
    """A member of an enum is its text on the wire; tuples are lists."""
    release = si.AllocationRelease(application_id="a", termination_type=si.TerminationType.TIMEOUT)
    given = si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=(release,)))
    sent = encoding.decode_request(encoding.encode(given))
    assert sent.releases.allocations_to_release == [release]
    assert type(sent.releases.allocations_to_release[0].termination_type) is str


@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=["json", "msgpack"])
def test_the_daemon_gets_lists_and_dicts(encoding):
    """Decoded structs are handed to the core as they are, which needs dicts."""
    node = si.NodeInfo(node_id="n", action=si.NodeAction.CREATE, attributes={"a": "b"}, schedulable_resource={"vcore": "1"})
    (decoded,) = encoding.decode_request(encoding.encode(si.NodeRequest(nodes=(node,)))).nodes
    assert (type(decoded.attributes), type(decoded.schedulable_resource)) == (dict, dict)


@pytest.mark.parametrize("encoding", [JSON, MSGPACK], ids=["json", "msgpack"])
def test_a_client_has_the_structs_that_the_daemon_makes(encoding):
    """EV-62: the state of a snapshot is of the read model's own types at both ends, so nothing is lost on the way."""
    world = make_world(tree(queue("a", max={"vcore": 4})), [node("n1", vcore=2)])
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=1) for number in range(3)))
    made = world.shown()
    got = encoding.decode_feed(encoding.encode(si.Snapshot(sequence=1, partitions=[made])))
    assert got.partitions == [made]
    assert get_type_hints(si.Snapshot)["partitions"] == list[PartitionStatus]
    assert si.Snapshot in FollowedMessage.__args__
