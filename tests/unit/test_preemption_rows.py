"""Preemptions as rows, from the events of simulated worlds."""

import re

from test_attempts import starving, wants
from world import World, app, ask, configure, make_world, node, queue, release, remove, tree

from ykactor.surfaces.cli.views.listing import Row
from ykactor.surfaces.cli.views.preemptions import KINDS, PreemptionRows, listing
from ykactor.wire.si.events import events


def rows(world: World) -> list[Row]:
    """The rows of the events that the daemon would send."""
    found, number = PreemptionRows(), 0
    for fact in world.facts:
        for event in events(fact, "default", number):
            number += 1
            if not {event.type, event.event_change_detail}.isdisjoint(KINDS):
                found.read(event)
    return found.rows


def outcome(world: World) -> tuple[str, int]:
    """The outcome of the only preemption, with the number of its victims that have ended."""
    (row,) = rows(world)
    return row["outcome"], row["released"]


def test_for_whom_and_what_came_of_it() -> None:
    """The ask, the victims, the kind and why (PE-90, PE-95); pending until the ask is placed."""
    world = starving(confirms=False)
    world.wait(40)
    (row,) = rows(world)
    assert (row["applicationID"], row["allocationKey"], row["queueName"], row["nodeID"]) == ("prod", "p1", "root.prod", "n2")
    assert (row["kind"], row["why"]) == ("generic", "its queue is 0.04 vcore below its guarantee (law 4)")
    assert row["victims"] == [{"queueName": "root.test", "applicationID": "test", "allocationKey": "u0"}]
    assert outcome(world) == ("pending", 0)
    world.send(release("u0", "test"), at=41)
    assert outcome(world) == ("placed", 1)
    world.send(release("p1", "prod"), at=42)
    assert outcome(world) == ("placed", 1)


def test_a_queue_that_stays_above_its_max() -> None:
    """PE-98: nothing is taken, so nothing is awaited; the row says why."""
    bounds = {"guaranteed": {"memory": 8 * 2**30}, "p": {"quota.preemption.delay": "1s"}}
    before, after = (
        tree(queue("a", max={"vcore": limit}, **bounds), preemption={"quotapreemptionenabled": True}) for limit in (8000, 4000)
    )
    world = make_world(before, [node("n1", vcore=9000, memory=2**40)])
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=1000, memory=2**30) for number in range(6)))
    world.given(configure(after))
    world.run(5)
    *_, row = rows(world)
    assert (row["kind"], row["queueName"], row["victims"], row["outcome"]) == ("quota", "root.a", [], "stays")
    assert row["why"] == "2 vcore above its maximum; nothing is taken because memory is 2Gi below its guarantee"


def test_an_ask_that_goes_away() -> None:
    """The preemption is cancelled; its victim is released nevertheless."""
    world = starving(confirms=False)
    world.wait(40)
    world.send(release("p1", "prod"), at=41)
    assert outcome(world) == ("cancelled", 0)
    world.send(release("u0", "test"), at=42)
    assert outcome(world) == ("cancelled", 1)


def test_an_ask_that_preempts_again() -> None:
    """PE-55: its node is gone, so it takes another one; what the first time was for is said to be repeated."""
    world = starving(confirms=False)
    world.wait(40)
    world.send(node("n2", "DECOMISSION"), at=41)
    world.wait(100)
    first, second = rows(world)
    assert (first["outcome"], second["outcome"]) == ("repeated", "pending")
    assert [victim["allocationKey"] for victim in second["victims"]] == ["t1", "t0"]


def test_a_required_node() -> None:
    """PE-60: another kind."""
    world = make_world(tree(queue("a")), [node("n1", vcore=2)])
    world.given(app("app-1"), app("app-2"), ask("t1", "app-1", vcore=2))
    world.given(ask("d1", "app-2", vcore=2, requires="n1"), at=1)
    world.wait(5)
    (row,) = rows(world)
    assert (row["kind"], row["outcome"], row["released"]) == ("required_node", "placed", 1)


def test_a_queue_above_its_max() -> None:
    """PE-89: the victims are those that were told before, and it is over when all of them have ended."""
    switch = {"enabled": True, "quotapreemptionenabled": True}
    text = tree(queue("a", max={"vcore": 4}, p={"quota.preemption.delay": "1s"}), preemption=switch)
    world = make_world(text, [node("n1", vcore=8)], confirms=False)
    world.given(app("app-1"), *(ask(f"t{number}", "app-1", vcore=2) for number in range(2)))
    world.send(configure(text.replace("4", "2", 1)), at=2)
    world.wait(5)
    (row,) = rows(world)
    (victim,) = row["victims"]
    assert (row["kind"], row["queueName"], row["outcome"], "applicationID" in row) == ("quota", "root.a", "pending", False)
    world.send(release(victim["allocationKey"], "app-1"), at=6)
    assert outcome(world) == ("released", 1)


def test_an_application_that_is_removed() -> None:
    """The asks of an application are cancelled with it."""
    world = starving(confirms=False)
    world.given(wants("p2", vcore=1), at=12)
    world.wait(40)
    world.send(remove("prod"), at=41)
    assert {row["outcome"] for row in rows(world)} == {"cancelled"}


def test_many_victims_are_counted() -> None:
    """A table names three of them, in one word."""
    world = make_world(tree(queue("prod", guaranteed={"vcore": 40}), queue("test")), [node("n1", vcore=20)], confirms=False)
    world.given(app("prod", "root.prod"), app("test", "root.test"), *(ask(f"t{n}", "test", vcore=2) for n in range(10)))
    world.given(wants("p1", vcore=20))
    world.wait(31)
    header, line = listing(rows(world)).lines(False)
    cells = dict(zip(header.split(), line.split(), strict=False))
    assert re.fullmatch(r"(test/t\d,){3}\+7", cells["VICTIMS"])
    assert (cells["RELEASED"], cells["OUTCOME"]) == ("0/10", "pending")
