"""Steps, and the order of the facts in each (EV-22, EV-30)."""

from world import S_NS, app, ask, make_world, node, queue, release, tree

from ykactor.core.messages import facts as fact
from ykactor.core.messages.asks import Ask
from ykactor.core.messages.fact_order import in_order, with_state_changes
from ykactor.core.messages.kinds import Change, QueueLimit
from ykactor.core.messages.states import ApplicationEvent
from ykactor.core.values.parts import PART_MAX

ASK = Ask("t1", "app-1", {"vcore": 1}, created_ns=0, arrival=1)  # type: ignore[arg-type]
ALICE = fact.ChargedTo("alice")
OTHER = fact.NodeSchedulable(0, "n1", True)  # type: ignore[arg-type]
USED = fact.NodeUseChanged(0, ASK, "root.a", "n1", Change.ADD)  # type: ignore[arg-type]
CHARGED = fact.UsageChanged(0, ALICE, "root.a", Change.ADD, {"vcore": 1})  # type: ignore[arg-type]
ALLOCATED = fact.Allocated(0, ASK, "root.a", "n1")  # type: ignore[arg-type]


def changed(application_id: str, state: str) -> fact.ApplicationChanged:
    return fact.ApplicationChanged(0, application_id, "root.a", state, ApplicationEvent.RUN)  # type: ignore[arg-type]


def ordered(*facts: fact.Fact) -> list[fact.Fact]:
    return [each for some in in_order(list(facts)) for each in some]


def test_an_allocation_and_its_state_changes() -> None:
    """Node, own state changes, user, application (EV-30); the change of another application stays where it was."""
    other, own = changed("app-2", "Running"), changed("app-1", "Starting")
    assert ordered(other, own, ALLOCATED, USED, CHARGED, OTHER) == [other, USED, own, CHARGED, ALLOCATED, OTHER]


def test_nothing_is_lost_outside_steps() -> None:
    """Facts that are in no step keep their places, state changes at the end included."""
    facts = [OTHER, changed("app-1", "Running"), OTHER, fact.QueueLimitChanged(0, "root", QueueLimit.MAX, None), OTHER]  # type: ignore[arg-type]
    assert ordered(*facts, changed("app-1", "Completing")) == [*facts, changed("app-1", "Completing")]
    assert ordered() == []


def test_long_lists_come_in_parts() -> None:
    """Other tasks get their turn between them."""
    facts = [ALLOCATED, USED, CHARGED] * 1000
    parts = list(in_order(facts))
    assert len(parts) == 3000 // PART_MAX
    assert [each for some in parts for each in some] == [USED, CHARGED, ALLOCATED] * 1000


def test_a_placement_with_its_consequences() -> None:
    """State changes stand before the allocation, whatever else it causes behind it (AP-96)."""
    placed = fact.Allocated(0, ASK, "root.a", "n1", charged_to=ALICE)  # type: ignore[arg-type]
    own = changed("app-1", "Starting")
    late = fact.ReleaseStarted(0, ASK, "root.a", "n1", "TIMEOUT", "m")  # type: ignore[arg-type]
    assert with_state_changes([own, late], placed) == [USED, own, CHARGED, ALLOCATED, late]


def test_resource_managers_hear_the_same() -> None:
    """The order of facts does not concern resource managers: states, allocations and releases keep their order."""
    world = make_world(tree(queue("a")), [node("n1", vcore=4)])
    world.given(app("app-1"), ask("t1", "app-1", vcore=1), app("app-2"), ask("u1", "app-2", vcore=1))
    world.send(node("n1", "DECOMISSION"), at=S_NS / S_NS)
    gone = "released STOPPED_BY_RM (Node n1 Removed)"
    world.expect("app-1 Completing", "app-2 Completing", f"t1 {gone}", f"u1 {gone}")
    world.send(release("t1"))
    world.expect()
