"""Does the long work of the core: other tasks run between its parts, and the garbage collector looks at few objects each time.

Tasks of partitions, queues and nodes do the same in place: there one call more for each command counts.
"""

import gc
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from ykactor.core.values.parts import Steps, paced

#: Net new containers before a collection of the young generation. Facts, events and asks have no reference cycles (most structs
#: are not even tracked), so a collection rarely frees anything, but the process pauses for it. The pause grows with the size of
#: the young generation. Worst pauses while 50,000 asks of 1,000 applications are placed on 2,000 nodes: 40 ms with a threshold
#: of 100,000, 25 ms with 10,000, 5 to 15 ms with 2,000, 2 ms with 1,000. In each case all pauses together take about 5 % of the
#: time.
_YOUNG_MAX = 1_000
#: Collections of the young generation before one of the middle generation, and of these before a full one: practically never.
#: One of the middle generation takes 13 ms with 50,000 new allocations, and grows with their number. Cycles of older objects are
#: left to ``collect_old``.
_OLDER_AFTER = 1_000_000
#: How often old objects are collected, and how much later at the latest, in seconds.
OLD_S = 600
OLD_LATEST_S = 3000


def shorten_collections() -> None:
    """Make collections short from now on, before a state of many objects is made: full ones would take a fifth of that time."""
    gc.set_threshold(_YOUNG_MAX, _OLDER_AFTER, _OLDER_AFTER)


def settle_memory() -> None:
    """Collect once, exclude all present objects from later collections, and make those short.

    Called once when a process has made its permanent objects (modules, configuration, first nodes).
    """
    gc.collect()
    gc.freeze()
    shorten_collections()


def set_aside() -> None:
    """Exclude all present objects from the next collection, which then takes no time; ``collect_old`` makes up for it."""
    gc.freeze()


def collect_young() -> None:
    """Look at new objects now. Called when long work pauses, so that there are few, and the lists that it makes are still short.

    The collector itself counts neither facts nor objects that take the place of others. So it would look at a list of 200,000
    facts, or at the waits of 5,000 tasks, at once: more than 10 ms.
    """
    gc.collect(0)


async def collect_old(is_quiet: Callable[[], bool]) -> None:
    """Free cycles of old objects every ten minutes, in a quiet moment if there is one; until cancelled.

    Sessions that have ended may leave some, and a partition that was made anew leaves itself, which may have been excluded by
    ``settle_memory``. It takes about 0.1 s with 100,000 allocations, and 0.4 s when such a partition is freed.
    """
    while True:
        await trio.sleep(OLD_S)
        for _ in range(OLD_LATEST_S):
            if is_quiet():
                break
            await trio.sleep(1)
        gc.unfreeze()
        gc.collect()
        gc.freeze()


R = TypeVar("R")


async def pause() -> None:
    """Let other tasks run."""
    collect_young()
    await trio.lowlevel.checkpoint()


async def checkpoint() -> None:
    """Let other tasks run in work that only encodes: to look at new objects, like ``pause``, would take a third of its time."""
    await trio.lowlevel.checkpoint()


async def drive(work: Steps[R], rest: Callable[[], Awaitable[None]] = pause) -> R:
    """Do long work to its end, with a rest between its parts. Returns its result."""
    parts = paced(work)
    try:
        while True:
            next(parts)
            await rest()
    except StopIteration as stop:
        result: R = stop.value
        return result
