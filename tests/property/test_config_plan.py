"""``ykactor config plan``: "at once" is what the configuration then does, and the rest follows from the state."""

from __future__ import annotations

import pytest
from generate import generate
from msgspec import structs
from seeds import seeds
from test_what_if import Place, halves, made, played, went_on

from ykactor.core.messages.kinds import AboveMaxCause
from ykactor.core.state.state import SchedulerState
from ykactor.core.values.ids import PartitionName
from ykactor.core.waiting.causes import PendingCauses
from ykactor.sim import what_if
from ykactor.sim.plan import ConfigPlan, fails_on, is_reason_only, plan
from ykactor.sim.simulator import to_ns
from ykactor.sim.what_if import Difference, with_config
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si


def moved(differences: list[Difference]) -> tuple[set[Place], set[Place]]:
    """The places of tasks in one run only: as it is, and with the configuration."""
    found: tuple[set[Place], set[Place]] = (set(), set())
    for each in differences:
        for places, status in zip(found, (each.as_it_is, each.what_if), strict=True):
            if status is not None and status.state == "runs":
                places |= {(each.application_id, key, status.node_id) for key in each.allocation_keys}
    return found


def other_configuration(story: Scenario) -> str:
    """The last configuration of the story, which is not the first one."""
    texts = [message.request.config for message in story.messages if isinstance(message.request, si.UpdateConfigurationRequest)]
    return texts[-1]


@pytest.mark.parametrize("seed", seeds(40))
def test_at_once_is_what_it_then_does(seed: int) -> None:
    """The tasks that run afterwards and did not before, on a quiet partition, and the other way round; the state stays."""
    story = generate(seed, applications=6, asks=40, reloads=2)
    first, _ = halves(story)
    bases, begin_ns = played(first), to_ns(first.until)
    before = dict(bases)
    text = other_configuration(story)
    found = plan(lambda: made(bases), text, begin_ns, 60, reserves=True)
    nothing = structs.replace(first, messages=[], until=0)
    quiet, _ = went_on(bases, nothing, begin_ns)
    changed, _ = went_on(bases, with_config(nothing, text), begin_ns)
    gone, come = moved(found.at_once)
    assert (gone - come, come - gone) == (quiet - changed, changed - quiet)
    assert bases == before
    assert plan(lambda: made(bases), text, begin_ns, 60, reserves=True) == found


QUEUES = """
partitions:
  - name: default
    preemption: {quotapreemptionenabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: a, resources: {max: {vcore: 3}}, properties: {quota.preemption.delay: 1s}}
          - name: old
          - {name: p, resources: {max: {vcore: 8}}, queues: [{name: below}]}
"""


def world(text: str = QUEUES, applications: int = 0) -> dict[PartitionName, bytes]:
    """Three tasks of bob that run in root.a, one that wants more than will be allowed, and one in root.old; more that wait."""
    bob = si.UserGroupInformation("bob")
    queues = {"x": "a", "y": "old", "z": "p.below"}
    new = [si.AddApplicationRequest(name, f"root.{queue}", ugi=bob) for name, queue in queues.items()]
    victim = si.PreemptionPolicy(allow_preempt_self=True)
    asks = [
        *(si.Allocation(f"x-{number}", "x", resource_per_alloc={"vcore": 1000}, preemption_policy=victim) for number in range(3)),
        si.Allocation("y-1", "y", resource_per_alloc={"vcore": 1000}),
    ]
    large = si.Allocation("z-1", "z", resource_per_alloc={"vcore": 5000})
    more = [si.AddApplicationRequest(f"m{number}", "root.p.below", ugi=bob) for number in range(applications)]
    names = [each.application_id for each in more]
    waiting = [si.Allocation(f"{name}-1", name, resource_per_alloc={"vcore": 5000}) for name in names]
    node = si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 5000})
    messages = [
        TimedRequest(0, si.NodeRequest(nodes=[node])),
        TimedRequest(0, si.ApplicationRequest(new=[*new, *more])),
        TimedRequest(1, si.AllocationRequest(allocations=asks)),
        TimedRequest(2, si.AllocationRequest(allocations=[large, *waiting])),
    ]
    return played(Scenario("w", text, 100, messages=messages))


def planned(text: str) -> ConfigPlan:
    bases = world()
    return plan(lambda: made(bases), text, 100 * 10**9, 60, reserves=True)


