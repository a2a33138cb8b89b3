"""The changes that are looked for cost no more than they have to where there is much to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import yaml

from ykactor.actors.partition import CYCLE_BUDGET
from ykactor.core.inspection.changes import DropTerm, Free
from ykactor.core.values.ids import AllocationKey, ApplicationID, PartitionName
from ykactor.sim import candidates
from ykactor.sim.candidates import Situation
from ykactor.sim.direct import DirectPartition, DirectPartitions
from ykactor.sim.simulator import Record, ignore, run_directly, to_ns
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

CONFIG = {"partitions": [{"name": "default", "queues": [{"name": "root", "submitacl": "*", "queues": [{"name": "a"}]}]}]}
WANTED = ApplicationID("app"), AllocationKey("wanted")


def situation(
    nodes: Sequence[si.NodeInfo], asks: Sequence[dict[str, int]], wants: dict[str, int], selector: str = ""
) -> Situation:
    """The ask ``WANTED`` on these nodes, when the other asks, each of an application of its own, have been placed."""
    config = queuefile.load(yaml.safe_dump(CONFIG)).partitions[0]
    direct = DirectPartitions(lambda config, now_ns: DirectPartition(config, CYCLE_BUDGET, lambda _: None, now_ns=now_ns), {})
    partition = direct.partitions[PartitionName("default")] = DirectPartition(config, CYCLE_BUDGET, lambda _: None)
    owners = [WANTED[0], *(f"other-{number}" for number in range(len(asks)))]
    new = [si.AddApplicationRequest(owner, "root.a", ugi=si.UserGroupInformation("bob")) for owner in owners]
    tasks = [si.Allocation("t", owner, resource_per_alloc=ask) for owner, ask in zip(owners[1:], asks, strict=True)]
    tags = {"ykactor.io/node-selector": selector} if selector else {}
    wanted = si.Allocation(WANTED[1], WANTED[0], resource_per_alloc=wants, allocation_tags=tags)
    sent = [
        si.NodeRequest(nodes=list(nodes)),
        si.ApplicationRequest(new=new),
        si.AllocationRequest(allocations=tasks),
        si.AllocationRequest(allocations=[wanted]),
    ]
    story = Scenario("much", "", 10, messages=[TimedRequest(second, request) for second, request in enumerate(sent)])
    record = Record(ignore)
    run_directly(story, direct, record)
    assert not record.refused
    return Situation(partition, WANTED)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """The results of a function of ``candidates`` from now on."""
    calls: list[object] = []
    function: Callable[..., Any] = getattr(candidates, name)

    def count(*args: Any, **kwargs: Any) -> Any:
        calls.append(function(*args, **kwargs))
        return calls[-1]

    monkeypatch.setattr(candidates, name, count)
    return calls


def test_many_tasks_of_a_node_are_bisected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest tasks of a node are taken, as few as suffice; their number is bisected, because more tasks free more."""
    node = si.NodeInfo("n", "CREATE", {}, {"vcore": 150_000, "gpu": 150})
    found = situation([node], [{"vcore": 1000}] * 150 + [{"gpu": 1}] * 150, {"vcore": 50_000, "gpu": 50})
    calls = counted(monkeypatch, "_suffices")
    [free] = candidates._frees(found, to_ns(20))
    assert isinstance(free, Free)
    assert len(free.tasks) == 200
    assert len(calls) <= 10


def test_each_node_is_compared_with_each_term_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A term is needless if it is the only one that a node with room lacks; that a node lacks two ends the look at it."""
    terms = [f"label-{number}" for number in range(50)]
    lacking = [set[str](), {"label-7"}, {"label-3"}, {"label-0", "label-1"}]
    nodes = [
        si.NodeInfo(
            f"n{at}", "CREATE" if at else "CREATE_DRAIN", {term: "" for term in terms if term not in lacks}, {"vcore": 1000}
        )
        for at, lacks in enumerate(lacking)
    ]
    found = situation(nodes, [], {"vcore": 1000}, ", ".join(terms))
    calls = counted(monkeypatch, "selects")
    assert list(candidates._without_terms(found)) == [DropTerm("label-3", 3), DropTerm("label-7", 7)]
    assert len(calls) == 2 * len(terms) + 2
