"""The example that the whole of priorities has to agree with: system and tenant queues, offsets and nested fences.

One cycle places one ask, so that every step and what it does to the priority of every queue can be seen.
"""

import random
from pathlib import Path

import pytest
from msgspec import to_builtins
from world import World, app, ask, load, make_world, node, priorities_of

from ykactor.core.inspection.snapshot import final_state
from ykactor.core.messages.facts import Allocated
from ykactor.core.messages.submissions import Submission
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.partition.reload import walk
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.core.values.parts import finished

CONFIG = (Path(__file__).resolve().parents[2] / "config" / "priorities.yaml").read_text()

#: Short name -> path.
QUEUES = {node.path.rpartition(".")[2]: node.path for node in walk(load(CONFIG).root)}
#: The priorities of the asks in each leaf.
ASKS = {
    "system-normal": [10, 2],
    "system-high": [1],
    "system-low": [3],
    "child-a-1": [8, 5],
    "child-a-2": [6, 4],
    "child-b-1": [9, 7],
    "child-b-2": [8],
}
INITIALLY: dict[str, int | None] = {
    "root": 1001, "system": 1001, "system-normal": 10, "system-high": 1001, "system-low": -997,
    "tenants": 0, "tenant-a": 10, "child-a-1": 8, "child-a-2": 6, "tenant-b": 0, "child-b-1": 9, "child-b-2": 8,
}  # fmt: skip

#: The leaf that is served, its ask, and the queues whose priority changes, in each step.
STEPS: list[tuple[str, str, dict[str, int | None]]] = [
    ("system-high", "P1", {"system-high": None, "system": 10, "root": 10}),
    ("system-normal", "P10", {"system-normal": 2, "system": 2, "root": 2}),
    ("system-normal", "P2", {"system-normal": None, "system": -997, "root": 0}),
    ("child-a-1", "P8", {"child-a-1": 5}),
    ("child-a-2", "P6", {"child-a-2": 4}),
    ("child-a-1", "P5", {"child-a-1": None}),
    ("child-a-2", "P4", {"child-a-2": None, "tenant-a": None}),
    ("child-b-1", "P9", {"child-b-1": 7}),
    ("child-b-2", "P8", {"child-b-2": None}),
    ("child-b-1", "P7", {"child-b-1": None, "tenant-b": None, "tenants": None, "root": -997}),
    ("system-low", "P3", {"system-low": None, "system": None, "root": None}),
]
ORDER = [(leaf, key) for leaf, key, _ in STEPS]
ALL_AT_ONCE = node("n1", vcore=100_000)


def submitted(leaves: list[str]) -> list[Submission]:
    """One application for each leaf, all asks equal in size."""
    applications = [app(leaf, QUEUES[leaf]) for leaf in leaves]
    return applications + [ask(f"P{priority}", leaf, priority=priority, vcore=1000) for leaf in leaves for priority in ASKS[leaf]]


class Stepped:
    """The example in a world where each cycle places one ask: priorities before the first step and after every step."""

    def __init__(self, config: str, submissions: list[Submission] | None = None) -> None:
        self.priorities: list[dict[str, int | None]] = []
        self.world: World = make_world(config, placements_max=1, after_step=self._look)
        self.world.given(*(submissions or submitted(list(ASKS))))  # without a node nothing can be placed yet
        self.initially = self.priorities[-1]
        self.priorities.clear()
        self.world.send(ALL_AT_ONCE)
        allocated = [decision.ask for decision in self.world.facts if isinstance(decision, Allocated)]
        self.order = [(ask.application_id, ask.allocation_key) for ask in allocated]

    def _look(self, core: PartitionCore, scheduler: SchedulerCore) -> None:
        found = priorities_of(to_builtins(finished(final_state(core, scheduler.state))))
        self.priorities.append({path.rpartition(".")[2]: priority for path, priority in found.items()})


ORDERS = [list(ASKS), list(reversed(ASKS)), *(random.Random(seed).sample(list(ASKS), len(ASKS)) for seed in range(6))]


@pytest.mark.parametrize("leaves", ORDERS, ids=range(len(ORDERS)))
def test_the_eleven_steps(leaves: list[str]) -> None:
    """PR-14, PR-76: initial priorities, then each step's allocation and its priority changes; all else keeps its own.

    The order in which the applications are submitted does not matter.
    """
    found = Stepped(CONFIG, submitted(leaves))
    assert found.initially == INITIALLY
    assert found.order == ORDER
    expected = dict(INITIALLY)
    for (leaf, key, changes), priorities in zip(STEPS, found.priorities, strict=False):
        expected |= changes
        assert priorities == expected, f"after {key} of {leaf}"
    assert set(expected.values()) == {None}


