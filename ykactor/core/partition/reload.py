"""The steps from the running queue tree to the configured one (CF-58 to CF-61, CF-75, CF-76).

They are computed before anything changes, so a tree that cannot be reached is refused as a whole. ``cleaning`` has those that
remove empty queues which are draining or dynamic (QU-95 to QU-99).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from ykactor.core.config.model import PartitionConfig, QueueConfig, SchedulerConfig, queue_changes
from ykactor.core.messages.facts import Fact, QueueAdded, QueueRemoved, QueueStateChanged, QueueTypeChanged
from ykactor.core.messages.states import QUEUE_MOVES, QueueEvent, QueueState
from ykactor.core.objects.commands import Adopt, Close, Configure, Disown
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import QueueCore, Registry, Send
from ykactor.core.placement.dynamic import limit_changes
from ykactor.core.values.ids import PartitionName, QueuePath
from ykactor.core.values.parts import Steps

#: A queue takes as long to compare as so many items (about 20 us).
_QUEUE_ITEMS = 3


class Changeover(Struct):
    """The partitions that stay, with their new configurations, those that are added, and those that are removed.

    Names are compared without case; a partition that stays keeps the spelling of its name.
    """

    kept: dict[PartitionName, PartitionConfig]
    added: list[PartitionConfig]
    removed: list[PartitionName]


def changeover(running: Iterable[PartitionName], config: SchedulerConfig) -> Changeover:
    """Compare the partitions that run with those of a configuration."""
    names = {name.lower(): name for name in running}
    kept: dict[PartitionName, PartitionConfig] = {}
    added = []
    for partition in config.partitions:
        name = names.pop(partition.name.lower(), None)
        if name is None:
            added.append(partition)
        else:
            kept[name] = structs.replace(partition, name=name)
    return Changeover(kept, added, list(names.values()))


def walk(config: QueueConfig) -> Iterator[QueueConfig]:
    """A queue and all queues below it, parents first, in the order of the configuration."""
    yield config
    for child in config.children:
        yield from walk(child)


def objection(registry: Registry, config: PartitionConfig) -> str:
    """The reason why the running tree cannot become ``config``, or "": a leaf with applications cannot be a parent (CF-61)."""
    for queue in walk(config.root):
        running = registry.queues.get(queue.path)
        if queue.is_parent and isinstance(running, LeafCore) and running.applications:
            return (
                f"queue {queue.path} cannot become a parent: it is a leaf with {len(running.applications)} applications; "
                "wait for them to end or move them"
            )
    return ""


def configured_types(config: PartitionConfig) -> Steps[frozenset[str]]:
    """The resource types that a configuration names."""
    found: set[str] = set()
    for queue in walk(config.root):
        template = queue.child_template
        for resource in (queue.max, queue.guaranteed, *(limit.max_resources for limit in queue.limits)):
            found.update(resource or ())
        for resource in (template.max, template.guaranteed) if template is not None else ():
            found.update(resource or ())
        yield _QUEUE_ITEMS
    return frozenset(found)


class Reload(Struct):
    """The steps to another tree.

    Attributes:
        queues: the queues of the registry afterwards.
        sends: the commands for queues.
        facts: the facts about changes.
        changes: the changes in sentences.
    """

    queues: dict[QueuePath, QueueCore]
    sends: list[Send[None]]
    facts: list[Fact]
    changes: list[str]


def difference(registry: Registry, config: PartitionConfig, now_ns: int) -> Steps[Reload]:
    """The steps from the running tree to ``config``, to which ``objection`` must have had none; nothing is touched."""
    reload = Reload({}, [], [], [])
    for wanted in walk(config.root):
        _keep_or_add(registry, wanted, reload, now_ns)
        yield _QUEUE_ITEMS
    for path in sorted(registry.queues):
        if path not in reload.queues:
            _drain(registry.queues[path], reload, now_ns)
    reload.sends += _adoptions(reload.queues)
    return reload


def _adoptions(queues: dict[QueuePath, QueueCore]) -> list[Send[None]]:
    """The commands with the new children of every parent; a configuration removes no child, only cleaning does."""
    adopted: dict[ParentCore, list[QueuePath]] = {}
    for path in queues:
        parent = queues.get(QueuePath(path.rpartition(".")[0]))
        if isinstance(parent, ParentCore) and path not in parent.children:
            adopted.setdefault(parent, []).append(path)
    return [(parent, Adopt(tuple(children))) for parent, children in adopted.items()]


def _keep_or_add(registry: Registry, wanted: QueueConfig, reload: Reload, now_ns: int) -> None:
    queue = registry.queues.get(wanted.path)
    hold = None if queue is None else queue.hold
    if queue is None:
        reload.facts.append(QueueAdded(now_ns, wanted.path))
        reload.changes.append(f"queue {wanted.path}: added")
    else:
        reload.changes += queue_changes(queue.config, wanted)
        state = QUEUE_MOVES[queue.state, QueueEvent.START]
        if state is not queue.state:
            reload.facts.append(QueueStateChanged(now_ns, wanted.path, state))
            reload.changes.append(f"queue {wanted.path}: active again")
    reload.facts += limit_changes(queue.config if queue else None, wanted, now_ns)
    if queue is not None and _changes_type(queue, wanted):
        reload.sends.append((queue, Close()))
        reload.facts.append(QueueTypeChanged(now_ns, wanted.path, not wanted.is_parent))
        queue = None
    if queue is None:
        books = registry.books
        queue = ParentCore(wanted, books.changed, hold) if wanted.is_parent else LeafCore(wanted, books, hold)
    reload.sends.append((queue, Configure(wanted, QueueState.ACTIVE)))
    reload.queues[wanted.path] = queue


def _changes_type(queue: QueueCore, wanted: QueueConfig) -> bool:
    """True if the type changes now. A parent with children becomes a leaf when the cleaner has removed them (CF-60)."""
    if isinstance(queue, LeafCore):
        return wanted.is_parent
    return not wanted.is_parent and not queue.children


def _drain(queue: QueueCore, reload: Reload, now_ns: int) -> None:
    """Drain a managed queue that is no longer configured; it is removed when empty (QU-95). Dynamic queues stay.

    It keeps its settings, but no limits of users and groups: those are always the limits of the file (QU-76).
    """
    reload.queues[queue.path] = queue
    state = QUEUE_MOVES[queue.state, QueueEvent.REMOVE] if queue.config.managed else queue.state
    if state is not queue.state:
        reload.sends.append((queue, Configure(without_limits(queue.config), state)))
        reload.facts.append(QueueStateChanged(now_ns, queue.path, state))
        reload.changes.append(f"queue {queue.path}: removed, drains until it is empty")


def without_limits(config: QueueConfig) -> QueueConfig:
    """The settings of a draining queue: its last ones, without limits of users and groups (QU-76)."""
    return structs.replace(config, limits=())


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
