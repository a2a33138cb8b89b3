"""Gangs of YuniKorn's annotations: the placeholder pods, when real pods are asked for, and how a gang begins anew."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from dialogue import Dialogue
from objects import changed, node, pod, uid

from ykactor.kubernetes import model
from ykactor.kubernetes.messages import CreateEnded, CreatePlaceholder, Event, Ref, Tell
from ykactor.kubernetes.pods import user_of
from ykactor.wire.si import messages as si

PREFIX = "yunikorn.apache.org/"
TAINT = {"key": "gpu", "operator": "Exists"}
WHERE = {
    "nodeSelector": {"zone": "a"},
    "tolerations": [TAINT],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
}


def group(name: str = "g", members: int = 2, **more: Any) -> dict[str, Any]:
    return {"name": name, "minMember": members, "minResource": {"cpu": "1"}, **more}


def annotations(*groups: dict[str, Any], member: str = "g", parameters: str = "", **more: str) -> dict[str, str]:
    given = {"task-groups": json.dumps(groups or [group()]), "task-group-name": member, "app-id": "gang", **more}
    return {f"{PREFIX}{name}": value for name, value in {**given, "schedulingPolicyParameters": parameters}.items()}


def bodies(dialogue: Dialogue) -> list[dict[str, Any]]:
    """The placeholders that were created."""
    return [dict(effect.body) for effect in dialogue.effects if isinstance(effect, CreatePlaceholder)]


def as_pod(body: dict[str, Any], **more: Any) -> model.Pod:
    """A placeholder as the server has it."""
    meta = {**body["metadata"], "uid": uid(), "creationTimestamp": "2030-01-01T00:01:00Z"}
    return msgspec.convert({"metadata": meta, "spec": {**body["spec"], **more}, "status": {"phase": "Pending"}}, model.Pod)


def told(dialogue: Dialogue) -> tuple[list[si.AddApplicationRequest], list[si.Allocation]]:
    """The applications and the asks that the daemon was told."""
    requests = [effect.request for effect in dialogue.effects if isinstance(effect, Tell)]
    applications = [entry for request in requests if isinstance(request, si.ApplicationRequest) for entry in request.new]
    return applications, [
        each for request in requests if isinstance(request, si.AllocationRequest) for each in request.allocations
    ]


def with_placeholders(first: model.Pod, *others: model.Pod) -> tuple[Dialogue, list[model.Pod]]:
    """The gang of a pod, whose placeholders the server has made."""
    dialogue = Dialogue(node("n1"), first, *others)
    dialogue.register()
    made = [as_pod(body) for body in bodies(dialogue)]
    dialogue.see(*made)
    return dialogue, made


def test_a_placeholder() -> None:
    """A placeholder has the group's fields, some of the first pod, and a security context that every policy admits."""
    settings = {
        "service.placeholderImage": "example/sleep",
        "service.placeholderRunAsUser": "7",
        "service.placeholderFsGroup": "9",
    }
    config = {"metadata": {"name": "yunikorn-configs", "namespace": "ykactor"}, "data": settings}
    given = annotations(
        group(labels={"a": "b"}, annotations={"c": "d"}, minResource={"cpu": "1", "memory": "1Gi", "x.io/gpu": "2"}, **WHERE),
        parameters="gangSchedulingStyle=Hard",
        **{"user.info": '{"user":"ann"}', "queue": "root.q", "allow-preemption": "false"},
    )
    first = pod("t1", annotations=given, priorityClassName="high", imagePullSecrets=[{"name": "secret"}])
    dialogue = Dialogue(node("n1"), msgspec.convert(config, model.ConfigMap), first)
    dialogue.register()
    one, two = bodies(dialogue)
    meta, spec = one["metadata"], one["spec"]
    part = first.metadata.uid[:8]
    assert [each["metadata"]["name"] for each in (one, two)] == [f"tg-gang-g-{part}-0", f"tg-gang-g-{part}-1"]
    assert (meta["namespace"], meta["labels"]) == ("team", {"a": "b"})
    kept = {"c": "d", "yunikorn.apache.org/placeholder": "true"}
    kept |= {
        f"{PREFIX}{name}": given[f"{PREFIX}{name}"]
        for name in ("user.info", "queue", "allow-preemption", "app-id", "task-group-name")
    }
    definition = meta["annotations"].pop("yunikorn.apache.org/task-groups-definition")
    assert meta["annotations"] == kept
    assert json.loads(definition) == {
        name: given[name] for name in (f"{PREFIX}task-groups", f"{PREFIX}schedulingPolicyParameters")
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "t1", first.metadata.uid)
    assert WHERE.items() <= spec.items()
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("ykactor", "high")
    assert spec["imagePullSecrets"] == [{"name": "secret"}]
    assert (spec["terminationGracePeriodSeconds"], spec["restartPolicy"]) == (0, "Never")
    assert spec["automountServiceAccountToken"] is False
    (container,) = spec["containers"]
    assert container["image"] == "example/sleep"
    assert container["resources"] == {"requests": {"cpu": "1", "memory": "1Gi", "x.io/gpu": "2"}, "limits": {"x.io/gpu": "2"}}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    identity = {"runAsNonRoot": True, "runAsUser": 7, "runAsGroup": 3000, "fsGroup": 9}
    assert spec["securityContext"] == {**identity, "seccompProfile": {"type": "RuntimeDefault"}}


