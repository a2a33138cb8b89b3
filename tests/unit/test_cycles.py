"""Preemption cycles are refused (PE-94)."""

from itertools import pairwise

import pytest
from world import app, ask, make_world, node, queue, release, remove, tree

from ykactor.core.inspection.invariants import violations
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.changed import Changed
from ykactor.core.messages.facts import Preempted, PreemptionRefused
from ykactor.core.messages.submissions import Submission
from ykactor.core.preemption.attempts import TAKEN_MAX, CycleGuard
from ykactor.core.values.ids import QueuePath

PROD, TEST = QueuePath("root.prod"), QueuePath("root.test")


def wants(key: str, application_id: str, **resource: int) -> Submission:
    """An ask that may preempt."""
    return Ask(key, application_id, resource, allow_preempt_other=True)  # type: ignore[arg-type]


def starving():
    """A full node; ``root.prod`` is below its guarantee, and an ask of it has waited nearly long enough to preempt."""
    world = make_world(
        tree(queue("prod", guaranteed={"vcore": 45}), queue("test", guaranteed={"vcore": 45})), [node("n1", vcore=100)]
    )
    world.given(app("prod", "root.prod"), app("test", "root.test"))
    world.given(*(ask(f"p{n}", "prod", on="n1", vcore=10) for n in range(4)))
    world.given(*(ask(f"t{n}", "test", on="n1", vcore=10) for n in range(6)))
    world.given(wants("p9", "prod", vcore=10))
    world.wait(29)
    return world


def loops_of(world) -> CycleGuard:
    return world.direct.scheduler.state.preemptions.cycle_guard


def told(world, kind: type) -> list:
    return [fact for fact in world.facts if isinstance(fact, kind)]


def test_taking_back_is_refused() -> None:
    """A leaf may not take back a type from the one that it had to give it to; others may, and it may take other types."""
    cycle_guard = CycleGuard(Changed())
    cycle_guard.note(TEST, PROD, ["vcore"])
    assert "would take vcore back from root.prod" in cycle_guard.objection(PROD, TEST, ["memory", "vcore"])
    assert cycle_guard.objection(TEST, PROD, ["vcore"]) == ""
    assert cycle_guard.objection(PROD, TEST, ["memory"]) == ""
    assert cycle_guard.objection(PROD, QueuePath("root.dev"), ["vcore"]) == ""
    cycle_guard.reset()
    assert cycle_guard.objection(PROD, TEST, ["vcore"]) == ""


def test_memory_is_bounded() -> None:
    """However many queues take from each other, so many exchanges are remembered: the newest."""
    cycle_guard = CycleGuard(Changed())
    names = [QueuePath(f"root.q{n}") for n in range(TAKEN_MAX + 3)]
    for victim, preemptor in pairwise(names):
        cycle_guard.note(victim, preemptor, ["vcore"])
    assert cycle_guard.objection(names[1], names[0], ["vcore"]) == ""
    assert cycle_guard.objection(names[-1], names[-2], ["vcore"]) != ""


def test_the_book_refuses_with_a_reason() -> None:
    """Before a cycle nothing is preempted; the refusal is reported, counted, and the reason of the ask; it tries again."""
    world = starving()
    loops_of(world).note(PROD, TEST, ["vcore"])
    world.wait(31)
    (refused,) = told(world, PreemptionRefused)
    assert refused.ask.allocation_key == "p9"
    assert "would take vcore back from root.test, for which root.prod was preempted" in refused.why
    assert world.why("p9").endswith(refused.why)
    assert world.state()["preemption"]["refused"] == 1
    assert not told(world, Preempted)
    world.wait(40)
    assert len(told(world, PreemptionRefused)) == 1
    world.given(release("t0", "test"), wants("p10", "prod", vcore=20), at=41)  # an end that nobody asked for
    world.wait(72)
    assert [fact.ask.allocation_key for fact in told(world, Preempted)] == []  # p9 has the room; 50 is above the guarantee


def test_invariants_see_a_circle() -> None:
    """Two queues that have taken the same type from each other would be shown."""
    world = starving()
    world.wait(31)
    assert len(told(world, Preempted)) == 1
    core, scheduler = world.direct.core, world.direct.scheduler
    assert violations(core, scheduler) == []
    loops_of(world).note(PROD, TEST, ["vcore"])
    assert any("have taken vcore from each other" in sentence for sentence in violations(core, scheduler))


@pytest.mark.parametrize(
    "outside",
    [
        node("n2", vcore=5),
        node("n1", "DRAIN_NODE"),
        app("another", "root.test"),
        remove("prod"),
        release("p0", "prod"),
        ask("p1", "prod", on="n1", vcore=9),
    ],
    ids=["a node comes", "a node is drained", "an application comes", "one goes", "a task ends", "a task is resized"],
)
def test_changes_from_outside_begin_anew(outside: Submission) -> None:
    """These make the guard forget what was taken; a victim that is confirmed and submitted again is no such change."""
    world = starving()
    world.wait(31)  # the simulated resource manager confirms at once
    world.given(ask("t9", "test", vcore=10))
    assert loops_of(world).objection(PROD, TEST, ["vcore"]) != ""
    world.given(outside)
    assert loops_of(world).objection(PROD, TEST, ["vcore"]) == ""