def test_without_a_change() -> None:
    """The same configuration changes nothing."""
    found = planned(QUEUES)
    assert (found.changes, found.effective, found.at_once, found.later, found.never, found.drains, found.access) == ([],) * 7
    assert not any(fails_on(found).values())


def test_a_smaller_quota_preempts() -> None:
    """Tasks above it are preempted within the horizon; what they have used is lost."""
    found = planned(QUEUES.replace("{vcore: 3}", "{vcore: 1}"))
    assert (found.preempted, fails_on(found)["preempt"]) == (2, True)
    assert found.work_lost["vcore"] >= 2 * 99 * 1000
    (effective,) = found.effective
    assert (effective.queue_name, effective.limit, effective.before, effective.after, effective.by) == (
        "root.a", "max", 3000, 1000, "root.a",
    )  # fmt: skip


def test_a_queue_above_its_new_quota_is_told() -> None:
    """Queue, usage, new max, and whether quota preemption takes something or it only drains; not if it was so before."""
    (found,) = planned(QUEUES.replace("{vcore: 3}", "{vcore: 1}")).above_max
    assert (found.queue_name, found.resource, found.used, found.max) == ("root.a", "vcore", 3000, 1000)
    assert (found.cause, found.reason) == (AboveMaxCause.WAITS, "it gives back from 1970-01-01T00:01:41Z on")
    off = QUEUES.replace("{vcore: 3}", "{vcore: 1}").replace("{quotapreemptionenabled: true}", "{quotapreemptionenabled: false}")
    (drains,) = planned(off).above_max
    assert (drains.cause, drains.reason) == (AboveMaxCause.OFF, "nothing is taken because quota preemption is off")
    assert planned(QUEUES.replace("{vcore: 8}", "{vcore: 4}")).above_max == []


LIMITED = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        limits: [{limit: running, users: [bob], maxapplications: 1}]
        queues:
          - {name: a, limits: [{limit: cores, users: ["*"], maxresources: {vcore: 2}}]}
          - {name: old, maxapplications: 1}
          - {name: p, maxapplications: 1, queues: [{name: below, maxapplications: 1}]}
"""


def test_users_groups_and_slots_above_their_new_limits_are_told() -> None:
    """The plan names the user or group, the queue, usage or running applications, and the limit; nothing is preempted for it."""
    found = planned(LIMITED)
    assert [(each.queue_name, each.whose, each.resource, each.used, each.max) for each in found.above_max] == [
        ("root", "user bob", "", 2, 1), ("root.a", "user bob", "vcore", 3000, 2000),
    ]  # fmt: skip
    assert {each.cause for each in found.above_max} == {None}
    assert found.preempted == 0
    within = LIMITED.replace("{vcore: 2}", "{vcore: 3}").replace("[bob], maxapplications: 1", "[bob], maxapplications: 2")
    assert planned(within).above_max == []


def test_a_queue_with_more_running_applications_than_its_new_maxapplications_is_told() -> None:
    """Applications that run go on."""
    bases = played(three_starts(SLOTS.replace("maxapplications: 1", "maxapplications: 3")))
    (found,) = plan(lambda: made(bases), SLOTS, 10**11, 60, reserves=True).above_max
    assert (found.queue_name, found.whose, found.resource, found.used, found.max) == ("root.a", "", "", 3, 1)


def test_a_quota_above_holds_below() -> None:
    """The smallest on the way to root is in force; an ask that wants more can never run."""
    found = planned(QUEUES.replace("{vcore: 8}", "{vcore: 4}"))
    told = [(each.queue_name, each.before, each.after, each.by) for each in found.effective]
    assert told == [("root.p", 8000, 4000, "root.p"), ("root.p.below", 8000, 4000, "root.p")]
    (never,) = found.never
    assert (never.application_id, never.count) == ("z", 1)
    assert "may have at most 4 vcore in queue root.p" in never.reason
    assert fails_on(found)["never"]


def test_a_queue_that_is_removed_drains() -> None:
    """The plan names it with its applications, and tells nothing of access."""
    found = planned(QUEUES.replace("- name: old", "- name: young"))
    assert [(each.queue_name, each.applications) for each in found.drains] == [("root.old", 1)]
    assert (found.access, fails_on(found)["drain"]) == ([], True)


GPU = """
  - name: gpu
    queues: [{name: root, submitacl: "*", queues: [{name: train}]}]
