"""Queues: one, one with everything below it, or all of a partition.

A limited reader sees those of its view, and nothing of the others that are above them but the paths (SE-88).
"""

from __future__ import annotations

from itertools import takewhile

from msgspec import Raw

from ykactor.core.config.model import QueueConfig
from ykactor.core.messages.states import QueueState
from ykactor.core.objects.parent import ParentCore
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.headroom import left_of
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import Pace, Pausing
from ykactor.core.values.resources import Resource, min_union
from ykactor.surfaces.http.readings.look import Look, limit, percent, used
from ykactor.wire.rest import types
from ykactor.wire.rest.codec import encode_part
from ykactor.wire.rest.texts import duration_text


def everything(look: Look) -> Pausing[bytes]:
    """The root with everything below it, encoded; it names the partition. A limited reader sees its queues below a bare root."""
    if look.shows(_ROOT):
        return (yield from tree(look, _ROOT, is_all=True))
    nodes = sorted(look.state.tree.nodes.items())
    tops = [path for path, node in nodes if look.shows(path) and not (node.parent and look.shows(node.parent.path))]
    below: list[bytes] = []
    for path in tops:
        below += [(yield from tree(look, path))]
    return encode_part(_bare_root(look, tops, below))


def tree(look: Look, path: QueuePath, *, is_all: bool = False) -> Pausing[bytes]:
    """The queue at ``path``, which must be there, with everything below it, encoded."""
    shown: dict[QueuePath, bytes] = {}
    children = _children(look, path)
    pace = Pace()
    for node in reversed([look.state.tree.nodes[below] for below in _below(path, children)]):  # children before parents
        names = children.get(node.path, [])
        queue = _queue(look, node, names, [shown.pop(name) for name in names], is_all=is_all)
        shown[node.path] = encode_part(queue)
        if pace.is_due(_QUEUE_ITEMS):
            yield ()
    return shown[path]


_ROOT = QueuePath("root")
#: A queue takes as long as so many other items: 20 us.
_QUEUE_ITEMS = 10


def one(look: Look, path: QueuePath) -> types.Queue:
    """The queue at ``path``, which must be there, with the names of its children only."""
    node = look.state.tree.nodes[path]
    queue = look.core.registry.queues[path]
    names = sorted(queue.children) if isinstance(queue, ParentCore) else []
    return _queue(look, node, names, [], is_all=False)


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


def _bare_root(look: Look, names: list[QueuePath], children: list[bytes]) -> types.Queue:
    """A root of which only the name is shown."""
    return types.Queue(
        queuename=_ROOT,
        status=QueueState.ACTIVE.value,
        partition=look.core.name,
        is_leaf=False,
        is_managed=True,
        children=[*map(Raw, children)],
        child_names=[*names],
    )


def _queue(look: Look, node: QueueNode, names: list[QueuePath], children: list[bytes], *, is_all: bool) -> types.Queue:
    config, properties = node.config, node.config.properties
    parent = node.parent
    start_ns = look.state.clocks.starts.get(node, 0) if look.state.enforces_quotas() else 0
    return types.Queue(
        queuename=node.path,
        status=look.core.registry.queues[node.path].state.value,
        partition=look.core.name if is_all and parent is None else "",
        pending_resource=used(node.pending),
        max_resource=limit(node.max),
        guaranteed_resource=limit(config.guaranteed),
        allocated_resource=used(node.allocated),
        preempting_resource=used(node.preempting),
        headroom=limit(_headroom(look, node)),
        is_leaf=node.is_leaf,
        is_managed=config.managed,
        properties=config.property_map,
        parent="" if parent is None or not look.shows(parent.path) else parent.path,
        template=_template(config),
        children=[*map(Raw, children)],
        child_names=[*names],
        abs_used_capacity=percent(node.allocated, node.max or {}),
        max_running_apps=config.max_applications,
        running_apps=len(node.running),
        current_priority=types.PRIORITY_MIN if node.priority is None else node.priority,
        allocating_accepted_apps=sorted(node.accepted),
        sorting_policy=properties.sort_policy if node.is_leaf else "fair",
        priority_sorting=properties.sort_by_priority,
        preemption_enabled=properties.preemption_policy != "disabled",
        is_preemption_fence=properties.preemption_policy == "fence",
        preemption_delay=duration_text(properties.preemption_delay_ns),
        quota_preemption_delay=duration_text(properties.quota_preemption_delay_ns),
        is_quota_preemption_running=bool(start_ns) and start_ns <= look.now_ns,
        quota_preemption_start_time=start_ns,
        is_priority_fence=properties.priority_fence,
        priority_offset=properties.priority_offset,
        unsched_ask_backoff=properties.backoff_count,
        ask_backoff_delay=duration_text(properties.backoff_delay_ns) if properties.backoff_count else "",
    )


def _headroom(look: Look, node: QueueNode) -> Resource | None:
    """What the queue and those above it that are shown leave."""
    left: Resource | None = None
    for queue in takewhile(lambda queue: look.shows(queue.path), node.path_up):
        left = min_union(left, left_of(queue.max, queue.allocated))
    return left


def _template(config: QueueConfig) -> types.Template | None:
    template = config.child_template
    if template is None or config.managed is False:
        return None
    return types.Template(
        max_applications=template.max_applications,
        max_resource=limit(template.max),
        guaranteed_resource=limit(template.guaranteed),
        properties=template.properties,
    )
