"""Quantities, requests, constraints and annotations of Kubernetes, each with wrong ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from objects import namespace, node, pod

from ykactor.kubernetes import gangs, model, pods, quantities
from ykactor.kubernetes.nodes import changes, offer_of
from ykactor.kubernetes.policies import quotas_of


@pytest.mark.parametrize(
    ("text", "up", "down"),
    [
        ("1", 1, 1),
        ("1.5", 2, 1),
        ("0.1", 1, 0),
        (".5", 1, 0),
        ("5.", 5, 5),
        ("1Ki", 1024, 1024),
        ("1.5Gi", 3 << 29, 3 << 29),
        ("123e3", 123_000, 123_000),
        ("123E3", 123_000, 123_000),
        ("2e0", 2, 2),
        ("1e-3", 1, 0),
        ("1E", 10**18, 10**18),
        ("7Ei", 7 << 60, 7 << 60),
        ("100m", 1, 0),
        ("1n", 1, 0),
        ("3u", 1, 0),
        ("12k", 12_000, 12_000),
        ("1M", 10**6, 10**6),
        ("+4", 4, 4),
        ("0", 0, 0),
        ("-0", 0, 0),
    ],
)
def test_quantities(text: str, up: int, down: int) -> None:
    """Requests of pods are rounded up, offers of nodes down."""
    assert quantities.parse(text, up=True) == up
    assert quantities.parse(text, up=False) == down


NO_QUANTITIES = ["", ".", "1.2.3", "1KI", "1 Gi", "Gi", "-1", "8Ei", "1e20", "1e9999", "0x10", "\u0661", "1" * 65, "1mm", "e3"]


@pytest.mark.parametrize("text", NO_QUANTITIES)
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(quantities.QuantityError):
        quantities.parse(text, up=True)


def test_processors_are_thousandths() -> None:
    """And their mistakes have the name of the resource."""
    assert quantities.amounts({"cpu": "0.1", "memory": "1Ki"}, up=True) == {"vcore": 100, "memory": 1024}
    assert quantities.amounts({"cpu": "1.0005"}, up=False) == {"vcore": 1000}
    with pytest.raises(quantities.QuantityError, match="memory: found 'x'"):
        quantities.amounts({"memory": "x"}, up=True)


def with_spec(**spec: Any) -> model.Pod:
    return msgspec.convert({"metadata": {"name": "w", "namespace": "t"}, **spec}, model.Pod)


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


ALWAYS = {"restartPolicy": "Always"}
ONE = [container("a", "1")]


@pytest.mark.parametrize(
    ("spec", "vcore"),
    [
        ({"containers": []}, None),
        ({"containers": [{"name": "a"}]}, None),
        ({"containers": [container("a", "1"), container("b", "500m")]}, 1500),
        ({"containers": [container("a", "0.0001")]}, 1),
        ({"containers": ONE, "initContainers": [container("i", "3")]}, 3000),
        ({"containers": ONE, "initContainers": [container("i", "500m")]}, 1000),
        ({"containers": ONE, "initContainers": [container("i", "2"), container("j", "3")]}, 3000),
        ({"containers": ONE, "initContainers": [container("s", "200m", **ALWAYS)]}, 1200),
        ({"containers": ONE, "initContainers": [container("s", "200m", **ALWAYS), container("t", "2", **ALWAYS)]}, 3200),
        ({"containers": ONE, "initContainers": [container("s", "200m", **ALWAYS), container("i", "2")]}, 2200),
        ({"containers": ONE, "initContainers": [container("i", "2"), container("s", "200m", **ALWAYS)]}, 2000),
        ({"containers": ONE, "initContainers": [container("s", "3", **ALWAYS), container("i", "2")]}, 5000),
        ({"containers": ONE, "initContainers": [container("i", "2", restartPolicy="Never")]}, 2000),
        ({"containers": ONE, "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": ONE, "initContainers": [container("i", "3")], "overhead": {"cpu": "250m"}}, 3250),
        ({"containers": ONE, "resources": {"requests": {"cpu": "2"}}}, 2000),
        ({"containers": ONE, "resources": {"requests": {"cpu": "500m"}}}, 500),
        ({"containers": ONE, "initContainers": [container("i", "3")], "resources": {"requests": {"cpu": "2"}}}, 2000),
        ({"containers": ONE, "resources": {"requests": {"memory": "1Gi"}}}, 1000),
        ({"containers": ONE, "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1"}}, 3000),
    ],
)
def test_requests(spec: dict[str, Any], vcore: int | None) -> None:
    """The larger of what runs together and of each init step; the pod as a whole overrides that; each is one of ``pods``."""
    found = pods.requests_of(with_spec(spec=spec))
    assert found.get("vcore") == vcore
    assert found["pods"] == 1


def test_requests_of_all_resources() -> None:
    """A pod as a whole overrides what it names only; other resources are in units."""
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2", "ephemeral-storage": "1M"}
    spec = {"containers": [{"name": "a", "resources": {"requests": requests}}], "resources": {"requests": {"memory": "3Gi"}}}
    wanted = {"vcore": 1000, "memory": 3 << 30, "nvidia.com/gpu": 2, "ephemeral-storage": 10**6, "pods": 1}
    assert pods.requests_of(with_spec(spec=spec)) == wanted


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container("a", "many")]},
        {"containers": [container("a", "-1")]},
        {"containers": ONE, "initContainers": [container("i", "1mm")]},
        {"containers": ONE, "overhead": {"cpu": ""}},
        {"containers": ONE, "resources": {"requests": {"cpu": "1e20"}}},
        {"containers": [container("a", "6e15"), container("b", "6e15")]},
        {"containers": ONE, "overhead": {"cpu": "9223372036854775807m"}},
        {"containers": [container("a", "6e15")], "initContainers": [container("s", "6e15", **ALWAYS)]},
    ],
)
def test_wrong_requests(spec: dict[str, Any]) -> None:
    """Also a sum that the daemon could not read: it would refuse all that is told together with it."""
    with pytest.raises(quantities.QuantityError, match=r"cpu|vcore"):
        pods.requests_of(with_spec(spec=spec))


@pytest.mark.parametrize(
    ("allocated", "actual", "reason", "vcore"),
    [
        (None, None, "", 3000),
        ("2", None, "", 3000),
        ("4", None, "", 4000),
        (None, "4", "", 4000),
        ("2", "2", "", 3000),
        ("4", "2", "", 4000),
        ("2", "5", "", 5000),
        ("2", "2", "Deferred", 3000),
        ("2", "4", "Deferred", 4000),
        (None, None, "Infeasible", 3000),
        ("2", "2", "Infeasible", 2000),
        ("2", "2500m", "Infeasible", 2500),
        ("2", None, "Infeasible", 2000),
    ],
)
@pytest.mark.parametrize("where", ["container", "sidecar", "pod"])
def test_requests_while_a_pod_is_resized(where: str, allocated: str, actual: str, reason: str, vcore: int) -> None:
    """The largest of wanted, promised and given; without what the node has refused for good."""
    given: dict[str, Any] = {"name": "a"}
    given |= {} if allocated is None else {"allocatedResources": {"cpu": allocated}}
    given |= {} if actual is None else {"resources": {"requests": {"cpu": actual}}}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    spec, status = {
        "container": ({"containers": [container("a", "3")]}, {"containerStatuses": [given]}),
        "sidecar": ({"initContainers": [container("a", "3", **ALWAYS)]}, {"initContainerStatuses": [given]}),
        "pod": ({"containers": [container("a", "1")], "resources": {"requests": {"cpu": "3"}}}, given),
    }[where]
    assert pods.requests_of(with_spec(spec=spec, status={**status, "conditions": conditions}))["vcore"] == vcore


APP, QUEUE = "yunikorn.apache.org/app-id", "yunikorn.apache.org/queue"


@pytest.mark.parametrize(
    ("labels", "annotations", "name", "others"),
    [
        ({}, {}, "yunikorn-team-autogen", ""),
        ({APP: "a"}, {}, "a", ""),
        ({APP: "a", "applicationId": "c", "spark-app-selector": "d"}, {APP: "b"}, "a", "b, c, d"),
        ({"applicationId": "c", "spark-app-selector": "d"}, {APP: "b"}, "b", "c, d"),
        ({"applicationId": "c", "spark-app-selector": "d"}, {}, "c", "d"),
        ({"spark-app-selector": "d"}, {}, "d", ""),
        ({APP: "a", "applicationId": "a"}, {APP: "a"}, "a", ""),
        ({APP: ""}, {APP: "b"}, "b", ""),
        ({"app-id": "x", "queue": "root.x"}, {"applicationId": "y"}, "yunikorn-team-autogen", ""),
    ],
)
def test_applications(labels: dict[str, str], annotations: dict[str, str], name: str, others: str) -> None:
    """Label before annotation before the older labels; the first of different ones holds, with a complaint about the others."""
    found = pods.application_of(pod("w", labels=labels, annotations=annotations))
    complaint = f"found different names of its application: {name} is used, {others} is not" if others else ""
    assert (found.name, found.complaint) == (name, complaint)


@pytest.mark.parametrize(
    ("labels", "annotations", "name", "others"),
    [
        ({}, {}, "", ""),
        ({QUEUE: "root.a", "queue": "root.c"}, {QUEUE: "root.b"}, "root.a", "root.b, root.c"),
        ({"queue": "root.c"}, {QUEUE: "root.b"}, "root.b", "root.c"),
        ({"queue": "root.c"}, {}, "root.c", ""),
        ({}, {"queue": "root.c"}, "", ""),
    ],
)
def test_queues(labels: dict[str, str], annotations: dict[str, str], name: str, others: str) -> None:
    found = pods.queue_of(pod("w", labels=labels, annotations=annotations))
    assert (found.name, found.complaint != "", others in found.complaint) == (name, others != "", True)


@pytest.mark.parametrize("text", ["{", "[]", '{"user": 3}', '{"groups": []}', "x" * 5000, "[" * 3000])
def test_a_user_that_cannot_be_read_is_nobody(text: str) -> None:
    user, complaint = pods.user_of(pod("w", annotations={"yunikorn.apache.org/user.info": text}))
    assert (user.user, complaint != "") == ("nobody", True)


@pytest.mark.parametrize(
    ("text", "user", "groups"),
    [
        ('{"user": "ann", "groups": ["dev"]}', "ann", ["dev"]),
        ('{"user": "ann", "groups": null, "uid": "7"}', "ann", []),
        ('{"user": "ann"}', "ann", []),
        ("", "nobody", ["nobody"]),
    ],
)
def test_a_user(text: str, user: str, groups: list[str]) -> None:
    """The user is nobody without the annotation; Go writes no groups as null."""
    found, complaint = pods.user_of(pod("w", annotations={"yunikorn.apache.org/user.info": text} if text else {}))
    assert (found.user, list(found.groups), complaint) == (user, groups, "")


@pytest.mark.parametrize(
    ("allocatable", "amounts"),
    [
        ({"cpu": "3920m", "memory": "1.5Ki", "pods": "110"}, {"vcore": 3920, "memory": 1536, "pods": 110}),
        ({"cpu": "0.0019", "memory": "1500m"}, {"vcore": 1, "memory": 1}),
        (
            {"nvidia.com/gpu": "8", "ephemeral-storage": "1k", "hugepages-2Mi": "0"},
            {"nvidia.com/gpu": 8, "ephemeral-storage": 1000},
        ),
        ({}, {}),
    ],
)
def test_what_nodes_offer(allocatable: dict[str, str], amounts: dict[str, int]) -> None:
    """Rounded down; what they have none of is not told."""
    found = msgspec.convert({"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}, model.Node)
    assert offer_of(found, {}).amounts == amounts


INSTANCE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("labels", "attributes"),
    [
        ({}, {"kubernetes.io/hostname": "n1"}),
        ({"kubernetes.io/hostname": "other", "zone": "a"}, {"kubernetes.io/hostname": "other", "zone": "a"}),
        ({INSTANCE: "m4"}, {"kubernetes.io/hostname": "n1", INSTANCE: "m4", "si/instance-type": "m4"}),
    ],
)
def test_attributes_of_nodes(labels: dict[str, str], attributes: dict[str, str]) -> None:
    """Their labels, their host name, and the type of instance."""
    assert offer_of(node("n1", labels=labels), {}).attributes == attributes


@pytest.mark.parametrize(
    ("after", "actions"),
    [
        (node("n1"), []),
        (node("n1", cpu="8"), ["UPDATE"]),
        (node("n1", labels={"a": "b"}), ["UPDATE"]),
        (node("n1", unschedulable=True), ["DRAIN_NODE"]),
        (node("n1", cpu="8", unschedulable=True), ["UPDATE", "DRAIN_NODE"]),
    ],
)
def test_changes_of_nodes(after: model.Node, actions: list[str]) -> None:
    """They are told by what is different, in both directions."""
    before = node("n1")
    entries = changes("n1", offer_of(before, {}), offer_of(after, {}))
    assert [entry.action for entry in entries] == actions
    back = [entry.action for entry in changes("n1", offer_of(after, {}), offer_of(before, {}))]
    assert back == [{"DRAIN_NODE": "DRAIN_TO_SCHEDULABLE"}.get(each, each) for each in actions]
    for entry in entries:
        assert bool(entry.attributes) is (entry.action == "UPDATE" and "a" in after.metadata.labels)
        assert (entry.schedulable_resource is not None) is (entry.action == "UPDATE" and "a" not in after.metadata.labels)


MAX, GUARANTEED, APPLICATIONS = "namespace.resourcequota", "namespace.resourceguaranteed", "namespace.resourcemaxapps"
CPU_4 = {"vcore": {"value": 4000}}


@pytest.mark.parametrize(
    ("annotations", "name", "amounts"),
    [
        ({"quota": '{"cpu": "4"}'}, MAX, CPU_4),
        ({"quota": '{"cpu": "4", "memory": "1Gi"}'}, MAX, {**CPU_4, "memory": {"value": 1 << 30}}),
        ({"quota": '{"cpu": "4", "memory": "0"}'}, MAX, {**CPU_4, "memory": {"value": 0}}),
        ({"quota": '{"cpu": "0.0015"}'}, MAX, {"vcore": {"value": 1}}),
        ({"guaranteed": '{"cpu": "4"}'}, GUARANTEED, CPU_4),
        ({"max__cpu": "4"}, MAX, CPU_4),
        ({"max__cpu": "4", "max__memory": "1M"}, MAX, {**CPU_4, "memory": {"value": 10**6}}),
        ({"max__cpu": "9", "quota": '{"cpu": "4"}'}, MAX, CPU_4),
        ({"max__cpu": "4", "quota": "{"}, MAX, CPU_4),
    ],
)
def test_quotas_of_namespaces(annotations: dict[str, str], name: str, amounts: dict[str, Any]) -> None:
    """The two older annotations count where the newer one says nothing."""
    found = quotas_of(namespace("team", **{f"namespace__{key}": text for key, text in annotations.items()}))
    assert {key: msgspec.json.decode(text) for key, text in found.tags.items() if text} == {name: {"resources": amounts}}
    assert len(found.complaints) == ("{" in annotations.values())


def test_applications_and_the_parent_of_a_namespace() -> None:
    """A namespace without annotations says nothing."""
    found = quotas_of(namespace("team", namespace__maxApps="3", parentqueue="root.up"))
    assert (found.tags, found.parent) == ({MAX: "", GUARANTEED: "", APPLICATIONS: "3"}, "root.up")
    found = quotas_of(namespace("team"))
    assert (found.tags, found.parent, found.complaints) == ({MAX: "", GUARANTEED: "", APPLICATIONS: ""}, "", ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("quota", "{"),
        ("quota", '{"cpu": 4}'),
        ("quota", '{"cpu": "-4"}'),
        ("quota", '{"cpu": "0"}'),
        ("quota", "cpu=4"),
        ("quota", '{"cpu": "9e30"}'),
        ("guaranteed", '["cpu"]'),
        ("guaranteed", '{"cpu": ""}'),
        ("max__cpu", "-1"),
        ("max__memory", "1 Gi"),
        ("maxApps", "0"),
        ("maxApps", "x"),
        ("maxApps", "-3"),
        ("maxApps", "9" * 19),
    ],
)
def test_wrong_annotations_of_namespaces_count_as_absent(name: str, text: str) -> None:
    found = quotas_of(namespace("team", **{f"namespace__{name}": text}))
    assert not any(found.tags.values())
    assert len(found.complaints) == 1


GROUPS = '[{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}}]'


def test_a_gang() -> None:
    found = gangs.gang_of({gangs.GROUPS: GROUPS, gangs.PARAMETERS: "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard"})
    assert found is not None
    assert (found.total(), found.timeout_s, found.style) == ({"vcore": 2000, "pods": 2}, 30, "Hard")
    assert gangs.gang_from(found.definition) == found
    assert gangs.gang_of({}) is None


@pytest.mark.parametrize(
    ("groups", "parameters"),
    [
        ("{", ""),
        ("[]", ""),
        ('[{"name": "g"}]', ""),
        (GROUPS.replace("2", "0"), ""),
        (GROUPS.replace('"g"', '"G_"'), ""),
        (GROUPS.replace('"1"', '"x"'), ""),
        (GROUPS.replace("2", "99999"), ""),
        (GROUPS.replace('"1"', '"6e15"'), ""),
        (GROUPS.replace("cpu", "cpus"), ""),
        (GROUPS.replace("cpu", "vcore"), ""),
        (GROUPS.replace("cpu", "/gpu"), ""),
        (f"[{GROUPS[1:-1]}, {GROUPS[1:-1]}]", ""),
        (GROUPS, "placeholderTimeoutInSeconds=soon"),
        (GROUPS, "gangSchedulingStyle=hard"),
        ("[" * 3000, ""),
    ],
)
def test_wrong_gangs(groups: str, parameters: str) -> None:
    with pytest.raises(gangs.GangError, match="annotation"):
        gangs.gang_of({gangs.GROUPS: groups, gangs.PARAMETERS: parameters})
