"""Predicate classes: pods for which one answer about a node is enough, and these answers.

What decides about a pod are its constraints, the ports that pods have on nodes, where the pods are that it has wishes about, and
where the volumes of its claims are or can be.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec
from msgspec import Struct

from ykactor.kubernetes import volumes
from ykactor.kubernetes.constraints import Constraints, HostPort, refusal, selector_refusal, taint_refusal
from ykactor.kubernetes.index import Index
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import Node
from ykactor.kubernetes.topology import Signature, Spread, Term, Topology, Wishes, admission
from ykactor.kubernetes.volumes import Capacities, Capacity, Needs
from ykactor.wire.si import messages as si

#: The daemon keeps 200,000 answers: beyond this number only nodes that a class may use are told unasked.
PUSHED_MAX = 150_000
#: A class without a pod for so long is forgotten.
IDLE_S = 600.0


class PodClass(Struct, frozen=True):
    """A class of pods: all that decides about the nodes on which they may run."""

    constraints: Constraints
    wishes: Wishes
    needs: Needs = Needs()

    def name(self) -> str:
        """Equal for equal classes, also in another process."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:32]

    def admits(self, node: Node, spread: Spread) -> bool:
        """True if a node makes a domain of a spread."""
        is_selected = not (spread.honours_affinity and selector_refusal(self.constraints, node))
        return is_selected and not (spread.honours_taints and taint_refusal(self.constraints, node))

    @property
    def is_used_up(self) -> bool:
        """True if a placement may change the answer about its node."""
        return bool(self.constraints.ports or self.wishes.own)


