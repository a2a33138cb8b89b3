"""The adapter's requests to the daemon and the API server, in dialogues."""

from typing import Never

from dialogue import Dialogue
from objects import changed, group, namespace, node, pod

from ykactor.kubernetes.gangs import DEFINITION, PLACEHOLDER, gang_of
from ykactor.kubernetes.messages import BindOutcome, Kind, Listed
from ykactor.kubernetes.records import NodeRecord
from ykactor.wire.si import messages as si


def test_a_fresh_registration_reports_everything_in_order() -> None:
    """Nodes closed, then pods, those that run first; nodes are opened last."""
    waiting, running = pod("w", created=1), pod("r", node="n1", created=2)
    other = pod("o", node="n1", schedulerName="default-scheduler")
    dialogue = Dialogue(node("n1"), waiting, running, other)
    assert dialogue.said == []
    assert dialogue.register() == [
        "CREATE_DRAIN n1",
        "application yunikorn-team-autogen",
        "foreign o on n1",
        "ask r on n1",
        "ask w",
        "UPDATE n1",
        "DRAIN_TO_SCHEDULABLE n1",
    ]


def test_a_new_node_has_no_capacity_before_its_pods_are_told() -> None:
    """A pod of a DaemonSet may be placed on a drained node (SC-72)."""
    dialogue = Dialogue(node("n1"), pod("r", node="n1"))
    dialogue.register()
    entries = [entry for effect in dialogue.effects for entry in getattr(getattr(effect, "request", None), "nodes", ())]
    assert [entry.schedulable_resource for entry in entries[:2]] == [None, {"vcore": 4000, "memory": 16 << 30, "pods": 110}]


def test_a_pod_is_bound_where_the_scheduler_places_it() -> None:
    """The bind is not tried twice, and the watch that shows the node tells the daemon nothing new."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    assert dialogue.place(waiting, "n1") == ["bind w to n1"]
    assert dialogue.see(waiting) == []
    assert dialogue.bound(waiting) == ["event about w Scheduled"]
    assert dialogue.see(waiting) == []
    assert dialogue.see(changed(waiting, node="n1")) == []
    assert dialogue.see(changed(waiting, node="n1", phase="Succeeded")) == ["release w STOPPED_BY_RM"]


def test_nothing_is_told_before_all_is_listed() -> None:
    """The daemon would place asks on nodes whose pods are not known."""
    dialogue = Dialogue.__new__(Dialogue)
    dialogue.__init__()
    fresh = Dialogue()
    fresh.state._listed.discard(Kind.PODS)
    assert fresh.register() == []
    assert fresh.see(node("n1")) == []
    assert fresh.play(Listed(Kind.PODS, [])) == ["CREATE_DRAIN n1", "UPDATE n1", "DRAIN_TO_SCHEDULABLE n1"]


def test_a_pod_that_is_deleted_while_it_is_bound() -> None:
    """One release; the result of the bind comes too late."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    dialogue.place(waiting, "n1")
    assert dialogue.lose(waiting) == ["release w STOPPED_BY_RM"]
    assert dialogue.bound(waiting, BindOutcome.GONE) == []


def test_a_decision_about_a_pod_that_is_gone_is_released() -> None:
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    dialogue.lose(waiting)
    assert dialogue.place(waiting, "n1") == ["release w STOPPED_BY_RM"]


def test_a_rival_that_binds_elsewhere_is_right() -> None:
    """The daemon is told where the pod is."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), waiting)
    dialogue.register()
    dialogue.place(waiting, "n1")
    dialogue.bound(waiting, BindOutcome.TAKEN, "n2")
    assert dialogue.see(changed(waiting, node="n2")) == ["ask w on n2"]


def test_a_decision_that_crosses_the_news_of_a_bind_is_taken_back() -> None:
    """The answer to a bind was lost, so it was handed back; the daemon places it elsewhere before it hears that it is bound."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), waiting)
    dialogue.register()
    dialogue.place(waiting, "n1")
    dialogue.bound(waiting, BindOutcome.FAILED)
    assert dialogue.see(changed(waiting, node="n1")) == ["ask w on n1"]
    assert dialogue.place(waiting, "n2") == ["release w STOPPED_BY_RM", "ask w on n1"]
    assert dialogue.place(waiting, "n1") == []


def test_a_report_that_is_repeated_late_is_no_decision() -> None:
    """AP-109: the pod was handed back meanwhile."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), waiting)
    dialogue.register()
    dialogue.place(waiting, "n1")
    dialogue.register()
    dialogue.bound(waiting, BindOutcome.FAILED)
    assert dialogue.place(waiting, "n1") == []
    assert dialogue.place(waiting, "n2") == ["bind w to n2"]


def test_a_pod_that_cannot_be_bound_is_handed_back() -> None:
    """AP-144."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), node("n2"), waiting)
    dialogue.register()
    dialogue.place(waiting, "n1")
    assert dialogue.bound(waiting, BindOutcome.FAILED) == ["release w SCHEDULING_FAILED_ON_RM", "event about w FailedScheduling"]
    assert dialogue.place(waiting, "n2") == ["bind w to n2"]


