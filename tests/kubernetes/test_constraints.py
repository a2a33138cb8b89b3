"""Constraints on the nodes of a pod, apart from its requests: selectors, node affinity, taints, host ports, also wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
from objects import node, pod

from ykactor.kubernetes.constraints import HostPort, constraints_of, ports_of, refusal, required_node

LABELLED = node("n1", labels={"zone": "a", "disk": "ssd", "n": "5", "minus": "-7", "code": "1_0", "huge": "9" * 30})


def term(**requirement: Any) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", **requirement}]}


def named(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


BOTH = {**term(operator="Exists"), **named("In", "n1", "n2")}
IN_A, IN_B = term(operator="In", values=["a"]), term(operator="In", values=["b"])


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        (None, True),
        ({}, True),
        ({"zone": "a"}, True),
        ({"zone": "b"}, False),
        ({"zone": "a", "disk": "ssd"}, True),
        ({"zone": "a", "other": "x"}, False),
        ({"zone": ""}, False),
    ],
)
def test_selectors_of_nodes(selector: dict[str, str] | None, fits: bool) -> None:
    """All labels of the selector are on the node."""
    found = pod("w", **({} if selector is None else {"nodeSelector": selector}))
    assert (refusal(constraints_of(found), LABELLED) == "") is fits


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([term(operator="In", values=["a", "b"])], True),
        ([IN_B], False),
        ([term(key="gone", operator="In", values=["a"])], False),
        ([term(operator="NotIn", values=["b"])], True),
        ([term(operator="NotIn", values=["b", "a"])], False),
        ([term(key="gone", operator="NotIn", values=["a"])], True),
        ([term(operator="Exists")], True),
        ([term(key="gone", operator="Exists")], False),
        ([term(operator="DoesNotExist")], False),
        ([term(key="gone", operator="DoesNotExist")], True),
        ([term(key="n", operator="Gt", values=["4"])], True),
        ([term(key="n", operator="Gt", values=["5"])], False),
        ([term(key="minus", operator="Gt", values=["-8"])], True),
        ([term(key="n", operator="Lt", values=["6"])], True),
        ([term(key="n", operator="Lt", values=["5"])], False),
        ([IN_B, IN_A], True),
        ([IN_B, term(operator="DoesNotExist")], False),
        ([{"matchExpressions": [*IN_A["matchExpressions"], *IN_B["matchExpressions"]]}], False),
        ([named("In", "n1")], True),
        ([named("In", "n2", "n3")], False),
        ([named("NotIn", "n1")], False),
        ([named("NotIn", "n2")], True),
        ([BOTH], True),
        ([{**IN_B, **named("In", "n1", "n2")}], False),
        # wrong ones
        ([], False),
        ([{}], False),
        ([{}, IN_A], True),
        ([term(operator="Near", values=["a"])], False),
        ([term(operator="In")], False),
        ([term(key="gone", operator="Gt", values=["4"])], False),
        ([term(key="disk", operator="Gt", values=["4"])], False),
        ([term(key="code", operator="Gt", values=["4"])], False),
        ([term(key="huge", operator="Gt", values=["4"])], False),
        ([term(key="n", operator="Gt", values=["4", "3"])], False),
        ([term(key="n", operator="Lt", values=["six"])], False),
        ([{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n1"]}]}], False),
    ],
)
def test_required_affinity_to_nodes(terms: list[dict[str, Any]], fits: bool) -> None:
    """One of the terms is met as a whole; a requirement that cannot be read is met by no node."""
    assert (refusal(constraints_of(pod("w", affinity=affinity(*terms))), LABELLED) == "") is fits


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([], False),
        ([{"operator": "Exists"}], True),
        ([{"operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"operator": "Exists", "effect": "NoExecute"}], False),
        ([{"key": "gpu", "operator": "Exists"}], True),
        ([{"key": "gpu", "operator": "Equal", "value": "a100"}], True),
        ([{"key": "gpu", "value": "a100"}], True),
        ([{"key": "gpu", "value": "a100", "effect": "NoSchedule"}], True),
        ([{"key": "gpu", "value": "a100", "effect": "PreferNoSchedule"}], False),
        ([{"key": "gpu", "value": "h100"}], False),
        ([{"key": "gpu"}], False),
        ([{"key": "other", "operator": "Exists"}], False),
        ([{"key": "other", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}], True),
        # wrong ones
        ([{}], False),
        ([{"operator": "Equal", "value": "a100"}], False),
        ([{"key": "gpu", "operator": "Near", "value": "a100"}], False),
        ([{"key": "gpu", "operator": "Exists", "effect": "Never"}], False),
    ],
)
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_taints_and_tolerations(tolerations: list[dict[str, str]], fits: bool, effect: str) -> None:
    """A taint keeps pods away unless it is tolerated with its key, value and effect; a soft one keeps nobody away."""
    other = {"NoSchedule": "NoExecute", "NoExecute": "NoSchedule"}
    given = [{**each, "effect": other[each["effect"]]} if effect != "NoSchedule" and each.get("effect") in other else each
             for each in tolerations]  # fmt: skip
    tainted = node("n1", taints=[{"key": "gpu", "value": "a100", "effect": effect}])
    assert (refusal(constraints_of(pod("w", tolerations=given)), tainted) == "") is fits
    soft = node("n1", taints=[{"key": "gpu", "value": "a100", "effect": "PreferNoSchedule"}])
    assert refusal(constraints_of(pod("w", tolerations=given)), soft) == ""


def test_each_taint_has_to_be_tolerated() -> None:
    twice = node("n1", taints=[{"key": key, "effect": "NoSchedule"} for key in ("a", "b")])
    tolerations = [{"key": "a", "operator": "Exists"}]
    assert refusal(constraints_of(pod("w", tolerations=tolerations)), twice) == "taint b:NoSchedule is not tolerated"


def test_a_refusal_names_what_does_not_match() -> None:
    tainted = node("n1", taints=[{"key": "gpu", "value": "a100", "effect": "NoSchedule"}])
    assert refusal(constraints_of(pod("w")), tainted) == "taint gpu=a100:NoSchedule is not tolerated"
    assert refusal(constraints_of(pod("w", nodeSelector={"zone": "b"})), LABELLED) == "node selector zone=b does not match"
    assert refusal(constraints_of(pod("w", affinity=affinity(IN_B))), LABELLED) == "required node affinity does not match"


@pytest.mark.parametrize(
    ("wanted", "taken", "fits"),
    [
        ({"hostPort": 80}, HostPort("TCP", 80, ""), False),
        ({"hostPort": 80}, HostPort("TCP", 80, "10.0.0.1"), False),
        ({"hostPort": 80}, HostPort("UDP", 80, ""), True),
        ({"hostPort": 80}, HostPort("TCP", 81, ""), True),
        ({"hostPort": 80, "protocol": "UDP"}, HostPort("UDP", 80, ""), False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, HostPort("TCP", 80, ""), False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, HostPort("TCP", 80, "10.0.0.1"), False),
        ({"hostPort": 80, "hostIP": "10.0.0.2"}, HostPort("TCP", 80, "10.0.0.1"), True),
        ({"hostPort": 80, "hostIP": "0.0.0.0"}, HostPort("TCP", 80, "10.0.0.1"), False),
        ({"containerPort": 80}, HostPort("TCP", 80, ""), True),
    ],
)
def test_ports_of_the_host(wanted: dict[str, Any], taken: HostPort, fits: bool) -> None:
    """They differ by protocol, port and address; an address of all is every address."""
    why = refusal(constraints_of(pod("w", ports=[wanted])), LABELLED, [taken])
    assert why == ("" if fits else f"host port 80/{wanted.get('protocol', 'TCP')} is taken")


def test_ports_of_sidecars_are_taken_too() -> None:
    """But not those of init containers, which end before."""
    one, other = ({"name": name, "ports": [{"hostPort": port}]} for name, port in (("s", 80), ("i", 81)))
    found = pod("w", initContainers=[{**one, "restartPolicy": "Always"}, other])
    assert ports_of(found) == (HostPort("TCP", 80, ""),)


def test_equal_constraints_are_one_class() -> None:
    """Constraints are one class in any order; different ones are another class."""
    tolerations = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    one, other = (
        constraints_of(pod("w", tolerations=tolerations[::step], affinity=affinity(*(IN_A, IN_B)[::step]))) for step in (1, -1)
    )
    assert one == other
    assert one != constraints_of(pod("w", tolerations=tolerations))
    assert constraints_of(pod("w", ports=[{"hostPort": 80}])) != constraints_of(pod("w"))


@pytest.mark.parametrize(
    ("terms", "required"),
    [
        ([named("In", "n7")], "n7"),
        ([{**IN_A, **named("In", "n7")}], "n7"),
        ([named("In", "n7", "n8")], ""),
        ([named("NotIn", "n7")], ""),
        ([named("In", "n7"), named("In", "n8")], ""),
        ([term(operator="Exists")], ""),
        ([], ""),
    ],
)
def test_the_node_of_a_daemon_set(terms: list[dict[str, Any]], required: str) -> None:
    assert required_node(pod("w", affinity=affinity(*terms))) == required


def test_pods_of_a_daemon_set_are_one_class() -> None:
    """The required node is left to the daemon: a class for each of many nodes would have answers about each of them."""
    plain = constraints_of(pod("w"))
    assert constraints_of(pod("w", affinity=affinity(named("In", "n1")))) == plain
    one, other = (constraints_of(pod("w", affinity=affinity({**IN_A, **named("In", name)}))) for name in ("n1", "n2"))
    assert one == other
    assert refusal(one, node("n3")) == "required node affinity does not match"


def test_domains_of_a_spread_are_those_of_its_only_node() -> None:
    """A constraint of topology counts the nodes that the affinity admits, so there the node stays in the class."""
    spread = [{"topologyKey": "zone", "maxSkew": 1}]
    found = constraints_of(pod("w", affinity=affinity(named("In", "n2")), topologySpreadConstraints=spread))
    assert refusal(found, LABELLED) == "required node affinity does not match"
