"""Queues: one, one with everything below it, or all of a partition.

A limited reader sees those of its view, and nothing of the others that are above them but the paths (SE-88).
"""

from __future__ import annotations

from msgspec import Raw

from ykactor.core.inspection.queue_status import QueueStatus, queue_status
from ykactor.core.messages.states import QueueState
from ykactor.core.objects.queues import ParentCore
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Steps
from ykactor.surfaces.http.readings.look import Look
from ykactor.wire.rest import queues
from ykactor.wire.rest.codec import encode_part


def everything(look: Look) -> Steps[bytes]:
    """The root with everything below it, encoded; it names the partition. A limited reader sees its queues below a bare root."""
    if look.shows(_ROOT):
        return (yield from tree(look, _ROOT, is_all=True))
    nodes = sorted(look.state.tree.nodes.items())
    tops = [path for path, node in nodes if look.shows(path) and not (node.parent and look.shows(node.parent.path))]
    below: list[bytes] = []
    for path in tops:
        below += [(yield from tree(look, path))]
    return encode_part(_bare_root(look, tops, below))


def tree(look: Look, path: QueuePath, *, is_all: bool = False) -> Steps[bytes]:
    """The queue at ``path``, which must be there, with everything below it, encoded."""
    shown: dict[QueuePath, bytes] = {}
    known: dict[str, QueueStatus] = {}
    children = _children(look, path)
    for node in reversed([look.state.tree.nodes[below] for below in _below(path, children)]):  # children before parents
        names = children.get(node.path, [])
        queue = _queue(look, node, names, [shown.pop(name) for name in names], known, is_all=is_all)
        shown[node.path] = encode_part(queue)
        yield _QUEUE_ITEMS
    return shown[path]


_ROOT = QueuePath("root")
#: A queue takes as long as so many other items: 20 us.
_QUEUE_ITEMS = 10


def one(look: Look, path: QueuePath) -> queues.Queue:
    """The queue at ``path``, which must be there, with the names of its children only."""
    node = look.state.tree.nodes[path]
    queue = look.core.registry.queues[path]
    names = sorted(queue.children) if isinstance(queue, ParentCore) else []
    return _queue(look, node, names, [], {})


def _children(look: Look, path: QueuePath) -> dict[QueuePath, list[QueuePath]]:
    """The names of the children of each parent, in order, of the queues at and below ``path``."""
    children: dict[QueuePath, list[QueuePath]] = {}
    for below in sorted(look.state.tree.nodes):
        if below != path and below.startswith(f"{path}."):
            children.setdefault(QueuePath(below.rpartition(".")[0]), []).append(below)
    return children


def _below(path: QueuePath, children: dict[QueuePath, list[QueuePath]]) -> list[QueuePath]:
    """The queue and all below it, parents before their children."""
    found = [path]
    for above in found:
        found += children.get(above, [])
    return found


def _bare_root(look: Look, names: list[QueuePath], children: list[bytes]) -> queues.Queue:
    """A root of which only the name is shown."""
    return queues.Queue(
        queuename=_ROOT,
        state=QueueState.ACTIVE.value,
        partition=look.core.name,
        is_leaf=False,
        is_managed=True,
        children=[*map(Raw, children)],
        child_names=[*names],
    )


def _queue(
    look: Look,
    node: QueueNode,
    names: list[QueuePath],
    children: list[bytes],
    known: dict[str, QueueStatus],
    *,
    is_all: bool = False,
) -> queues.Queue:
    parent = node.parent
    return queues.queue(
        _status(look, node, known),
        node,
        now_ns=look.now_ns,
        partition=look.core.name if is_all and parent is None else "",
        parent="" if parent is None or not look.shows(parent.path) else parent.path,
        children=[*map(Raw, children)],
        child_names=[*names],
    )


def _status(look: Look, node: QueueNode, known: dict[str, QueueStatus]) -> QueueStatus:
    """The status of a queue; it and those of the queues above that are shown are remembered in ``known``."""
    if node.path not in known:
        if node.parent is not None and look.shows(node.parent.path):
            _status(look, node.parent, known)
        known[node.path] = queue_status(look.core.registry, look.state, node, known)
    return known[node.path]
