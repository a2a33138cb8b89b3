"""Slots: what one holder gets, what is left for others, and who ends when there is none left."""

from __future__ import annotations

import random
import resource
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from ykactor.access.limits import Limits
from ykactor.access.model import ANYBODY, Identity, Role
from ykactor.surfaces.admission.caller import Caller
from ykactor.surfaces.admission.slots import ConnectionSlots, Slot, Slots
from ykactor.surfaces.net.descriptors import RESERVE

#: By kind, new slots as the daemon has them, and how many there are.
KINDS: dict[str, tuple[Callable[[], Slots], int]] = {
    "resource managers": (lambda: ConnectionSlots(Limits).sessions["/v1/rm"], 64),
    "operators": (lambda: ConnectionSlots(Limits).sessions["/v1/operator"], 64),
    "followers": (lambda: ConnectionSlots(Limits).sessions["/v1/feed"], 4000),
    "readers": (lambda: ConnectionSlots(Limits).readers, 1000),
    "metrics": (lambda: ConnectionSlots(Limits).metrics, 64),
    "few": (lambda: Slots("few", lambda: 3), 3),
}
IDENTITY = Identity(name="ci", roles=frozenset([Role.READER]))
#: By who somebody is, two connections of one holder, and one of another.
FROM = partial(Caller, Role.RM)
HOLDERS = {
    "an identity": (FROM("10.0.0.1:1", IDENTITY), FROM("[fe80::1]:2", IDENTITY), FROM("10.0.0.1:3")),
    "a network": (FROM("10.0.0.1:1"), FROM("10.0.0.254:1"), FROM("10.0.1.1:1")),
    "a network of IPv6": (FROM("[fe80::1]:1"), FROM("[fe80::2%eth0]:1"), FROM("[fe80:1::]:1")),
    "a user of a Unix socket": (FROM("unix uid 7"), FROM("unix uid 7"), FROM("unix uid 77")),
}


@pytest.fixture(autouse=True)
def descriptors_max(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of descriptors that the process may have, whatever the real limit is."""
    found = [65_536]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (found[0], found[0]))
    return found


def greedy(slots: Slots, holder: str) -> int:
    """The number of slots that a holder gets that takes all it can."""
    while not slots.refusal(holder):
        slots.take(holder)
    return slots.held(holder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", HOLDERS)
def test_one_holder_has_a_quarter(kind: str, who: str) -> None:
    """SE-48, SE-96: wherever its connections come from; the next one has a quarter of what is left, whoever it is."""
    make, most = KINDS[kind]
    slots, (one, same, other) = make(), HOLDERS[who]
    assert one.holder == same.holder != other.holder
    assert greedy(slots, one.holder) == max(1, most // 4)
    assert slots.refusal(same.holder)
    assert greedy(slots, other.holder) == max(1, (most - most // 4) // 4)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_holders_leave_room(kind: str) -> None:
    """SE-48: however much each takes, one more holder gets in until there are many, and then all slots are taken."""
    make, most = KINDS[kind]
    slots, taken = make(), []
    while not slots.refusal(f"identity {len(taken)}"):
        taken.append(greedy(slots, f"identity {len(taken)}"))
    assert sum(taken) == most
    assert taken == sorted(taken, reverse=True)
    assert len(taken) >= min(most, 10)
    assert slots.refusal("another").endswith("are open, no more are allowed")


@pytest.mark.parametrize("seed", range(20))
def test_no_history_breaks_the_rule(seed: int) -> None:
    """SE-48: holders come and go, and the number of slots changes: what is taken kept the rule when it was taken."""
    rng, most = random.Random(seed), 40
    slots, held = Slots("slots", lambda: most), list[Slot]()
    for _ in range(2000):
        holder, counts = f"h{rng.randrange(12)}", Counter(slot.holder for slot in held)
        assert {name: slots.held(name) for name in counts} == counts
        others = len(held) - counts[holder]
        may = len(held) < most and counts[holder] < max(1, (most - others) // 4)
        assert (slots.refusal(holder) == "") is may
        if may and rng.random() < 0.7:
            held.append(slots.take(holder))
        elif held:
            held.pop(rng.randrange(len(held))).release()
        if rng.random() < 0.01:
            most = rng.randrange(1, 60)
    for slot in held:
        slot.release()
        slot.release()
    assert not slots._held
    assert not slots._count


@pytest.mark.parametrize("most", [64, 65, 100, 1024, 4096, 10_303, 10_304, 65_536, resource.RLIM_INFINITY])
def test_few_descriptors_are_shared(descriptors_max: list[int], most: int) -> None:
    """SE-91: where there are few, each kind has fewer in proportion, but 16; all together leave those of the daemon itself."""
    descriptors_max[0] = most
    counts = []
    for make, wanted in KINDS.values():
        slots = make()
        while not slots.refusal(f"identity {slots._count}"):
            slots.take(f"identity {slots._count}")
        counts.append(slots._count)
        assert min(wanted, 16) <= slots._count <= wanted
        assert slots._count == wanted or most < 10_304
    assert most == resource.RLIM_INFINITY or sum(counts) <= max(most - RESERVE, 16 * len(KINDS))


def test_who_has_shown_nothing_makes_room() -> None:
    """SE-96: a holder beyond its share ends its own oldest one; where there is none left, who has most loses its oldest."""
    slots, ended = Slots("connections", lambda: 8), list[str]()

    def come(name: str, holder: str) -> str:
        refusal = slots.make_room(holder)
        slots.take(holder, lambda: ended.append(name))
        return refusal

    for number in range(4):
        come(f"a{number}", "a")
    assert ended == ["a0", "a1"]
    for number in range(6):
        come(f"b{number}", f"b{number}")
    assert ended == ["a0", "a1"]
    assert come("c0", "c") == "8 connections are open, no more are allowed"
    assert ended == ["a0", "a1", "a2"]
    assert slots.held("c") == 1


def test_a_slot_moves() -> None:
    """SE-96: a connection has one slot, of the kind that its requests need; one of a reader is good for metrics too."""
    slots, reader = ConnectionSlots(Limits), Caller(Role.READER, "10.0.0.1:1", IDENTITY)
    slot = slots.unproven.take("10.0.0.0/24")
    assert slots.claim_requests(slot, reader, is_scrape=True) == ""
    assert [each.held(reader.holder) for each in (slots.unproven, slots.readers, slots.metrics)] == [0, 0, 1]
    assert slots.claim_requests(slot, reader, is_scrape=False) == ""
    assert slots.claim_requests(slot, Caller(Role.READER, "", ANYBODY), is_scrape=True) == ""
    assert [each.held(reader.holder) for each in (slots.unproven, slots.readers, slots.metrics)] == [0, 1, 0]
    assert slots.unproven.held("10.0.0.0/24") == 0
    slot.release()
    assert [each._count for each in (slots.unproven, slots.readers, slots.metrics)] == [0, 0, 0]
