"""Constraints of nodes, apart from requests: selectors, affinity to nodes, taints, and ports of the host.

Pods with the same constraints are one predicate class: one answer for each node is enough for all of them (SC-120).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from ykactor.kubernetes.model import LabelSelector, Node, NodeSelector, NodeSelectorTerm, Pod, Requirement, Toleration
from ykactor.kubernetes.nodes import taints_of

_NODE_NAME = "metadata.name"
_EVERY_ADDRESS = ("", "0.0.0.0", "::")
#: A number as Kubernetes compares it, of 64 bits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INTEGER_MAX = 2**63 - 1


class HostPort(Struct, frozen=True, order=True):
    """A port of the node; an address of "" stands for all addresses."""

    protocol: str
    port: int
    address: str

    def conflicts(self, other: HostPort) -> bool:
        """True if two pods cannot have these ports on one node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or "" in (self.address, other.address)


class Constraints(Struct, frozen=True):
    """The constraints of a pod in a form that is equal for equal constraints.

    Attributes:
        labels: labels that the node has.
        terms: the node meets one of them; None if it need not. The only node of a pod is not among them: the daemon is told.
        tolerations: of taints, without duplicates.
        ports: ports of the host.
    """

    labels: tuple[tuple[str, str], ...]
    terms: tuple[NodeSelectorTerm, ...] | None
    tolerations: tuple[Toleration, ...]
    ports: tuple[HostPort, ...]


def constraints_of(pod: Pod) -> Constraints:
    """The constraints of a pod."""
    spec = pod.spec
    tolerations = {msgspec.json.encode(each): each for each in spec.tolerations}
    return Constraints(
        labels=tuple(sorted(spec.node_selector.items())),
        terms=_terms(pod),
        tolerations=tuple(tolerations[text] for text in sorted(tolerations)),
        ports=ports_of(pod),
    )


def _terms(pod: Pod) -> tuple[NodeSelectorTerm, ...] | None:
    """The terms of a pod; without its only node, or each pod of a DaemonSet would be a class of its own."""
    selector = _selector(pod)
    if selector is None:
        return None
    only = _only_node(pod)
    if only is not None and not pod.spec.topology_spread_constraints:  # which count the nodes that the terms admit
        (term,) = selector.node_selector_terms
        rest = structs.replace(term, match_fields=[each for each in term.match_fields if each is not only])
        return (rest,) if rest.match_expressions or rest.match_fields else None
    return terms_of(selector)


def terms_of(selector: NodeSelector) -> tuple[NodeSelectorTerm, ...]:
    """The terms of a selector in a form that is equal for equal selectors."""
    terms = {msgspec.json.encode(each): each for each in selector.node_selector_terms}
    return tuple(terms[text] for text in sorted(terms))


def _selector(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity.required if affinity is not None and affinity.node_affinity is not None else None


def ports_of(pod: Pod) -> tuple[HostPort, ...]:
    """The ports of the host that a pod takes, those of its sidecars included."""
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    ports = [port for container in (*pod.spec.containers, *sidecars) for port in container.ports if port.host_port]
    if not ports:
        return ()
    found = {
        HostPort(port.protocol or "TCP", port.host_port, "" if port.host_ip in _EVERY_ADDRESS else port.host_ip) for port in ports
    }
    return tuple(sorted(found))


def required_node(pod: Pod) -> str:
    """The only node that a pod may run on, as a DaemonSet says it; "" if there may be several."""
    only = _only_node(pod)
    return "" if only is None else only.values[0]


def _only_node(pod: Pod) -> Requirement | None:
    selector = _selector(pod)
    if selector is None or len(selector.node_selector_terms) != 1:
        return None
    fields = selector.node_selector_terms[0].match_fields
    return next((each for each in fields if each.key == _NODE_NAME and each.operator == "In" and len(each.values) == 1), None)


def refusal(constraints: Constraints, node: Node, taken: Collection[HostPort] = ()) -> str:
    """The reason why a node cannot take pods with these constraints; "" if it can.

    Args:
        taken: the ports that pods on the node have.
    """
    why = selector_refusal(constraints, node) or taint_refusal(constraints, node)
    if why:
        return why
    for port in constraints.ports:
        if any(port.conflicts(other) for other in taken):
            return f"host port {port.port}/{port.protocol} is taken"
    return ""


def selector_refusal(constraints: Constraints, node: Node) -> str:
    """The reason why selectors and affinity do not admit a node; "" if they do."""
    labels = node.metadata.labels
    for name, value in constraints.labels:
        if labels.get(name) != value:
            return f"node selector {name}={value} does not match"
    if constraints.terms is not None and not meets_one(constraints.terms, node):
        return "required node affinity does not match"
    return ""


def taint_refusal(constraints: Constraints, node: Node) -> str:
    """The taint of a node that is not tolerated, in words; "" if there is none."""
    for taint in taints_of(node):
        if not any(tolerates(toleration, taint.key, taint.value, taint.effect) for toleration in constraints.tolerations):
            value = f"={taint.value}" if taint.value else ""
            return f"taint {taint.key}{value}:{taint.effect} is not tolerated"
    return ""


def tolerates(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    """True if a toleration matches a taint."""
    if toleration.effect not in ("", effect):
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == value


def meets_one(terms: Collection[NodeSelectorTerm], node: Node) -> bool:
    """True if a node meets one of the terms of a selector."""
    return any(_meets(term, node) for term in terms)


def _meets(term: NodeSelectorTerm, node: Node) -> bool:
    """True if a node meets all requirements of a term; an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {_NODE_NAME: node.metadata.name}
    in_labels = all(satisfies(each, node.metadata.labels) for each in term.match_expressions)
    return in_labels and all(satisfies(each, fields) for each in term.match_fields)


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """True if a label selector selects these labels; an empty one selects all."""
    if any(labels.get(name) != value for name, value in selector.match_labels.items()):
        return False
    return all(satisfies(requirement, labels) for requirement in selector.match_expressions)


def satisfies(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """True if labels meet a requirement of a selector; an unknown operator is met by none."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, value, requirement.values)
    return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    """True if both numbers can be read, and the label is above (Gt) or below (Lt) the other one."""
    if value is None or len(values) != 1:
        return False
    left, right = _integer(value), _integer(values[0])
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    number = int(text) if _INTEGER.fullmatch(text) else None
    return None if number is None or abs(number) > _INTEGER_MAX else number