def test_a_placeholder_says_nothing_that_nobody_has_said() -> None:
    dialogue = Dialogue(node("n1"), pod("t1", annotations=annotations()))
    dialogue.register()
    spec = bodies(dialogue)[0]["spec"]
    absent = {*WHERE, "priorityClassName", "imagePullSecrets"}
    assert not absent & spec.keys()


@pytest.mark.parametrize("own", [{}, {"user.info": '{"user":"ann"}'}], ids=["nobody", "ann"])
def test_a_placeholder_has_the_user_of_its_first_pod(own: dict[str, str]) -> None:
    """A group cannot name another one: the policies of the API server trust the adapter, which makes the placeholder."""
    forged = group(annotations={f"{PREFIX}user.info": '{"user":"bob"}'})
    first = pod("t1", annotations=annotations(forged, **own))
    dialogue = Dialogue(node("n1"), first)
    dialogue.register()
    for body in bodies(dialogue):
        assert f"{PREFIX}user.info" in body["metadata"]["annotations"]  # else the policies would write the name of the adapter
        assert user_of(as_pod(body)) == user_of(first)


def test_the_application_of_a_gang() -> None:
    """The application has the size of all placeholders together; placeholders and members are of its group."""
    parameters = "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard"
    first = pod("t1", annotations=annotations(group(), group("h", 3), parameters=parameters))
    dialogue, made = with_placeholders(first)
    (application,), asks = told(dialogue)
    assert (application.execution_timeout_milli_seconds, application.gang_scheduling_style) == (30_000, "Hard")
    assert dict(application.placeholder_ask or {}) == {"vcore": 5000, "pods": 5}
    assert [each.task_group_name for each in asks] == ["g"] * 2 + ["h"] * 3
    assert all(each.placeholder and not each.originator for each in asks)
    assert len(made) == 5
    dialogue.updated("gang", "Running")
    real = told(dialogue)[1][-1]
    assert (real.task_group_name, real.placeholder, real.originator) == ("g", False, True)


@pytest.mark.parametrize(
    ("state", "is_asked"),
    [("New", False), ("Accepted", False), ("Starting", True), ("Running", True), ("Resuming", True)],
)
def test_real_pods_are_held_back_until_the_gang_has_started(state: str, is_asked: bool) -> None:
    """The first one and the others, also one that comes later and one that is of no group."""
    members = [pod("t1", created=1, annotations=annotations()), pod("t2", created=2, annotations=annotations())]
    members.append(pod("t3", created=3, annotations={f"{PREFIX}app-id": "gang"}))
    dialogue, _ = with_placeholders(*members[:2])
    assert [word for word in dialogue.see(members[2]) if word.startswith("ask")] == []
    said = dialogue.updated("gang", state)
    assert [word for word in said if word.startswith("ask")] == (["ask t1", "ask t2", "ask t3"] if is_asked else [])


@pytest.mark.parametrize(
    ("given", "more", "word"),
    [
        ({f"{PREFIX}task-groups": "{", f"{PREFIX}task-group-name": "g", f"{PREFIX}app-id": "gang"}, {}, "task-groups"),
        (annotations(group(members=0)), {}, "minMember"),
        (annotations(group(minResource={"gpus": "1"})), {}, "gpus"),
        (annotations(parameters="gangSchedulingStyle=Strict"), {}, "Soft or Hard"),
        (annotations({"name": "g"}), {}, "task-groups"),
    ],
)
def test_a_pod_with_a_wrong_group_runs_without_a_gang(given: dict[str, str], more: dict[str, Any], word: str) -> None:
    dialogue = Dialogue(node("n1"), pod("t1", annotations=given, **more))
    assert dialogue.register()[1:3] == ["application gang", "ask t1"]
    (event,) = [effect for effect in dialogue.effects if isinstance(effect, Event)]
    assert word in event.note
    assert event.note.endswith("the pod runs without a gang")
    assert told(dialogue)[0][0].placeholder_ask is None


