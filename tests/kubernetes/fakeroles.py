"""Who may do what on the fake API server: a table of permissions, as RBAC has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Access(NamedTuple):
    """What somebody wants to do; ``resource`` is such as ``pods`` or ``pods/binding``."""

    verb: str
    group: str
    resource: str
    namespace: str


class Role:
    """Permissions in the whole cluster, and in one namespace.

    Attributes:
        used: what was permitted and done, with the namespace of the permission.
    """

    def __init__(self, permissions: Iterable[Access]) -> None:
        self.permissions = frozenset(permissions)
        self.used: set[Access] = set()

    @classmethod
    def of(cls, documents: Iterable[dict[str, Any]], namespace: str) -> Role:
        """The permissions of manifests: a ClusterRole, and a Role in this namespace."""
        return cls(
            Access(verb, group, resource, namespace if found["kind"] == "Role" else "")
            for found in documents
            for rule in found.get("rules", ())
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        )

    def __call__(self, access: Access) -> bool:
        """True if it is permitted."""
        found = self.permissions & {access, access._replace(namespace="")}
        self.used |= found
        return bool(found)


def everything(_: Access) -> bool:
    """The role of an administrator."""
    return True


def nothing(_: Access) -> bool:
    """The role of somebody without a token."""
    return False
