"""The search for the most expensive mix, and what a mix consists of."""

import random

import msgspec
import pytest
import trio

from bench.mixes import BATCH, Mix, cost
from bench.search import SPACE, Found, described, drawn, mutated, search
from ykactor.wire import queuefile

MIXED = Mix(
    nodes=10,
    node_sizes=3,
    full=50,
    zones=2,
    leaves=4,
    depth=2,
    applications=20,
    waiting=40,
    asks=100,
    ask_sizes=5,
    releases=50,
    priorities=3,
    users=3,
    quota=100,
    packs=True,
)


def planted(mix: Mix) -> float:
    """A cost that grows with two numbers."""
    return mix.leaves + mix.waiting


def test_the_worst_is_found_and_the_seed_decides() -> None:
    """The worst of all tries is the result; the same seed tries the same mixes, another one others."""
    tried: list[Found] = []
    worst = search(1, 50, planted, tried.append)
    assert len(tried) == 50
    assert worst.cpu_us == max(found.cpu_us for found in tried)
    assert search(1, 50, planted) == worst
    again: list[Found] = []
    search(2, 50, planted, again.append)
    assert again != tried


def test_a_mutation_changes_one_to_three_numbers() -> None:
    """The changed values come from the space."""
    rng = random.Random(1)
    before = msgspec.to_builtins(Mix())
    for _ in range(100):
        after = msgspec.to_builtins(mutated(rng, Mix()))
        changed = [name for name in before if before[name] != after[name]]
        assert len(changed) <= 3
        assert all(after[name] in SPACE[name] for name in changed)


def test_a_mix_is_reproduced_from_its_description() -> None:
    """``--mix`` takes what the search prints."""
    rng = random.Random(1)
    for _ in range(20):
        mix = drawn(rng)
        assert msgspec.json.decode(described(mix), type=Mix) == mix


def test_every_mix_of_the_space_has_a_valid_configuration() -> None:
    """Queues, limits, quotas and guarantees go together."""
    rng = random.Random(1)
    for _ in range(20):
        queuefile.load(drawn(rng).config())


def test_a_mix_has_the_asks_that_it_says() -> None:
    """Each ask once, in small requests after the large ones; a release for every other ask."""
    requests = [*MIXED.large_requests(), *MIXED.small_requests()]
    keys = [ask.allocation_key for request in requests for ask in request.allocations]
    assert len(set(keys)) == len(keys) == MIXED.waiting + MIXED.asks
    assert [len(request.allocations) for request in requests] == [MIXED.waiting, BATCH, BATCH]
    assert [len(request.releases.allocations_to_release) for request in requests] == [0, BATCH // 2, BATCH // 2]


@pytest.mark.parametrize("mix", [MIXED, Mix(nodes=10, asks=100, gangs=100, predicates=2), Mix(nodes=10, full=100, preempts=True)])
async def test_cost_of_a_mix(mix: Mix) -> None:
    """All asks and releases are decisions, and so are allocations, of which every mix has some."""
    with trio.fail_after(180):
        samples = await cost(mix)
    assert samples["cpu_us"][0] > 0
    assert samples["decisions"][0] > mix.waiting + mix.asks + mix.asks * mix.releases // 100
