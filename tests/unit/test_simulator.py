"""Scenarios of several partitions: reloads that are refused, that add and that remove; the oracle and the actors agree."""

import json

import pytest
import trio
from msgspec import structs, to_builtins
from partitiontexts import several
from simulated import Simulated, simulate, simulate_with_actors
from world import queue, spoken, tree

from ykactor.core.messages.facts import AllocationRejected, Fact
from ykactor.wire.decision_log import decision_log
from ykactor.wire.scenario import Scenario, TimedRequest
from ykactor.wire.si import messages as si

LEAVES = [queue("a"), queue("b")]
SPLIT = [queue("a", queue("child")), queue("b", max={"vcore": 1})]
TWO = several(default=LEAVES, gpu=LEAVES)


def config(text: str) -> si.UpdateConfigurationRequest:
    return si.UpdateConfigurationRequest(config=text)


def node(name: str, partition: str, vcore: int = 2000) -> si.NodeRequest:
    attributes = {"si/node-partition": partition}
    entry = si.NodeInfo(node_id=name, action="CREATE", attributes=attributes, schedulable_resource={"vcore": vcore})
    return si.NodeRequest(nodes=[entry])


def app(name: str, partition: str, queue_name: str = "root.a") -> si.ApplicationRequest:
    ugi = si.UserGroupInformation(user="alice")
    entry = si.AddApplicationRequest(application_id=name, queue_name=queue_name, partition_name=partition, ugi=ugi)
    return si.ApplicationRequest(new=[entry])


def ask(key: str, application: str, partition: str) -> si.AllocationRequest:
    entry = si.Allocation(
        allocation_key=key, application_id=application, partition_name=partition, resource_per_alloc={"vcore": 1000}
    )
    return si.AllocationRequest(allocations=[entry])


def story(*messages: tuple[float, si.WorkRequest], text: str = TWO, until: float = 100) -> Scenario:
    return Scenario("several", text, until, messages=[TimedRequest(at, request) for at, request in messages])


def play(scenario: Scenario) -> Simulated:
    """The decisions of the oracle, once several task orders of the actors have decided the same, byte for byte."""
    expected = simulate(scenario)
    for order in range(6):
        trio._core._run._r.seed(order)  # type: ignore[attr-defined]
        outcome = simulate_with_actors(scenario)
        assert decision_log(outcome.facts) == decision_log(expected.facts), f"task order {order}"
        assert outcome == expected, f"task order {order}"
    return expected


def heard(facts: list[Fact], after_s: float) -> list[tuple[float, str]]:
    return [(fact.at_ns / 1e9, line) for fact in facts if fact.at_ns >= after_s * 1e9 and (line := spoken(fact)) is not None]


OPENING = (
    (0, node("n1", "default")),
    (0, node("n1", "gpu")),
    (0, app("d", "default")),
    (0, app("g", "gpu", "root.b")),
    (0, ask("d1", "d", "default")),
    (0, ask("g1", "g", "gpu")),
)


def test_partitions_share_nothing() -> None:
    """SC-12: the same names in both partitions; what one uses, or cannot place, is nothing to the other."""
    where = ("default", "gpu")
    same = [request for name in where for request in ((0, node("n1", name)), (0, app("x", name)), (0, ask("t1", "x", name)))]
    outcome = play(story(*same, (1, ask("t2", "x", "default")), (1, ask("t3", "x", "default")), (2, ask("t4", "x", "gpu"))))
    assert heard(outcome.facts, 1) == [(1, "x Running"), (1, "t2 on n1"), (2, "x Running"), (2, "t4 on n1")]
    used = {name: to_builtins(outcome.final)["partitions"][name]["queues"]["root.a"]["allocated"] for name in where}
    assert used == {"default": {"vcore": 2000}, "gpu": {"vcore": 2000}}


