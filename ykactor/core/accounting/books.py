"""The books that all owners of a partition write to: changed rows of the turn, accounts, and resource types."""

from __future__ import annotations

from collections.abc import Iterable

from ykactor.core.accounting.accounts import Accounts
from ykactor.core.accounting.past import NO_TYPE
from ykactor.core.messages.changed import Changed
from ykactor.core.values.ids import NodeID
from ykactor.core.values.resources import Resource

#: The attribute of a node that says what type of instance it is (AP-90).
_INSTANCE_TYPE = "si/instance-type"
#: Nearly all objects name these resource types, so they are neither counted nor limited.
COMMON_TYPES = frozenset(("vcore", "memory"))
_NONE: frozenset[str] = frozenset()


class ResourceTypes:
    """Counts the resource types that objects name: tasks, placeholders to come, nodes, quotas of dynamic queues.

    They are limited, because queues multiply them (SE-48).

    Attributes:
        counts: by type, the number of objects that name it.
        configured: the types that the configuration names, which are allowed in any case.
    """

    __slots__ = ("configured", "counts")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.configured: frozenset[str] = frozenset()

    def remove(self, resource: Resource) -> None:
        """Uncount the types of an object that has gone."""
        self.add(resource, -1)

    def add(self, resource: Resource, step: int = 1) -> None:
        """Count the types of a new object."""
        if resource.keys() <= COMMON_TYPES:
            return
        counts = self.counts
        for name in resource:
            if name not in COMMON_TYPES:
                counts[name] = counts.get(name, 0) + step
                if not counts[name]:
                    del counts[name]

    def replace(self, before: Resource, after: Resource) -> None:
        """Count the types of an object whose amounts have changed."""
        self.add(after)
        self.remove(before)

    def found(self) -> int:
        """The number of types that count against limits."""
        return len(self.counts.keys() - self.configured)

    def new(self, names: Iterable[str]) -> frozenset[str]:
        """The types among these names that would count in addition."""
        counts, configured = self.counts, self.configured
        found = [name for name in names if name not in counts and name not in COMMON_TYPES and name not in configured]
        return frozenset(found) if found else _NONE


class Books:
    """The books of one partition.

    Attributes:
        changed: which rows the turn changes.
        accounts: the accounts.
        types: the resource types that are named.
    """

    def __init__(self) -> None:
        self.changed = Changed()
        self.accounts = Accounts(self.changed)
        self.types = ResourceTypes()
        #: Of the nodes that say it.
        self._instance_types: dict[NodeID, str] = {}

    def add_node(self, node_id: NodeID, attributes: dict[str, str]) -> None:
        """Note the instance type of a new node, or of a node with other attributes."""
        if _INSTANCE_TYPE in attributes:
            self._instance_types[node_id] = attributes[_INSTANCE_TYPE]

    def remove_node(self, node_id: NodeID) -> None:
        """Forget a node that has left; nothing runs there any more."""
        self._instance_types.pop(node_id, None)

    def instance_type(self, node_id: NodeID) -> str:
        """The type of a node, ``UNKNOWN`` if it does not say it."""
        return self._instance_types.get(node_id, NO_TYPE)
