"""The permissions that the adapter needs on the API server, and which of them it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import trio
from msgspec import Struct

from ykactor.kubernetes.api import Api, ApiError

#: A server that starts refuses whom it knows, so a refusal is asked about again.
ATTEMPTS, PAUSE_S = 3, 2.0


class Permission(Struct, frozen=True):
    """A permission.

    Attributes:
        resource: such as ``pods`` or ``pods/binding``.
        is_own: only in the namespace of the adapter.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    is_own: bool = False


#: All of it; the role in ``config/kubernetes`` is the same.
NEEDED = (
    Permission("", "nodes", ("list", "watch")),
    Permission("", "namespaces", ("list", "watch")),
    Permission("", "persistentvolumes", ("list", "watch")),
    Permission("", "persistentvolumeclaims", ("list", "watch", "patch")),
    Permission("storage.k8s.io", "storageclasses", ("list", "watch")),
    Permission("storage.k8s.io", "csinodes", ("list", "watch")),
    Permission("storage.k8s.io", "csidrivers", ("list", "watch")),
    Permission("storage.k8s.io", "csistoragecapacities", ("list", "watch")),
    Permission("", "pods", ("list", "watch", "create", "delete")),
    Permission("", "pods/binding", ("create",)),
    Permission("", "pods/status", ("patch",)),
    Permission("scheduling.k8s.io", "priorityclasses", ("list", "watch")),
    Permission("policy", "poddisruptionbudgets", ("list", "watch")),
    Permission("scheduling.k8s.io", "podgroups", ("list", "watch")),
    Permission("scheduling.k8s.io", "podgroups/status", ("patch",)),
    Permission("events.k8s.io", "events", ("create", "patch")),
    Permission("", "configmaps", ("list", "watch"), is_own=True),
    Permission("coordination.k8s.io", "leases", ("get", "create", "update"), is_own=True),
)


class _ReviewStatus(Struct, frozen=True):
    allowed: bool = False


class _Review(Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


async def missing(api: Api, namespace: str) -> list[str]:
    """The permissions that the adapter does not have, in words.

    Args:
        namespace: its own.

    Raises:
        ApiError: the server does not answer.
    """
    return [words for words, attributes in _attributes(namespace) if not await _may(api, attributes)]


async def _may(api: Api, attributes: dict[str, str]) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    attempt = 0
    while True:
        try:
            review = await api.read("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", _Review, "POST", body)
        except ApiError as error:
            attempt += 1
            if error.status != 403 or attempt == ATTEMPTS:
                raise
            await trio.sleep(PAUSE_S)
        else:
            return review.status.allowed


def _attributes(namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for permission in NEEDED:
        resource, _, subresource = permission.resource.partition("/")
        for verb in permission.verbs:
            where = {"namespace": namespace} if permission.is_own else {}
            attributes = {"group": permission.group, "resource": resource, "verb": verb, **where}
            if subresource:
                attributes["subresource"] = subresource
            group = f" of {permission.group}" if permission.group else ""
            place = f" in namespace {namespace}" if permission.is_own else ""
            yield f"{verb} {permission.resource}{group}{place}", attributes