def test_gates_that_a_bind_finds_release_the_ask_until_they_go() -> None:
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    dialogue.place(waiting, "n1")
    assert dialogue.bound(waiting, BindOutcome.GATED) == ["release w STOPPED_BY_RM"]
    assert dialogue.see(changed(waiting, schedulingGates=[{"name": "g"}])) == []
    assert dialogue.confirm() == []
    assert dialogue.see(changed(waiting)) == ["ask w"]


def test_the_same_name_made_again_is_another_pod() -> None:
    first, second = pod("w"), pod("w")
    dialogue = Dialogue(node("n1"), first)
    dialogue.register()
    assert dialogue.see(second) == ["release w STOPPED_BY_RM", "ask w"]


def test_a_preempted_pod_is_deleted_and_confirmed_when_it_is_gone() -> None:
    running = pod("r", node="n1")
    dialogue = Dialogue(node("n1"), running)
    dialogue.register()
    dialogue.place(running, "n1")
    assert dialogue.release(running, "PREEMPTED_BY_SCHEDULER") == ["delete r", "event about r Preempted"]
    assert dialogue.see(changed(running, deleting=True)) == ["ask r on n1 ending"]
    assert dialogue.lose(running) == ["release r PREEMPTED_BY_SCHEDULER"]


def test_a_node_that_goes_takes_its_pods_and_brings_them_back() -> None:
    running, here = pod("r", node="n1"), node("n1")
    dialogue = Dialogue(here, running)
    dialogue.register()
    assert dialogue.lose(here) == ["DECOMISSION n1"]
    assert dialogue.see(running) == []
    assert dialogue.see(node("n1", uid="other")) == []
    assert dialogue.confirm() == ["CREATE_DRAIN n1", "ask r on n1", "UPDATE n1", "DRAIN_TO_SCHEDULABLE n1"]


def test_a_decision_about_a_node_that_has_gone_meanwhile_is_for_another_one_of_its_name() -> None:
    """The daemon has ended what it had placed there, so nothing is bound, and the pod is asked for anew."""
    waiting, here = pod("w"), node("n1")
    dialogue = Dialogue(here, waiting)
    dialogue.register()
    dialogue.lose(here)
    dialogue.see(node("n1", uid="other"))
    assert dialogue.place(waiting, "n1") == ["release w STOPPED_BY_RM"]
    assert dialogue.release(waiting, "STOPPED_BY_RM") == []
    assert "ask w" in dialogue.confirm()
    assert dialogue.place(waiting, "n1") == ["bind w to n1"]


