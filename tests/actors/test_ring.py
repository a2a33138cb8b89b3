"""The ring alone: what is not durable stays, however much there is of it."""

import random
from typing import NamedTuple

import pytest
from seeds import seeds

from ykactor.actors.ring import Ring


class Event(NamedTuple):
    sequence: int
    object_id: str
    type: str = "NODE"
    reference_id: str = ""
    event_change_detail: str = ""
    partition: str = ""
    queue_name: str = ""
    message: str = ""
    preemption: None = None
    waited: None = None


def encode(events):
    return [b"%d" % event.sequence for event in events]


@pytest.mark.parametrize("number", seeds(30))
def test_what_is_not_durable_is_never_dropped(number):
    """Turns of all sizes, durable or not for a while: everything not durable is there, and of the rest as much as fits."""
    chance = random.Random(number)
    ring = Ring(chance.choice((1, 5, 20)), bytes_max=200)
    for _ in range(100):
        count, is_durable = chance.randrange(12), chance.random() < 0.2
        ring.keep([Event(ring.sequence + n, "x" * chance.randrange(40)) for n in range(1, count + 1)], durable=is_durable)
        if chance.random() < 0.3:
            ring.raise_durable(chance.randint(ring.durable, ring.sequence))
        assert ring.durable <= ring.sequence
        assert ring.lowest <= ring.durable + 1
        kept = range(ring.lowest, ring.sequence + 1)
        assert [ring.event(n).sequence for n in kept] == list(kept)
        if readable := range(ring.lowest, ring.durable + 1):
            assert ring.encoded(readable, encode) == [b"%d" % n for n in readable]
    ring.keep([], durable=True)
    assert ring._bytes <= 200


def test_a_turn_larger_than_the_ring_is_kept():
    """The ring grows for it once, and afterwards overwrites the oldest as before."""
    ring = Ring(4, bytes_max=10**6)
    ring.keep([Event(n, "") for n in range(1, 4)], durable=True)
    ring.keep([Event(n, "") for n in range(4, 24)], durable=False)
    assert (ring.lowest, ring.durable, ring.sequence) == (4, 3, 23)
    ring.raise_durable(23)
    ring.keep([Event(n, "") for n in range(24, 54)], durable=True)
    assert [ring.event(n).sequence for n in range(ring.lowest, 54)] == list(range(ring.lowest, 54))
    assert 53 - ring.lowest + 1 == 20
