"""A resource manager says how an application has ended (AP-151)."""

import random

import pytest
from world import World, app, ask, make_world, node, queue, release, remove, terminate, tree

from ykactor.core.messages.states import Outcome
from ykactor.surfaces.cli.views.ended import durations


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
    """Its states, that it is kept with outcome and message, that nothing of it is left, and that its id is free."""
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
    """Who cancels it is refused, and a second removal is ignored (AP-83)."""
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
    """It has failed for the daemon, and has ended as the resource manager says."""
    world = make_world(tree(queue("a")), [node("n1", vcore=10)], confirms=False)
    world.given(app("app-1"), *RUNNING)
    assert world.administer(terminate("app-1")) == ""
    world.heard()
    world.send(remove("app-1", outcome, "told"))
    world.expect("app-1 Failed", "t1 released STOPPED_BY_RM (Application app-1 Removed)")
    kept = world.state()["applications"]["app-1"]
    assert (kept["state"], kept["outcome"], kept["reason"]) == ("Failed", outcome, "told")


def test_the_delay_of_completing_is_no_run_time() -> None:
    """Without an outcome an application is Completed 30 s after the end of its last task (AP-51), and has not run as long."""
    world = room()
    world.given(app("app-1"), *RUNNING, at=5)
    world.given(release("t1"), at=7)
    world.wait(40)
    kept = world.state()["applications"]["app-1"]
    assert (kept["state"], kept["finishedTime"] // 10**9) == ("Completed", 37)
    assert durations(kept)["ranSeconds"] == 2


def test_an_outcome_may_come_at_any_time() -> None:
    """In every state of ordinary applications and gangs: the invariants hold after it, and an application ends once."""
    met = set[str]().union(*map(_random_ends, range(20)))
    assert met >= {"New", "Accepted", "Starting", "Running", "Completing", "Failing"}


def _random_ends(seed: int) -> set[str]:
    """The states of the live applications that have got an outcome."""
    rng = random.Random(seed)
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=10)], confirms=rng.random() < 0.5)
    states = set[str]()
    for number in range(80):
        name, group = f"app-{rng.randrange(4)}", {"group": "g", "placeholder": True} if rng.random() < 0.4 else {}
        match rng.randrange(7):
            case 0 | 1:
                world.send(
                    app(
                        name,
                        rng.choice(("root.a", "root.b")),
                        placeholders={"vcore": 2} if group else None,
                        timeout_ms=20_000,
                        style=rng.choice(("Soft", "Hard")),
                    )
                )
            case 2 | 3:
                world.send(ask(f"{name}.{number}", name, vcore=rng.randrange(1, 8), **group))
            case 4:
                world.send(release(None, name))
            case 5:
                world.administer(terminate(name))
            case 6:
                world.wait(world.now_ns / 10**9 + rng.choice((0, 1, 40)))
                before = world.state()["applications"].get(name, {})
                outcome = rng.choice(list(Outcome))
                world.send(remove(name, outcome, "told"))
                after = world.state()["applications"].get(name, {})
                if "allocated" in before:  # it was live
                    states.add(before["state"])
                    assert (after["outcome"], after["reason"]) == (outcome, "told")
                    assert after["state"] in ("Completed", "Failed")
                else:
                    assert after == before
    return states
