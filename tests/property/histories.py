"""Histories from a seed, nastier than ``generate``: many ties, extremes, and changes that arrive in one batch.

``generate`` plays a resource manager that means well. Here quantities are few and small so that keys are equal, priorities
sit at the limits of int32, queues change between leaf and parent or come from placement and its templates, limits of users
and groups come and go, and a node or an application may come, go and come back between two looks of the scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import Struct, json, structs

from ykactor.core.config.model import (
    AccessList,
    ChildTemplate,
    Limit,
    NodeSortPolicy,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
)
from ykactor.core.config.properties import PRIORITY_OFFSET, PRIORITY_POLICY, SORT_POLICY, SORT_PRIORITY, interpret
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.kinds import NodeAction, TerminationType
from ykactor.core.messages.submissions import (
    AddApplication,
    ApplyConfig,
    ReleaseAllocations,
    RemoveApplication,
    Reset,
    Submission,
    UpdateNode,
)
from ykactor.core.values import selector
from ykactor.core.values.ids import AllocationKey, ApplicationID, NodeID, PartitionName, QueuePath

S_NS = 10**9
LOWEST, HIGHEST = -(2**31), 2**31 - 1
PRIORITIES = (0, 0, 0, 1, 1, -1, 5, LOWEST, HIGHEST)
OFFSETS = (0, 0, 0, 1, -1, LOWEST, HIGHEST)
#: Nearly always at once or soon; sometimes past the timers of draining queues, Completing and Starting.
GAPS_S, GAP_WEIGHTS = (0.0, 0.5, 1.0, 10.0, 31.0, 301.0), (40, 40, 10, 5, 5, 8)
TERMINATIONS = (TerminationType.STOPPED_BY_RM, TerminationType.TIMEOUT, TerminationType.SCHEDULING_FAILED_ON_RM)
USERS, GROUPS = ("alice", "bob", "carol"), ("dev", "ops", "test")
#: The groups that applications come with; () is "not named".
MEMBERSHIPS = ((), ("dev",), ("ops", "dev"), ("test", "none"), ("none",))

_NAMESPACE = PlacementRule("tag", create=True, value="namespace")
_PROVIDED = PlacementRule("provided")
#: Placement rules as configurations have them. Whoever is placed by none must name an existing leaf.
RULES = (
    (),
    (_NAMESPACE, _PROVIDED),
    (PlacementRule("provided", create=True),),
    (_PROVIDED, PlacementRule("user", create=True, parent=_NAMESPACE)),
    (_PROVIDED, PlacementRule("user", create=True, parent=PlacementRule("fixed", create=True, value="root.a.d"))),
    (_PROVIDED, PlacementRule("fixed", create=True, value="root.b.common")),
)
#: What submissions name beside the leaves of the configuration: nothing, queues that may not exist, impossible ones.
QUEUES = ("", "", "root.a.x", "root.a.b.y", "root.d.x", "root.d", "b", "root..x")

#: What nodes are to be like; nobody is in zone d.
SELECTORS = (
    "zone=a",
    "zone=a",
    "zone in (a, b)",
    "zone=d",
    "zone!=a",
    "disk",
    "!disk",
    "zone=b,disk=ssd",
    "zone notin (a), disk",
)


class Batch(Struct):
    """Submissions that arrive together."""

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
    world = Drawer(rng, policies)
    config = world.draw_config()
    opening = [world.create_node() for _ in range(rng.randint(0, 4))] + [world.add_application() for _ in range(4)]
    return History(config, [Batch(0, opening), *world.draw_batches(0, batches, reloads=4)])


class Change(Struct):
    """A history under one configuration, then another configuration, what happens under it, and back."""

    old: PartitionConfig
    new: PartitionConfig
    under_old: list[Batch]
    under_new: list[Batch]
    under_old_again: list[Batch]


def draw_change(seed: int) -> Change:
    """The same seed gives the same change; nothing else is reloaded, and nothing is forgotten on the way."""
    rng = random.Random(seed)
    world = Drawer(rng, ("fifo", "fair", "stateaware"))
    old = world.draw_config()
    opening = [world.create_node() for _ in range(3)] + [world.add_application() for _ in range(5)]
    under_old = [Batch(0, opening), *world.draw_batches(0, rng.randint(0, 12))]
    new = world.vary_config()
    under_new = world.draw_batches(under_old[-1].at_ns, rng.randint(1, 10))
    return Change(old, new, under_old, under_new, world.draw_batches(under_new[-1].at_ns, 5))


class Drawer:
    """Names that exist or could exist. What is drawn may hit nothing: that is part of the history."""

    gaps_s, gap_weights = GAPS_S, GAP_WEIGHTS
    batch_max = 8

    def __init__(self, rng: random.Random, policies: tuple[str, ...]) -> None:
        self.rng = rng
        self.policies = policies
        #: As drawn last, and the leaves in it; whether it is in force is another question.
        self.config: PartitionConfig
        self.leaves: list[str] = []
        #: (application, key) of everything submitted.
        self.submitted: list[tuple[ApplicationID, AllocationKey]] = []

    # ---- configurations

    def draw_config(self) -> PartitionConfig:
        self.leaves = []
        weights = self.rng.choice(({"vcore": 1.0, "memory": 1.0}, {"vcore": 4.0, "memory": 1.0}, {"gpu": 1.0}))
        policy = NodeSortPolicy(self.rng.choice(("fair", "binpacking")), weights)
        root = self.draw_queue("root", 0, None)
        self.config = PartitionConfig(PartitionName("default"), root, policy, self.rng.choice(RULES))
        return self.config

    def draw_queue(self, path: str, depth: int, template: ChildTemplate | None) -> QueueConfig:
        rng = self.rng
        names = [name for name in ("a", "b", "c") if depth < 3 and rng.random() < 0.7]
        if depth == 0:
            names = names or ["a"]
        elif rng.random() < 0.2 + depth * 0.25:
            names = []
        template = self.draw_template(template)
        children = tuple(self.draw_queue(f"{path}.{name}", depth + 1, template) for name in names)
        is_parent = bool(children) or rng.random() < 0.05
        if not is_parent:
            self.leaves.append(path)
        queue = QueueConfig(QueuePath(path), is_parent, child_template=template if is_parent else None, children=children)
        return self.with_settings(queue)

    def with_settings(self, queue: QueueConfig) -> QueueConfig:
        """The queue with other properties, quotas and limits."""
        is_root = queue.path == "root"
        properties = self.draw_properties()
        return structs.replace(
            queue,
            properties=interpret(properties),
            property_map=properties,
            max=None if is_root else self.draw_bounds(0.3, (0, 1, 3, 5, 9)),
            guaranteed=None if is_root else self.draw_guarantee(),
            max_applications=self.rng.choice((0, 0, 0, 1, 2)),
            submit_acl=AccessList(everybody=is_root),
            limits=self.draw_limits(),
        )

    def draw_properties(self) -> dict[str, str]:
        rng = self.rng
        return {
            SORT_POLICY: rng.choice(self.policies),
            SORT_PRIORITY: "enabled" if rng.random() < 0.7 else "disabled",
            PRIORITY_POLICY: "fence" if rng.random() < 0.2 else "default",
            PRIORITY_OFFSET: str(rng.choice(OFFSETS)),
        }

    def draw_bounds(self, chance: float, values: tuple[int, ...]) -> dict[str, int] | None:
        if self.rng.random() > chance:
            return None
        return {name: self.rng.choice(values) for name in ("vcore", "memory", "gpu") if self.rng.random() < 0.6} or None

    def draw_guarantee(self) -> dict[str, int] | None:
        guaranteed = self.draw_bounds(0.3, (0, 1, 2, 4))
        return guaranteed if guaranteed and any(guaranteed.values()) else None

    def draw_template(self, inherited: ChildTemplate | None) -> ChildTemplate | None:
        if self.rng.random() < 0.8:
            return inherited
        properties = self.draw_properties() if self.rng.random() < 0.5 else {}
        bounds = self.draw_bounds(0.6, (0, 2, 4))
        return ChildTemplate(self.rng.choice((0, 0, 1, 2)), properties, bounds, self.draw_guarantee())

    def draw_limits(self) -> tuple[Limit, ...]:
        """Users and groups, each named at most once, ``*`` last; ``*`` of groups only beside a named group (E14)."""
        if self.rng.random() < 0.6:
            return ()
        users, groups = self.draw_names(USERS), self.draw_names(GROUPS)
        limits = [self.draw_limit(user, ()) for user in users] + [self.draw_limit((), group) for group in groups]
        self.rng.shuffle(limits)
        if self.rng.random() < 0.4:
            limits.append(self.draw_limit(("*",), ()))
        if groups and self.rng.random() < 0.5:
            limits.append(self.draw_limit((), ("*",)))
        return tuple(limits)

    def draw_names(self, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Draw no limit, a limit for one name, two with a limit each, or one limit that two names share."""
        one, two = self.rng.sample(names, 2)
        return self.rng.choice(([], [(one,)], [(one,), (two,)], [(one, two)]))

    def draw_limit(self, users: tuple[str, ...], groups: tuple[str, ...]) -> Limit:
        return Limit(users, groups, self.draw_bounds(0.7, (0, 1, 2, 3, 6)), self.rng.choice((0, 0, 1, 2)))

    def vary_config(self) -> PartitionConfig:
        """Another configuration: everything anew, or the same tree with one kind of setting changed."""
        rng, root = self.rng, self.config.root
        change = rng.choice(("all", "all", "limits", "settings", "templates", "rules", "nothing"))
        if change == "all":
            return self.draw_config()
        if change == "limits":
            root = each(root, lambda queue: structs.replace(queue, limits=self.draw_limits()))
        elif change == "settings":
            root = each(root, lambda queue: self.with_settings(queue) if rng.random() < 0.5 else queue)
        elif change == "templates":
            template = self.draw_template(None)
            root = each(root, lambda queue: structs.replace(queue, child_template=template if queue.is_parent else None))
        rules = rng.choice(RULES) if change == "rules" else self.config.placement_rules
        self.config = structs.replace(self.config, root=root, placement_rules=rules)
        return self.config

    # ---- submissions

    def draw_batches(self, at_ns: int, count: int, reloads: float = 0) -> list[Batch]:
        """Draw the batches after ``at_ns``; ``reloads`` is the weight of new configurations, if 0 nothing is reset either."""
        batches = []
        for _ in range(count):
            at_ns += int(self.rng.choices(self.gaps_s, self.gap_weights)[0] * S_NS)
            submissions = [self.draw_submission(reloads) for _ in range(self.rng.randint(1, self.batch_max))]
            batches.append(Batch(at_ns, submissions))
        return batches

    def draw_submission(self, reloads: float) -> Submission:
        kinds: tuple[tuple[Callable[[], Submission], int], ...] = (
            (self.ask, 50),
            (self.recovered, 3),
            (self.foreign, 3),
            (self.release, 22),
            (self.add_application, 12),
            (self.remove_application, 2),
            (self.create_node, 4),
            (self.change_node, 8),
            (self.reload, reloads),
            (Reset, 0.2 if reloads else 0),
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
        if self.rng.random() < 0.08:
            tags[selector.TAG] = self.rng.choice(SELECTORS)
        return tags

    def ask(self) -> Submission:
        (application_id, key), priority = self.name(), self.rng.choice(PRIORITIES)
        return Ask(key, application_id, self.resource(), priority, None, self.tags())

    def recovered(self) -> Submission:
        application_id, key = self.name()
        return Ask(key, application_id, self.resource(), 0, self.node_id(), self.tags())

    def foreign(self) -> Submission:
        key = AllocationKey(f"foreign-{self.rng.randint(1, 3)}")
        if self.rng.random() < 0.4:
            return ReleaseAllocations(ApplicationID(""), key, TerminationType.STOPPED_BY_RM)
        resource = {"vcore": self.rng.randint(1, 3)}
        return Ask(key, ApplicationID(""), resource, 0, self.node_id(), {"foreign": "default"})

    def release(self) -> Submission:
        """One of the newest asks or allocations, which may be gone already; or all of an application."""
        if self.rng.random() < 0.1 or not self.submitted:
            return ReleaseAllocations(self.application_id(), None, TerminationType.STOPPED_BY_RM)
        return ReleaseAllocations(*self.recent(), self.rng.choice(TERMINATIONS))

    def add_application(self) -> Submission:
        rng = self.rng
        known = bool(self.leaves) and rng.random() < 0.7
        queue, user, groups = rng.choice(self.leaves if known else QUEUES), rng.choice(USERS), rng.choice(MEMBERSHIPS)
        return AddApplication(self.application_id(), queue, user, groups, self.application_tags())

    def application_tags(self) -> dict[str, str]:
        rng = self.rng
        tags = {"namespace": rng.choice(("root.a.t", "n", "root.c.t.u"))} if rng.random() < 0.5 else {}
        if rng.random() < 0.1:
            tags["application.stateaware.disable"] = "true"
        if rng.random() < 0.2:
            tags["application.create.force"] = "true"
        for tag in ("namespace.resourcequota", "namespace.resourceguaranteed"):
            if rng.random() < 0.15:
                quota = {"resources": {"vcore": {"value": rng.randint(0, 4)}, "memory": {"value": rng.randint(0, 4)}}}
                tags[tag] = json.encode(quota).decode()
        if rng.random() < 0.1:
            tags["namespace.resourcemaxapps"] = rng.choice(("0", "1", "2", "x"))
        return tags

    def remove_application(self) -> Submission:
        return RemoveApplication(self.application_id())

    def capacity(self) -> dict[str, int]:
        capacity = {"vcore": self.rng.choice((2, 4, 4, 8)), "memory": self.rng.choice((4, 8))}
        return capacity | {"gpu": self.rng.randint(0, 2)} if self.rng.random() < 0.4 else capacity

    def create_node(self) -> Submission:
        action = "CREATE_DRAIN" if self.rng.random() < 0.1 else "CREATE"
        return UpdateNode(self.node_id(), NodeAction(action), self.capacity(), self.attributes())

    def attributes(self) -> dict[str, str]:
        attributes = {"zone": self.rng.choice("abc")} if self.rng.random() < 0.8 else {}
        return attributes | {"disk": "ssd"} if self.rng.random() < 0.4 else attributes

    def change_node(self) -> Submission:
        actions = ("UPDATE", "UPDATE", "DRAIN_NODE", "DRAIN_TO_SCHEDULABLE", "DRAIN_TO_SCHEDULABLE", "DECOMISSION")
        action = self.rng.choice(actions)
        number = len(self.submitted)  # not from the generator: what else is drawn stays the same
        attributes = {"zone": "abc"[number % 3]} if action == "UPDATE" and number % 2 else {}
        return UpdateNode(self.node_id(), NodeAction(action), self.capacity() if action == "UPDATE" else None, attributes)

    def reload(self) -> Submission:
        return ApplyConfig(self.vary_config())


def each(queue: QueueConfig, change: Callable[[QueueConfig], QueueConfig]) -> QueueConfig:
    """The tree with every queue changed."""
    return structs.replace(change(queue), children=tuple(each(child, change) for child in queue.children))
