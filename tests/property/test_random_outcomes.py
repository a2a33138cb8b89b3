"""Outcomes of applications (AP-151) and records of tasks (AP-152) at random moments: a journal keeps what was told."""

import random
from typing import Any

from world import World, app, ask, make_world, node, queue, record, release, remove, terminate, tree

from ykactor.core.messages.states import Outcome, TaskOutcome


def test_an_outcome_may_come_at_any_time() -> None:
    """The invariants hold after an outcome in each state of applications and gangs, and an application ends once."""
    met = set[str]().union(*map(_random_ends, range(20)))
    assert met >= {"New", "Accepted", "Starting", "Running", "Completing", "Failing"}


def _random_ends(seed: int) -> set[str]:
    """The states of the live applications that have got an outcome."""
    rng = random.Random(seed)
    world = make_world(tree(queue("a"), queue("b")), [node("n1", vcore=10)], confirms=rng.random() < 0.5)
    states = set[str]()
    for number in range(80):
        name, group = f"app-{rng.randrange(4)}", {"group": "g", "placeholder": True} if rng.random() < 0.4 else {}
        match rng.randrange(8):
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
            case 7:
                world.send(record(f"{name}.{rng.randrange(80)}", name, rng.choice(list(TaskOutcome)), exit_code=number))
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
    assert {name: told.get("records") for name, told in world.state()["applications"].items()} == _restored(world)
    return states


def _restored(world: World) -> dict[str, Any]:
    """The records of each application's tasks, after a restart with the changes that the turns have reported."""
    world.direct.restore(*world.direct.kept.restored())  # type: ignore[attr-defined]  # ``conftest`` keeps it
    return {name: told.get("records") for name, told in world.state()["applications"].items()}
