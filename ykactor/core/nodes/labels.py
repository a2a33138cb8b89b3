"""The nodes that have an attribute with a value, so that a selector is compared with few nodes.

Only attributes that some selector has named are indexed, each when it is named for the first time.
"""

from __future__ import annotations

from ykactor.core.nodes.indexed_node import IndexedNode
from ykactor.core.values.ids import NodeID
from ykactor.core.values.selector import Requirement, Selector

#: Attributes that are indexed at a time. Above it the one that was used longest ago is dropped.
ATTRIBUTES_MAX = 64

#: The nodes by the value of one attribute; those without the attribute are not in it.
_ByValue = dict[str, dict[NodeID, IndexedNode]]


class Labels:
    """The nodes of a partition by attribute and value."""

    def __init__(self, nodes: dict[NodeID, IndexedNode]) -> None:
        self._nodes = nodes
        self._by_key: dict[str, _ByValue] = {}

    def add(self, node: IndexedNode) -> None:
        """Index a node that is new, or whose attributes have changed since ``remove``."""
        for key, by_value in self._by_key.items():
            _add(by_value, key, node)

    def remove(self, node: IndexedNode) -> None:
        """Take out a node that leaves, or whose attributes are about to change."""
        for key, by_value in self._by_key.items():
            value = node.attributes.get(key)
            if value is not None:
                del by_value[value][node.node_id]
                if not by_value[value]:
                    del by_value[value]

    def meeting(self, selector: Selector) -> list[dict[NodeID, IndexedNode]] | None:
        """The nodes that meet the most selective requirement, in parts; None if all requirements are negative.

        All other nodes do not match the selector, and some of these may not match its other requirements. O(values named), and
        O(nodes) when an attribute is named for the first time.
        """
        found = [self._with_value(requirement) for requirement in selector if requirement.holds and requirement.values]
        return min(found, key=lambda parts: sum(map(len, parts))) if found else None

    def _with_value(self, requirement: Requirement) -> list[dict[NodeID, IndexedNode]]:
        by_value = self._of(requirement.key)
        assert requirement.values is not None
        return [by_value[value] for value in dict.fromkeys(requirement.values) if value in by_value]

    def _of(self, key: str) -> _ByValue:
        by_value = self._by_key.pop(key, None)
        if by_value is None:
            if len(self._by_key) >= ATTRIBUTES_MAX:
                del self._by_key[next(iter(self._by_key))]
            by_value = {}
            for node in self._nodes.values():
                _add(by_value, key, node)
        self._by_key[key] = by_value  # as the one that was used last
        return by_value


def _add(by_value: _ByValue, key: str, node: IndexedNode) -> None:
    value = node.attributes.get(key)
    if value is not None:
        by_value.setdefault(value, {})[node.node_id] = node