def test_one_cycle_decides_as_eleven_do() -> None:
    """The number of decisions in a cycle changes nothing (PR-25: every step begins at root with fresh values)."""
    world = make_world(CONFIG)
    world.given(*submitted(list(ASKS)))
    world.send(ALL_AT_ONCE)
    assert world.placed() == [key for _, key in ORDER]


# ---- variants


def changed(queue: str, line: str) -> str:
    """The example with one more property of a queue that has none yet, or, for root, of root."""
    before = f"name: {queue}\n"
    indent = " " * (len(CONFIG[: CONFIG.index(before)].rpartition("\n")[2]))
    assert CONFIG.count(before) == 1
    return CONFIG.replace(before, f"{before}{indent}properties:\n{indent}  {line}\n")


def without_fence(queue: str) -> str:
    """The example without the fence of one queue."""
    head, _, tail = CONFIG.partition(f"name: {queue}\n")
    return f"{head}name: {queue}\n" + tail.replace("priority.policy: fence", "priority.policy: default", 1)


def test_disabled_on_root() -> None:
    """Shares are all 0, so pending decides (PR-20, PR-71): tenants 7 units against 4, tenant-a 4 against 3.

    Its two children have 2 units each; what is left to tell them apart is their priority.
    """
    assert Stepped(changed("root", "application.sort.priority: disabled")).order[0] == ("child-a-1", "P8")


def test_disabled_on_root_enabled_on_system() -> None:
    """``disabled`` is inherited, and ``enabled`` ends it (CF-36): the children of system are in order of priority again."""
    config = changed("root", "application.sort.priority: disabled").replace(
        "name: system\n", "name: system\n            properties: {application.sort.priority: enabled}\n"
    )
    order = [leaf for leaf, _ in Stepped(config).order if leaf.startswith("system")]
    assert order == ["system-high", "system-normal", "system-normal", "system-low"]


def test_disabled_on_root_reaches_system() -> None:
    """The counterpart: inherited, it lets the older shares and pending decide below system too (CF-36)."""
    order = [leaf for leaf, _ in Stepped(changed("root", "application.sort.priority: disabled")).order if "system" in leaf]
    assert order[0] == "system-normal"  # 2 units pending against 1 and 1


def test_disabled_on_the_leaf_leaves_asks_in_order() -> None:
    """``application.sort.priority`` on a leaf does not change the order of asks inside one application (PR-21)."""
    config = CONFIG.replace(
        "priority.offset: 0\n              - name: system-high",
        "priority.offset: 0\n                  application.sort.priority: disabled\n              - name: system-high",
    )
    assert config != CONFIG
    assert Stepped(config).order == ORDER


@pytest.mark.parametrize(("setting", "first"), [("enabled", "P10"), ("disabled", "P2")])
def test_two_applications_in_one_leaf(setting: str, first: str) -> None:
    """``fifo``: with priorities the younger application's P10 precedes the older one's P2, without them the older is first."""
    config = CONFIG.replace(
        "priority.offset: 0\n              - name: system-high",
        f"priority.offset: 0\n                  application.sort.priority: {setting}\n              - name: system-high",
    )
    leaf = QUEUES["system-normal"]
    submissions = [
        app("older", leaf),
        ask("P2", "older", priority=2, vcore=1000),
        app("younger", leaf),
        ask("P10", "younger", priority=10, vcore=1000),
    ]
    assert Stepped(config, submissions).order[0][1] == first


def test_without_the_fence_of_tenant_a() -> None:
    """tenant-a shows 18 (8 + 10) instead of 10, tenants stays 0 behind its own fence, the order of steps is the same."""
    found = Stepped(without_fence("tenant-a"))
    assert found.initially == INITIALLY | {"tenant-a": 18}
    assert found.order == ORDER


def test_without_the_fence_of_tenants() -> None:
    """tenants shows 10, the fenced value of tenant-a: equal to system after step 1, and its share is lower."""
    found = Stepped(without_fence("tenants"))
    assert found.initially == INITIALLY | {"tenants": 10}
    assert found.order[:2] == [("system-high", "P1"), ("child-a-1", "P8")]
