"""Invariants of the owners: queues, applications and nodes agree with each other. "" is a place to pause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ykactor.core.accounting.books import ResourceTypes
from ykactor.core.messages.asks import AskID, ask_id
from ykactor.core.objects.application import Application
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.objects.registry import Registry
from ykactor.core.partition.reload import walk
from ykactor.core.values.ids import ApplicationID, NodeID, QueuePath
from ykactor.core.values.resources import Resource, add_to, pruned


def differs(where: str, what: str, found: object, expected: object) -> Iterator[str]:
    """A violation, as a sentence, if ``found`` is not ``expected``; else "", so that the whole check can pause here."""
    yield f"{where}: {what} is {found}, expected {expected}" if found != expected else ""


def differs_in(where: str, what: str, found: Iterable[str], expected: Iterable[str]) -> Iterator[str]:
    """A violation if two collections of names differ, in any order; faster than sorting many names."""
    known, wanted = set(found), set(expected)
    yield f"{where}: {what} is {sorted(known)}, expected {sorted(wanted)}" if known != wanted else ""


def total_of(resources: Iterable[Resource]) -> Resource:
    """The sum without types whose value is 0."""
    total: Resource = {}
    for resource in resources:
        add_to(total, resource)
    return pruned(total)


def leaves_of(registry: Registry) -> list[LeafCore]:
    """All leaf queues of the partition."""
    return [queue for queue in registry.queues.values() if isinstance(queue, LeafCore)]


def membership(registry: Registry) -> Iterator[str]:
    """Check that every application is in exactly one leaf, the one in the registry, and every parent has its children."""
    found: dict[ApplicationID, QueuePath] = {}
    for leaf in leaves_of(registry):
        for application_id in leaf.applications:
            yield ""
            if application_id in found:
                yield f"application {application_id}: is in {leaf.path} and in {found[application_id]}, expected one queue"
            found[application_id] = leaf.path
    yield from differs("partition", "the leaf of each application", registry.applications, found)
    children: dict[str, list[QueuePath]] = {}
    for path in sorted(registry.queues):
        children.setdefault(path.rpartition(".")[0], []).append(path)
    for path, queue in registry.queues.items():
        known = sorted(queue.children) if isinstance(queue, ParentCore) else []
        yield from differs(f"queue {path}", "the child set", known, children.get(path, []))


def limits(registry: Registry) -> Iterator[str]:
    """Check that every queue has the limits of users and groups of the configuration; all other queues have none (QU-76)."""
    configured = {config.path: config.limits for config in walk(registry.config.root)}
    for path, queue in registry.queues.items():
        yield ""
        yield from differs(f"queue {path}", "the limits of users and groups", queue.config.limits, configured.get(path, ()))


def counts(registry: Registry) -> Iterator[str]:
    """Check that the counts for limits are those of the objects (SE-48)."""
    live = [application for leaf in leaves_of(registry) for application in leaf.applications.values()]
    tasks = sum(len(each.tasks.asks) + len(each.tasks.allocations) + len(each.tasks.replacing) for each in live)
    yield from differs("partition", "the number of asks and allocations", registry.changed.tasks, tasks)
    yield from differs("partition", "the resource types", registry.books.types.counts, _types(registry, live))
    dynamic = sum(not queue.config.managed for queue in registry.queues.values())
    yield from differs("partition", "the number of dynamic queues", registry.dynamic_queues, dynamic)


def _types(registry: Registry, live: list[Application]) -> dict[str, int]:
    types = ResourceTypes()
    for each in live:
        types.add(each.gang.total)
        real = (ask for ask, _ in each.tasks.replacing.values())
        for ask in (*each.tasks.asks.values(), *(ask for ask, _ in each.tasks.allocations.values()), *real):
            types.add(ask.resource)
    for node in registry.nodes.values():
        for resource in (node.capacity, *(task.resource for task in node.foreign.values())):
            types.add(resource)
    for leaf in leaves_of(registry):
        if not leaf.config.managed:
            types.add((leaf.config.max or {}) | (leaf.config.guaranteed or {}))
    return types.counts


def allocations(registry: Registry) -> Iterator[str]:
    """Check that each allocation is on one node and known to its application, and no ask is both pending and running."""
    places: dict[AskID, NodeID] = {}
    foreign: dict[str, NodeID] = {}
    for node_id, node in registry.nodes.items():
        yield ""
        for where in node.allocations:
            if where in places:
                yield f"allocation {where[1]} of {where[0]}: runs on {node_id} and on {places[where]}, expected one node"
            places[where] = node_id
        for key in node.foreign:
            if key in foreign:
                yield f"foreign allocation {key}: is on {node_id} and on {foreign[key]}, expected one node"
            foreign[key] = node_id
    for leaf in leaves_of(registry):
        for application in leaf.applications.values():
            yield ""
            for key in application.tasks.asks.keys() & application.tasks.allocations.keys():
                yield f"ask {key} of {application.application_id}: waits and runs, expected one of them"
            for ask, node_id in application.tasks.allocations.values():
                on_node = registry.nodes[node_id].allocations.get(ask_id(ask)) if node_id in registry.nodes else None
                if places.pop(ask_id(ask), None) != node_id or on_node is not ask:
                    yield f"allocation {ask.allocation_key} of {application.application_id}: not on its node {node_id}"
            for placeholder, (real, node_id) in application.tasks.replacing.items():  # SC-131: the real ask is on another node
                if node_id != application.tasks.allocations[placeholder][1] and places.pop(ask_id(real), None) != node_id:
                    yield f"ask {real.allocation_key} of {application.application_id}: has no place on node {node_id}"
    for (application_id, key), node_id in places.items():
        yield f"node {node_id}: runs {key} of {application_id}, which does not know it"


def counted(registry: Registry) -> Iterator[str]:
    """Check that entries noted for the accounts belong to existing tasks (AP-141)."""
    for leaf in leaves_of(registry):
        for application in leaf.applications.values():
            yield ""
            where, running = f"application {application.application_id}", application.tasks.allocations
            account, total = application.account, total_of(ask.resource for ask, _ in running.values())
            yield from differs(where, "what it uses", pruned(account.used), total)
            waiting = application.tasks.asks.keys() | {real.allocation_key for real, _ in application.tasks.replacing.values()}
            yield from differs(where, "resized and gone", application.tasks.sized_ns.keys() - running.keys() - waiting, set())
            yield from differs(where, "preempted and gone", application.tasks.preempted - running.keys(), set())
            yield from differs(where, "replaced and gone", application.tasks.replaced_ns.keys() - running.keys(), set())
            yield from differs(where, "the queue of its account", account.key.queue, leaf.path)


def node_amounts(registry: Registry) -> Iterator[str]:
    """Check that capacity = allocated + occupied + available, per type, on every node."""
    for node in registry.nodes.values():
        where, running, foreign = f"node {node.node_id}", node.allocations.values(), node.foreign.values()
        yield from differs(where, "allocated", pruned(node.allocated), total_of(ask.resource for ask in running))
        yield from differs(where, "occupied", pruned(node.occupied), total_of(task.resource for task in foreign))
        total = total_of([node.allocated, node.occupied, node.available])
        yield from differs(where, "allocated + occupied + available", total, pruned(node.capacity))