@pytest.mark.parametrize(("cpu", "member", "name"), [("1", "g", "g"), ("1001m", "g", ""), ("1", "h", ""), ("1", "", "")])
def test_a_member_that_does_not_fit_its_group_runs_beside_it(cpu: str, member: str, name: str) -> None:
    """One that is larger than its placeholder would not have room in its place."""
    first, other = (
        pod("t1", created=1, annotations=annotations()),
        pod("t2", created=2, cpu=cpu, annotations=annotations(member=member)),
    )
    dialogue, _ = with_placeholders(first, other)
    dialogue.updated("gang", "Running")
    assert [(each.task_group_name, each.placeholder) for each in told(dialogue)[1]][-1] == (name, False)
    assert len([effect for effect in dialogue.effects if isinstance(effect, Event) and effect.ref.name == "t2"]) == (
        1 if member and not name else 0
    )


def test_placeholders_have_names_of_their_own() -> None:
    """Also those of groups whose names begin alike."""
    long = "a-very-long-name-of-a-group"
    first = pod("t1", annotations=annotations(group(f"{long}-1"), group(f"{long}-2"), group("g")))
    dialogue = Dialogue(node("n1"), first)
    dialogue.register()
    names = [body["metadata"]["name"] for body in bodies(dialogue)]
    assert len(set(names)) == 6
    assert all(len(name) <= 63 for name in names)


def test_the_oldest_pod_says_what_the_gang_is() -> None:
    """The oldest pod counts in whatever order the server lists them."""
    dialogue = Dialogue(
        node("n1"), pod("a", created=9, annotations={f"{PREFIX}app-id": "gang"}), pod("b", created=1, annotations=annotations())
    )
    dialogue.register()
    assert len(bodies(dialogue)) == 2


# ---- again


def test_a_process_that_takes_over_makes_only_what_is_missing() -> None:
    """The one before was interrupted: what it has made is there, in any order."""
    first = pod("t1", annotations=annotations(group(members=4)))
    before = Dialogue(node("n1"), first)
    before.register()
    there = [as_pod(body) for body in bodies(before)[1::2]]
    dialogue = Dialogue(node("n1"), first, *there)
    dialogue.register()
    assert bodies(dialogue) == bodies(before)[0::2]


def test_a_gang_that_has_started_gets_no_more_placeholders_from_a_process_that_takes_over() -> None:
    """Some of its pods run in the places of placeholders, and others still wait."""
    first, second = (pod(f"t{number}", created=number, annotations=annotations()) for number in (1, 2))
    _, made = with_placeholders(first, second)
    again = Dialogue(node("n1"), changed(first, node="n1"), second, changed(made[1], node="n1"))
    said = again.register()
    assert bodies(again) == []
    assert f"placeholder {made[1].metadata.name} on n1" in said
    assert again.updated("gang", "Running") == ["ask t2"]


def test_a_placeholder_that_has_timed_out_is_not_made_again() -> None:
    first = pod("t1", annotations=annotations())
    dialogue, made = with_placeholders(first)
    for each in made:
        dialogue.place(each, "n1")
        assert dialogue.release(each, "TIMEOUT") == [
            f"delete {each.metadata.name}",
            f"event about {each.metadata.name} GangScheduling",
        ]
        assert dialogue.lose(each) == [f"release {each.metadata.name} TIMEOUT"]
    assert dialogue.updated("gang", "Resuming") == ["ask t1"]
    assert len(bodies(dialogue)) == 2


def test_the_next_pod_has_the_placeholders_when_the_first_goes_before_the_start() -> None:
    """The placeholders of the first one go with it. They were told; or the first has gone before they were made."""
    first, second = (pod(f"t{number}", created=number, annotations=annotations()) for number in (1, 2))
    for is_early in (True, False):
        if is_early:
            dialogue, made = Dialogue(node("n1"), first, second), []
        else:
            dialogue, made = with_placeholders(first, second)
        dialogue.lose(first)
        dialogue.register() if is_early else None
        for each in made:
            dialogue.lose(each)
        owners = [body["metadata"]["ownerReferences"][0]["name"] for body in bodies(dialogue)]
        assert owners == ["t2"] * 2 if is_early else ["t1"] * 2 + ["t2"] * 2


def test_pods_that_come_after_a_hard_gang_has_failed_begin_it_anew() -> None:
    """The new pods are such as a Job makes."""
    hard = annotations(parameters="gangSchedulingStyle=Hard")
    first = pod("t1", created=1, annotations=hard)
    dialogue, made = with_placeholders(first)
    assert "fail t1 ApplicationFailed" in dialogue.updated("gang", "Failed")
    for each in made:
        dialogue.lose(each)
    said = dialogue.see(pod("t2", created=2, annotations=hard))
    assert [word.partition(" ")[0] for word in said] == ["create", "create"]


