"""Predicate classes: pods with the same constraints, the ports that pods have on nodes, and the answers about both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from ykactor.kubernetes.constraints import Constraints, HostPort, refusal
from ykactor.kubernetes.model import Node
from ykactor.wire.si import messages as si

#: The daemon keeps 200,000 answers: beyond this number only nodes that a class may use are told unasked.
PUSHED_MAX = 150_000
#: A class without a pod for so long is forgotten.
IDLE_S = 600.0


class Classes:
    """The classes of the pods that are known, by name."""

    def __init__(self) -> None:
        self._constraints: dict[str, Constraints] = {}
        self._counts: dict[str, int] = {}
        self._idle_since_s: dict[str, float] = {}
        #: The classes about which the daemon was told.
        self._told: set[str] = set()
        self._ports: dict[str, dict[str, tuple[HostPort, ...]]] = {}

    def add(self, constraints: Constraints) -> str:
        """Count one more pod with these constraints; returns the name of its class."""
        name = constraints.class_name()
        self._constraints.setdefault(name, constraints)
        self._counts[name] = self._counts.get(name, 0) + 1
        self._idle_since_s.pop(name, None)
        return name

    def discard(self, name: str, now_s: float) -> None:
        """Count one pod less."""
        self._counts[name] -= 1
        if not self._counts[name]:
            self._idle_since_s[name] = now_s

    def forget_idle(self, now_s: float) -> list[si.PredicateScope]:
        """Forget classes without a pod; returns what the daemon has to forget."""
        ended = [name for name, since_s in self._idle_since_s.items() if now_s - since_s >= IDLE_S]
        for name in ended:
            del self._constraints[name], self._counts[name], self._idle_since_s[name]
        told = [name for name in ended if name in self._told]
        self._told.difference_update(ended)
        return [si.PredicateScope(predicate=name) for name in told]

    def forget_told(self) -> None:
        """The daemon has to be told everything again."""
        self._told.clear()

    # ---- ports

    def take_ports(self, node: str, key: str, ports: tuple[HostPort, ...]) -> None:
        """A pod has ports on a node."""
        self._ports.setdefault(node, {})[key] = ports

    def free_ports(self, node: str, key: str) -> tuple[HostPort, ...]:
        """A pod has no ports there any more; returns those that it had."""
        pods = self._ports.get(node, {})
        freed = pods.pop(key, ())
        if not pods:
            self._ports.pop(node, None)
        return freed

    def taken_ports(self, node: str, besides: str = "") -> list[HostPort]:
        """The ports that pods have on a node, without those of the pod ``besides``."""
        return [port for key, ports in self._ports.get(node, {}).items() if key != besides for port in ports]

    # ---- answers

    def about_new_classes(self, nodes: Mapping[str, Node]) -> Iterator[si.PredicateAnswer]:
        """Answers about the classes that the daemon does not know yet, for these nodes, which it knows."""
        new = [name for name in self._constraints if name not in self._told and name not in self._idle_since_s]
        self._told.update(new)
        return self._answers(new, nodes.values(), len(nodes))

    def about_node(self, node: Node, nodes_count: int) -> Iterator[si.PredicateAnswer]:
        """Answers about a node that is new or has changed, for all classes that the daemon knows."""
        return self._answers(self._told, [node], nodes_count)

    def about_ports(self, node: Node, ports: Collection[HostPort]) -> Iterator[si.PredicateAnswer]:
        """Answers about a node on which these ports were taken or freed, for the classes that want some of them."""
        wanting = [
            name
            for name in self._told
            if any(port.conflicts(other) for port in self._constraints[name].ports for other in ports)
        ]
        return self._answers(wanting, [node], 1)

    def answer(self, check: si.PredicateCheck, nodes: Mapping[str, Node]) -> si.PredicateAnswer:
        """The answer to a question; what is not known is refused, because it is about to be forgotten."""
        node, constraints = nodes.get(check.node_id), self._constraints.get(check.predicate)
        if node is None or constraints is None:
            what = "node" if node is None else "pod with these constraints"
            return _answer(check.predicate, check.node_id, check.allocate, f"the {what} is gone", uses=1)
        return self._about(check.predicate, node, allocate=check.allocate)

    def _answers(self, names: Collection[str], nodes: Iterable[Node], nodes_count: int) -> Iterator[si.PredicateAnswer]:
        is_sparse = 2 * len(self._told) * nodes_count > PUSHED_MAX
        for node in nodes:
            for name in names:
                for allocate in (True, False):
                    answer = self._about(name, node, allocate=allocate)
                    if not (is_sparse and answer.error):
                        yield answer

    def _about(self, name: str, node: Node, *, allocate: bool) -> si.PredicateAnswer:
        """Preemption may free ports, so only for a placement they count."""
        constraints, node_id = self._constraints[name], node.metadata.name
        taken = self.taken_ports(node_id) if constraints.ports and allocate else ()
        why = refusal(constraints, node, taken)
        return _answer(name, node_id, allocate, why, uses=1 if constraints.ports and not why else None)


def _answer(name: str, node_id: str, allocate: bool, why: str, *, uses: int | None) -> si.PredicateAnswer:
    return si.PredicateAnswer(predicate=name, node_id=node_id, allocate=allocate, error=why, uses=uses)
