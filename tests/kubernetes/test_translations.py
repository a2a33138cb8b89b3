"""Quantities, requests, constraints and annotations of Kubernetes, each with wrong ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from objects import namespace, node, pod

from ykactor.kubernetes import gangs, model, pods, quantities
from ykactor.kubernetes.constraints import HostPort, constraints_of, refusal, required_node
from ykactor.kubernetes.namespaces import quotas_of
from ykactor.kubernetes.nodes import changes, offer_of


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
    """What pods want is rounded up, what nodes offer down."""
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


@pytest.mark.parametrize(
    ("spec", "vcore"),
    [
        ({"containers": [container("a", "1"), container("b", "500m")]}, 1500),
        ({"containers": []}, None),
        ({"containers": [container("a", "1")], "initContainers": [container("i", "3")]}, 3000),
        ({"containers": [container("a", "1")], "initContainers": [container("i", "500m")]}, 1000),
        ({"containers": [container("a", "1")], "initContainers": [container("s", "200m", restartPolicy="Always")]}, 1200),
        (
            {
                "containers": [container("c1", "1"), container("c2", "500m")],
                "initContainers": [
                    container("i1", "100m"),
                    container("s", "200m", restartPolicy="Always"),
                    container("i2", "2"),
                ],
            },
            2200,
        ),
        ({"containers": [container("a", "1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("a", "500m")], "resources": {"requests": {"cpu": "2"}}}, 2000),
        ({"containers": [container("a", "500m")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1"}}, 3000),
    ],
)
def test_requests(spec: dict[str, Any], vcore: int | None) -> None:
    """As the kubelet counts them."""
    found = pods.requests_of(with_spec(spec=spec))
    assert found.get("vcore") == vcore
    assert found["pods"] == 1


@pytest.mark.parametrize(
    ("allocated", "actual", "reason", "vcore"),
    [
        ("2", "2", "", 3000),
        ("4", "2", "", 4000),
        ("2", "5", "", 5000),
        ("2", "2", "Deferred", 3000),
        ("2", "2", "Infeasible", 2000),
    ],
)
def test_requests_while_a_pod_is_resized(allocated: str, actual: str, reason: str, vcore: int) -> None:
    """The largest of wanted, promised and given; without what the node has refused for good."""
    status = {
        "containerStatuses": [
            {"name": "a", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}},
        ],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else [],
    }
    assert pods.requests_of(with_spec(spec={"containers": [container("a", "3")]}, status=status))["vcore"] == vcore


LABELLED = node("n1", labels={"zone": "a", "disk": "ssd", "n": "5"})


def term(**requirement: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", **requirement}]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"nodeSelector": {"zone": "a", "other": "x"}}, False),
        ({"affinity": affinity(term(operator="In", values=["a", "b"]))}, True),
        ({"affinity": affinity(term(operator="In", values=["b"]))}, False),
        ({"affinity": affinity(term(operator="NotIn", values=["b"]))}, True),
        ({"affinity": affinity(term(operator="NotIn", values=["a"]))}, False),
        ({"affinity": affinity(term(operator="Exists"))}, True),
        ({"affinity": affinity(term(operator="DoesNotExist"))}, False),
        ({"affinity": affinity(term(key="n", operator="Gt", values=["4"]))}, True),
        ({"affinity": affinity(term(key="n", operator="Lt", values=["4"]))}, False),
        ({"affinity": affinity(term(key="disk", operator="Gt", values=["4"]))}, False),
        ({"affinity": affinity(term(key="gone", operator="NotIn", values=["a"]))}, True),
        ({"affinity": affinity(term(operator="In", values=["b"]), term(operator="In", values=["a"]))}, True),
        ({"affinity": affinity()}, False),
        ({"affinity": affinity({})}, False),
        ({"affinity": affinity(term(operator="Near", values=["a"]))}, False),
        ({"affinity": affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})}, True),
        ({"affinity": affinity({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]})}, False),
    ],
)
def test_selectors_and_affinity_to_nodes(spec: dict[str, Any], fits: bool) -> None:
    assert (refusal(constraints_of(pod("w", **spec)), LABELLED) == "") is fits


TAINTED = node("n1", taints=[{"key": "gpu", "value": "a100", "effect": "NoSchedule"}])


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "a100"}, True),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "value": "h100"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Near", "value": "a100"}, False),
    ],
)
def test_taints_and_tolerations(toleration: dict[str, Any] | None, fits: bool) -> None:
    found = pod("w", tolerations=[] if toleration is None else [toleration])
    assert (refusal(constraints_of(found), TAINTED) == "") is fits
    soft = node("n1", taints=[{"key": "gpu", "effect": "PreferNoSchedule"}])
    assert refusal(constraints_of(found), soft) == ""


def test_a_refusal_names_what_does_not_match() -> None:
    assert refusal(constraints_of(pod("w")), TAINTED) == "taint gpu=a100:NoSchedule is not tolerated"
    assert refusal(constraints_of(pod("w", nodeSelector={"zone": "b"})), LABELLED) == "node selector zone=b does not match"


def test_ports_of_the_host() -> None:
    """By protocol, address and port; an address of all is every address."""
    wanted = constraints_of(pod("w", ports=[{"hostPort": 80}]))
    assert refusal(wanted, LABELLED, [HostPort("TCP", 80, "10.0.0.1")]) == "host port 80/TCP is taken"
    for other in (HostPort("UDP", 80, ""), HostPort("TCP", 81, "")):
        assert refusal(wanted, LABELLED, [other]) == ""
    one = constraints_of(pod("w", ports=[{"hostPort": 80, "hostIP": "10.0.0.2"}]))
    assert refusal(one, LABELLED, [HostPort("TCP", 80, "10.0.0.1")]) == ""


def test_equal_constraints_are_one_class() -> None:
    """In whatever order they are written; others are another class."""
    tolerations = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    one, other = (constraints_of(pod("w", tolerations=each)) for each in (tolerations, tolerations[::-1]))
    assert one == other
    assert one != constraints_of(pod("w"))


def test_the_node_of_a_daemon_set() -> None:
    on_one = affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]})
    assert required_node(pod("w", affinity=on_one)) == "n7"
    assert required_node(pod("w", affinity=affinity(term(operator="Exists")))) == ""


def test_applications_and_queues() -> None:
    """Label before annotation before the older labels; the first of two different ones holds, with a complaint."""
    assert pods.application_of(pod("w")).name == "yunikorn-team-autogen"
    assert pods.application_of(pod("w", labels={"applicationId": "old"})).name == "old"
    both = pods.application_of(
        pod("w", labels={"yunikorn.apache.org/app-id": "a"}, annotations={"yunikorn.apache.org/app-id": "b"})
    )
    assert (both.name, "a is used, b is not" in both.complaint) == ("a", True)
    assert pods.queue_of(pod("w", labels={"queue": "root.x"})).name == "root.x"


@pytest.mark.parametrize("text", ["{", "[]", '{"user": 3}', '{"groups": []}', "x" * 5000, "[" * 3000])
def test_a_user_that_cannot_be_read_is_nobody(text: str) -> None:
    user, complaint = pods.user_of(pod("w", annotations={"yunikorn.apache.org/user.info": text}))
    assert (user.user, complaint != "") == ("nobody", True)


def test_a_user() -> None:
    found, _ = pods.user_of(pod("w", annotations={"yunikorn.apache.org/user.info": '{"user": "ann", "groups": ["dev"]}'}))
    assert (found.user, list(found.groups)) == ("ann", ["dev"])


def test_what_nodes_offer() -> None:
    """Their labels, host name and type of instance; changes are told by what is different."""
    before = offer_of(node("n1", labels={"node.kubernetes.io/instance-type": "m4"}))
    assert before.attributes["si/instance-type"] == "m4"
    assert before.attributes["kubernetes.io/hostname"] == "n1"
    assert before.amounts == {"vcore": 4000, "memory": 16 << 30, "pods": 110}
    assert changes("n1", before, before) == []
    after = offer_of(node("n1", unschedulable=True))
    assert [entry.action for entry in changes("n1", before, after)] == ["UPDATE", "DRAIN_NODE"]


def test_quotas_of_namespaces() -> None:
    found = quotas_of(namespace("team", namespace__quota='{"cpu": "4", "memory": "1Gi"}', namespace__maxApps="3"))
    assert msgspec.json.decode(found.tags["namespace.resourcequota"]) == {
        "resources": {"vcore": {"value": 4000}, "memory": {"value": 1 << 30}}
    }
    assert found.tags["namespace.resourcemaxapps"] == "3"
    assert quotas_of(namespace("team", namespace__max__cpu="2")).tags["namespace.resourcequota"] != ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("quota", "{"),
        ("quota", '{"cpu": 4}'),
        ("quota", '{"cpu": "-4"}'),
        ("quota", '{"cpu": "0"}'),
        ("maxApps", "0"),
        ("maxApps", "x"),
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
        (f"[{GROUPS[1:-1]}, {GROUPS[1:-1]}]", ""),
        (GROUPS, "placeholderTimeoutInSeconds=soon"),
        (GROUPS, "gangSchedulingStyle=hard"),
        ("[" * 3000, ""),
    ],
)
def test_wrong_gangs(groups: str, parameters: str) -> None:
    with pytest.raises(gangs.GangError, match="annotation"):
        gangs.gang_of({gangs.GROUPS: groups, gangs.PARAMETERS: parameters})
