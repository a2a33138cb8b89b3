"""``sim/dry_run.py``: the outcome of each ask, whatever the case of its partition's name (CF-64)."""

from __future__ import annotations

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.sim.direct import DirectPartition
from ykactor.sim.dry_run import dry_run
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

QUEUES = 'partitions: [{name: GPU, queues: [{name: root, submitacl: "*", queues: [{name: a}]}]}]'


def test_names_of_partitions_are_compared_without_case() -> None:
    """An ask for ``gpu`` runs in the partition ``GPU``, from the second at which there is a node."""
    partition = DirectPartition(queuefile.load(QUEUES).partitions[0], CYCLE_BUDGET, lambda _: None)
    node = si.NodeInfo("n1", "CREATE", {"si/node-partition": "gpu"}, {"vcore": 4000})
    new = si.AddApplicationRequest("x", "root.a", "gpu", si.UserGroupInformation("al"))
    ask = si.Allocation("x-1", "x", "Gpu", {"vcore": 1000})
    messages = [
        TimedRequest(0, si.ApplicationRequest(new=[new])),
        TimedRequest(1, si.AllocationRequest(allocations=[ask])),
        TimedRequest(3, si.NodeRequest(nodes=[node])),
    ]
    fork = {partition.core.name: (partition.core, partition.scheduler)}
    found = dry_run(lambda: fork, Scenario("", "", 9, messages=messages), 0, reserves=True)
    (tried,) = found.asks
    assert found.refused == []
    assert (tried.partition_name, tried.outcome, tried.node_id, tried.after_seconds) == ("GPU", "runs", "n1", 3)
