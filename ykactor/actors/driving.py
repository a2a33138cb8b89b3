"""Runs the generators of the core: each yields what is to be carried out, or a pause, and is sent the result.

Tasks of partitions, queues and nodes do the same in place: there one call more for each command counts.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import trio

from ykactor.actors.memory import collect_young

W = TypeVar("W")
R = TypeVar("R")


async def drive(generator: Generator[W, Any, R], carry_out: Callable[[W], Awaitable[Any]]) -> R:
    """Run a generator to its end and return its result."""
    try:
        wanted = next(generator)
        while True:
            wanted = generator.send(await carry_out(wanted))
    except StopIteration as stop:
        result: R = stop.value
        return result


async def pause(_: object = None) -> None:
    """Let other tasks run; what carries out work that only pauses."""
    collect_young()
    await trio.lowlevel.checkpoint()


async def checkpoint(_: object) -> None:
    """Let other tasks run in work that only encodes: to look at new objects, like ``pause``, would take a third of its time."""
    await trio.lowlevel.checkpoint()
