"""The books that all owners of a partition write to: changed rows of the turn, accounts, and resource types."""

from __future__ import annotations

from ykactor.core.accounting.accounts import Accounts
from ykactor.core.accounting.past import NO_TYPE
from ykactor.core.accounting.resource_types import ResourceTypes
from ykactor.core.messages.changed import Changed
from ykactor.core.values.ids import NodeID

#: The attribute of a node that says what type of instance it is (AP-90).
_INSTANCE_TYPE = "si/instance-type"


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
