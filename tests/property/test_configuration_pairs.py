"""Changes from any configuration to any other during a history are refused whole, or in force in each part (CF-58)."""

from __future__ import annotations

import pytest
from checked import ONE_BY_ONE, World
from histories import S_NS, Batch, draw_change
from msgspec import structs
from seeds import seeds

from ykactor.core.config.model import PartitionConfig, QueueConfig
from ykactor.core.inspection.snapshot import partition_state
from ykactor.core.messages.facts import ApplicationLeft, ConfigurationChanged, Released
from ykactor.core.messages.states import QueueState
from ykactor.core.messages.submissions import ApplyConfig, RemoveApplication
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.partition.reload import walk
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, QueuePath
from ykactor.core.values.parts import finished

#: Long enough for the cleaner, whatever it waits for.
LATER_NS = 25 * S_NS


def everything(world: World) -> dict[str, object]:
    """All that a refused configuration must leave alone."""
    registry, state = world.core.registry, world.scheduler.state
    return {
        "state": finished(partition_state(world.core, state)),
        "configuration": registry.config,
        "queues": {path: (id(queue), queue.config, queue.state) for path, queue in registry.queues.items()},
        "applications": dict(registry.applications),
        "accounts": {path: (id(account), account.config) for path, account in state.tree.nodes.items()},
        "trackers": {
            key: (id(entry), entry.application_count, list(entry.applications)) for key, entry in state.trackers.in_use.items()
        },
        "cleaning": world.core.timers.cleaning_ns,
    }


def is_refused(world: World, config: PartitionConfig) -> bool:
    """CF-61: a leaf with applications is to be a parent."""
    running = world.core.registry.queues
    leaves = {path for path, queue in running.items() if isinstance(queue, LeafCore) and queue.applications}
    return any(queue.is_parent and queue.path in leaves for queue in walk(config.root))


def running(world: World) -> dict[tuple[ApplicationID, AllocationKey], NodeID]:
    """The node of each running task."""
    leaves = [queue for queue in world.core.registry.queues.values() if isinstance(queue, LeafCore)]
    return {
        (application.application_id, key): node_id
        for leaf in leaves
        for application in leaf.applications.values()
        for key, (_, node_id) in application.tasks.allocations.items()
    }


def apply(world: World, at_ns: int, config: PartitionConfig) -> bool:
    """True if ``config`` is in force now, in every part; else nothing has changed."""
    world.advance(at_ns)
    before, queues, what_ran, told = everything(world), dict(world.core.registry.queues), running(world), len(world.facts)
    settings = {path: (queue.config, queue.state) for path, queue in queues.items()}
    refused = is_refused(world, config)
    world.play([Batch(at_ns, [ApplyConfig(config)])])
    facts = world.facts[told:]
    (answer,) = [fact for fact in facts if isinstance(fact, ConfigurationChanged)]
    assert answer.is_accepted is not bool(refused)
    if refused:
        assert "cannot become a parent" in answer.reason
        assert everything(world) == before
        assert facts == [answer]
        return False
    assert not [fact for fact in facts if isinstance(fact, Released | ApplicationLeft)], "a reload stops nothing"
    assert what_ran.items() <= running(world).items()
    assert_in_force(world, config)
    wanted = {queue.path for queue in walk(config.root)}
    for path in settings.keys() - wanted:
        left, (old_config, old_state) = world.core.registry.queues[path], settings[path]
        assert left is queues[path]
        kept = structs.replace(old_config, limits=())
        assert left.config == kept, "it keeps its settings, without the limits of users and groups (QU-76)"
        assert left.state is (QueueState.DRAINING if old_config.managed else old_state)
    return True


def assert_in_force(world: World, config: PartitionConfig) -> None:
    """Every queue of the text is there, Active, and has exactly its settings; so have the ledger and the partition."""
    registry, accounts = world.core.registry, world.scheduler.state.tree.nodes
    assert registry.config == config
    for wanted in walk(config.root):
        queue, account = registry.queues[wanted.path], accounts[wanted.path]
        assert (queue.config, queue.state) == (wanted, QueueState.ACTIVE)
        assert account.config == wanted
        assert queue.config.managed
        has_children = isinstance(queue, ParentCore) and bool(queue.children)
        assert isinstance(queue, ParentCore) is (wanted.is_parent or has_children), "a parent until its last child is gone"
        assert account.is_leaf is isinstance(queue, LeafCore)


@pytest.mark.parametrize("seed", seeds(200))
def test_any_configuration_after_any_other(seed: int) -> None:
    """A configuration is refused and nothing changes, or it is in force in every part, nothing that runs is stopped, and every
    later decision is the one of the reference. Back under the old one, and with all applications gone, the tree is the old one.
    """
    change = draw_change(seed)
    world = World(change.old, ONE_BY_ONE, compare=True)
    world.play(change.under_old)
    accepted = apply(world, change.under_old[-1].at_ns, change.new)
    world.play(change.under_new)
    in_force = change.new if accepted else change.old
    assert_in_force(world, in_force)
    at_ns = change.under_new[-1].at_ns
    if apply(world, at_ns, change.old):
        in_force = change.old
    world.play(change.under_old_again)
    at_ns = change.under_old_again[-1].at_ns
    world.play([Batch(at_ns, [RemoveApplication(name) for name in world.core.registry.applications])])
    apply(world, at_ns, change.old)
    world.play([Batch(at_ns + LATER_NS, [])])
    assert_is_the_tree_of(world, change.old.root)


def assert_is_the_tree_of(world: World, root: QueueConfig) -> None:
    """Nothing is left of other configurations and of dynamic queues, in the registry and in the ledger."""
    registry, state = world.core.registry, world.scheduler.state
    expected = list(walk(root))
    assert list(registry.queues) == list(state.tree.nodes) == [queue.path for queue in expected]
    for wanted in expected:
        queue, account = registry.queues[wanted.path], state.tree.nodes[wanted.path]
        assert (queue.config, queue.state) == (wanted, QueueState.ACTIVE)
        assert isinstance(queue, ParentCore) is wanted.is_parent
        if isinstance(queue, ParentCore):
            assert set(queue.children) == {QueuePath(child.path) for child in wanted.children}
        found = (account.allocated, account.pending, account.running, account.priority)
        assert found == ({}, {}, {}, None)
    assert not state.trackers.in_use
    assert not running(world)
