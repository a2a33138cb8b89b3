"""Histories from a seed, nastier than ``sim.generate``: many ties, extremes, and changes that arrive in one batch.

``sim.generate`` plays a resource manager that means well. Here quantities are few and small so that keys are equal, priorities
sit at the limits of int32, queues change between leaf and parent, and a node or an application may come, go and come back
between two looks of the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct

from ykactor.core.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath
from ykactor.core.messages import (
    AddApplication,
    AllocationSpec,
    ApplyConfig,
    ReleaseAllocations,
    RemoveApplication,
    Reset,
    Submission,
    SubmitAllocation,
    UpdateNode,
)
from ykactor.core.queueconfig import NodeSortPolicy, PartitionConfig, QueueConfig, QueueProperties

S_NS = 10**9
LOWEST, HIGHEST = -(2**31), 2**31 - 1
PRIORITIES = (0, 0, 0, 1, 1, -1, 5, LOWEST, HIGHEST)
OFFSETS = (0, 0, 0, 1, -1, LOWEST, HIGHEST)
#: Nearly always at once or soon; sometimes past the timers of draining queues, Completing and Starting.
GAPS_S, GAP_WEIGHTS = (0.0, 0.5, 1.0, 10.0, 31.0, 301.0), (40, 40, 10, 5, 5, 8)


class Batch(Struct):
    """What arrives together."""

    at_ns: int
    submissions: list[Submission]


class History(Struct):
    """A partition's configuration and everything that happens to it."""

    config: PartitionConfig
    batches: list[Batch]


def draw_history(seed: int, batches: int = 25) -> History:
    """The same seed gives the same history."""
    rng = random.Random(seed)
    policies = rng.choice((("fifo", "fair", "stateaware"), ("stateaware",), ("fair",), ("fifo",)))
    world = _World(rng, policies)
    config = world.draw_config()
    opening = [world.create_node() for _ in range(rng.randint(0, 4))] + [world.add_application() for _ in range(4)]
    history = History(config, [Batch(0, opening)])
    at_ns = 0
    for _ in range(batches):
        at_ns += int(rng.choices(GAPS_S, GAP_WEIGHTS)[0] * S_NS)
        history.batches.append(Batch(at_ns, [world.draw_submission() for _ in range(rng.randint(1, 8))]))
    return history


