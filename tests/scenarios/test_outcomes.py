"""A resource manager says how an application has ended (AP-151)."""

import pytest
from world import World, app, ask, make_world, node, queue, release, remove, terminate, tree

from ykactor.core.messages.states import Outcome
from ykactor.surfaces.cli.views.apps import durations


def room() -> World:
    return make_world(tree(queue("a")), [node("n1", vcore=10)])


RUNNING = [ask("t1", "app-1", vcore=1)]
LONG = "x" * 300


@pytest.mark.parametrize(
    ("outcome", "states"),
    [
        (Outcome.COMPLETED, ["Completing", "Completed"]),
        (Outcome.FAILED, ["Failing", "Failed"]),
        (Outcome.CANCELLED, ["Failing", "Failed"]),
    ],
)
@pytest.mark.parametrize("tasks", [RUNNING, [*RUNNING, ask("t2", "app-1", vcore=99)]], ids=["runs", "runs and waits"])
def test_an_outcome_ends_an_application_at_once(outcome: Outcome, states: list[str], tasks: list[object]) -> None:
    """The application passes its states, is kept with outcome and message, leaves nothing else, and its id is free."""
    world = room()
    world.given(app("app-1"), *tasks, at=5)  # type: ignore[arg-type]
    world.send(remove("app-1", outcome, LONG), at=7)
    world.expect(*(f"app-1 {state}" for state in states), "t1 released STOPPED_BY_RM (Application app-1 Removed)")
    kept = world.state()["applications"]["app-1"]
    assert (kept["state"], kept["outcome"], kept["reason"]) == (states[-1], outcome, LONG[:256])
    assert durations(kept) == {"waitedSeconds": 0, "ranSeconds": 2}
    assert world.queue("root")["pending"] == world.queue("root")["allocated"] == {}
    world.send(app("app-1"))
    world.expect("app-1 New")


@pytest.mark.parametrize("outcome", Outcome)
def test_what_has_ended_keeps_its_outcome(outcome: Outcome) -> None:
    """Cancelling it is refused, and a second removal is ignored (AP-83)."""
    world = room()
    world.given(app("app-1"), *RUNNING)
    world.given(remove("app-1", outcome))
    before = world.state()["applications"]
    assert "app-1" in world.administer(terminate("app-1"))
    world.send(*(remove("app-1", other) for other in Outcome))
    world.expect()
    assert world.state()["applications"] == before


@pytest.mark.parametrize("outcome", Outcome)
def test_the_outcome_of_what_was_cancelled_meanwhile(outcome: Outcome) -> None:
    """The application has failed for the daemon, and has ended as the resource manager says."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)], confirms=False)
    world.given(app("app-1"), *RUNNING)
    assert world.administer(terminate("app-1")) == ""
    world.heard()
    world.send(remove("app-1", outcome, "told"))
    world.expect("app-1 Failed", "t1 released STOPPED_BY_RM (Application app-1 Removed)")
    kept = world.state()["applications"]["app-1"]
    assert (kept["state"], kept["outcome"], kept["reason"]) == ("Failed", outcome, "told")


def test_the_delay_of_completing_is_no_run_time() -> None:
    """An application without an outcome is Completed 30 s after the end of its last task (AP-51), and has not run as long."""
    world = room()
    world.given(app("app-1"), *RUNNING, at=5)
    world.given(release("t1"), at=7)
    world.wait(40)
    kept = world.state()["applications"]["app-1"]
    assert (kept["state"], kept["finishedTime"] // 10**9) == ("Completed", 37)
    assert durations(kept)["ranSeconds"] == 2