def test_a_reload_that_one_partition_refuses() -> None:
    """CF-58: in the other one nothing changes either, although it could follow; it is reported once."""
    text = several(default=SPLIT, gpu=SPLIT, fresh=LEAVES)
    outcome = play(story(*OPENING, (5, config(text)), (5, ask("g2", "g", "gpu")), (6, node("n9", "fresh"))))
    reason = "queue root.a cannot become a parent: it is a leaf with 1 applications; wait for them to end or move them"
    assert heard(outcome.facts, 5) == [
        (5, f"configuration rejected: {reason}"),
        (5, "g Running"),
        (5, "g2 on n1"),  # under the new text root.b could use 1
        (6, "n9 rejected: failed to find partition fresh for new node n9"),
    ]
    assert set(to_builtins(outcome.final)["partitions"]) == {"default", "gpu"}
    assert set(to_builtins(outcome.final)["partitions"]["gpu"]["queues"]) == {"root", "root.a", "root.b"}


def test_a_reload_that_adds_a_partition() -> None:
    """The new partition is usable in the same instant; earlier submissions to it were refused."""
    text = several(default=LEAVES, gpu=LEAVES, arm=LEAVES)
    outcome = play(
        story(
            *OPENING,
            (4, app("early", "arm")),
            (5, app("earlier", "arm")),
            (5, config(text)),
            (5, node("n1", "arm")),
            (5, app("x", "arm")),
            (5, ask("x1", "x", "arm")),
        )
    )
    told = [line for line in heard(outcome.facts, 4) if not line[1].startswith("configuration")]
    refused = "Rejected: Failed to add application {} to partition arm, partition doesn't exist"
    assert told[0] == (4, "early " + refused.format("early"))
    assert (5, "earlier " + refused.format("earlier")) in told
    assert [line for _, line in told if line.startswith(("n1", "x"))] == [
        "n1 accepted",
        "x New",
        "x Accepted",
        "x Starting",
        "x1 on n1",
    ]
    assert {at for at, _ in heard(outcome.facts, 4)} == {4, 5}
    accepted = [line for line in heard(outcome.facts, 4) if line[1].startswith("configuration")]
    assert accepted == [(5, "configuration accepted")] * 3
    assert set(to_builtins(outcome.final)["partitions"]) == {"default", "gpu", "arm"}


def test_why_asks_wait() -> None:
    """AP-146: each partition tells it if the scenario wants to know, also one that comes later; else none does."""
    text = several(default=LEAVES, gpu=LEAVES, arm=LEAVES)
    told = story(
        *OPENING,
        (0, ask("d2", "d", "default")),
        (0, ask("d3", "d", "default")),
        (20, config(text)),
        (20, app("x", "arm")),
        (20.5, ask("x1", "x", "arm")),
    )
    assert "waiting" not in decision_log(play(told).facts).decode()
    lines = map(json.loads, decision_log(play(structs.replace(told, wants_scheduling_states=True)).facts).splitlines())
    assert [line for line in lines if line["decision"] == "waiting"] == [
        {
            "at": at,
            "decision": "waiting",
            "allocationKey": key,
            "applicationID": application,
            "queueName": "root.a",
            "state": "FAILED",
            "cause": "nodes",
            "reason": reason,
        }
        for at, key, application, reason in [
            (1, "d3", "d", "wants 1, has 0 of 2 vcore in the cluster"),
            (21, "x1", "x", "there is no node"),
        ]
    ]


def test_a_reload_that_removes_a_partition() -> None:
    """CF-56: what it ran ends in that instant, in the same instant nobody finds it any more, the other one goes on."""
    outcome = play(
        story(
            *OPENING,
            (5, config(several(default=LEAVES))),
            (5, ask("g2", "g", "gpu")),
            (5, ask("d2", "d", "default")),
            (6, app("late", "gpu")),
        )
    )
    assert sorted(heard(outcome.facts, 5)) == sorted(
        [
            (5, "configuration accepted"),
            (5, "g Failing"),
            (5, "g Failed"),
            (5, "g1 released STOPPED_BY_RM (Partition gpu Removed)"),
            (5, "g2 rejected: Failed to find partition gpu, for application g and allocation g2"),
            (5, "d Running"),
            (5, "d2 on n1"),
            (6, "late Rejected: Failed to add application late to partition gpu, partition doesn't exist"),
        ]
    )
    assert set(to_builtins(outcome.final)["queues"]) == {"root", "root.a", "root.b"}  # one is left
    assert to_builtins(outcome.final)["applications"]["d"]["state"] == "Running"


