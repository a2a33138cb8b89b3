"""From the queue tree that runs to the one that is configured: what has to change (section 9 of CF).

The difference is computed before anything is touched, so a tree that cannot be reached is refused whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from ykactor.core.decisions import Decision, QueueAdded, QueueLimitChanged, QueueRemoved, QueueStateChanged
from ykactor.core.ids import QueuePath
from ykactor.core.queueconfig import PartitionConfig, QueueConfig
from ykactor.core.queues import Close, Configure, LeafCore, ParentCore, SetChildren
from ykactor.core.roster import QueueCore, Roster, Sends
from ykactor.core.states import QueueState


def walk(config: QueueConfig) -> Iterator[QueueConfig]:
    """A queue and all below it, parents first, in the order of the text."""
    yield config
    for child in config.children:
        yield from walk(child)


def objection(roster: Roster, config: PartitionConfig) -> str:
    """Why the running tree cannot become ``config``, or "": a leaf with applications cannot be a parent (CF-61)."""
    for queue in walk(config.root):
        running = roster.queues.get(queue.path)
        if queue.is_parent and isinstance(running, LeafCore) and running.applications:
            return (
                f"queue {queue.path} cannot become a parent: it is a leaf with {len(running.applications)} applications; "
                "wait for them to end or move them"
            )
    return ""


class Reload(Struct):
    """The steps to another tree: ``roster`` as it will be, and what to tell the queues and the world."""

    queues: dict[QueuePath, QueueCore]
    sends: Sends
    facts: list[Decision]


def difference(roster: Roster, config: PartitionConfig, now_ns: int) -> Reload:
    """What leads from the running tree to ``config``. ``objection`` must have had none."""
    reload = Reload({}, [], [])
    for wanted in walk(config.root):
        _keep_or_add(roster, wanted, reload, now_ns)
    for path in sorted(roster.queues):
        if path not in reload.queues:
            _drain(roster.queues[path], reload, now_ns)
    reload.sends += adoption(reload.queues)
    return reload


def adoption(queues: dict[QueuePath, QueueCore]) -> Sends:
    """Tell every parent its children, where they are not what it has."""
    children: dict[QueuePath, list[QueuePath]] = {path: [] for path in queues}
    for path in queues:
        if above := path.rpartition(".")[0]:
            children[QueuePath(above)].append(path)
    return [
        (queue, SetChildren(tuple(children[path])))
        for path, queue in queues.items()
        if isinstance(queue, ParentCore) and queue.children != tuple(children[path])
    ]


def _keep_or_add(roster: Roster, wanted: QueueConfig, reload: Reload, now_ns: int) -> None:
    queue = roster.queues.get(wanted.path)
    if queue is None:
        reload.facts.append(QueueAdded(now_ns, wanted.path))
    elif queue.state is QueueState.DRAINING:
        reload.facts.append(QueueStateChanged(now_ns, wanted.path, QueueState.ACTIVE.value))
    _tell_limits(queue.config if queue else None, wanted, reload, now_ns)
    if queue is not None and _changes_type(queue, wanted):
        reload.sends.append((queue, Close()))
        queue = None
    if queue is None:
        queue = ParentCore(wanted) if wanted.is_parent else LeafCore(wanted)
    reload.sends.append((queue, Configure(wanted, QueueState.ACTIVE)))
    reload.queues[wanted.path] = queue


def _changes_type(queue: QueueCore, wanted: QueueConfig) -> bool:
    """At once; a parent that becomes a leaf waits until its children have drained, and the cleaner does it then (CF-60)."""
    if isinstance(queue, LeafCore):
        return wanted.is_parent
    return not wanted.is_parent and not queue.children


def _tell_limits(before: QueueConfig | None, after: QueueConfig, reload: Reload, now_ns: int) -> None:
    for limit in ("max", "guaranteed"):
        old = None if before is None else getattr(before, limit)
        new = getattr(after, limit)
        if old != new:
            reload.facts.append(QueueLimitChanged(now_ns, after.path, limit, new))


def _drain(queue: QueueCore, reload: Reload, now_ns: int) -> None:
    """A queue that left the text takes no new applications; it goes when it is empty (QU-95)."""
    reload.queues[queue.path] = queue
    if queue.state is not QueueState.DRAINING:
        reload.sends.append((queue, Configure(None, QueueState.DRAINING)))
        reload.facts.append(QueueStateChanged(now_ns, queue.path, QueueState.DRAINING.value))


def _becomes_leaf(queue: QueueCore) -> bool:
    """A parent that the text wants as a leaf, and that waits for its last child to go (CF-60)."""
    return isinstance(queue, ParentCore) and not queue.config.is_parent


def needs_cleaning(roster: Roster) -> bool:
    """Whether a queue waits to be removed or to become a leaf."""
    return any(queue.state is QueueState.DRAINING or _becomes_leaf(queue) for queue in roster.queues.values())


def cleaning(roster: Roster, now_ns: int) -> Reload:
    """What removes drained queues that are empty, children before parents (QU-96); parents without children become leaves."""
    reload = Reload(dict(roster.queues), [], [])
    children = Counter(path.rpartition(".")[0] for path in roster.queues)
    for path, queue in reversed(list(roster.queues.items())):
        if children[path] or (isinstance(queue, LeafCore) and queue.applications):
            continue
        if queue.state is QueueState.DRAINING:
            del reload.queues[path]
            children[path.rpartition(".")[0]] -= 1
            reload.sends.append((queue, Close()))
            reload.facts.append(QueueRemoved(now_ns, path))
        elif _becomes_leaf(queue):
            reload.queues[path] = LeafCore(queue.config)
            reload.sends.append((queue, Close()))
    reload.sends += adoption(reload.queues)
    return reload