class _World:
    """Names that exist or could exist. What is drawn may hit nothing: that is part of the history."""

    def __init__(self, rng: random.Random, policies: tuple[str, ...]) -> None:
        self.rng = rng
        self.policies = policies
        self.leaves: list[str] = []
        #: (application, key) of everything submitted.
        self.submitted: list[tuple[ApplicationID, AllocationKey]] = []

    # ---- configurations

    def draw_config(self) -> PartitionConfig:
        self.leaves = []
        weights = self.rng.choice(({"vcore": 1.0, "memory": 1.0}, {"vcore": 4.0, "memory": 1.0}, {"gpu": 1.0}))
        policy = NodeSortPolicy(self.rng.choice(("fair", "binpacking")), weights)
        return PartitionConfig(PartitionName("default"), self.draw_queue("root", 0), policy)

    def draw_queue(self, path: str, depth: int) -> QueueConfig:
        rng = self.rng
        names = [name for name in ("a", "b", "c") if depth < 3 and rng.random() < 0.7]
        if depth == 0:
            names = names or ["a"]
        elif rng.random() < 0.2 + depth * 0.25:
            names = []
        children = tuple(self.draw_queue(f"{path}.{name}", depth + 1) for name in names)
        is_parent = bool(children) or rng.random() < 0.05
        if not is_parent:
            self.leaves.append(path)
        guaranteed = self.draw_bounds(0.3, (0, 1, 2, 4))
        return QueueConfig(
            path=QueuePath(path),
            is_parent=is_parent,
            properties=QueueProperties(
                sort_policy=rng.choice(self.policies),
                sort_by_priority=rng.random() < 0.7,
                priority_fence=rng.random() < 0.2,
                priority_offset=rng.choice(OFFSETS),
            ),
            max=self.draw_bounds(0.3, (0, 1, 3, 5, 9)) if depth else None,
            guaranteed=guaranteed if depth and guaranteed and any(guaranteed.values()) else None,
            max_applications=rng.choice((0, 0, 0, 1, 2)),
            children=children,
        )

    def draw_bounds(self, chance: float, values: tuple[int, ...]) -> dict[str, int] | None:
        if self.rng.random() > chance:
            return None
        return {name: self.rng.choice(values) for name in ("vcore", "memory", "gpu") if self.rng.random() < 0.6} or None

    # ---- submissions

    def draw_submission(self) -> Submission:
        kinds: tuple[tuple[Callable[[], Submission], int], ...] = (
            (self.ask, 50),
            (self.recovered, 3),
            (self.foreign, 3),
            (self.release, 22),
            (self.add_application, 12),
            (self.remove_application, 2),
            (self.create_node, 4),
            (self.change_node, 8),
            (self.reload, 3),
            (Reset, 0.2),
        )
        draws, weights = zip(*kinds, strict=True)
        return self.rng.choices(draws, weights)[0]()

    def application_id(self) -> ApplicationID:
        return ApplicationID(f"app-{self.rng.randint(1, 6)}")

    def node_id(self) -> NodeID:
        return NodeID(f"node-{self.rng.randint(1, 5)}")

    def name(self) -> tuple[ApplicationID, AllocationKey]:
        """An application with a new key, or seldom with one of its last ones: that may wait, run, or be gone."""
        if self.submitted and self.rng.random() < 0.1:
            return self.recent()
        self.submitted.append((self.application_id(), AllocationKey(f"key-{len(self.submitted) + 1}")))
        return self.submitted[-1]

    def recent(self) -> tuple[ApplicationID, AllocationKey]:
        return self.rng.choice(self.submitted[-15:])

    def resource(self) -> dict[str, int]:
        draws = ({"vcore": 1}, {"vcore": 1}, {"vcore": 1, "memory": 1}, {"memory": 2}, {"vcore": 2, "memory": 1, "gpu": 0})
        seldom = ({"gpu": 1}, {"vcore": 3, "gpu": 1}, {"vcore": 50}, {"memory": 1, "vcore": 1}, {"vcore": 1, "fpga": 0})
        return dict(self.rng.choice(draws if self.rng.random() < 0.8 else seldom))

    def tags(self) -> dict[str, str]:
        tags = {}
        if self.rng.random() < 0.2:
            tags["creationTime"] = str(self.rng.randint(0, 3))
        if self.rng.random() < 0.05:
            tags["yunikorn.apache.org/requiredNode"] = self.node_id()
        return tags

    def ask(self) -> Submission:
        (application_id, key), priority = self.name(), self.rng.choice(PRIORITIES)
        return SubmitAllocation(AllocationSpec(key, application_id, self.resource(), priority, None, self.tags()))

    def recovered(self) -> Submission:
        application_id, key = self.name()
        return SubmitAllocation(AllocationSpec(key, application_id, self.resource(), 0, self.node_id(), self.tags()))

    def foreign(self) -> Submission:
        key = AllocationKey(f"foreign-{self.rng.randint(1, 3)}")
        if self.rng.random() < 0.4:
            return ReleaseAllocations(ApplicationID(""), key, "STOPPED_BY_RM")
        resource = {"vcore": self.rng.randint(1, 3)}
        return SubmitAllocation(AllocationSpec(key, ApplicationID(""), resource, 0, self.node_id(), {"foreign": "default"}))

    def release(self) -> Submission:
        """One of the newest asks or allocations, which may be gone already; or all of an application."""
        if self.rng.random() < 0.1 or not self.submitted:
            return ReleaseAllocations(self.application_id(), None, "STOPPED_BY_RM")
        return ReleaseAllocations(*self.recent(), self.rng.choice(("STOPPED_BY_RM", "TIMEOUT")))

    def add_application(self) -> Submission:
        tags = {"application.stateaware.disable": "true"} if self.rng.random() < 0.1 else {}
        queue = self.rng.choice(self.leaves or ["root.a"])
        return AddApplication(self.application_id(), queue, "alice", tags=tags)

    def remove_application(self) -> Submission:
        return RemoveApplication(self.application_id())

    def capacity(self) -> dict[str, int]:
        capacity = {"vcore": self.rng.choice((2, 4, 4, 8)), "memory": self.rng.choice((4, 8))}
        return capacity | {"gpu": self.rng.randint(0, 2)} if self.rng.random() < 0.4 else capacity

    def create_node(self) -> Submission:
        action = "CREATE_DRAIN" if self.rng.random() < 0.1 else "CREATE"
        return UpdateNode(self.node_id(), action, self.capacity())

    def change_node(self) -> Submission:
        actions = ("UPDATE", "UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION")
        action = self.rng.choice(actions)
        return UpdateNode(self.node_id(), action, self.capacity() if action == "UPDATE" else None)

    def reload(self) -> Submission:
        return ApplyConfig(self.draw_config())