@pytest.mark.parametrize("pause_s", [0, 5])
def test_a_partition_that_comes_back_is_empty(pause_s: float) -> None:
    """Also in one instant; its timers and its applications of before are forgotten."""
    outcome = play(
        story(
            *OPENING,
            (5, config(several(default=LEAVES))),
            (5 + pause_s, config(TWO)),
            (5 + pause_s, ask("g1", "g", "gpu")),
            (5 + pause_s, app("g", "gpu")),
            until=400,
        )
    )
    assert to_builtins(outcome.final)["partitions"]["gpu"]["nodes"] == {}
    assert to_builtins(outcome.final)["partitions"]["gpu"]["applications"] == {"g": {"state": "New", "queueName": "root.a"}}
    assert "g1 rejected: failed to find application g" in [line for _, line in heard(outcome.facts, 5)]
    assert "g Running" not in [line for _, line in heard(outcome.facts, 0)]


def test_a_name_in_another_case_is_the_same_partition() -> None:
    """The nodes and applications stay, and the partition is still called as it was."""
    outcome = play(story(*OPENING, (5, config(several(default=LEAVES, GPU=[*LEAVES, queue("c")]))), (6, ask("g2", "g", "gpu"))))
    assert (6, "g2 on n1") in heard(outcome.facts, 5)
    assert "root.c" in to_builtins(outcome.final)["partitions"]["gpu"]["queues"]


def test_the_first_partition_goes() -> None:
    """Reports that are for no partition in particular are made by the first one."""
    outcome = play(story(*OPENING, (5, config(several(gpu=LEAVES))), (6, config("partitions: 3")), (7, ask("g2", "g", "gpu"))))
    assert [(at, line.split(":")[0]) for at, line in heard(outcome.facts, 6)] == [
        (6, "configuration rejected"),
        (7, "g Running"),
        (7, "g2 on n1"),
    ]
    assert set(to_builtins(outcome.final)) == {"queues", "applications", "nodes"}


def test_administrators_in_a_scenario() -> None:
    """Applications are moved and ended at their instants, alike in the oracle and in the actors; refusals are reported."""
    outcome = play(
        story(
            *OPENING,
            (5, si.MoveApplication(application_id="d", queue_name="root.b")),
            (6, si.TerminateApplication(application_id="g", partition_name="GPU")),
            (7, si.TerminateApplication(application_id="g", partition_name="gpu")),
            (7, si.TerminateApplication(application_id="g", partition_name="tpu")),
        )
    )
    released = "g1 releasing TIMEOUT (releasing allocations on application termination)"
    assert heard(outcome.facts, 5) == [(5, "d moved to root.b"), (6, "g Failing"), (6, released), (6, "g Failed")]
    assert outcome.refused == ["at 7: application g has ended: Failed", "at 7: failed to find partition tpu"]
    late = play(story((1_234_567.5, si.TerminateApplication(application_id="g", partition_name="tpu")), until=2_000_000))
    assert late.refused == ["at 1234567.5: failed to find partition tpu"]


# ---- asks with runSeconds


ONE = several(default=LEAVES)


def run_for(seconds: float, *asks: si.AllocationRequest, at: float = 0) -> list[TimedRequest]:
    return [TimedRequest(at, request, {0: seconds}) for request in asks]


def timed(*messages: TimedRequest, until: float = 100, confirms: bool = True) -> Scenario:
    opening = [TimedRequest(0, node("n1", "default")), TimedRequest(0, app("d", "default"))]
    return Scenario("timed", ONE, until, confirms, [*opening, *messages])


def tasks(outcome: Simulated) -> list[tuple[float, str]]:
    return [(at, line.split(" (")[0]) for at, line in heard(outcome.facts, 0) if " on n" in line or "released" in line]


def test_a_task_runs_as_long_as_it_says() -> None:
    """The task ends ``runSeconds`` after it started, however long it waited; an ask that waits for its place gets it then."""
    asks = [ask(f"d{number}", "d", "default") for number in range(1, 5)]
    outcome = play(timed(*run_for(7.5, asks[0], at=1), *run_for(5, *asks[1:], at=1)))
    assert tasks(outcome) == [
        (1, "d1 on n1"),
        (1, "d2 on n1"),
        (6, "d2 released STOPPED_BY_RM"),
        (6, "d3 on n1"),
        (8.5, "d1 released STOPPED_BY_RM"),
        (8.5, "d4 on n1"),
        (11, "d3 released STOPPED_BY_RM"),
        (13.5, "d4 released STOPPED_BY_RM"),
    ]