def test_an_application_that_is_named_again_after_its_end_is_defined_anew() -> None:
    """The new first pod defines it; the pods of before are still there, and have ended."""
    first = pod("t1", created=1, annotations=annotations())
    dialogue, made = with_placeholders(first)
    dialogue.updated("gang", "Running")
    dialogue.place(first, "n1")
    for each in made:
        dialogue.lose(each)
    dialogue.see(changed(first, node="n1", phase="Succeeded"))
    dialogue.updated("gang", "Completed")
    dialogue.effects.clear()
    assert [word.partition(" ")[0] for word in dialogue.see(pod("t2", created=2, annotations=annotations()))] == [
        "create",
        "create",
    ]
    assert bodies(dialogue)[0]["metadata"]["ownerReferences"][0]["name"] == "t2"


def test_a_placeholder_that_cannot_be_created_is_told_of() -> None:
    """The event is on the first pod, which waits."""
    dialogue = Dialogue(node("n1"), pod("t1", annotations=annotations()))
    dialogue.register()
    name = bodies(dialogue)[0]["metadata"]["name"]
    said = dialogue.play(CreateEnded("gang", Ref("team", name), "422 Invalid: spec.nodeSelector"))
    assert "event about t1 GangScheduling" in said
    assert "condition of t1 SchedulingSkipped" in said


# ---- placeholders that the server refuses for ever


def refused(dialogue: Dialogue) -> list[str]:
    """The server says that the second placeholder is invalid."""
    ref = [effect.ref for effect in dialogue.effects if isinstance(effect, CreatePlaceholder)][-1]
    return dialogue.play(CreateEnded("gang", ref, "422 Invalid: no", is_final=True))


@pytest.mark.parametrize("is_made", [False, True], ids=["all", "one of two"])
def test_a_gang_whose_placeholder_is_invalid_runs_without_a_gang(is_made: bool) -> None:
    """The gang would wait for ever otherwise. A placeholder that was made is deleted, also one that comes late."""
    first, second = pod("t1", annotations=annotations()), pod("t2", annotations=annotations())
    dialogue = Dialogue(node("n1"), first, second)
    dialogue.register()
    late, made = (as_pod(body) for body in bodies(dialogue))
    if is_made:
        assert dialogue.see(made) == ["application gang", f"placeholder {made.metadata.name}"]
    again = refused(dialogue)
    assert "event about t1 GangScheduling" in again
    if is_made:
        assert {"remove gang", f"delete {made.metadata.name}"} <= set(again)
        again = dialogue.confirm()
    assert [word for word in again if word.startswith(("application", "ask"))] == ["application gang", "ask t1", "ask t2"]
    applications, _ = told(dialogue)
    assert applications[-1].placeholder_ask is None
    assert dialogue.see(late) == [f"delete {late.metadata.name}"]
    assert not any(dialogue.state.wants(each) for each in dialogue.effects if isinstance(each, CreatePlaceholder))


def test_placeholders_that_are_refused_together_are_told_of_once() -> None:
    """The gang is dissolved for the first of them; requests for the others were open."""
    dialogue = Dialogue(node("n1"), pod("t1", annotations=annotations()), pod("t2", annotations=annotations()))
    dialogue.register()
    assert "event about t1 GangScheduling" in refused(dialogue)
    assert refused(dialogue) == []


def test_a_hard_gang_whose_placeholder_is_invalid_fails() -> None:
    """The pods of a hard gang fail, because they may not run one by one."""
    given = annotations(parameters="gangSchedulingStyle=Hard")
    dialogue = Dialogue(node("n1"), pod("t1", annotations=given), pod("t2", annotations=given))
    dialogue.register()
    assert [word for word in refused(dialogue) if word.startswith(("fail", "ask"))] == [
        "fail t1 ApplicationFailed",
        "fail t2 ApplicationFailed",
    ]


def test_a_gang_whose_placeholder_is_refused_for_a_while_waits() -> None:
    """The quota or policy that refuses it may let it in later."""
    dialogue = Dialogue(node("n1"), pod("t1", annotations=annotations()))
    dialogue.register()
    ref = next(effect.ref for effect in dialogue.effects if isinstance(effect, CreatePlaceholder))
    said = dialogue.play(CreateEnded("gang", ref, "403 Forbidden: exceeded quota"))
    assert not [word for word in said if word.startswith(("ask", "delete", "fail"))]
