"""What a user of the client may give to its structs, and that this does not change what is sent."""

import pytest

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
    """What is decoded is handed to the core as it is, which needs dicts."""
    node = si.NodeInfo(node_id="n", action=si.NodeAction.CREATE, attributes={"a": "b"}, schedulable_resource={"vcore": "1"})
    (decoded,) = encoding.decode_request(encoding.encode(si.NodeRequest(nodes=(node,)))).nodes
    assert (type(decoded.attributes), type(decoded.schedulable_resource)) == (dict, dict)
