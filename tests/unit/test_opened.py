"""The log of the nodes that opened."""

from ykactor.core.nodes.index import IndexedNode
from ykactor.core.queueing.waiting_classes import OPENED_MAX, OpenedNodes
from ykactor.core.values.ids import NodeID


def _nodes(count: int) -> list[IndexedNode]:
    return [IndexedNode(NodeID(f"n{number}")) for number in range(count)]


def test_each_node_is_named_once_since_the_last_look() -> None:
    """A reader gets what opened behind its position, whatever others have read."""
    opened, (a, b) = OpenedNodes[IndexedNode](reserves=True), _nodes(2)
    opened.note(a)
    seen = opened.count
    assert opened.since(seen) == []
    for node in (b, a, b):
        opened.note(node)
    assert opened.since(seen) == [b, a]
    assert opened.since(0) == [a, b]


def test_a_reader_that_is_too_far_behind_is_told() -> None:
    """Only the last nodes are remembered; None says that others have opened as well."""
    opened, nodes = OpenedNodes[IndexedNode](reserves=True), _nodes(OPENED_MAX + 1)
    for node in nodes:
        opened.note(node)
    assert opened.since(0) is None
    assert opened.since(1) == nodes[1:]


def test_a_node_is_open_to_what_could_reserve_it() -> None:
    """A node is open to all asks that its capacity has room for, with reservations; without, to those that fit now."""
    (node,) = _nodes(1)
    node.capacity, node.available, node.offered = {"vcore": 10}, {"vcore": 4}, True
    waits, places = OpenedNodes[IndexedNode](reserves=True), OpenedNodes[IndexedNode](reserves=False)
    shape = ((("vcore", 5),), None, (), "")
    assert waits.room([node]) == {"vcore": 10}
    assert waits.is_open(node, shape)
    assert places.room([node]) == {"vcore": 4}
    assert not places.is_open(node, shape)
    node.offered = False
    assert not waits.is_open(node, shape)
