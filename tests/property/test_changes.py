"""AP-155: changes that the random worlds of the property tests do not need."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from test_what_if import bases_of, made, make

from ykactor.core.inspection.changes import Change, Prioritise, Raise, Search, Wait
from ykactor.core.messages.asks import AskID
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.sim import smallest
from ykactor.sim.direct import DirectPartitions
from ykactor.sim.simulator import Record, ignore, run_directly, to_ns
from ykactor.sim.smallest import Outcome
from ykactor.sim.twin import Twin
from ykactor.wire import queuefile
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.scenario.model import ScenarioRequest
from ykactor.wire.si import messages as si

DEFAULT = PartitionName("default")
BOB = si.UserGroupInformation("bob")
APP: AskID = ApplicationID("app"), AllocationKey("t2")


def cores(count: int) -> dict[str, int | str]:
    return {"vcore": 1000 * count}


def node(vcore: int) -> si.NodeRequest:
    return si.NodeRequest(nodes=[si.NodeInfo("n1", "CREATE", schedulable_resource=cores(vcore))])


def searched(config: str, sent: Sequence[ScenarioRequest], ask_id: AskID = APP, *, may_preempt: bool = False) -> Search:
    """The changes for an ask after these messages, one a second."""
    story = Scenario("story", "", len(sent), messages=[TimedRequest(second, request) for second, request in enumerate(sent)])
    direct = DirectPartitions(make, {each.name: make(each, 0) for each in queuefile.load(config).partitions})
    run_directly(story, direct, Record(ignore))
    bases, now_ns = bases_of(direct), to_ns(len(sent))

    def twin() -> Twin:
        return Twin(made(bases)[DEFAULT], now_ns, ask_id, may_preempt=may_preempt)

    def attempt(changes: Sequence[Change], explains: bool) -> Outcome:
        return twin().try_here(changes, explains)

    return twin().smallest_changes(attempt, lambda: twin().wait_here())


def alone(result: Search) -> list[Change]:
    """The changes that suffice alone."""
    return [found.changes[0] for found in result.found if len(found.changes) == 1]


def ask(key: str, owner: str, vcore: int, priority: int = 0, *, preempts: bool = False) -> si.AllocationRequest:
    policy = si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=preempts)
    wants = si.Allocation(key, owner, resource_per_alloc=cores(vcore), priority=priority, preemption_policy=policy)
    return si.AllocationRequest(allocations=[wants])


def app(name: str, queue: str, **tags: str) -> si.ApplicationRequest:
    return si.ApplicationRequest(new=[si.AddApplicationRequest(name, queue, ugi=BOB, tags=tags)])


def test_a_quota_that_came_with_an_application() -> None:
    """The quota of a dynamic leaf is set beside its applications (QU-107); 3 cores, as it says."""
    config = """
partitions: [{name: default, placementrules: [{name: provided, create: true}],
              queues: [{name: root, submitacl: '*', queues: [{name: ns, parent: true}]}]}]
"""
    quota = {"namespace.resourcequota": '{"resources": {"vcore": {"value": 2000}}}'}
    result = searched(config, [node(8), app("app", "root.ns.a", **quota), ask("t1", "app", 2), ask("t2", "app", 1)])
    assert alone(result)[0] == Raise(QueuePath("root.ns.a"), "", "vcore", 2000, 3000, is_dynamic=True)


QUEUES = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}, {name: b}]}]}]"


def test_time_alone() -> None:
    """The ask could not start on the only node, which is left out for it for 30 s (AP-144)."""
    failed = si.AllocationRelease("app", "t2", termination_type="SCHEDULING_FAILED_ON_RM")
    back = si.AllocationRequest(releases=si.AllocationReleasesRequest([failed]))
    result = searched(QUEUES, [node(8), app("app", "root.a"), ask("t2", "app", 1), back])
    assert [(found.changes, found.node_id, found.at_ns) for found in result.found] == [([Wait(29)], "n1", to_ns(33))]


def told(key: str, owner: str, vcore: int, run_s: str) -> si.AllocationRequest:
    allocation = si.Allocation(key, owner, resource_per_alloc=cores(vcore), allocation_tags={"runSeconds": run_s})
    return si.AllocationRequest(allocations=[allocation])


def waits(*sent: ScenarioRequest) -> list[tuple[Wait, str]]:
    """The waits after which three cores are there for an ask, on a node of four that others use, and where it is placed then."""
    first = [node(4), app("app", "root.a"), app("quick", "root.b", runSeconds="60")]
    result = searched(QUEUES, [*first, *sent, ask("t2", "app", 3)])
    return [(found.changes[0], found.node_id) for found in result.found if isinstance(found.changes[0], Wait)]


def of_task(seconds: float, owner: str, key: str) -> tuple[Wait, str]:
    return Wait(seconds, (ApplicationID(owner), AllocationKey(key)), NodeID("n1")), "n1"


def test_run_times_that_were_told() -> None:
    """AP-157: the last end is named after which there is room, with what is left until then; an ask's tag comes before that of
    its application.
    """
    assert waits(told("q-1", "quick", 2, "90.5"), told("q-2", "quick", 2, "")) == [of_task(90.5 - 3, "quick", "q-1")]
    assert waits(told("q-1", "quick", 3, ""), told("t1", "app", 1, "3600")) == [of_task(60 - 3, "quick", "q-1")]


def test_ends_at_the_same_time() -> None:
    """They come one after the other, in the order in which the tasks began: the one after which there is room is named."""
    tasks = [si.Allocation(f"q-{number}", "quick", resource_per_alloc=cores(1)) for number in range(4)]
    assert waits(si.AllocationRequest(allocations=tasks)) == [of_task(60 - 2, "quick", "q-2")]


def test_what_starts_meanwhile_ends_too() -> None:
    """Asks ahead get the room first, and give it back when their run times are over."""
    assert waits(told("q-1", "quick", 4, "30"), told("t1", "app", 4, "45")) == [of_task(30 - 3 + 45, "app", "t1")]


@pytest.mark.parametrize("run_s", ["", "0", "-1", "nan", "inf", "1e99", str(2**63), "soon", "1"])
def test_run_times_that_tell_nothing(run_s: str) -> None:
    """AP-157: what is no number, is too large, or was too short: then nobody knows when the task ends."""
    assert waits(told("t1", "app", 4, run_s)) == []


def test_placeholders_run_until_they_are_replaced() -> None:
    """AP-157: the run time of their application is that of its real tasks. They time out after 15 minutes (GA-42)."""
    held = si.Allocation("q-1", "quick", resource_per_alloc=cores(4), placeholder=True, task_group_name="g")
    assert waits(si.AllocationRequest(allocations=[held])) == [(Wait(15 * 60 - 2), "n1")]


def test_waiting_is_told_beside_four_smaller_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting is always one of the results, of which there are only so many."""
    monkeypatch.setattr(smallest, "RESULTS_MAX", 2)
    result = searched(QUEUES, [node(4), app("app", "root.a"), told("t1", "app", 4, "60"), ask("t2", "app", 4)])
    assert [type(found.changes[0]) for found in result.found][1:] == [Wait]


