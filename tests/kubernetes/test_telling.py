"""Condition and Events that people can read on a pod that waits: each is written when it says something new."""

from typing import Any

import msgspec
from dialogue import Dialogue
from objects import changed, group, namespace, node, pod

from ykactor.client import Refusal
from ykactor.kubernetes import model
from ykactor.kubernetes.hearing import complaint_about
from ykactor.kubernetes.messages import BindOutcome, Event, Kind, Listed, Ref, SetCondition, Unreadable
from ykactor.kubernetes.pods import key_of
from ykactor.wire.si import messages as si

CLAIM = {"resourceClaims": [{"name": "gpu"}]}


def waits(dialogue: Dialogue, found: model.Pod, reason: str, state: str = "SKIPPED") -> list[str]:
    """The daemon says why an ask waits."""
    entry = si.SchedulingStateEntry(allocation_key=key_of(found), application_id="a", state=state, cause="queue", reason=reason)
    return dialogue.hear(si.SchedulingStateResponse(entries=[entry]))


def shows(found: model.Pod, reason: str, message: str, **more: Any) -> model.Pod:
    """The pod with this condition."""
    conditions = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
    status = {**msgspec.to_builtins(found.status), "conditions": conditions}
    meta = {**msgspec.to_builtins(found.metadata), **more}
    return msgspec.convert({"metadata": meta, "spec": msgspec.to_builtins(found.spec), "status": status}, model.Pod)


def condition(dialogue: Dialogue) -> tuple[str, str]:
    """The condition that was wanted last."""
    last = next(each for each in reversed(dialogue.effects) if isinstance(each, SetCondition))
    return last.reason, last.message


# ---- what is wrong with objects


