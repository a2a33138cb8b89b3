"""The plain loop: generators are carried out, timers fire at their own time, and everything is published in order."""

from collections.abc import Generator

import pytest
from world import S_NS, app, ask, configure, load, make_world, node, queue, release, tree

from ykactor.core.messages.facts import Fact
from ykactor.core.messages.kinds import NodeAction
from ykactor.core.messages.planned import Budget
from ykactor.core.messages.submissions import UpdateNode
from ykactor.core.partition.partition import PartitionCore
from ykactor.core.turn.scheduler import SchedulerCore
from ykactor.sim.direct import DirectPartition, carry_out


class Echo:
    """An owner that replies with the command."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle(self, command: object) -> str:
        return f"{self.name} {command}"


def test_carry_out() -> None:
    """Commands are handled in order, answers come back in the same order, the generator's value is the result."""

    def talk() -> Generator[list[tuple[Echo, object]], list[object], list[object]]:
        first = yield [(Echo("a"), 1), (Echo("b"), 2)]
        second = yield []
        third = yield [(Echo("c"), first[-1])]
        return [*first, *second, *third]

    assert carry_out(talk()) == ["a 1", "b 2", "c b 2"]  # type: ignore[arg-type]


def test_carry_out_without_commands() -> None:
    """A generator may end before it says anything."""

    def silent() -> Generator[list[tuple[Echo, object]], list[object], int]:
        return 7
        yield []

    assert carry_out(silent()) == 7  # type: ignore[arg-type]


def test_timers_fire_at_their_own_time() -> None:
    """A timer between two inputs fires when it is due, and the scheduler runs after it, before the next input is heard."""
    world = make_world(tree(queue("a", maxapplications=1)), [node("n1", vcore=9)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), at=10)
    world.given(release("t1"), at=20)
    world.given(ask("t2", "app-1", vcore=1), release("t2"))
    count = len(world.facts)
    world.send(app("app-1"), at=100)
    world.expect("app-1 Completed", "app-1 New")
    assert [fact.at_ns // S_NS for fact in world.facts[count:]] == [50] * (len(world.facts) - count - 1) + [100]


def test_two_timers_in_one_wait() -> None:
    """Each is its own step in the order of the deadlines, however far the clock jumps."""
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=9)])
    world.given(app("app-2", "root.b"), ask("t2", "app-2", vcore=1), at=7)
    world.given(app("app-1", "root.a"), ask("t1", "app-1", vcore=1), at=8)
    world.given(release("t1"), at=300)
    world.wait(10**6)
    world.expect("app-2 Running", "app-1 Completed", "app-1 Expired")


@pytest.mark.parametrize("placements_max", [1, 3, 1000])
def test_steps_are_seen(placements_max: int) -> None:
    """``publish`` gets the facts of each step, ``after_step`` is called between steps; a budget only makes more of them."""
    published: list[list[Fact]] = []
    steps: list[int] = []

    def look(_: PartitionCore, scheduler: SchedulerCore) -> None:
        assert not scheduler.state.registry.unsent.count
        steps.append(len(published))

    direct = DirectPartition(load(tree(queue("a"))), Budget(placements_max, 10**6), published.append, look)
    direct.intake(0, [app("app-1"), *(ask(f"t{n}", "app-1", vcore=1) for n in range(6))])
    published.clear()
    steps.clear()
    direct.intake(S_NS, [UpdateNode("n1", NodeAction.CREATE, {"vcore": 9})])  # type: ignore[arg-type]
    assert sum("Allocated" in type(fact).__name__ for facts in published for fact in facts) == 6
    assert steps == [min(step, len(published)) for step in range(2, len(steps) + 2)]  # the last one may have nothing to publish
    assert len(steps) == {1: 7, 3: 3, 1000: 1}[placements_max]


def test_configuration_is_the_first_input() -> None:
    """The queues come with the first ApplyConfig, which is reported like any other."""
    world = make_world(tree(queue("a")))
    assert list(world.final()["queues"]) == ["root", "root.a"]
    assert type(world.facts[-1]).__name__ == "ConfigurationChanged"
    world.send(configure(tree(queue("b"))))
    world.expect("configuration accepted")