class Classes:
    """The classes of the pods that are known, by name.

    Attributes:
        topology: where pods are.
        capacities: where there is room for volumes.
    """

    def __init__(self) -> None:
        self.topology = Topology()
        self.capacities = Capacities()
        self._classes: dict[str, PodClass] = {}
        self._counts: dict[str, int] = {}
        self._idle_since_s: dict[str, float] = {}
        #: The classes about which the daemon was told, with what all its answers depended on.
        self._told: dict[str, Signature] = {}
        #: Those of pods about which it has to be told.
        self._untold: dict[str, None] = {}
        self._by_term = Index[Term, str]()
        self._by_storage_class = Index[str, str]()
        self._ports: dict[str, dict[str, tuple[HostPort, ...]]] = {}
        #: For each spread of a class that has some, the domains that nodes make, with the number of these nodes.
        self._domains: dict[str, list[Counter[str]]] = {}

    @property
    def count(self) -> int:
        """The number of known classes."""
        return len(self._classes)

    def add(self, pod_class: PodClass) -> str:
        """Count one more pod of this class; returns its name."""
        name = pod_class.name()
        if name not in self._classes:
            self._classes[name] = pod_class
            for term in pod_class.wishes.terms():
                self._by_term.add(term, name)
            for each in pod_class.needs.provisions:
                self._by_storage_class.add(each.storage_class, name)
            if pod_class.wishes.spread:
                self._domains[name] = [Counter() for _ in pod_class.wishes.spread]
                for node in self.topology.nodes.values():
                    self._count_node(name, node, 1)
        self._counts[name] = self._counts.get(name, 0) + 1
        self._idle_since_s.pop(name, None)
        if name not in self._told:
            self._untold[name] = None
        return name

    def discard(self, name: str, now_s: float) -> None:
        """Count one pod less."""
        self._counts[name] -= 1
        if not self._counts[name]:
            self._idle_since_s[name] = now_s
            self._untold.pop(name, None)

    def forget_idle(self, now_s: float) -> list[si.PredicateScope]:
        """Forget classes without a pod; returns what the daemon has to forget."""
        ended = [name for name, _ in takewhile(lambda idle: now_s - idle[1] >= IDLE_S, self._idle_since_s.items())]
        for name in ended:
            pod_class = self._classes.pop(name)
            for term in pod_class.wishes.terms():
                self._by_term.discard(term, name)
            for each in pod_class.needs.provisions:
                self._by_storage_class.discard(each.storage_class, name)
            self._domains.pop(name, None)
            del self._counts[name], self._idle_since_s[name]
        return [si.PredicateScope(predicate=name) for name in ended if self._told.pop(name, None) is not None]

    def is_sparse(self, nodes_count: int) -> bool:
        """True if answers about all these nodes are too many: then the daemon is told only of nodes that a class may use."""
        return 2 * len(self._told) * nodes_count > PUSHED_MAX

    def forget_told(self) -> None:
        """The daemon has to be told everything again."""
        self._told.clear()
        self._untold = {name: None for name in self._classes if name not in self._idle_since_s}

    # ---- nodes

    def put_node(self, name: str, node: Node | None, keys: Iterable[str]) -> None:
        """A node is new, has changed or is gone (None); ``keys`` are those of the pods that have their place there."""
        before = self.topology.nodes.get(name)
        self.topology.put_node(name, node, keys)
        if before is not None and node is not None and admission(before) == admission(node):
            return
        for each in self._domains:
            self._count_node(each, before, -1)
            self._count_node(each, node, 1)

    def _count_node(self, name: str, node: Node | None, change: int) -> None:
        """A node makes domains of the spreads of a class, or no longer."""
        pod_class = self._classes[name]
        for spread, domains in zip(pod_class.wishes.spread, self._domains[name], strict=True):
            domain = None if node is None else node.metadata.labels.get(spread.term.key)
            if node is not None and domain is not None and pod_class.admits(node, spread):
                domains[domain] += change
                if not domains[domain]:
                    del domains[domain]

    def _fewest(self, name: str) -> list[int]:
        return self.topology.fewest(self._classes[name].wishes, self._domains.get(name, ()))

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

    def _taken_ports(self, node: str) -> list[HostPort]:
        return [port for ports in self._ports.get(node, {}).values() for port in ports]

    # ---- answers

    @property
    def has_new(self) -> bool:
        """True if the daemon has to be told about a class, or again about one."""
        return bool(self._untold or self.topology.changed)

    def about_new_classes(self, nodes: Mapping[str, Node]) -> Iterable[si.PredicateAnswer]:
        """Answers about the classes that the daemon does not know yet, for these nodes, which it knows."""
        new, self._untold = list(self._untold), {}
        for name in new:
            self._told[name] = self._signature(name)
        return self._answers(new, nodes.values(), len(nodes)) if new else ()

    def about_node(self, node: Node, nodes_count: int) -> Iterator[si.PredicateAnswer]:
        """Answers about a node that is new or has changed, for all classes that the daemon knows."""
        return self._answers(list(self._told), [node], nodes_count)

    def about_ports(self, node: Node, ports: Collection[HostPort]) -> Iterator[si.PredicateAnswer]:
        """Answers about a node on which these ports were taken or freed, for the classes that want some of them."""
        wanting = [
            name
            for name in self._told
            if any(port.conflicts(other) for port in self._classes[name].constraints.ports for other in ports)
        ]
        return self._answers(wanting, [node], 1)

    def about_terms(self, nodes: Mapping[str, Node]) -> Iterator[si.PredicateAnswer]:
        """Answers that have changed because pods of terms have come or gone, or domains have.

        Args:
            nodes: those that the daemon knows.
        """
        changed = self.topology.take_changed()
        names = dict.fromkeys(name for term in changed for name in self._by_term.of(term) if name in self._told)
        for name in names:
            signature = self._signature(name)
            if signature != self._told[name]:
                self._told[name] = signature
                concerned: Iterable[Node] = nodes.values()
            else:
                concerned = self._in_domains(name, changed, nodes)
            yield from self._answers([name], concerned, 1)

    def _signature(self, name: str) -> Signature:
        return self.topology.signature(self._classes[name].wishes, self._fewest(name))

    def _in_domains(self, name: str, changed: Mapping[Term, set[str]], nodes: Mapping[str, Node]) -> Iterator[Node]:
        """The nodes in the domains where something has changed for a class."""
        terms = self._classes[name].wishes.terms()
        domains = [(term.key, value) for term in terms for value in changed.get(term, ())]
        for each in self.topology.in_domains(domains):
            node = nodes.get(each)
            if node is not None:
                yield node

    def about_capacity(self, ref: Ref, capacity: Capacity | None, nodes: Iterable[Node]) -> list[si.PredicateAnswer]:
        """Answers that change because a capacity is new, another one or gone (None).

        Args:
            nodes: those that the daemon knows.
        """
        before = self.capacities.put(ref, capacity)
        known = [each for each in (before, capacity) if each is not None]
        names = dict.fromkeys(name for each in known for name in self._by_storage_class.of(each.storage_class))
        concerned = [name for name in names if name in self._told and _is_news(self._classes[name].needs, before, capacity)]
        return list(self._answers(concerned, [node for node in nodes if _covers(known, node)], 1)) if concerned else []

    def answer(self, check: si.PredicateCheck, node: Node | None) -> si.PredicateAnswer:
        """The answer to a question about a node; what is not known is refused, because it is about to be forgotten."""
        pod_class = self._classes.get(check.predicate)
        if node is None or pod_class is None:
            what = "node" if node is None else "pod with these constraints"
            return _answer(check.predicate, check.node_id, check.allocate, f"the {what} is gone", uses=1)
        return self._about(check.predicate, node, self._fewest(check.predicate), allocate=check.allocate)

    def refusal(self, name: str, node: Node) -> str:
        """The reason why a node cannot take one more pod of a class now; "" if it can."""
        return self._refusal(self._classes[name], node, self._fewest(name), allocate=True)

    def _answers(self, names: Iterable[str], nodes: Iterable[Node], nodes_count: int) -> Iterator[si.PredicateAnswer]:
        is_sparse = self.is_sparse(nodes_count)
        known = list(nodes)
        for name in names:
            fewest = self._fewest(name)
            for node in known:
                for allocate in (True, False):
                    answer = self._about(name, node, fewest, allocate=allocate)
                    if not (is_sparse and answer.error):
                        yield answer

    def _about(self, name: str, node: Node, fewest: Sequence[int], *, allocate: bool) -> si.PredicateAnswer:
        pod_class = self._classes[name]
        why = self._refusal(pod_class, node, fewest, allocate=allocate)
        uses = 1 if pod_class.is_used_up and not why else None
        return _answer(name, node.metadata.name, allocate, why, uses=uses)

    def _refusal(self, pod_class: PodClass, node: Node, fewest: Sequence[int], *, allocate: bool) -> str:
        """Preemption may free ports, so only for a placement they count."""
        ports = pod_class.constraints.ports
        taken = self._taken_ports(node.metadata.name) if ports and allocate else ()
        why = refusal(pod_class.constraints, node, taken) or self.topology.refusal(pod_class.wishes, node, fewest)
        return why or volumes.refusal(pod_class.needs, node, self.capacities.has_room)


def _is_news(needs: Needs, before: Capacity | None, after: Capacity | None) -> bool:
    """True if a capacity is enough for a volume and was not, or the reverse, or other nodes can use it."""
    if before is None or after is None or (before.storage_class, before.nodes) != (after.storage_class, after.nodes):
        return True
    low, high = sorted((before.size, after.size))
    return any(each.storage_class == after.storage_class and low < each.size <= high for each in needs.provisions)


def _covers(capacities: Iterable[Capacity], node: Node) -> bool:
    return any(each.covers(node.metadata.labels) for each in capacities)


def _answer(name: str, node_id: str, allocate: bool, why: str, *, uses: int | None) -> si.PredicateAnswer:
    return si.PredicateAnswer(predicate=name, node_id=node_id, allocate=allocate, error=why, uses=uses)