def test_what_ends_at_the_time_of_a_message_ends_before_it() -> None:
    """So that a new ask finds room at once; also at ``until``."""
    one, two, three = (ask(f"d{number}", "d", "default") for number in (1, 2, 3))
    outcome = play(timed(*run_for(5, one, two), *run_for(5, three, at=5), until=10))
    assert tasks(outcome)[2:] == [
        (5, "d1 released STOPPED_BY_RM"),
        (5, "d2 released STOPPED_BY_RM"),
        (5, "d3 on n1"),
        (10, "d3 released STOPPED_BY_RM"),
    ]
    assert outcome.end_ns == 10 * 10**9


def test_what_ends_when_a_message_is_refused() -> None:
    """Both enter the partition at once, so the order of the two facts is fixed."""
    lost = TimedRequest(5, ask("lost", "d", "nowhere"))
    outcome = play(timed(*run_for(5, ask("d1", "d", "default")), lost))
    assert tasks(outcome) == [(0, "d1 on n1"), (5, "d1 released STOPPED_BY_RM")]
    assert any(isinstance(fact, AllocationRejected) for fact in outcome.facts)


def test_a_task_that_a_timer_starts() -> None:
    """A gang gives up its places after 20 s, between two messages: what starts then also ends before the next message."""
    gang = si.AddApplicationRequest(
        application_id="g",
        queue_name="root.a",
        ugi=si.UserGroupInformation(user="alice"),
        execution_timeout_milli_seconds=20_000,
        placeholder_ask={"vcore": 3000},
    )
    placeholders = [
        si.Allocation(
            allocation_key=f"p{number}",
            application_id="g",
            resource_per_alloc={"vcore": 1000},
            placeholder=True,
            task_group_name="all",
        )
        for number in range(3)
    ]
    messages = [
        TimedRequest(0, si.ApplicationRequest(new=[gang])),
        TimedRequest(0, si.AllocationRequest(allocations=placeholders)),
        *run_for(2, ask("d1", "d", "default"), at=1),
    ]
    found = [entry for entry in tasks(play(timed(*messages))) if entry[1].startswith("d1")]
    assert found == [(20, "d1 on n1"), (22, "d1 released STOPPED_BY_RM")]


def test_a_task_that_ends_early_is_not_ended_again() -> None:
    """Neither it nor a later ask with the same key, which may say nothing about its time."""
    release = si.AllocationRelease(application_id="d", allocation_key="d1", termination_type="STOPPED_BY_RM")
    ending = si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))
    again = TimedRequest(3, ask("d1", "d", "default"))
    outcome = play(timed(*run_for(5, ask("d1", "d", "default")), TimedRequest(2, ending), again))
    assert tasks(outcome) == [(0, "d1 on n1"), (2, "d1 released STOPPED_BY_RM"), (3, "d1 on n1")]


def test_a_partition_in_another_case() -> None:
    """An ask may write the name of its partition as it likes."""
    messages = [*run_for(5, ask("g1", "g", "GPU"))]
    opening = [TimedRequest(at, request) for at, request in (*OPENING[:2], (0, app("g", "gpu", "root.b")))]
    outcome = play(Scenario("case", TWO, 10, messages=[*opening, *messages]))
    assert tasks(outcome) == [(0, "g1 on n1"), (5, "g1 released STOPPED_BY_RM")]


def test_an_end_in_the_first_microsecond() -> None:
    """A time below the resolution of the clock is one tick."""
    outcome = play(timed(*run_for(1e-9, ask("d1", "d", "default"))))
    assert tasks(outcome) == [(0, "d1 on n1"), (1e-6, "d1 released STOPPED_BY_RM")]


def test_a_task_that_is_handed_back_runs_again_as_long() -> None:
    """AP-144: its time begins anew with its next placement, and the time before ends nothing."""
    release = si.AllocationRelease(application_id="d", allocation_key="d1", termination_type="SCHEDULING_FAILED_ON_RM")
    back = si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[release]))
    outcome = play(timed(*run_for(5, ask("d1", "d", "default")), TimedRequest(2, back)))
    assert tasks(outcome) == [(0, "d1 on n1"), (32, "d1 on n1"), (37, "d1 released STOPPED_BY_RM")]