def test_a_pod_is_asked_for_again_when_the_daemon_has_confirmed_its_release() -> None:
    """A decision that was on its way is about what was released."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    assert dialogue.see(pod("w", uid=waiting.metadata.uid, nodeSelector={"zone": "a"})) == ["release w STOPPED_BY_RM"]
    assert dialogue.place(waiting, "n1") == ["release w STOPPED_BY_RM"]
    assert dialogue.confirm() == ["ask w"]


def test_heartbeats_say_nothing_and_cordons_do() -> None:
    dialogue = Dialogue(node("n1"))
    dialogue.register()
    assert dialogue.see(node("n1")) == []
    assert dialogue.see(node("n1", unschedulable=True)) == ["DRAIN_NODE n1"]
    assert dialogue.see(node("n1")) == ["DRAIN_TO_SCHEDULABLE n1"]
    assert dialogue.see(node("n1", cpu="8")) == ["UPDATE n1"]


def test_what_concerns_one_object_looks_at_no_other_node() -> None:
    """A heartbeat, a question, and a pod of a known class: the cost does not grow with the cluster."""

    class Nodes(dict[str, NodeRecord]):
        def items(self) -> Never:
            raise AssertionError("looks at all nodes")

        values = __iter__ = items  # type: ignore[assignment]

    dialogue = Dialogue(node("n1"), pod("before"))
    dialogue.register()
    dialogue.state.book.nodes = Nodes(dialogue.state.book.nodes)
    assert dialogue.see(node("n1")) == []
    assert dialogue.see(pod("w")) == ["ask w"]
    dialogue.hear(si.PredicatesRequest(checks=[si.PredicateCheck(predicate="another", node_id="n1", allocate=True)]))


def test_what_concerns_one_namespace_or_group_looks_at_no_other_application() -> None:
    """However many there are."""

    class Other:
        """An application that nobody may look at."""

        def __getattribute__(self, name: str) -> Never:
            raise AssertionError("looks at another application")

    dialogue = Dialogue(node("n1"), pod("w"), pod("m", schedulingGroup={"podGroupName": "pg"}), pod("o", namespace="other"))
    dialogue.register()
    dialogue.state.book.applications["yunikorn-other-autogen"] = Other()  # type: ignore[assignment]
    accepted = si.AcceptedApplication(application_id="yunikorn-team-autogen", queue_name="root.team")
    dialogue.hear(si.ApplicationResponse(accepted=[accepted]))
    assert dialogue.see(namespace("team", namespace__quota='{"cpu": "4"}')) == ["quotas of root.team"]
    assert "placeholder m-room" in dialogue.see(group("pg", 1))


def test_quotas_of_a_namespace_reach_its_queues() -> None:
    """QU-107."""
    dialogue = Dialogue(node("n1"), namespace("team"), pod("w"))
    dialogue.register()
    accepted = si.AcceptedApplication(application_id="yunikorn-team-autogen", queue_name="root.team")
    dialogue.hear(si.ApplicationResponse(accepted=[accepted]))
    assert dialogue.see(namespace("team", namespace__quota='{"cpu": "2"}')) == ["quotas of root.team"]
    assert dialogue.see(namespace("team", namespace__quota='{"cpu": "2"}')) == []
    assert dialogue.see(namespace("team", namespace__quota="{")) == ["quotas of root.team", "event about team WrongAnnotation"]


GANG = {
    "yunikorn.apache.org/task-groups": '[{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}}]',
    "yunikorn.apache.org/task-group-name": "g",
    "yunikorn.apache.org/app-id": "gang",
}


def test_a_gang_waits_for_its_placeholders() -> None:
    """Real pods are asked for when the daemon says that the application has started, the first one too."""
    first = pod("t1", annotations=GANG)
    dialogue = Dialogue(node("n1"), first)
    said = dialogue.register()
    made = [word.removeprefix("create ") for word in said if word.startswith("create")]
    assert len(made) == 2
    assert "ask t1" not in said
    holders = [pod(name, annotations={**GANG, "yunikorn.apache.org/placeholder": "true"}) for name in made]
    assert dialogue.see(*holders) == ["application gang", *(f"placeholder {name}" for name in sorted(made))]
    for holder in holders:
        dialogue.place(holder, "n1")
    assert dialogue.updated("gang", "Running") == ["ask t1"]
    assert dialogue.release(holders[0], "PLACEHOLDER_REPLACED") == [f"delete {made[0]}"]
    assert dialogue.lose(holders[0]) == [f"release {made[0]} PLACEHOLDER_REPLACED"]
    assert dialogue.place(first, "n1") == ["bind t1 to n1"]


def test_placeholders_that_a_gang_has_left_are_deleted() -> None:
    """The gang went while no process led. One that waits is not asked for, one that runs has its room until it is gone."""
    gang = gang_of(GANG)
    assert gang is not None
    annotations = {DEFINITION: gang.definition, PLACEHOLDER: "true", **GANG}
    waiting, running = pod("h1", annotations=annotations), pod("h2", annotations=annotations, node="n1")
    dialogue = Dialogue(node("n1"), waiting, running)
    opened = ["UPDATE n1", "DRAIN_TO_SCHEDULABLE n1"]
    told = ["CREATE_DRAIN n1", "application gang", "placeholder h2 on n1", *opened]
    assert dialogue.register() == [*told, "delete h2", "delete h1"]
    assert dialogue.see(changed(running, deleting=True)) == ["placeholder h2 on n1 ending"]
    assert dialogue.lose(running) == ["release h2 STOPPED_BY_RM"]
    assert dialogue.lose(waiting) == []


def test_placeholders_whose_gang_is_there_are_kept() -> None:
    """A process that takes over goes on with them."""
    holder = pod("h1", annotations={**GANG, "yunikorn.apache.org/placeholder": "true"})
    dialogue = Dialogue(node("n1"), holder, pod("t1", annotations=GANG))
    assert "delete h1" not in dialogue.register()


def test_a_rejected_application_fails_its_pods() -> None:
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    rejected = si.RejectedApplication(application_id="yunikorn-team-autogen", reason="no queue", code="NO_QUEUE")
    assert dialogue.hear(si.ApplicationResponse(rejected=[rejected])) == [
        "event about w ApplicationRejected",
        "fail w ApplicationRejected",
    ]
    assert dialogue.see(waiting) == []


def test_why_a_pod_waits_is_told_once() -> None:
    """The autoscaler acts on Unschedulable only."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    key = dialogue.state.book.keys[("team", "w")]
    entry = si.SchedulingStateEntry(allocation_key=key, application_id="a", state="FAILED", cause="NODES", reason="no room")
    said = ["condition of w Unschedulable", "event about w FailedScheduling"]
    assert dialogue.hear(si.SchedulingStateResponse(entries=[entry])) == said
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]}
    dialogue.see(pod("w", uid=waiting.metadata.uid, status=status))
    assert dialogue.hear(si.SchedulingStateResponse(entries=[entry])) == []
