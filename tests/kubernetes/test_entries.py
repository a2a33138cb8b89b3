"""Entries for nodes, pods and applications that the adapter sends the daemon: each as a whole, and when it is sent again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from dialogue import Dialogue
from msgspec import structs
from objects import changed, namespace, node, pod

from ykactor.kubernetes import model
from ykactor.kubernetes.messages import Tell
from ykactor.wire.si import messages as si

APP, QUEUE = "yunikorn.apache.org/app-id", "yunikorn.apache.org/queue"
ALLOW = "yunikorn.apache.org/allow-preemption"


def priority_class(name: str, **annotations: str) -> model.PriorityClass:
    return msgspec.convert({"metadata": {"name": name, "annotations": annotations}}, model.PriorityClass)


def budget(allowed: int | None, selector: Mapping[str, Any] | None, where: str = "team") -> model.PodDisruptionBudget:
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    body = {"metadata": {"name": "b", "namespace": where}, "spec": {"selector": selector}, "status": status}
    return msgspec.convert(body, model.PodDisruptionBudget)


def told(dialogue: Dialogue, name: str) -> si.Allocation:
    """The newest entry about a pod."""
    requests = [effect.request for effect in dialogue.effects if isinstance(effect, Tell)]
    entries = [entry for request in requests if isinstance(request, si.AllocationRequest) for entry in request.allocations]
    return next(entry for entry in reversed(entries) if f".{name}-" in entry.allocation_key)


def application(dialogue: Dialogue) -> si.AddApplicationRequest:
    """The newest entry about an application."""
    requests = [effect.request for effect in dialogue.effects if isinstance(effect, Tell)]
    return [entry for request in requests if isinstance(request, si.ApplicationRequest) for entry in request.new][-1]


def registered(*objects: model.Object) -> Dialogue:
    dialogue = Dialogue(node("n1"), *objects)
    dialogue.register()
    return dialogue


# ---- pods of ours


def test_an_ask() -> None:
    """The key and the tags of an ask name the pod."""
    waiting = pod("w", uid="12345678-0000-4000-8000-000000000000", created=7, priority=5)
    entry = told(registered(waiting), "w")
    assert (entry.allocation_key, entry.application_id, entry.node_id) == ("team.w-12345678", "yunikorn-team-autogen", "")
    assert (dict(entry.resource_per_alloc or {}), entry.priority) == ({"vcore": 1000, "pods": 1}, 5)
    tags = {"kubernetes.io/meta/podName": "w", "kubernetes.io/meta/namespace": "team", "creationTime": "1893456007"}
    assert tags.items() <= entry.allocation_tags.items()
    assert "yunikorn.apache.org/requiredNode" not in entry.allocation_tags


def test_a_pod_of_a_daemon_set_has_its_node() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    on_one = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert told(registered(pod("w", affinity=on_one)), "w").allocation_tags["yunikorn.apache.org/requiredNode"] == "n1"


@pytest.mark.parametrize(
    ("more", "others", "allows"),
    [
        ({}, [], True),
        ({"annotations": {ALLOW: "false"}}, [], False),
        ({"annotations": {ALLOW: "False"}}, [], False),
        ({"annotations": {ALLOW: "perhaps"}}, [], True),
        ({"priorityClassName": "low"}, [priority_class("low", **{ALLOW: "false"})], False),
        ({"priorityClassName": "low"}, [priority_class("low", **{ALLOW: "true"})], True),
        ({"priorityClassName": "low"}, [priority_class("other", **{ALLOW: "false"})], True),
        ({"priorityClassName": "low", "annotations": {ALLOW: "true"}}, [priority_class("low", **{ALLOW: "false"})], True),
        ({"priorityClassName": "low", "annotations": {ALLOW: "x"}}, [priority_class("low", **{ALLOW: "false"})], False),
        ({"labels": {"a": "b"}}, [budget(0, {"matchLabels": {"a": "b"}})], False),
        ({"labels": {"a": "b"}, "annotations": {ALLOW: "true"}}, [budget(0, {"matchLabels": {"a": "b"}})], False),
        ({"labels": {"a": "b"}}, [budget(1, {"matchLabels": {"a": "b"}})], True),
        ({"labels": {"a": "b"}}, [budget(None, {"matchLabels": {"a": "b"}})], False),
        ({"labels": {"a": "c"}}, [budget(0, {"matchLabels": {"a": "b"}})], True),
        ({"labels": {"a": "b"}}, [budget(0, {"matchLabels": {"a": "b"}}, "elsewhere")], True),
        ({"labels": {"a": "b"}}, [budget(0, {"matchExpressions": [{"key": "a", "operator": "Exists"}]})], False),
        ({}, [budget(0, {})], False),
        ({}, [budget(0, None)], True),
    ],
)
def test_who_may_be_preempted(more: dict[str, Any], others: list[model.Object], allows: bool) -> None:
    """The pod before its priority class; nobody of a budget that allows no disruption."""
    policy = told(registered(pod("w", **more), *others), "w").preemption_policy
    assert policy is not None
    assert (policy.allow_preempt_self, policy.allow_preempt_other) == (allows, True)


@pytest.mark.parametrize(("given", "may"), [("", True), ("PreemptLowerPriority", True), ("Never", False)])
def test_who_may_preempt(given: str, may: bool) -> None:
    policy = told(registered(pod("w", preemptionPolicy=given)), "w").preemption_policy
    assert policy is not None
    assert policy.allow_preempt_other is may


def test_a_known_pod_is_told_again_when_it_changes() -> None:
    """Changes of size, of whether it may be preempted, and its deletion are told; nothing else is."""
    running = pod("r", node="n1", labels={"a": "b"}, priorityClassName="low")
    dialogue = registered(running)
    sizes = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
    assert dialogue.see(changed(running, containers=sizes)) == ["ask r on n1"]
    assert dict(told(dialogue, "r").resource_per_alloc or {}) == {"vcore": 2000, "pods": 1}
    running = changed(running, containers=sizes)
    assert dialogue.see(changed(running, labels={"a": "b", "c": "d"}, priority=9)) == []
    for event, allows in (
        (budget(0, {"matchLabels": {"a": "b"}}), False),
        (budget(2, {"matchLabels": {"a": "b"}}), True),
        (budget(0, {"matchLabels": {"a": "b"}}), False),
    ):
        assert dialogue.see(event) == ["ask r on n1"]
        policy = told(dialogue, "r").preemption_policy
        assert policy is not None
        assert policy.allow_preempt_self is allows
    assert dialogue.lose(budget(0, None)) == ["ask r on n1"]
    low = priority_class("low", **{ALLOW: "false"})
    assert (dialogue.see(low), dialogue.see(low), dialogue.lose(low)) == (["ask r on n1"], [], ["ask r on n1"])
    assert dialogue.see(changed(running, deleting=True)) == ["ask r on n1 ending"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"phase": "Succeeded"}, []),
        ({"phase": "Failed"}, []),
        ({"phase": "Failed", "node": "n1"}, []),
        ({"schedulingGates": [{"name": "g"}]}, []),
        ({"deleting": True}, []),
        ({"deleting": True, "node": "n1"}, ["application yunikorn-team-autogen", "ask w on n1 ending"]),
        ({"node": "n1", "phase": "Unknown"}, ["application yunikorn-team-autogen", "ask w on n1"]),
        ({"node": "elsewhere"}, []),
    ],
)
def test_which_pods_of_ours_are_told(more: dict[str, Any], said: list[str]) -> None:
    """Finalizers may keep a pod that is being deleted for ever: without a node it needs none."""
    assert registered().see(pod("w", **more)) == said


def test_all_that_arrives_at_once_is_one_message() -> None:
    """Entries of each kind that arrive at once are one message; 3,000 asks one by one would take the daemon ten times as long."""
    dialogue = registered()
    dialogue.effects.clear()
    dialogue.see(
        *(node(f"m{number}") for number in range(20)), *(pod(f"w{number}", created=number % 60) for number in range(3001))
    )
    kinds = Counter(type(effect.request).__name__ for effect in dialogue.effects if isinstance(effect, Tell))
    assert (kinds["ApplicationRequest"], kinds["AllocationRequest"]) == (1, 1)
    assert max(kinds.values()) <= 3


# ---- pods of others


OTHER = {"schedulerName": "default-scheduler"}


@pytest.mark.parametrize(
    ("owners", "kind"),
    [([], "default"), ([{"kind": "Node", "name": "n1"}], "static"), ([{"kind": "ReplicaSet"}], "default")],
)
def test_pods_of_others(owners: list[dict[str, str]], kind: str) -> None:
    """They take room; those of a node itself never end by preemption."""
    found = pod("o", node="n1", priority=3, **OTHER)
    meta = structs.replace(found.metadata, owner_references=msgspec.convert(owners, list[model.OwnerReference]))
    entry = told(registered(structs.replace(found, metadata=meta)), "o")
    assert (entry.application_id, entry.node_id, entry.allocation_tags["foreign"]) == ("", "n1", kind)
    assert (dict(entry.resource_per_alloc or {}), entry.priority) == ({"vcore": 1000, "pods": 1}, 3)
    assert entry.allocation_tags["kubernetes.io/meta/podName"] == "o"


def test_a_pod_of_others_is_kept_back_until_its_node_is_known() -> None:
    found = pod("o", node="n2", **OTHER)
    dialogue = registered(found)
    assert dialogue.see(found) == []
    assert dialogue.see(node("n2")) == ["CREATE_DRAIN n2", "foreign o on n2", "UPDATE n2", "DRAIN_TO_SCHEDULABLE n2"]


@pytest.mark.parametrize("how", ["deleted", "Succeeded", "Failed"])
def test_a_pod_of_others_is_released_when_it_ends(how: str) -> None:
    found = pod("o", node="n1", **OTHER)
    dialogue = registered(found)
    said = dialogue.lose(found) if how == "deleted" else dialogue.see(changed(found, phase=how))
    assert said == ["release o STOPPED_BY_RM"]


def test_a_pod_of_others_is_told_when_it_gets_a_node() -> None:
    """One that waits is the matter of its own scheduler."""
    found = pod("o", **OTHER)
    dialogue = registered(found)
    assert dialogue.see(changed(found, node="n1")) == ["foreign o on n1"]


# ---- applications


def test_an_application_has_what_its_first_pod_and_its_namespace_say() -> None:
    annotations = {"yunikorn.apache.org/user.info": '{"user": "ann", "groups": ["dev"]}', QUEUE: "root.q"}
    team = namespace("team", namespace__quota='{"cpu": "4"}', namespace__maxApps="3", parentqueue="root.up")
    first = pod("w1", created=1, annotations=annotations, labels={APP: "a"})
    entry = application(registered(team, pod("w2", created=2, labels={APP: "a", QUEUE: "root.other"}), first))
    assert entry.application_id == "a"
    assert entry.queue_name == "root.q"
    assert (entry.ugi.user, list(entry.ugi.groups)) == ("ann", ["dev"])
    quota = '{"resources":{"vcore":{"value":4000}}}'
    assert dict(entry.tags) == {
        "namespace": "team",
        "namespace.resourcequota": quota,
        "namespace.resourcemaxapps": "3",
        "namespace.parentqueue": "root.up",
    }


def test_an_application_is_forced_if_one_of_its_pods_runs_already() -> None:
    """Also one whose bind is on its way; but not for one that has ended: limits hold for what comes later."""
    running, waiting = pod("r", node="n1", created=2), pod("w", created=1)
    forced = "application.create.force"
    dialogue = registered(running, waiting)
    assert application(dialogue).tags[forced] == "true"
    dialogue = registered(waiting)
    assert forced not in application(dialogue).tags
    dialogue.place(waiting, "n1")
    dialogue.register()
    assert application(dialogue).tags[forced] == "true"
    dialogue = registered(running)
    dialogue.see(changed(running, phase="Succeeded"))
    dialogue.updated("yunikorn-team-autogen", "Completed")
    assert dialogue.see(waiting) == ["application yunikorn-team-autogen", "ask w"]
    assert forced not in application(dialogue).tags


def accepted(queue: str) -> si.ApplicationResponse:
    return si.ApplicationResponse(accepted=[si.AcceptedApplication(application_id="yunikorn-team-autogen", queue_name=queue)])


def test_quotas_that_change_before_an_application_is_accepted_reach_its_queue() -> None:
    """The queue gets the new quotas: the application was told with the older ones (QU-107)."""
    dialogue = registered(namespace("team", namespace__maxApps="3"), pod("w"))
    assert dialogue.see(namespace("team", namespace__quota='{"cpu": "2"}')) == []
    assert dialogue.hear(accepted("root.team")) == ["quotas of root.team"]
    assert dialogue.hear(accepted("root.team")) == []


def test_quotas_reach_each_queue_of_the_namespace_once() -> None:
    dialogue = registered(namespace("team"), *(pod(f"w{number}", labels={APP: f"a{number}"}) for number in range(3)))
    queues = {"a0": "root.x", "a1": "root.y", "a2": "root.x"}
    dialogue.hear(
        si.ApplicationResponse(accepted=[si.AcceptedApplication(application_id=app, queue_name=at) for app, at in queues.items()])
    )
    assert dialogue.see(namespace("team", namespace__maxApps="3")) == ["quotas of root.x", "quotas of root.y"]
    quotas = [each.request for each in dialogue.effects if isinstance(each, Tell) and isinstance(each.request, si.SetQueueQuotas)]
    assert dict(quotas[-1].tags) == {
        "namespace.resourcequota": "",
        "namespace.resourceguaranteed": "",
        "namespace.resourcemaxapps": "3",
    }


def test_a_pod_that_comes_after_a_rejection_defines_the_application_anew() -> None:
    """A pod after a rejection submits the application again, while the pods from before are still there, and have failed."""
    first = pod("w1", created=1, labels={APP: "a", QUEUE: "root.wrong"})
    dialogue = registered(first)
    rejected = si.RejectedApplication(application_id="a", reason="no queue", code="NO_QUEUE")
    assert "fail w1 ApplicationRejected" in dialogue.hear(si.ApplicationResponse(rejected=[rejected]))
    dialogue.see(pod("w2", created=2, labels={APP: "a", QUEUE: "root.right"}))
    assert application(dialogue).queue_name == "root.right"
    assert told(dialogue, "w2").originator
