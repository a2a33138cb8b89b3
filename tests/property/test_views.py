"""Nothing of what is outside a view can be read in what a limited reader gets, or told from it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pytest
from msgspec import structs, to_builtins
from seeds import seeds
from twosides import MINE, NODES, OTHER, Tenant, draw_tree, others_business
from world import World, answering, configure, decoded, limit, make_world, move, node

from ykactor.access.model import Names
from ykactor.access.view import View
from ykactor.core.messages.facts import Fact, PartitionFailed
from ykactor.core.messages.kinds import Consequence
from ykactor.core.values.parts import finished
from ykactor.wire.si import messages as si
from ykactor.wire.si.codec import ENCODINGS, JSON
from ykactor.wire.si.events import events

VIEW = View(Names.of(["default"]), frozenset({f"root.{MINE}"}))


def shown(facts: Iterable[Fact]) -> list[si.EventRecord]:
    """The events of these facts that the view shows, numbered anew."""
    found = [VIEW.of_event(event) for fact in facts for event in events(fact, "default", 1)]
    return [structs.replace(event, sequence=number) for number, event in enumerate(filter(None, found), 1)]


def play_both(seed: int) -> Iterator[World]:
    """Tenants that preempt each other, and move applications to each other; the world after each step."""
    rng, mine, other = random.Random(seed), Tenant(seed, MINE), Tenant(seed, OTHER)
    root = {"maxapplications": 6, "limits": [limit(f"{MINE}user1", f"{OTHER}user1", vcore=6)]}
    nodes = [node(name, vcore=rng.choice((4, 6))) for name in NODES]
    w = make_world(draw_tree(rng, rng, **root), [answering(True), *nodes], checked=False)
    w.send(*mine.opening(), *other.opening())
    for second in range(1, 40):
        submissions = [*mine.draw(), *other.draw(), *others_business(rng)]
        rng.shuffle(submissions)
        w.send(*submissions, *([configure(draw_tree(rng, rng, **root))] if rng.random() < 0.1 else []), at=second)
        if rng.random() < 0.3:
            w.administer(move(rng.choice(mine.applications), rng.choice((mine, other)).leaf()))
        if rng.random() < 0.1:
            w.facts.append(PartitionFailed(w.now_ns, Consequence.RESTARTED, f"KeyError: {OTHER}"))
        yield w


#: What has to happen in the histories, or they prove nothing: how texts begin, and details.
HAPPENS = (
    "moved out of view",
    "moved into view",
    "Preempted",
    "Preempted by Quota change enforcement process",
    "Request '",
    "Unschedulable request '",
    "PARTITION_RESTARTED",
    "APP_FAILING",
    "NODE_ALLOC",
    "NODE_RESERVATION",
    "UG_USER_RESOURCE",
    "MAX_APPLICATIONS in view",
    "LIMIT in view",
    "LIMIT above",
    "QUOTA in view",
    "QUOTA above",
    "NODES",
    "RESERVED",
)


def pending(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The groups of pending asks of a state."""
    for application in state["applications"].values():
        yield from application.get("pending", ())


def kept_back(group: dict[str, Any]) -> str:
    """The reason code of a group, and whether its queue is in view: only then there are numbers (SE-84)."""
    place = group.get("place", {})
    if "queueName" not in place:
        return str(group["code"])
    is_in_view = VIEW.shows_queue(place["queueName"])
    assert ("used" in place) == ("max" in place) == is_in_view
    return f"{group['code']} {'in view' if is_in_view else 'above'}"


def test_no_name_of_the_other_side_is_told() -> None:
    """SE-81 to SE-84: in all encodings, in events and in the state after each step."""
    happened: Counter[str] = Counter()
    hidden, name = 0, OTHER.encode()
    for seed in seeds(40):
        for w in play_both(seed):
            state = w.state()
            hidden += name in JSON.encode(state)
            seen = finished(VIEW.of_state(decoded(state)))
            for encoding in ENCODINGS.values():
                assert name not in encoding.encode(seen)
            happened.update(map(kept_back, pending(to_builtins(seen))))
        records = shown(w.facts)
        for encoding in ENCODINGS.values():
            assert not [data for data in encoding.encode_each(records) if name in data]
        happened.update(event.message.split(MINE)[0] for event in records)
        happened.update(event.event_change_detail for event in records)
    assert hidden > 100
    assert min(happened[kind] for kind in HAPPENS) > 1, happened


def tells_of_waiting(event: si.EventRecord) -> bool:
    """True if quotas hold back an ask or an application, or no longer do."""
    is_about_ask = event.type == "REQUEST" and event.preemption is None
    return is_about_ask or event.event_change_detail.startswith(("APP_CANNOTRUN", "APP_RUNNABLE"))


def apart_from_haste(records: Iterable[si.EventRecord]) -> list[bytes]:
    """The events without what SE-86 names: how often no node is found, and in which order it is told of what waits."""
    records = [structs.replace(event, sequence=0) for event in records if not event.message.startswith("Unschedulable")]
    runs = groupby(records, lambda event: (tells_of_waiting(event), event.timestamp_nano))
    return [event for (is_sorted, _), run in runs for event in (sorted if is_sorted else list)(JSON.encode_each(list(run)))]


@pytest.mark.parametrize("seed", seeds(15))
def test_the_other_side_makes_no_difference(seed: int) -> None:
    """SE-81 to SE-84, SE-86: where nobody has to give way to the other, not a byte is another one, whoever the other is."""
    told = []
    for neighbour in (seed, seed + 1000):
        rng, mine, other = random.Random(seed), Tenant(seed, MINE), Tenant(neighbour, OTHER)
        has_answers = seed % 2 == 1
        w = make_world(draw_tree(rng, other.rng), [answering(has_answers), node("n1", vcore=10**6)], checked=False)
        w.send(*mine.opening(), *other.opening())
        states = []
        for second in range(1, 30):
            w.run(second)  # as a daemon, which looks at what is due although nobody says anything
            reload = [configure(draw_tree(rng, other.rng))] if rng.random() < 0.1 else []
            answers = [*mine.answers("n1"), *other.answers("n1")] if has_answers else []
            w.send(*mine.draw(), *other.draw(), *answers, *reload)
            states.append(JSON.encode(finished(VIEW.of_state(w.shown()))))
        told.append((apart_from_haste(shown(w.facts)), states, w.facts))
    assert told[0][:2] == told[1][:2]
    assert len(told[0][0]) > 50
    assert told[0][2] != told[1][2]
