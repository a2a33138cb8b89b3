"""Nothing of what is outside a view can be read in what a limited reader gets, or told from it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from msgspec import structs
from seeds import seeds
from twosides import MINE, NODES, OTHER, Tenant, draw_tree, others_business
from world import answering, configure, limit, make_world, move, node

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
    """What the view shows of the events of these facts, numbered anew."""
    found = [VIEW.of_event(event) for fact in facts for event in events(fact, "default", 1)]
    return [structs.replace(event, sequence=number) for number, event in enumerate(filter(None, found), 1)]


def test_no_name_of_the_other_side_is_told() -> None:
    """SE-81 to SE-84: tenants that preempt each other, in all encodings: events, and the state after each step."""
    kinds: Counter[str] = Counter()
    hidden = 0
    for seed in seeds(12):
        rng, mine, other = random.Random(seed), Tenant(seed, MINE), Tenant(seed, OTHER)
        root = {"maxapplications": 6, "limits": [limit(f"{MINE}user1", f"{OTHER}user1", vcore=6)]}
        w = make_world(
            draw_tree(rng, rng, **root),
            [answering(True), *(node(name, vcore=rng.choice((4, 6))) for name in NODES)],
            checked=False,
        )
        w.send(*mine.opening(), *other.opening())
        for second in range(1, 40):
            submissions = [*mine.draw(), *other.draw(), *others_business(rng)]
            rng.shuffle(submissions)
            w.send(*submissions, *([configure(draw_tree(rng, rng, **root))] if rng.random() < 0.1 else []), at=second)
            if rng.random() < 0.3:
                w.administer(move(rng.choice(mine.applications), rng.choice((mine, other)).leaf()))
            if rng.random() < 0.1:
                w.facts.append(PartitionFailed(w.now_ns, Consequence.RESTARTED, f"KeyError: {OTHER}"))
            state = w.state()
            for encoding in ENCODINGS.values():
                data = encoding.encode(finished(VIEW.of_state(state)))
                assert OTHER.encode() not in data, data[max(0, data.index(b"zq") - 60) :][:120]
            hidden += OTHER.encode() in JSON.encode(state)
        records = shown(w.facts)
        for encoding in ENCODINGS.values():
            assert not [data for data in encoding.encode_each(records) if OTHER.encode() in data]
        kinds.update(f"{event.type} {event.message.split(MINE)[0]}".strip() for event in records)
        kinds.update(event.event_change_detail for event in records)
    assert hidden > 100
    expected = (
        "QUEUE moved out of view",
        "QUEUE moved into view",
        "REQUEST Preempted",
        "REQUEST Preempted by Quota change enforcement process",
        "REQUEST Request '",
        "REQUEST Unschedulable request '",
        "PARTITION_RESTARTED",
        "APP_FAILING",
        "NODE_ALLOC",
        "NODE_RESERVATION",
        "UG_USER_RESOURCE",
    )
    assert min(kinds[kind] for kind in expected) > 1, kinds


@pytest.mark.parametrize("seed", seeds(5))
def test_the_other_side_makes_no_difference(seed: int) -> None:
    """SE-81 to SE-84: where nobody has to give way to the other, not a byte is another one, whoever the other is."""
    told = []
    for neighbour in (seed, seed + 1000):
        rng, mine, other = random.Random(seed), Tenant(seed, MINE), Tenant(neighbour, OTHER)
        w = make_world(draw_tree(rng, other.rng), [node("n1", vcore=10**6)], checked=False)
        w.send(*mine.opening(), *other.opening())
        states = []
        for second in range(1, 30):
            reload = [configure(draw_tree(rng, other.rng))] if rng.random() < 0.1 else []
            w.send(*mine.draw(), *other.draw(), *reload, at=second)
            states.append(JSON.encode(finished(VIEW.of_state(w.state()))))
        told.append((JSON.encode_each(shown(w.facts)), states, len(w.facts)))
    assert told[0][:2] == told[1][:2]
    assert len(told[0][0]) > 50
    assert told[0][2] != told[1][2]
