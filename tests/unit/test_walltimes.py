"""The time for which tasks may run in a queue (AP-158), and the properties that say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World, app, configure, make_world, queue, template, tree

from ykactor.core.config.properties import QueueProperties
from ykactor.core.messages.facts import ApplicationAdded
from ykactor.core.values.quantities import QUANTITY_MAX, duration_text, parse_duration

MAX, DEFAULT = "application.walltime.max", "application.walltime.default"


def told(world: World) -> list[float]:
    """The times for which the tasks of the accepted applications may run, in seconds."""
    return [decision.walltime_ns / 1e9 for decision in world.facts if isinstance(decision, ApplicationAdded)]


@pytest.mark.parametrize(
    ("properties", "run_seconds"),
    [
        ({}, 0),
        ({MAX: "1h"}, 3600),
        ({DEFAULT: "10m"}, 600),
        ({DEFAULT: "10m", MAX: "1h"}, 600),
    ],
)
def test_who_tells_no_time_has_that_of_the_queue(properties: dict[str, str], run_seconds: float) -> None:
    """An application that tells one has it; a text that tells nothing is none."""
    world = make_world(tree(queue("a", p=properties)))
    world.send(app("app-1"), app("app-2", runSeconds="60"), app("app-3", runSeconds="soon"))
    assert told(world) == [run_seconds, 0, run_seconds]


def test_who_wants_more_than_the_max_is_refused() -> None:
    """The reason names the queue and its limit; nothing else is refused."""
    world = make_world(tree(queue("a", p={MAX: "1h"})))
    world.send(app("app-1", runSeconds="3600"), app("app-2", runSeconds="3600.1"))
    new, refused = world.heard()
    assert new == "app-1 New"
    assert refused.endswith("failed to place application app-2: its tasks run for 1h0.1s, queue root.a allows at most 1h")


def test_queues_inherit_and_cut_the_default() -> None:
    """A child may lower the max: a default that it inherits is cut to it."""
    below = queue("p", queue("a"), queue("b", p={MAX: "10m"}), p={MAX: "2h", DEFAULT: "1h"})
    world = make_world(tree(below))
    world.send(app("app-1", "root.p.a"), app("app-2", "root.p.b"))
    assert told(world) == [3600, 600]


def test_dynamic_queues_are_bound_too() -> None:
    """The max holds with a template or without, at any depth: nobody lifts the max by naming a queue that is not there."""
    create = [{"name": "provided", "create": True}]
    with_template = queue("t", parent=True, childtemplate=template(p={MAX: "10m"}), p={MAX: "1h"})
    world = make_world(tree(queue("p", parent=True, p={MAX: "1h"}), with_template, placementrules=create))
    world.send(app("app-1", "root.p.x.y"), app("app-2", "root.t.x"), app("app-3", "root.p.z", runSeconds="3601"))
    assert told(world) == [3600, 600]
    assert "queue root.p.z allows at most 1h" in world.heard()[-1]


def test_only_new_applications_are_bound_by_another_configuration() -> None:
    """An application that was let in before says so, and is let in again."""
    world = make_world(tree(queue("a")))
    world.given(app("app-1", runSeconds="7200"))
    world.send(configure(tree(queue("a", p={MAX: "1h"}))))
    assert world.heard() == ["configuration accepted"]
    world.send(app("app-2", runSeconds="7200", runSecondsGranted="true"), app("app-3", runSeconds="7200"))
    assert [line.split(":")[0] for line in world.heard()] == ["app-2 New", "app-3 Rejected"]


def test_the_default_is_never_above_the_max() -> None:
    """Whatever is inherited."""
    for usual, longest in ((0, 0), (5, 0), (0, 5), (3, 5), (7, 5)):
        found = QueueProperties(walltime_default_ns=usual, walltime_max_ns=longest).usual_walltime_ns
        assert found == (min(usual or longest, longest) if longest else usual)


@given(st.integers(0, QUANTITY_MAX))
def test_a_duration_is_read_as_it_was_written(duration_ns: int) -> None:
    """The text is exact to the nanosecond."""
    assert parse_duration(duration_text(duration_ns)) == duration_ns
