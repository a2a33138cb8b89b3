"""Policies for pods: quotas of namespaces, priority classes and disruption budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ykactor.kubernetes.constraints import satisfies
from ykactor.kubernetes.messages import Kind, Ref
from ykactor.kubernetes.model import LabelSelector, Namespace, Object, Pod, PodDisruptionBudget, PriorityClass
from ykactor.kubernetes.namespaces import Quotas, quotas_of
from ykactor.kubernetes.pods import ALLOW_PREEMPTION

_NO_QUOTAS = quotas_of(Namespace())


class Policies:
    """The newest of these objects; only what pods need of them is kept."""

    def __init__(self) -> None:
        self._quotas: dict[str, Quotas] = {}
        #: Priority classes whose pods may not be preempted.
        self._protected: set[str] = set()
        #: By namespace and name, budgets that allow no disruption.
        self._exhausted: dict[str, dict[str, LabelSelector]] = {}

    def take(self, kind: Kind, found: Object) -> bool:
        """An object is new or has changed; returns True if that may change what pods may do."""
        meta = found.metadata
        match found:
            case Namespace():
                before, self._quotas[meta.name] = self._quotas.get(meta.name), quotas_of(found)
                return before != self._quotas[meta.name]
            case PriorityClass():
                before_protected = meta.name in self._protected
                is_protected = _allows(meta.annotations.get(ALLOW_PREEMPTION)) is False
                (self._protected.add if is_protected else self._protected.discard)(meta.name)
                return is_protected is not before_protected
            case PodDisruptionBudget(spec=spec, status=status):
                selector = None if status.disruptions_allowed > 0 else spec.selector
                return self._set_budget(Ref(meta.namespace, meta.name), selector)
        raise AssertionError(f"{kind} says nothing about pods")

    def forget(self, kind: Kind, ref: Ref) -> bool:
        """An object was deleted; returns as ``take``."""
        if kind is Kind.NAMESPACES:
            return self._quotas.pop(ref.name, None) is not None
        if kind is Kind.BUDGETS:
            return self._set_budget(ref, None)
        was_protected = ref.name in self._protected
        self._protected.discard(ref.name)
        return was_protected

    def _set_budget(self, ref: Ref, selector: LabelSelector | None) -> bool:
        budgets = self._exhausted.setdefault(ref.namespace, {})
        before = budgets.pop(ref.name, None)
        if selector is not None:
            budgets[ref.name] = selector
        if not budgets:
            del self._exhausted[ref.namespace]
        return before != selector

    def names(self, kind: Kind) -> Iterable[Ref]:
        """The objects of this kind that say something."""
        if kind is Kind.NAMESPACES:
            return [Ref("", name) for name in self._quotas]
        if kind is Kind.BUDGETS:
            return [Ref(namespace, name) for namespace, budgets in self._exhausted.items() for name in budgets]
        return [Ref("", name) for name in self._protected]

    def quotas(self, namespace: str) -> Quotas:
        """The quotas of a namespace."""
        return self._quotas.get(namespace, _NO_QUOTAS)

    def allows_preemption(self, pod: Pod) -> bool:
        """True if the pod may be preempted like others; else it is a last resort."""
        meta = pod.metadata
        said = _allows(meta.annotations.get(ALLOW_PREEMPTION))
        if said is None:
            said = pod.spec.priority_class_name not in self._protected
        budgets = self._exhausted.get(meta.namespace, {}).values() if said else ()
        return said and not any(selects(selector, meta.labels) for selector in budgets)


def _allows(text: str | None) -> bool | None:
    """The value of the annotation; None if it is neither true nor false."""
    return {"true": True, "false": False}.get((text or "").lower())


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """True if a label selector selects these labels; an empty one selects all."""
    if any(labels.get(name) != value for name, value in selector.match_labels.items()):
        return False
    return all(satisfies(requirement, labels) for requirement in selector.match_expressions)
