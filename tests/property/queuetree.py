"""A queue tree for the reference: everything added up from what the leaves hold, each time anew."""

from __future__ import annotations

from ykactor.core.messages.states import ApplicationState
from ykactor.core.objects.application import Application
from ykactor.core.objects.queues import LeafCore, ParentCore
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.values.ids import ApplicationID, QueuePath

Amounts = dict[str, int]

STATE = ApplicationState
LOWEST, HIGHEST = -(2**31), 2**31 - 1


def total(resources) -> Amounts:
    result: Amounts = {}
    for resource in resources:
        for name, quantity in resource.items():
            result[name] = result.get(name, 0) + quantity
    return result


def strictly_positive(resource: Amounts) -> bool:
    return min(resource.values(), default=0) >= 0 and max(resource.values(), default=0) > 0


class Queue:
    """A queue with everything below it, added up from what the leaves hold.

    ``slots``: the applications that hold an accepted slot.
    """

    def __init__(self, partition: PartitionCore, path: QueuePath, parent: Queue | None, slots: set[ApplicationID]) -> None:
        core = partition.registry.queues[path]
        self.path, self.parent, self.config = path, parent, core.config
        self.is_held = core.hold is not None
        self.max: Amounts | None = core.config.max
        self.is_leaf = isinstance(core, LeafCore)
        if isinstance(core, ParentCore):
            self.children = [Queue(partition, child, self, slots) for child in core.children]
            self.applications: list[Application] = []
            self.allocated = total(child.allocated for child in self.children)  # QU-47
            self.pending = total(child.pending for child in self.children)
            self.running = {name for child in self.children for name in child.running}
            inside = [child.priority for child in self.children]
        else:
            self.children = []
            self.applications = list(core.applications.values())
            self.allocated = total(usage(application) for application in self.applications)
            self.pending = total(wanted(application) for application in self.applications)
            self.running = {entry.application_id for entry in self.applications if holds_slot(entry, slots)}
            inside = [priority_of(application) for application in self.applications if application.hold is None]
        self.priority = self.shown([priority for priority in inside if priority is not None])

    def shown(self, inside: list[int]) -> int | None:
        """PR-10, PR-11: what the parent sees."""
        properties = self.config.properties
        if not inside or self.is_held:  # OP-4
            return None
        if properties.priority_fence:
            return properties.priority_offset
        return min(HIGHEST, max(LOWEST, max(inside) + properties.priority_offset))

    def offers(self) -> bool:
        """PR-29, OP-4: something is pending that is not held."""
        if self.is_held:
            return False
        tried = [application for application in self.applications if application.hold is None]
        return any(strictly_positive(wanted(entry)) for entry in tried) or any(child.offers() for child in self.children)

    def inside(self) -> list[Application]:
        """The applications of this queue and of all below it."""
        return self.applications + [application for child in self.children for application in child.inside()]

    def path_up(self) -> list[Queue]:
        return [self, *(self.parent.path_up() if self.parent else [])]

    def fair_max(self) -> Amounts:
        """QU-105: the child's own values replace those from above."""
        return (self.max or {}) if self.parent is None else self.parent.fair_max() | (self.max or {})

    def share(self) -> float:
        """PR-70."""
        guaranteed, fair_max = self.config.guaranteed or {}, self.fair_max()
        ratios = [0.0]
        for name, allocated in self.allocated.items():
            if allocated < 0:
                continue
            for bounds in (guaranteed, fair_max):
                if name in bounds:
                    bound = bounds[name]
                    ratios.append((0.0 if allocated == 0 else 1.0) if bound <= 0 else float(allocated) / float(bound))
                    break
        return max(ratios)

    def headroom(self, *, beyond_cluster: bool = False) -> Amounts | None:
        """QU-36; ``beyond_cluster`` leaves out what root has (SC-73)."""
        if self.parent is None and beyond_cluster:
            return None
        above = self.parent.headroom(beyond_cluster=beyond_cluster) if self.parent else None
        if self.max is None:
            return above
        own = {name: limit - self.allocated.get(name, 0) for name, limit in self.max.items()}
        if above is None:
            return own
        return {name: min(room[name] for room in (own, above) if name in room) for name in own.keys() | above.keys()}  # min-union


def holds_slot(application: Application, slots: set[ApplicationID]) -> bool:
    """QU-53, QU-54."""
    return application.state in (STATE.STARTING, STATE.RUNNING) or application.application_id in slots


def usage(application: Application) -> Amounts:
    return total(ask.resource for ask, _ in application.tasks.allocations.values())


def real_usage(application: Application) -> Amounts:
    return total(ask.resource for ask, _ in application.tasks.allocations.values() if not ask.placeholder)


def wanted(application: Application) -> Amounts:
    return total(ask.resource for ask in application.tasks.asks.values())


def priority_of(application: Application) -> int | None:
    """PR-3."""
    return max((ask.priority for ask in application.tasks.asks.values()), default=None)
