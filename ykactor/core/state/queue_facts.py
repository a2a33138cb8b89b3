"""Handlers of facts about the configuration and queues, also about their holds (OP-2 to OP-6)."""

from __future__ import annotations

from collections.abc import Iterator

from ykactor.core.messages.acts import Hold
from ykactor.core.messages.facts import (
    ConfigurationChanged,
    LimitChanged,
    QueueAdded,
    QueueHeld,
    QueueLimitChanged,
    QueueRemoved,
    QueueTypeChanged,
)
from ykactor.core.messages.kinds import Change, QueueLimit
from ykactor.core.objects.queues import LeafCore
from ykactor.core.queueing.tree import QueueNode
from ykactor.core.quota.limits import QueueLimits, Trackers, in_force, named
from ykactor.core.state import enrolment, node_facts
from ykactor.core.state.state import Handler, SchedulerState, Worklist
from ykactor.core.values.ids import QueuePath
from ykactor.core.values.parts import PART_MAX, Steps


def configuration_changed(state: SchedulerState, work: Worklist, fact: ConfigurationChanged) -> Steps[None]:
    """Apply a configuration at once, before the next fact, which may be about a new queue."""
    state.preemptions.cycle_guard.reset()
    if fact.is_accepted:
        yield from _apply(state, work, fact.at_ns)


def _apply(state: SchedulerState, work: Worklist, at_ns: int) -> Steps[None]:
    configs = {path: node.config for path, node in state.tree.nodes.items()}
    before = yield from in_force(_limits(state), state.trackers)
    yield from rebuild(state, work, at_ns)
    state.clocks.adopt(at_ns, configs, state.tree.nodes.values())
    yield PART_MAX
    after = yield from in_force(_limits(state), state.trackers)
    work.consequences += [LimitChanged(at_ns, *key, Change.REMOVE) for key in before if key not in after]
    for key, terms in after.items():
        yield 1
        if terms != before.get(key):
            work.consequences.append(LimitChanged(at_ns, *key, Change.SET))


def rebuild(state: SchedulerState, work: Worklist, at_ns: int) -> Steps[None]:
    """Rebuild all orders and trackers: the queue tree or its settings changed."""
    work.tree_changed = False
    state.quota_reports.forget_all_classes()
    queues = state.registry.queues.values()
    yield from state.tree.configure((queue.config, isinstance(queue, LeafCore)) for queue in queues)
    yield from state.nodes.configure(state.registry.config.node_sort_policy)
    state.trackers = Trackers()
    state.pairs.clear()
    work.forget_leaves(state.tree)
    for application in list(state.applications.values()):
        application.leaf = leaf = state.tree.nodes[application.leaf.path]
        application.leave_classes()
        work.consequences += enrolment.renew(state, at_ns, application)
        work.touch(leaf, application)
        yield 1
    state.capacity_grew()


def _queue_added(state: SchedulerState, _: Worklist, fact: QueueAdded) -> None:
    """Add a queue that placement has created; queues of the configuration are added with it."""
    if not fact.managed and fact.queue not in state.tree.nodes:  # it exists if a later configuration was observed before
        core = state.registry.queues[fact.queue]
        state.tree.add(core.config, isinstance(core, LeafCore))


def _queue_removed(state: SchedulerState, work: Worklist, fact: QueueRemoved) -> None:
    """Remove an empty queue, and its limits with it."""
    node = state.tree.nodes[fact.queue]
    ended = named(node.limits) if node.limits is not None else ()
    work.consequences += [LimitChanged(fact.at_ns, *key, Change.REMOVE) for key in ended]
    state.clocks.forget(node)
    state.tree.remove(fact.queue)


def _queue_type_changed(_: SchedulerState, work: Worklist, fact: QueueTypeChanged) -> None:
    """Rebuild once, at the end of the observation: such changes are rare."""
    work.tree_changed = True


def _queue_limit_changed(state: SchedulerState, work: Worklist, fact: QueueLimitChanged) -> None:
    """Apply the max of root or the quotas of a dynamic leaf; limits of managed queues are applied with the configuration."""
    if fact.queue == "root" and fact.limit is QueueLimit.MAX:
        state.tree.set_root_max(fact.resource)
        state.capacity_grew()
        return
    core = state.registry.queues.get(fact.queue)
    if core is not None and not core.config.managed:
        adopt_quotas(state, work, fact.queue)


def adopt_quotas(state: SchedulerState, work: Worklist, path: QueuePath) -> None:
    """Apply the quotas of a dynamic leaf (QU-100, QU-107)."""
    leaf, core = state.tree.nodes[path], state.registry.queues[path]
    if leaf.config is core.config or not isinstance(core, LeafCore):
        return
    queued = leaf.applications.queued_applications()  # also applications whose leaving is not observed yet
    state.quota_reports.forget_classes(leaf)
    state.tree.reconfigure_leaf(leaf, core.config)
    pending = [state.applications[name] for name in core.applications if name in state.applications]
    for application in dict.fromkeys([*queued, *pending]):
        application.leave_classes()
        work.touch(leaf, application)
    state.capacity_grew()


def _queue_held(state: SchedulerState, work: Worklist, fact: QueueHeld) -> None:
    """Hold a queue with all below it, or end its hold: a held one shows no priority, so that the walk does not come there."""
    queue = state.tree.nodes[fact.queue]
    queue.hold = Hold(fact.by, fact.at_ns) if fact.is_held else None
    if fact.is_held:
        give_up(state, work, fact.at_ns, queue)
    state.tree.suspend(queue)
    for application in state.applications.values():
        is_kept_back = application.in_classes is None
        if (is_kept_back or application.gang is not None) and queue in application.leaf.path_up:
            application.changed = application.changed or is_kept_back  # what it waits for
            work.touch(state.leaf_of(application), application)  # its placeholders may be replaced, or not
    state.tree.refresh_priority(queue)
    state.tree.update_places(queue.path_up)
    state.capacity_grew()


def give_up(state: SchedulerState, work: Worklist, at_ns: int, queue: QueueNode) -> None:
    """End all reservations in a queue and below it."""
    reservations = state.reservations.by_ask.values()
    below = [reservation for reservation in reservations if queue in reservation.application.leaf.path_up]
    node_facts.cancel(state, work, at_ns, below)


def _limits(state: SchedulerState) -> Iterator[QueueLimits]:
    return (node.limits for node in state.tree.nodes.values() if node.limits is not None)


#: By type of fact.
HANDLERS: dict[type, Handler] = {
    QueueAdded: _queue_added,
    QueueHeld: _queue_held,
    QueueRemoved: _queue_removed,
    QueueTypeChanged: _queue_type_changed,
    QueueLimitChanged: _queue_limit_changed,
}
