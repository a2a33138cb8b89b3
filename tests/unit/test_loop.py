"""The event loop of commands, and Ctrl-C."""

import os
import signal

import pytest
import trio

from ykactor.surfaces.cli import loop


async def nothing() -> None:
    """A coroutine function that has no checkpoint."""


def test_an_interrupt_comes_at_a_checkpoint() -> None:
    """Every coroutine that was called is awaited, so Python has nothing to warn of; the next checkpoint raises."""
    said: list[str] = []

    async def main() -> None:
        coroutine = nothing()
        os.kill(os.getpid(), signal.SIGINT)
        await coroutine
        said.append("awaited")
        await trio.lowlevel.checkpoint()
        said.append("too late")

    with pytest.raises(KeyboardInterrupt):
        loop.run(main)
    assert said == ["awaited"]


def test_an_interrupt_ends_a_wait() -> None:
    """A command that waits for its daemon ends at once."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(BaseExceptionGroup) as interrupted:
        loop.run(main)
    assert interrupted.group_contains(KeyboardInterrupt)


def test_the_result_is_returned() -> None:
    """Arguments go in, the result comes out."""

    async def double(number: int) -> int:
        return 2 * number

    assert loop.run(double, 21) == 42
