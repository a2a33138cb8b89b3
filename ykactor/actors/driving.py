"""Does the long work of the core: the other tasks run between its parts.

Tasks of partitions, queues and nodes do the same in place: there one call more for each command counts.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from ykactor.actors.memory import collect_young
from ykactor.core.values.parts import Steps, paced

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
