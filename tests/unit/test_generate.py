"""``generate.py``: workloads from a seed; and the sample that is packaged beside it."""

from collections import Counter
from importlib import resources
from pathlib import Path

import msgspec
import pytest
from generate import generate

from ykactor.core.config.model import QueueConfig
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, dump_jsonl, load
from ykactor.wire.si import messages as si


def requests_of(scenario: Scenario) -> list[si.WorkRequest]:
    return [message.request for message in scenario.messages]


def below(queue: QueueConfig) -> list[QueueConfig]:
    return [queue, *(descendant for child in queue.children for descendant in below(child))]


@pytest.mark.parametrize("seed", range(60))
def test_every_configuration_is_valid(seed: int) -> None:
    """Drawn configurations keep all rules of the queue file, also the reloaded ones (E01 to E03, E05 to E39)."""
    scenario = generate(seed, queues=1 + seed % 20, nodes=1 + seed % 7, reloads=2)
    updates = [request.config for request in requests_of(scenario) if isinstance(request, si.UpdateConfigurationRequest)]
    assert len(updates) == 2
    for text in (scenario.config, *updates):
        queuefile.load(text)


def test_configurations_cover_the_rules() -> None:
    """Over some seeds every setting of a queue and of the node sort policy occurs, on trees of 1 to 4 levels."""
    configs = [queuefile.load(generate(seed, queues=12).config).partitions[0] for seed in range(80)]
    queues = [queue for config in configs for queue in below(config.root)]
    assert {queue.path.count(".") for queue in queues} == {0, 1, 2, 3, 4}
    assert {queue.properties.sort_policy for queue in queues} == {"fifo", "fair", "stateaware"}
    assert {queue.properties.sort_by_priority for queue in queues} == {True, False}
    assert {queue.properties.priority_fence for queue in queues} == {True, False}
    assert min(queue.properties.priority_offset for queue in queues) == -(2**31)
    assert max(queue.properties.priority_offset for queue in queues) == 2**31 - 1
    assert any(queue.max_applications for queue in queues)
    assert any(queue.is_parent and not queue.children for queue in queues)
    assert any(queue.max and 0 in queue.max.values() for queue in queues)
    assert any(queue.is_parent and queue.max and queue.guaranteed for queue in queues)
    assert any(queue.path == "root.default" for queue in queues)
    assert {config.node_sort_policy.type for config in configs} == {"fair", "binpacking"}


def test_the_seed_decides_everything() -> None:
    """The same arguments give the same scenario byte for byte, another seed another one."""
    encoded = [msgspec.json.encode(generate(seed, reloads=1)) for seed in (7, 7, 8)]
    assert encoded[0] == encoded[1] != encoded[2]


def test_sizes_are_as_asked() -> None:
    """Scenarios without churn and mistakes have exactly the nodes, applications and asks that were wanted, in order of time."""
    scenario = generate(1, queues=5, nodes=4, applications=7, asks=300, churn=0, mistakes=0)
    counts: Counter[str] = Counter()
    for request in requests_of(scenario):
        match request:
            case si.NodeRequest(nodes=nodes):
                counts["nodes"] += len(nodes)
            case si.ApplicationRequest(new=new):
                counts["applications"] += len(new)
            case si.AllocationRequest(allocations=allocations):
                counts["asks"] += len(allocations)
    assert counts == {"nodes": 4, "applications": 7, "asks": 300}
    times = [message.at for message in scenario.messages]
    assert times == sorted(times)
    assert scenario.until > times[-1] + 30


def test_sessions_cover_the_vocabulary() -> None:
    """Over some seeds every node action, kind of ask and kind of release occurs."""
    requests = [request for seed in range(80) for request in requests_of(generate(seed, churn=2, mistakes=1))]
    actions = {node.action for request in requests if isinstance(request, si.NodeRequest) for node in request.nodes}
    assert actions == {"CREATE", "CREATE_DRAIN", "UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION"}
    asks = [ask for request in requests if isinstance(request, si.AllocationRequest) for ask in request.allocations]
    tags = {tag for ask in asks for tag in ask.allocation_tags}
    assert tags == {"creationTime", "foreign", "yunikorn.apache.org/requiredNode"}
    assert {2**31 - 1, -(2**31)} <= {ask.priority for ask in asks}
    assert any("example.com/fpga" in ask.resource_per_alloc for ask in asks)
    assert any(ask.node_id and ask.application_id for ask in asks)
    released = [
        release
        for request in requests
        if isinstance(request, si.AllocationRequest)
        for release in request.releases.allocations_to_release
    ]
    assert any(release.allocation_key == "" for release in released)
    assert any(release.application_id == "" for release in released)
    assert any(isinstance(request, si.ApplicationRequest) and request.remove for request in requests)


def test_scenarios_survive_a_file(tmp_path: Path) -> None:
    """Whatever is drawn can be written as JSON Lines and read back equal: a failing workload can be kept."""
    for seed in range(10):
        scenario = generate(seed, churn=1, mistakes=1, reloads=1)
        dump_jsonl(scenario, tmp_path / "scenario.jsonl")
        assert load(tmp_path / "scenario.jsonl") == scenario


def test_the_sample_is_valid() -> None:
    """The packaged sample is a scenario whose configuration has neither mistakes nor warnings."""
    with resources.as_file(resources.files("ykactor.sim") / "sample.yaml") as path:
        scenario = load(path)
    assert queuefile.load(scenario.config).warnings == ()
    assert scenario.messages[-1].at < scenario.until
