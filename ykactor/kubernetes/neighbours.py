"""Constraints between pods: required affinity and anti-affinity, and spreading over the domains of a topology.

A *term* selects pods and counts those that have a place by domain: the value of a label of their nodes. Wishes of pods refer
to terms, so that many pods share the counts, and a pod that comes or goes touches only the terms that select it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from ykactor.kubernetes.constraints import satisfies
from ykactor.kubernetes.model import LabelSelector, Pod, PodAffinityTerm, Requirement, TopologySpreadConstraint


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


NONE = Wishes()


def wishes_of(pod: Pod, namespaces: Mapping[str, Mapping[str, str]]) -> Wishes:
    """The wishes of a pod, without those of other pods about it; ``namespaces`` as in ``Term.selects``."""
    affinity = pod.spec.affinity
    near = affinity.pod_affinity.required if affinity is not None and affinity.pod_affinity is not None else ()
    far = affinity.pod_anti_affinity.required if affinity is not None and affinity.pod_anti_affinity is not None else ()
    spread = [each for each in pod.spec.topology_spread_constraints if each.when_unsatisfiable == "DoNotSchedule"]
    if not (near or far or spread):
        return NONE
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