# ---- time alone


def wanting(key: str, vcore: int = 1000, *, application: str = "low", preempts: bool = False) -> si.AllocationRequest:
    """An ask of any size that may be preempted."""
    policy = si.PreemptionPolicy(allow_preempt_self=True, allow_preempt_other=preempts)
    entry = si.Allocation(
        allocation_key=key, application_id=application, resource_per_alloc={"vcore": vcore}, preemption_policy=policy
    )
    return si.AllocationRequest(allocations=[entry])


def alone(*messages: tuple[float, si.WorkRequest], leaf: dict[str, object], nodes: int = 1, until: float = 100) -> Scenario:
    """Applications in the queues ``root.a`` (low) and ``root.b`` (high), of which ``leaf`` are the keys."""
    text = tree(queue("a", **leaf), queue("b", **leaf), preemption={"quotapreemptionenabled": True})
    opening = [(0, node(f"n{number}", "default")) for number in range(1, nodes + 1)]
    named = [(0, app("low", "default")), (0, app("high", "default", "root.b"))]
    return story(*opening, *named, *messages, text=text, until=until)


def first(scenario: Scenario, text: str) -> tuple[float | None, float | None]:
    """The time of the first decision with this text, decided as a daemon would, and without wakes."""
    found = []
    for wakes in (True, False):
        told = heard(play(structs.replace(scenario, wakes=wakes)).facts, 0)
        found.append(next((at for at, line in told if line.startswith(text)), None))
    return found[0], found[1]


def test_an_ask_below_its_guarantee_preempts_after_the_delay() -> None:
    """PE-14: after ``preemption.delay``, not when something else happens to be looked at."""
    leaf = {"guaranteed": {"vcore": 1000}, "p": {"preemption.delay": "10s"}}
    full = [(0, wanting(f"l{number}")) for number in range(2)]
    wanted = (1, wanting("h1", application="high", preempts=True))
    assert first(alone(*full, wanted, leaf=leaf), "h1 on n1") == (11, 100)


def test_an_ask_reserves_after_two_seconds() -> None:
    """SC-50: a node is kept for an ask that fits nowhere, so that smaller ones do not take its place for ever."""
    two = [(0, wanting(f"l{number}", 1500)) for number in range(2)]
    assert first(alone(*two, (1, wanting("l3", 900)), leaf={}, nodes=2), "l3 reserves") == (3, 100)


def test_back_off_ends_by_itself() -> None:
    """SC-38: an ask behind one that fits nowhere has its turn when the back-off is over, also if the other one has gone."""
    leaf = {"p": {"application.unschedasks.backoff": "1", "application.unschedasks.backoff.delay": "4s"}}
    large, small = [(0, wanting(f"l{number}", 1200)) for number in range(4)], (0, wanting("s", 300))
    ended = si.AllocationRelease(application_id="low", allocation_key="l3", termination_type="STOPPED_BY_RM")
    release = si.AllocationRequest(releases=si.AllocationReleasesRequest(allocations_to_release=[ended]))
    assert first(alone(*large, small, (3, release), leaf=leaf, nodes=3), "s on") == (4, 100)


def test_a_queue_above_its_max_gives_back_after_its_delay() -> None:
    """CF-81: ``quota.preemption.delay`` after its max was lowered."""
    delay = {"quota.preemption.delay": "7s"}
    lowered = config(alone(leaf={"max": {"vcore": 1000}, "p": delay}).config)
    full = [(0, wanting(f"l{number}")) for number in range(2)]
    story = alone(*full, (5, lowered), leaf={"max": {"vcore": 2000}, "p": delay})
    assert first(story, "l0 releasing PREEMPTED_BY_SCHEDULER") == (12, 100)


def test_a_preemption_is_tried_again_after_15_seconds() -> None:
    """PE-15: what has changed since the attempt at 2 s, which was in vain, is looked at then; without wakes there was none."""
    p = {"preemption.delay": "1s"}
    guaranteed = config(alone(leaf={"guaranteed": {"vcore": 1000}, "p": p}).config)
    full = [(0, wanting(f"l{number}")) for number in range(2)]
    story = alone(*full, (1, wanting("h1", application="high", preempts=True)), (5, guaranteed), leaf={"p": p})
    assert first(story, "h1 on n1") == (17, 5)
