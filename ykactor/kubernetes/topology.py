"""Constraints between pods: required affinity and anti-affinity, and spreading over the domains of a topology.

A *term* selects pods and counts those that have a place by domain: the value of a label of their nodes. Wishes of pods refer
to terms, so that many pods share the counts, and a pod that comes or goes touches only the terms that select it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ykactor.kubernetes.constraints import satisfies
from ykactor.kubernetes.index import Index
from ykactor.kubernetes.model import LabelSelector, Node, Pod, PodAffinityTerm, Requirement, TopologySpreadConstraint

# ---- wishes


class Term(Struct, frozen=True, order=True):
    """Pods that a constraint is about, and the label of nodes whose values are the domains.

    Attributes:
        key: the label of nodes.
        requirements: on the labels of pods: key, operator and values.
        namespaces: of the pods; None for all.
        in_namespaces: requirements on the labels of further namespaces; None for no further ones.
    """

    key: str
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...]
    namespaces: tuple[str, ...] | None
    in_namespaces: tuple[tuple[str, str, tuple[str, ...]], ...] | None = None

    def selects(self, pod: Pod, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
        """True if the term is about a pod.

        Args:
            namespaces: the labels of namespaces, by name.
        """
        name = pod.metadata.namespace
        is_named = self.namespaces is None or name in self.namespaces
        if not is_named and (self.in_namespaces is None or not _meets(self.in_namespaces, namespaces.get(name, {}))):
            return False
        return _meets(self.requirements, pod.metadata.labels)


class Spread(Struct, frozen=True, order=True):
    """A topologySpreadConstraint with DoNotSchedule.

    Attributes:
        max_skew: how many more pods a domain may have than the one that has the fewest.
        min_domains: with fewer domains than this the fewest counts as 0; 1 if the pod does not say.
        honours_affinity, honours_taints: only nodes that the selectors or tolerations of the pod admit make domains.
    """

    term: Term
    max_skew: int
    min_domains: int
    honours_affinity: bool
    honours_taints: bool


class Wishes(Struct, frozen=True):
    """The requirements of a pod on the pods near it, in a form that is equal for equal wishes.

    Attributes:
        near: it runs only where a pod of each of these terms is.
        far: it runs only where no pod of these terms is.
        spread: how it is spread with its like.
        own: the terms among them that select the pod itself.
        unwelcome: terms of other pods that want no pod like this one near them.
    """

    near: tuple[Term, ...] = ()
    far: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    own: tuple[Term, ...] = ()
    unwelcome: tuple[Term, ...] = ()

    def terms_of_its_own(self) -> tuple[tuple[Term, ...], tuple[Term, ...], tuple[Spread, ...]]:
        """The part that the pod itself says."""
        return self.near, self.far, self.spread

    def terms(self) -> Iterator[Term]:
        """All terms that decide about the pod."""
        yield from self.near
        yield from self.far
        yield from (each.term for each in self.spread)
        yield from self.unwelcome


NO_WISHES = Wishes()


def wishes_of(pod: Pod, namespaces: Mapping[str, Mapping[str, str]]) -> Wishes:
    """The wishes of a pod, without those of other pods about it; ``namespaces`` as in ``Term.selects``."""
    affinity = pod.spec.affinity
    near = affinity.pod_affinity.required if affinity is not None and affinity.pod_affinity is not None else ()
    far = affinity.pod_anti_affinity.required if affinity is not None and affinity.pod_anti_affinity is not None else ()
    spread = [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == "DoNotSchedule"]
    if not (near or far or spread):
        return NO_WISHES
    found = Wishes(
        near=_together(_term(each, pod) for each in near),
        far=_ordered(_term(each, pod) for each in far),
        spread=tuple(sorted({_spread(each, pod) for each in spread})),
    )
    own = tuple(sorted({term for term in found.terms() if term.selects(pod, namespaces)}))
    return Wishes(found.near, found.far, found.spread, own)


def _together(terms: Iterable[Term]) -> tuple[Term, ...]:
    """A pod counts for affinity only if it meets all terms, so each of them has the requirements of all."""
    found = list(terms)
    requirements = _sorted({each for term in found for each in term.requirements})
    return _ordered(Term(term.key, requirements, term.namespaces, term.in_namespaces) for term in found)


def _ordered(terms: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(sorted(set(terms)))


def _term(wanted: PodAffinityTerm, pod: Pod) -> Term:
    labels = pod.metadata.labels
    more = {(key, "In", (labels[key],)) for key in wanted.match_label_keys if key in labels}
    more |= {(key, "NotIn", (labels[key],)) for key in wanted.mismatch_label_keys if key in labels}
    requirements = _sorted({*_requirements(wanted.label_selector), *more})
    if wanted.namespace_selector is None:
        named = tuple(sorted(wanted.namespaces)) or (pod.metadata.namespace,)
        return Term(wanted.topology_key, requirements, named)
    in_namespaces = _sorted(_requirements(wanted.namespace_selector))
    if not in_namespaces:  # an empty selector selects all namespaces
        return Term(wanted.topology_key, requirements, None)
    return Term(wanted.topology_key, requirements, tuple(sorted(wanted.namespaces)), in_namespaces)


def _spread(wanted: TopologySpreadConstraint, pod: Pod) -> Spread:
    labels = pod.metadata.labels
    more = {(key, "In", (labels[key],)) for key in wanted.match_label_keys if key in labels}
    requirements = _sorted({*_requirements(wanted.label_selector), *more})
    return Spread(
        Term(wanted.topology_key, requirements, (pod.metadata.namespace,)),
        wanted.max_skew,
        wanted.min_domains or 1,
        wanted.node_affinity_policy != "Ignore",
        wanted.node_taints_policy == "Honor",
    )


_Requirement = tuple[str, str, tuple[str, ...]]


def _requirements(selector: LabelSelector | None) -> set[_Requirement]:
    """The requirements of a selector; an absent one selects nothing, unlike an empty one."""
    if selector is None:
        return {("", "Nothing", ())}
    labels = {(key, "In", (value,)) for key, value in selector.match_labels.items()}
    return labels | {(each.key, each.operator, tuple(sorted(each.values))) for each in selector.match_expressions}


def _sorted(requirements: Iterable[_Requirement]) -> tuple[_Requirement, ...]:
    return tuple(sorted(requirements))


def _meets(requirements: Iterable[_Requirement], labels: Mapping[str, str]) -> bool:
    return all(satisfies(Requirement(key, operator, values), labels) for key, operator, values in requirements)


# ---- the places of pods

#: What answers about all nodes depend on: for each term of affinity whether any pod is there, for each spread the fewest.
Signature = tuple[object, ...]


class _Counts:
    """The pods of a term that have a place, by domain, and those that want no pod of the term near them."""

    __slots__ = ("by_domain", "owners", "users")

    def __init__(self) -> None:
        self.by_domain: Counter[str] = Counter()
        self.owners: Counter[str] = Counter()
        #: How many pods, with a place or not, have wishes about this term.
        self.users = 0


class Topology:
    """The terms that pods have wishes about, and the places of pods.

    Attributes:
        nodes: by name.
        namespaces: the labels of namespaces, by name.
        changed: the terms about which answers may have changed since this was read last, each with the domains where pods have
            come or gone.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.changed: dict[Term, set[str]] = {}
        self._terms: dict[Term, _Counts] = {}
        #: The terms by a label that the pods of the term have; None for those without one.
        self._by_label = Index[tuple[str, str] | None, Term]()
        #: How many pods want no pod of the term near them.
        self._far: Counter[Term] = Counter()
        self._placed: dict[str, tuple[Pod, Wishes, str]] = {}
        #: The names of the nodes by their labels.
        self._labelled = Index[tuple[str, str], str]()

    # ---- terms

    def use(self, wishes: Wishes) -> list[Term]:
        """One more pod has these wishes; returns the terms of anti-affinity that are new, which also decide about other pods."""
        for term in _own_terms(wishes):
            counts = self._terms.get(term)
            if counts is None:
                counts = self._terms[term] = self._counted(term)
                self._by_label.add(_label_of(term), term)
            counts.users += 1
        new = [term for term in wishes.far if not self._far[term]]
        self._far.update(wishes.far)
        return new

    def disuse(self, wishes: Wishes) -> None:
        """One pod less has these wishes."""
        self._far.subtract(wishes.far)
        for term in wishes.far:
            if not self._far[term]:
                del self._far[term]
        for term in _own_terms(wishes):
            self._terms[term].users -= 1
            if not self._terms[term].users:
                del self._terms[term]
                self._by_label.discard(_label_of(term), term)

    def _counted(self, term: Term) -> _Counts:
        counts = _Counts()
        for pod, wishes, place in self._placed.values():
            domain = self._domain(term, place)
            if domain is None:
                continue
            counts.by_domain[domain] += term.selects(pod, self.namespaces)
            counts.owners[domain] += term in wishes.far
        return counts

    def unwelcome(self, pod: Pod) -> tuple[Term, ...]:
        """The terms of anti-affinity, also of other pods, that select a pod."""
        return tuple(sorted(term for term in self._selecting(pod) if term in self._far))

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """A namespace is new, has changed or is gone (None); returns True if terms may select other pods of it than before."""
        if self.namespaces.get(name) == labels:
            return False
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = labels
        concerned = [term for term in self._terms if term.in_namespaces is not None]
        for term in concerned:
            counts, fresh = self._terms[term], self._counted(term)
            self.changed.setdefault(term, set()).update(counts.by_domain, counts.owners, fresh.by_domain, fresh.owners)
            counts.by_domain, counts.owners = fresh.by_domain, fresh.owners
        return bool(concerned)

    def _selecting(self, pod: Pod) -> Iterator[Term]:
        """The terms that select a pod."""
        if not self._terms:
            return
        labels: list[tuple[str, str] | None] = [None, *pod.metadata.labels.items()]
        for label in labels:
            for term in self._by_label.of(label):
                if term.selects(pod, self.namespaces):
                    yield term

    # ---- places

    def settle(self, key: str, pod: Pod, wishes: Wishes, place: str) -> None:
        """A pod has a place."""
        self._placed[key] = pod, wishes, place
        self._count(pod, wishes, place, 1)

    def unsettle(self, key: str) -> None:
        """A pod has none any more."""
        found = self._placed.pop(key, None)
        if found is not None:
            self._count(*found, -1)

    def put_node(self, name: str, node: Node | None, keys: Iterable[str]) -> None:
        """A node is new, has changed or is gone (None), and with it the domains of its pods.

        Args:
            keys: of the pods that have their place there.
        """
        before = self.nodes.get(name)
        if before is not None and node is not None and admission(before) == admission(node):
            self.nodes[name] = node
            return
        self._label(name, before, node)
        placed = [self._placed[key] for key in keys if key in self._placed]
        for each in placed:
            self._count(*each, -1)
        if node is None:
            del self.nodes[name]
        else:
            self.nodes[name] = node
        for each in placed:
            self._count(*each, 1)
        labels = {name for each in (before, node) if each is not None for name in each.metadata.labels}
        for term in self._terms:  # there may be other domains than before, and the fewest pods in another one
            if term.key in labels:
                self.changed.setdefault(term, set())

    def _label(self, name: str, before: Node | None, after: Node | None) -> None:
        for label in before.metadata.labels.items() if before is not None else ():
            self._labelled.discard(label, name)
        for label in after.metadata.labels.items() if after is not None else ():
            self._labelled.add(label, name)

    def in_domains(self, domains: Iterable[tuple[str, str]]) -> dict[str, None]:
        """The names of the nodes in some domains, each given by its label and value."""
        return {name: None for domain in domains for name in self._labelled.of(domain)}

    def _count(self, pod: Pod, wishes: Wishes, place: str, change: int) -> None:
        for term in list(self._selecting(pod)):
            domain = self._domain(term, place)
            if domain is not None:
                self._terms[term].by_domain[domain] += change
                self.changed.setdefault(term, set()).add(domain)
        for term in wishes.far:
            domain = self._domain(term, place)
            if domain is not None and term in self._terms:
                self._terms[term].owners[domain] += change
                self.changed.setdefault(term, set()).add(domain)

    def take_changed(self) -> dict[Term, set[str]]:
        """The terms of ``changed``, which is empty afterwards."""
        changed, self.changed = self.changed, {}
        return changed

    def _domain(self, term: Term, place: str) -> str | None:
        node = self.nodes.get(place)
        return None if node is None else node.metadata.labels.get(term.key)

    # ---- answers

    def refusal(self, wishes: Wishes, node: Node, fewest: Sequence[int]) -> str:
        """The reason why a node cannot take one more pod with these wishes; "" if it can.

        Args:
            fewest: of each spread, from the method of this name.
        """
        labels = node.metadata.labels
        for term in wishes.far:
            if self._of(term).by_domain[labels.get(term.key, "")] > 0:
                return f"anti-affinity: a pod that it avoids is in {term.key} {labels[term.key]}"
        for term in wishes.unwelcome:
            if self._of(term).owners[labels.get(term.key, "")] > 0:
                return f"anti-affinity of another pod in {term.key} {labels[term.key]}"
        for term in wishes.near:
            if not self._is_near(term, wishes, labels):
                return f"affinity: no pod that it needs is in its {term.key}"
        skews = (self._skews(spread, wishes, labels, least) for spread, least in zip(wishes.spread, fewest, strict=True))
        return next(filter(None, skews), "")

    def signature(self, wishes: Wishes, fewest: Sequence[int]) -> Signature:
        """Answers about all nodes may have changed if this has changed."""
        return *(any(self._of(term).by_domain.values()) for term in wishes.near), *fewest

    def fewest(self, wishes: Wishes, domains: Sequence[Collection[str]]) -> list[int]:
        """The number of pods in the domain that has the fewest, for each spread; 0 if the pod wants more domains than there are.

        Args:
            domains: those of each spread that nodes make.
        """
        counts = [self._of(spread.term).by_domain for spread in wishes.spread]
        return [
            min(map(count.__getitem__, there), default=0) if len(there) >= spread.min_domains else 0
            for spread, count, there in zip(wishes.spread, counts, domains, strict=True)
        ]

    def _of(self, term: Term) -> _Counts:
        return self._terms.get(term) or _Counts()

    def _is_near(self, term: Term, wishes: Wishes, labels: Mapping[str, str]) -> bool:
        """The first of pods that want to be near each other may begin anywhere."""
        if term.key not in labels:
            return False
        counts = self._of(term).by_domain
        return counts[labels[term.key]] > 0 or (term in wishes.own and not any(counts.values()))

    def _skews(self, spread: Spread, wishes: Wishes, labels: Mapping[str, str], fewest: int) -> str:
        term = spread.term
        if term.key not in labels:
            return f"spread: the node has no label {term.key}"
        there = self._of(term).by_domain[labels[term.key]] + (term in wishes.own)
        if there - fewest <= spread.max_skew:
            return ""
        return f"spread: {term.key} {labels[term.key]} would have {there} pods, and another one has {fewest}"


def _own_terms(wishes: Wishes) -> Iterable[Term]:
    return {*wishes.near, *wishes.far, *(each.term for each in wishes.spread)}


def admission(node: Node) -> object:
    """The part of a node that decides which pods count it as a domain."""
    return node.metadata.labels, node.spec.taints


def _label_of(term: Term) -> tuple[str, str] | None:
    """A label that each pod of the term has; None if its requirements name none."""
    return next(((key, values[0]) for key, operator, values in term.requirements if operator == "In" and len(values) == 1), None)
