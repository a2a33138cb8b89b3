"""A search for the most expensive workload: random mixes, and mutations of the worst one so far."""

import random
import subprocess
import sys
from collections.abc import Callable

import msgspec
from msgspec import Struct, structs

from bench.mixes import Mix

#: For each number of a mix the values to choose from. They are bounded so that a try takes some seconds, and plausible: what a
#: site could have, not what is legal.
SPACE: dict[str, tuple[int, ...]] = {
    "nodes": (10, 50, 200, 500, 1_000),
    "node_sizes": (1, 3, 10, 32),
    "full": (0, 50, 90, 100),
    "zones": (0, 2, 10, 100),
    "leaves": (1, 2, 10, 50, 200, 500),
    "depth": (1, 2, 4, 8),
    "applications": (1, 10, 100, 500, 2_000),
    "waiting": (0, 500, 2_000, 5_000, 10_000),
    "asks": (500, 1_000, 2_000),
    "ask_sizes": (1, 5, 50, 500),
    "releases": (0, 10, 50, 100),
    "priorities": (1, 3, 20),
    "gangs": (0, 10, 50, 100),
    "users": (0, 2, 10, 100),
    "quota": (0, 50, 100, 200),
    "predicates": (0, 1, 5, 50),
    "is_fair": (False, True),
    "packs": (False, True),
    "reserves": (False, True),
    "preempts": (False, True),
}
#: One try in so many is a new random mix, so that the search does not stay where it began.
_FRESH_EACH = 4
_CHANGES_MAX = 3


class Found(Struct, frozen=True):
    """A mix and what a decision costs, in CPU microseconds."""

    mix: Mix
    cpu_us: float


def search(seed: int, tries: int, cost_us: Callable[[Mix], float], on_try: Callable[[Found], None] = lambda _: None) -> Found:
    """The most expensive of so many mixes.

    Args:
        cost_us: what a decision costs.
        on_try: called with each mix that was tried.
    """
    rng = random.Random(seed)
    worst = Found(Mix(), 0.0)
    for number in range(tries):
        mix = drawn(rng) if number % _FRESH_EACH == 0 else mutated(rng, worst.mix)
        found = Found(mix, cost_us(mix))
        on_try(found)
        worst = max(worst, found, key=lambda each: each.cpu_us)
    return worst


def drawn(rng: random.Random) -> Mix:
    """A random mix."""
    return msgspec.convert({name: rng.choice(values) for name, values in SPACE.items()}, Mix)


def mutated(rng: random.Random, mix: Mix) -> Mix:
    """The mix with one to three numbers changed."""
    names = rng.sample(list(SPACE), rng.randint(1, _CHANGES_MAX))
    return structs.replace(mix, **{name: rng.choice(SPACE[name]) for name in names})


def described(mix: Mix) -> str:
    """The mix as JSON, without what is as usual: what ``--mix`` takes."""
    usual = structs.asdict(Mix())
    return msgspec.json.encode({name: value for name, value in structs.asdict(mix).items() if value != usual[name]}).decode()


def in_fresh_process(mix: Mix) -> float:
    """Measure the cost of a decision in a new process."""
    command = [sys.executable, "-m", "bench", "--mix", described(mix)]
    completed = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    cpu_us: float = msgspec.json.decode(completed.stdout)["cpu_us"][0]
    return cpu_us