"""


def test_a_partition_that_is_removed_fails_its_applications() -> None:
    """Removed partitions do not drain: their tasks end at once. The plan names them and fails on them, and names new ones."""
    node = si.NodeInfo("g1", "CREATE", {"si/node-partition": "gpu"}, {"vcore": 1000})
    new = si.AddApplicationRequest("t", "root.train", "gpu", ugi=si.UserGroupInformation("bob"))
    ask = si.Allocation("t-1", "t", "gpu", resource_per_alloc={"vcore": 1000})
    messages = [
        TimedRequest(0, si.NodeRequest(nodes=[node])),
        TimedRequest(0, si.ApplicationRequest(new=[new])),
        TimedRequest(0, si.AllocationRequest(allocations=[ask])),
    ]
    bases = played(Scenario("w", QUEUES + GPU, 100, messages=messages))
    found = plan(lambda: made(bases), QUEUES, 100 * 10**9, 60, reserves=True)
    assert found.changes == ["partition gpu: removed with its nodes, its applications fail"]
    assert {(each.application_id, status.state) for each in found.at_once if (status := each.what_if) is not None} == {
        ("t", "Failed"), ("t", "ended"),
    }  # fmt: skip
    assert (found.drains, fails_on(found)["drain"], fails_on(found)["reject"]) == ([], False, True)
    assert planned(QUEUES + GPU).changes[0] == "partition gpu: added"


def test_what_is_different_at_once_is_not_told_again() -> None:
    """A task that starts at once and goes on, and the same for one that begins to wait; others come later."""
    found = planned(QUEUES.replace("{vcore: 3}", "{vcore: 1}").replace("{vcore: 8}", "{vcore: 4}"))
    keys = [{key for each in differences for key in each.allocation_keys} for differences in (found.at_once, found.later)]
    assert keys == [{"z-1"}, {"x-0", "x-1"}]


def test_what_happens_comes_before_other_words() -> None:
    """Starts first, then ends, then what waits as before: its sentence alone has other numbers."""
    bases = played(three_starts())
    found = plan(lambda: made(bases), SLOTS.replace("maxapplications: 1", "maxapplications: 2"), 10**11, 60, reserves=True)
    told = [(each.allocation_keys, is_reason_only(each)) for each in found.at_once]
    assert told == [(("y-1",), False), ((), False), (("z-1",), True)]


SLOTS = """
partitions: [{name: default, queues: [{name: root, submitacl: "*", queues: [{name: a, maxapplications: 1}]}]}]
"""


def three_starts(text: str = SLOTS) -> Scenario:
    """One application runs in a queue of one slot, two wait for it."""
    node = si.NodeInfo("n1", "CREATE", schedulable_resource={"vcore": 5000})
    new = [si.AddApplicationRequest(name, "root.a", ugi=si.UserGroupInformation("bob")) for name in "xyz"]
    asks = [si.Allocation(f"{name}-1", name, resource_per_alloc={"vcore": 1000}) for name in "xyz"]
    messages: list[si.WorkRequest] = [
        si.NodeRequest(nodes=[node]), si.ApplicationRequest(new=new), si.AllocationRequest(allocations=asks)
    ]  # fmt: skip
    return Scenario("w", text, 100, messages=[TimedRequest(second, each) for second, each in enumerate(messages)])


def test_asks_that_are_alike_share_their_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes are looked at once for all applications: applications and nodes may be many."""
    made_count = 0

    class Counted(PendingCauses):
        def __init__(self, state: SchedulerState) -> None:
            nonlocal made_count
            made_count += 1
            super().__init__(state)

    monkeypatch.setattr(what_if, "PendingCauses", Counted)
    planned(QUEUES)
    few, made_count = made_count, 0
    bases = world(applications=20)
    plan(lambda: made(bases), QUEUES, 100 * 10**9, 60, reserves=True)
    assert made_count == few


def test_who_may_no_longer_submit() -> None:
    """A user with applications in a queue whose lists no longer name it."""
    found = planned(QUEUES.replace('submitacl: "*"', "submitacl: alice"))
    assert [(each.user, each.queue_name, each.applications) for each in found.access] == [
        ("bob", "root.a", 1), ("bob", "root.old", 1), ("bob", "root.p.below", 1),
    ]  # fmt: skip


def test_what_the_partitions_refuse() -> None:
    """A configuration that cannot be put into force has its reason, and is a rejection."""
    found = planned("partitions: 3")
    assert found.refused
    assert fails_on(found)["reject"]
