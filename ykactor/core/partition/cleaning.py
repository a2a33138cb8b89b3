"""The removal of empty queues that are draining or dynamic (QU-95 to QU-99)."""

from __future__ import annotations

from ykactor.core.messages.facts import QueueRemoved, QueueTypeChanged
from ykactor.core.messages.states import QueueState
from ykactor.core.objects.commands import Close, Disown
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import QueueCore, Registry
from ykactor.core.partition.reload import Reload
from ykactor.core.values.ids import QueuePath


def is_due(queue: QueueCore) -> bool:
    """True if a queue is empty, and has to be removed or to become a leaf."""
    is_empty = not (queue.applications if isinstance(queue, LeafCore) else queue.children)
    return is_empty and (_is_removable(queue) or _becomes_leaf(queue))


def _is_removable(queue: QueueCore) -> bool:
    """True if an empty queue may be removed. A held one stays, because a new one of its name would not be held (OP-6)."""
    return queue.hold is None and (queue.state is QueueState.DRAINING or not queue.config.managed)


def _becomes_leaf(queue: QueueCore) -> bool:
    """True if a parent is a leaf in the configuration, and becomes one when it has no children (CF-60)."""
    return isinstance(queue, ParentCore) and not queue.config.is_parent and queue.state is QueueState.ACTIVE


def cleaning(registry: Registry, now_ns: int) -> Reload:
    """The steps that remove the queues that are due, children before parents, so that an empty chain goes at once (QU-96)."""
    reload = Reload(dict(registry.queues), [], [], [])
    due = [path for path, queue in registry.queues.items() if is_due(queue)]
    disowned: dict[ParentCore, list[QueuePath]] = {}
    while due:
        queue = registry.queues[due.pop()]
        reload.sends.append((queue, Close()))
        if not _is_removable(queue):
            reload.queues[queue.path] = LeafCore(queue.config, registry.books, queue.hold)
            reload.facts.append(QueueTypeChanged(now_ns, queue.path, is_leaf=True))
            continue
        del reload.queues[queue.path]
        reload.facts.append(QueueRemoved(now_ns, queue.path, queue.config.managed))
        parent = registry.queues[QueuePath(queue.path.rpartition(".")[0])]
        assert isinstance(parent, ParentCore)
        disowned.setdefault(parent, []).append(queue.path)
        if len(disowned[parent]) == len(parent.children) and (_is_removable(parent) or _becomes_leaf(parent)):
            due.append(parent.path)
    reload.sends = [(parent, Disown(tuple(children))) for parent, children in disowned.items()] + reload.sends
    return reload
