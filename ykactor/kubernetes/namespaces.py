"""Annotations of namespaces: quotas of their queues, and the queue above them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from ykactor.kubernetes import quantities
from ykactor.kubernetes.model import Namespace

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