def test_parts_of_cores_and_small_amounts() -> None:
    """Amounts are whole cores if all are, else tenths; MiB; and ones of other types."""
    config = """
partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [
  {name: a, resources: {max: {vcore: 1500m, memory: 3Gi, gpu: 2}}}]}]}]
"""
    big = si.NodeRequest(nodes=[si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 8000, "memory": 2**33, "gpu": 8})])
    for wants, amounts in (
        ({"vcore": 1000}, (1500, 2000)),
        ({"vcore": 1, "memory": 2**31 + 1}, (3 * 2**30, 2**32 + 2**20)),
        ({"vcore": 1, "gpu": 2}, (2, 3)),
    ):
        sent = [si.Allocation(key, "app", resource_per_alloc={**wants, **first}) for key, first in (("t1", {}), ("t2", {}))]
        smaller = si.Allocation("t1", "app", resource_per_alloc={"vcore": 1000, "memory": 2**31, "gpu": 1})
        requests = [si.AllocationRequest(allocations=[smaller]), si.AllocationRequest(allocations=sent[1:])]
        change = alone(searched(config, [big, app("app", "root.a"), *requests]))[0]
        assert isinstance(change, Raise)
        assert (change.before, change.after) == amounts


CONTENDED = """
partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [
  {name: low},
  {name: high, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s},
   limits: [{limit: '', users: [bob], maxresources: {vcore: 1}}]}]}]}]
"""


@pytest.mark.parametrize("may_preempt", [False, True])
def test_preempting(may_preempt: bool) -> None:
    """A larger limit suffices alone only if the ask, which is below the guarantee of its queue, may preempt for it."""
    eve = si.AddApplicationRequest("victim", "root.low", ugi=si.UserGroupInformation("eve"))
    victims = [ask(f"v{number}", "victim", 1) for number in range(4)]
    sent = [node(4), si.ApplicationRequest(new=[eve]), app("app", "root.high"), *victims, ask("t2", "app", 2, preempts=True)]
    result = searched(CONTENDED, sent, may_preempt=may_preempt)
    larger = Raise(QueuePath("root.high"), "user bob", "vcore", 1000, 2000)
    assert (larger in alone(result)) is may_preempt
    assert ("--preempt" in result.reason) is not may_preempt


def test_a_higher_priority() -> None:
    """An ask preempts within its queue tree for a priority above that of its victims, and the least one is told."""
    config = QUEUES.replace("{name: b}", "{name: b, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}")
    victims = [ask(f"v{number}", "victim", 1, priority=7) for number in range(4)]
    new = [si.AddApplicationRequest(name, queue, ugi=BOB) for name, queue in (("victim", "root.a"), ("app", "root.b"))]
    sent = [node(4), si.ApplicationRequest(new=new), *victims, ask("t2", "app", 2, priority=3, preempts=True)]
    assert Prioritise(3, 7) in alone(searched(config, sent, may_preempt=True))
    assert not any(isinstance(change, Prioritise) for change in alone(searched(config, sent)))
