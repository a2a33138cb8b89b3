"""A scenario as the input of partitions, instant by instant."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from world import spoken, tree

from ykactor.core.messages.submissions import RefuseConfig
from ykactor.core.values.ids import PartitionName
from ykactor.sim.simulator import ANY_PARTITION, Instant, Work, addressed, instants, to_ns
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

TEXT = tree({"name": "a"})
DEFAULT = PartitionName("default")


def played(messages: Sequence[tuple[float, dict[str, Any]]], until: float = 10, text: str = TEXT) -> list[Instant]:
    requests = [TimedRequest(at, msgspec.convert(message, si.WorkRequest)) for at, message in messages]
    return list(instants(Scenario("s", text, until, messages=requests)))


def node(name: str, partition: str = "") -> dict[str, Any]:
    attributes = {"si/node-partition": partition} if partition else {}
    entry = {"nodeID": name, "action": "CREATE", "attributes": attributes, "schedulableResource": {"vcore": 1}}
    return {"type": "NodeRequest", "nodes": [entry]}


def work(instant: Instant) -> Work:
    """The work of an instant without configurations."""
    (only,) = instant.steps or [{}]
    assert isinstance(only, dict)
    return only


def names(instant: Instant, partition: str = "default") -> list[str]:
    return [submission.node_id for submission in work(instant).get(PartitionName(partition), [])]  # type: ignore[union-attr]


@pytest.mark.parametrize(("at_s", "at_ns"), [(0, 0), (1, 10**9), (0.1 + 0.2, 300_000_000), (1.0000004, 10**9), (8e9, 8 * 10**18)])
def test_times_are_whole_microseconds(at_s: float, at_ns: int) -> None:
    """A virtual second is a float; decisions are taken at whole microseconds."""
    assert to_ns(at_s) == at_ns


def test_equal_times_are_one_instant() -> None:
    """All messages with the same ``at`` are applied in order before the scheduler runs; a last instant is at ``until``."""
    found = played([(0, node("n1")), (2, node("n2")), (2, node("n3")), (3.5, node("n4"))])
    assert [(instant.at_ns // 10**6, names(instant)) for instant in found] == [
        (0, ["n1"]),
        (2000, ["n2", "n3"]),
        (3500, ["n4"]),
        (10_000, []),
    ]


def test_until_may_be_the_last_message() -> None:
    """An empty instant is not needed where messages are sent at ``until``, nor twice before a first message that comes late."""
    assert [(instant.at_ns, names(instant)) for instant in played([(10, node("n1"))])] == [(0, []), (10**10, ["n1"])]
    assert [instant.at_ns for instant in played([], until=0)] == [0]


def test_an_empty_node_request_is_a_moment() -> None:
    """A NodeRequest without nodes is a moment at which the scheduler runs, and nothing else."""
    found = played([(4, {"type": "NodeRequest", "nodes": []})])
    assert [(instant.at_ns, work(instant)) for instant in found] == [(0, {}), (4 * 10**9, {}), (10**10, {})]


def test_a_refused_message_is_told_and_skipped() -> None:
    """Nothing of it takes effect, the next ones do; the place of the mistake is reported."""
    bad = node("n1")
    bad["nodes"].append({"nodeID": "", "action": "CREATE"})
    (instant, _) = played([(0, bad), (0, node("n2"))])
    assert names(instant) == ["n2"]
    assert instant.refused == ["at 0: nodes[1].nodeID: found an empty text, expected an identifier"]


def test_requests_that_are_no_work() -> None:
    """A request that a simulation cannot carry out is refused, not ignored."""
    (instant, _) = played([(0, {"type": "ScheduleRequest", "steps": 1})])
    assert instant.steps == []
    assert instant.refused == ["at 0: type: a simulation cannot carry out ScheduleRequest"]


def test_a_configuration_is_a_step_of_its_own() -> None:
    """Work before a configuration is reported before it; a wrong one is only reported, by the first partition (CF-52)."""
    update = {"type": "UpdateConfigurationRequest", "config": TEXT}
    (instant, _) = played([(0, node("n1")), (0, node("n2")), (0, update), (0, node("n3"))])
    before, config, after = instant.steps
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert config == queuefile.load(TEXT)
    assert (len(before[DEFAULT]), len(after[DEFAULT])) == (2, 1)
    (instant, _) = played([(0, {"type": "UpdateConfigurationRequest", "config": "nonsense: 1"})])
    (refusal,) = work(instant)[ANY_PARTITION]
    assert isinstance(refusal, RefuseConfig)
    assert "nonsense" in refusal.reason
    assert addressed(work(instant), [DEFAULT], 0) == ({DEFAULT: [refusal]}, [])


def test_unknown_partitions_are_refused() -> None:
    """Submissions to unknown partitions are refused entry by entry where the SI answers at all, and taken out of the work."""
    application = {"applicationID": "app-1", "partitionName": "moon", "queueName": "root.a", "ugi": {"user": "alice"}}
    removal = {"applicationID": "x", "partitionName": "moon"}
    allocation = {"allocationKey": "t1", "applicationID": "app-1", "partitionName": "moon"}
    messages = [
        node("n1", "moon"),
        node("n2"),
        {"type": "ApplicationRequest", "new": [application], "remove": [removal]},
        {"type": "AllocationRequest", "allocations": [allocation]},
    ]
    (instant, _) = played([(0, message) for message in messages])
    routed, refused = addressed(work(instant), [DEFAULT], 0)
    assert [spoken(rejection) for rejection in refused] == [
        "n1 rejected: failed to find partition moon for new node n1",
        "app-1 Rejected: Failed to add application app-1 to partition moon, partition doesn't exist",
        "t1 rejected: Failed to find partition moon, for application app-1 and allocation t1",
    ]
    assert list(routed) == [DEFAULT]
    assert [submission.node_id for submission in routed[DEFAULT]] == ["n2"]  # type: ignore[union-attr]


def test_partitions_are_named_without_case() -> None:
    """A request may write a partition's name in any case (CF-64)."""
    (instant, _) = played([(0, node("n1", "GPU")), (0, node("n2", "gpu"))])
    routed, refused = addressed(work(instant), [PartitionName("Gpu")], 0)
    assert [submission.node_id for submission in routed[PartitionName("Gpu")]] == ["n1", "n2"]  # type: ignore[union-attr]
    assert refused == []