def test_what_is_wrong_is_told_by_the_process_that_leads() -> None:
    """A replica that waits tells nothing; when it takes over, what came while nobody led is told, and once."""
    settings = msgspec.convert(
        {"metadata": {"name": "yunikorn-configs", "namespace": "ykactor"}, "data": {"log.level": "DEBUG"}}, model.ConfigMap
    )
    broken = msgspec.convert({"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "lots"}}}, model.Node)
    wrong = namespace("team", namespace__maxApps="many")
    dialogue = Dialogue(node("n1"), broken, wrong, settings, pod("w", **CLAIM))
    dialogue.play(Unreadable(Kind.PODS, Ref("team", "x"), "x", "why"))
    assert dialogue.said == []
    told = {
        "event about w FailedScheduling",
        "event about n2 WrongQuantity",
        "event about team WrongAnnotation",
        "event about yunikorn-configs WrongSetting",
        "event about x Unreadable",
    }
    assert {word for word in dialogue.register() if word.startswith("event")} == told
    assert dialogue.see(broken, wrong, settings) == []
    assert {word for word in dialogue.register() if word.startswith("event")} == told


def test_what_was_wrong_with_an_object_that_is_gone_or_right_now_is_told_no_more() -> None:
    waiting, bad = pod("w", **CLAIM), namespace("team", namespace__maxApps="many")
    dialogue = Dialogue(node("n1"), bad, waiting)
    dialogue.play(Unreadable(Kind.PODS, Ref("team", "x"), "x", "why"), Unreadable(Kind.NODES, Ref("", "n2"), "x", "why"))
    dialogue.lose(waiting)
    dialogue.see(namespace("team"), node("n2"))
    dialogue.play(Listed(Kind.PODS, []))
    assert not [word for word in dialogue.register() if word.startswith("event")]


def test_each_complaint_is_an_event() -> None:
    """Two of one reason are two."""
    annotations = {"yunikorn.apache.org/app-id": "a", "yunikorn.apache.org/user.info": "no JSON"}
    dialogue = Dialogue(node("n1"))
    dialogue.register()
    dialogue.see(pod("w", annotations=annotations, labels={"yunikorn.apache.org/app-id": "b"}))
    assert len([each for each in dialogue.effects if isinstance(each, Event) and each.reason == "WrongAnnotation"]) == 2


# ---- the condition


def test_only_what_another_node_would_help_is_unschedulable() -> None:
    """The autoscaler acts on Unschedulable only."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    waits(dialogue, waiting, "no room", "FAILED")
    assert condition(dialogue) == ("Unschedulable", "no room")
    waits(dialogue, waiting, "queue root.a is full")
    assert condition(dialogue) == ("SchedulingSkipped", "queue root.a is full")


def test_a_condition_that_the_pod_has_is_not_written() -> None:
    """Also a long one, of which the pod has the beginning."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    waits(dialogue, waiting, "x" * 1024)
    reason, message = condition(dialogue)
    dialogue.see(shows(waiting, reason, message))
    assert waits(dialogue, waiting, "x" * 1024) == []


def test_a_condition_that_was_wanted_since_is_replaced() -> None:
    """The pod shows the older one while the newer one is on its way, and then the older one holds again."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    dialogue.see(shows(waiting, "SchedulingSkipped", "a"))
    waits(dialogue, waiting, "a")
    waits(dialogue, waiting, "b")
    waits(dialogue, waiting, "a")
    assert condition(dialogue) == ("SchedulingSkipped", "a")


def test_a_condition_is_written_over_the_version_that_was_seen() -> None:
    """Else it could overwrite that of a pod that was bound meanwhile. If the pod changes in another way, it is written again."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    waits(dialogue, waiting, "a")
    assert dialogue.see(shows(waiting, "SchedulingGated", "gates", resourceVersion="77")) == ["condition of w SchedulingSkipped"]
    assert dialogue.effects[-1] == SetCondition(Ref("team", "w"), waiting.metadata.uid, "77", "SchedulingSkipped", "a")
    assert dialogue.see(shows(waiting, "SchedulingSkipped", "a")) == []
    dialogue.place(waiting, "n1")
    assert dialogue.see(shows(waiting, "SchedulingGated", "gates")) == []


def test_a_reason_names_pods_as_users_do() -> None:
    """The daemon names them by their keys."""
    waiting, other = pod("w"), pod("o", node="n1")
    dialogue = Dialogue(node("n1"), waiting, other)
    dialogue.register()
    waits(dialogue, waiting, f"0 of 1 victims have been released, waiting for {key_of(other)} of app; {key_of(other)}")
    assert condition(dialogue)[1] == "0 of 1 victims have been released, waiting for team/o of app; team/o"


def test_a_preempted_pod_says_for_whom_and_why() -> None:
    """The pod that takes its room, with its application and queue."""
    running, winner = pod("r", node="n1"), pod("w", annotations={"yunikorn.apache.org/app-id": "urgent"})
    dialogue = Dialogue(node("n1"), running, winner)
    dialogue.register()
    dialogue.place(running, "n1")
    accepted = si.AcceptedApplication(application_id="urgent", queue_name="root.urgent")
    dialogue.hear(si.ApplicationResponse(accepted=[accepted]))
    message = f"preempting allocations to free up resources to run ask: {key_of(winner)}"
    entry = si.AllocationRelease(
        allocation_key=key_of(running), application_id="a", termination_type="PREEMPTED_BY_SCHEDULER", message=message
    )
    dialogue.hear(si.AllocationResponse(released=[entry]))
    (event,) = [each for each in dialogue.effects if isinstance(each, Event)]
    assert (event.ref.name, event.reason) == ("r", "Preempted")
    assert event.note == (
        "preempting allocations to free up resources to run ask: team/w (application urgent in queue root.urgent)"
    )


# ---- pods that are not asked for


def test_a_pod_that_cannot_be_asked_for_says_why() -> None:
    dialogue = Dialogue(node("n1"), pod("w", **CLAIM))
    assert "condition of w SchedulingSkipped" in dialogue.register()
    assert condition(dialogue)[1] == "not supported: resource claims"


def test_a_pod_that_is_held_back_for_its_gang_says_so() -> None:
    annotations = {
        "yunikorn.apache.org/task-groups": '[{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}}]',
        "yunikorn.apache.org/task-group-name": "g",
        "yunikorn.apache.org/app-id": "gang",
    }
    first = pod("t1", annotations=annotations)
    dialogue = Dialogue(node("n1"), first)
    holder = pod("tg", annotations={**annotations, "yunikorn.apache.org/placeholder": "true"})
    assert "condition of t1 SchedulingSkipped" not in dialogue.register()
    dialogue.see(holder)
    assert {"condition of t1 SchedulingSkipped", "event about t1 GangScheduling"} <= set(waits(dialogue, holder, "no room"))
    assert condition(dialogue)[1] == "waits until all members of its gang gang have room"
    assert dialogue.see(shows(first, *condition(dialogue))) == []
    assert dialogue.updated("gang", "Running")[-1] == "ask t1"


def test_a_pod_whose_pod_group_is_missing_or_waits_says_so() -> None:
    member = pod("m", schedulingGroup={"podGroupName": "pg"})
    dialogue = Dialogue(node("n1"), member)
    assert {"condition of m SchedulingSkipped", "event about m GangScheduling"} <= set(dialogue.register())
    assert condition(dialogue)[1] == "its PodGroup pg does not exist"
    assert "condition of m SchedulingSkipped" in dialogue.see(group("pg", 2))
    assert condition(dialogue)[1] == "1 of 2 pods are there"
    dialogue.see(group("pg", 1))
    room = si.SchedulingStateEntry(
        allocation_key=f"{key_of(member)}-room", application_id="team.pg", state="FAILED", cause="nodes", reason="no room"
    )
    dialogue.hear(si.SchedulingStateResponse(entries=[room]))
    assert condition(dialogue)[1] == "waits until all members of its PodGroup pg have room"


def test_a_rejected_pod_says_why() -> None:
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    rejected = si.RejectedAllocation(allocation_key=key_of(waiting), application_id="a", reason="too large", code="OTHER")
    assert dialogue.hear(si.AllocationResponse(rejected_allocations=[rejected])) == [
        "condition of w SchedulingSkipped",
        "event about w FailedScheduling",
    ]


def test_a_pod_that_was_bound_by_an_attempt_without_an_answer_is_told_of() -> None:
    """The Event is the same as for an attempt whose answer came."""
    waiting = pod("w")
    dialogue = Dialogue(node("n1"), waiting)
    dialogue.register()
    dialogue.place(waiting, "n1")
    assert dialogue.bound(waiting, BindOutcome.TAKEN, "n1") == ["event about w Scheduled"]
    assert dialogue.see(changed(waiting, node="n1")) == []


# ---- what the daemon refuses


def test_a_request_that_the_daemon_refuses_as_a_whole_is_named() -> None:
    """The complaint names the request. Others tell of configurations and quotas: on the ConfigMap, and in the queue file."""
    answer = si.ErrorResponse(id="", code="OUT_OF_RANGE", message="allocations[0]: found 7")
    refused = Refusal(si.AllocationRequest(), answer)
    assert complaint_about(refused) == "the daemon has refused an AllocationRequest: OUT_OF_RANGE: allocations[0]: found 7"
    for request in (si.UpdateConfigurationRequest(config="x"), si.SetQueueQuotas(queue_name="root.a", tags={})):
        assert complaint_about(Refusal(request, answer)) == ""
    assert complaint_about(si.Ack(id="")) == ""


# ---- what is not supported


def test_what_is_not_supported_is_told() -> None:
    """The pod or PodGroup that wishes for something unsupported is told so once, and the pods run without it."""
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    wishing = [
        pod("terms", affinity={"podAntiAffinity": preferred}),
        pod("spread", topologySpreadConstraints=[spread]),
        pod("volcano", annotations={"scheduling.k8s.io/group-name": "g"}),
    ]
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": "zone"}]}}
    wide = msgspec.convert({"metadata": {"name": "pg", "namespace": "team"}, "spec": spec}, model.PodGroup)
    dialogue = Dialogue(node("n1"))
    dialogue.register()
    said = dialogue.see(*wishing, wide)
    assert {f"event about {name} NotSupported" for name in ("terms", "spread", "volcano", "pg")} <= set(said)
    assert {"ask terms", "ask spread", "ask volcano"} <= set(said)
    assert dialogue.see(*wishing, wide) == []
    dialogue.lose(wide)
    assert "event about pg NotSupported" not in dialogue.register()
