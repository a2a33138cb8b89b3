"""Policies for pods: quotas of namespaces, priority classes and disruption budgets."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from ykactor.kubernetes import quantities
from ykactor.kubernetes.constraints import selects
from ykactor.kubernetes.messages import Ref
from ykactor.kubernetes.model import LabelSelector, Namespace, Pod, PodDisruptionBudget, PriorityClass
from ykactor.kubernetes.pods import ALLOW_PREEMPTION

# ---- quotas in annotations of namespaces

_PREFIX = "yunikorn.apache.org/"
_QUOTA, _GUARANTEED, _MAX_APPS, _PARENT = "namespace.quota", "namespace.guaranteed", "namespace.maxApps", "parentqueue"
_OLD_CPU, _OLD_MEMORY = "namespace.max.cpu", "namespace.max.memory"
MAX_TAG, GUARANTEED_TAG, APPLICATIONS_TAG = "namespace.resourcequota", "namespace.resourceguaranteed", "namespace.resourcemaxapps"
PARENT_TAG = "namespace.parentqueue"


class Quotas(Struct, frozen=True):
    """The quotas in the annotations of a namespace.

    Attributes:
        tags: quota tags of applications (QU-100); "" for what the namespace does not limit.
        parent: the queue above that of the namespace; "" if it does not say.
        complaints: about annotations that cannot be read; they count as absent.
    """

    tags: dict[str, str]
    parent: str
    complaints: tuple[str, ...]


def quotas_of(namespace: Namespace) -> Quotas:
    """The quotas of a namespace."""
    complaints: list[str] = []

    def read(name: str) -> str:
        annotations = namespace.metadata.annotations
        return annotations.get(_PREFIX + name, "")

    quota = _resources(read(_QUOTA), _QUOTA, complaints) or _resources(_old(read), "namespace.max", complaints)
    tags = {
        MAX_TAG: quota,
        GUARANTEED_TAG: _resources(read(_GUARANTEED), _GUARANTEED, complaints),
        APPLICATIONS_TAG: _count(read(_MAX_APPS), complaints),
    }
    return Quotas(tags, read(_PARENT), tuple(complaints))


def _old(read: Callable[[str], str]) -> str:
    """The two annotations of old as the newer one."""
    found = {"cpu": read(_OLD_CPU), "memory": read(_OLD_MEMORY)}
    given = {name: value for name, value in found.items() if value}
    return msgspec.json.encode(given).decode() if given else ""


def _resources(text: str, name: str, complaints: list[str]) -> str:
    """The SI's Resource in JSON; "" if it is absent or wrong."""
    if not text:
        return ""
    try:
        given = msgspec.json.decode(text, type=dict[str, str])
        found = quantities.amounts(given, up=False)
    except (msgspec.DecodeError, RecursionError, quantities.QuantityError) as error:
        complaints.append(f"annotation {_PREFIX}{name}: {error}, expected JSON such as " + '{"cpu": "4", "memory": "8Gi"}')
        return ""
    if not any(found.values()):
        complaints.append(f"annotation {_PREFIX}{name}: found no quantity above 0, expected one")
        return ""
    return msgspec.json.encode({"resources": {each: {"value": value} for each, value in found.items()}}).decode()


def _count(text: str, complaints: list[str]) -> str:
    if not text:
        return ""
    if text.isascii() and text.isdigit() and len(text) < 19 and int(text):
        return text
    complaints.append(f"annotation {_PREFIX}{_MAX_APPS}: found {text[:40]!r}, expected a number above 0")
    return ""


_NO_QUOTAS = quotas_of(Namespace())


# ---- policies


class Policies:
    """The newest of these objects; only what pods need of them is kept.

    Attributes:
        namespaces: their quotas.
        protected: priority classes whose pods may not be preempted.
    """

    def __init__(self) -> None:
        self.namespaces: dict[str, Quotas] = {}
        self.protected: set[str] = set()
        #: By namespace and name, budgets that allow no disruption.
        self._exhausted: dict[str, dict[str, LabelSelector]] = {}

    # Each object is new, has changed or is gone (None); True is returned if that may change what pods may do.

    def put_namespace(self, name: str, found: Namespace | None) -> bool:
        """The quotas of a namespace."""
        before, after = self.namespaces.pop(name, None), None if found is None else quotas_of(found)
        if after is not None:
            self.namespaces[name] = after
        return before != after

    def put_class(self, name: str, found: PriorityClass | None) -> bool:
        """A priority class, whose pods may be preempted or not."""
        was_protected = name in self.protected
        is_protected = found is not None and _allows(found.metadata.annotations.get(ALLOW_PREEMPTION)) is False
        (self.protected.add if is_protected else self.protected.discard)(name)
        return is_protected is not was_protected

    def put_budget(self, ref: Ref, found: PodDisruptionBudget | None) -> bool:
        """A disruption budget, which counts if it allows no disruption."""
        selector = found.spec.selector if found is not None and found.status.disruptions_allowed <= 0 else None
        budgets = self._exhausted.setdefault(ref.namespace, {})
        before = budgets.pop(ref.name, None)
        if selector is not None:
            budgets[ref.name] = selector
        if not budgets:
            del self._exhausted[ref.namespace]
        return before != selector

    def budgets(self) -> list[Ref]:
        """The disruption budgets that allow no disruption."""
        return [Ref(namespace, name) for namespace, budgets in self._exhausted.items() for name in budgets]

    def quotas(self, namespace: str) -> Quotas:
        """The quotas of a namespace."""
        return self.namespaces.get(namespace, _NO_QUOTAS)

    def allows_preemption(self, pod: Pod) -> bool:
        """True if the pod may be preempted like others; else it is a last resort."""
        meta = pod.metadata
        said = _allows(meta.annotations.get(ALLOW_PREEMPTION))
        if said is None:
            said = pod.spec.priority_class_name not in self.protected
        budgets = self._exhausted.get(meta.namespace, {}).values() if said else ()
        return said and not any(selects(selector, meta.labels) for selector in budgets)


def _allows(text: str | None) -> bool | None:
    """The value of the annotation; None if it is neither true nor false."""
    return {"true": True, "false": False}.get((text or "").lower())
