"""Quotas in tags: the SI's Resource in JSON, in base units (QU-100 to QU-102)."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ykactor.core.values.resources import QUANTITY_MAX, Resource

MAX_TAG, GUARANTEED_TAG = "namespace.resourcequota", "namespace.resourceguaranteed"


class _Quantity(Struct):
    value: int


class _Quota(Struct):
    resources: dict[str, _Quantity]


def quota(text: str) -> Resource | None:
    """The quota that a text says; None for an invalid one, which changes nothing (QU-101, QU-102)."""
    if not text:
        return None
    try:
        resource = {name: quantity.value for name, quantity in msgspec.json.decode(text, type=_Quota).resources.items()}
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):  # whatever a client writes
        return None
    values = resource.values()
    legal = any(values) and all(0 <= value <= QUANTITY_MAX for value in values)
    return resource if legal else None


def quota_types(tags: dict[str, str]) -> set[str]:
    """The resource types of all quotas in tags, whose names may have any case."""
    texts = [value for tag, value in tags.items() if tag.lower() in (MAX_TAG, GUARANTEED_TAG)]
    return {name for text in texts for name in quota(text) or ()}
