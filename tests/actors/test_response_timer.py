"""A timer for calls that may never return, on a virtual clock: which calls are late, and when that is told."""

import pytest
import trio

from ykactor.actors.journal import ResponseTimer

LIMIT_S = 5.0


async def late(durations, pause_s=0.0):
    """The seconds after the begin at which each call of a sequence was found late; None if it was not."""
    told = []
    timer = ResponseTimer(LIMIT_S, lambda: told.append(trio.current_time()))
    found = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timer.run)
        for duration_s in durations:
            began_s = trio.current_time()
            with timer.watched():
                await trio.sleep(duration_s)
            await trio.sleep(pause_s)
            found.append([at_s - began_s for at_s in told])
            told.clear()
        nursery.cancel_scope.cancel()
    return found


@pytest.mark.parametrize("pause_s", [0.0, 0.1, LIMIT_S, 3 * LIMIT_S])
async def test_each_call_has_its_own_time(pause_s, seed, autojump_clock):
    """A late call is told once, at its limit, whatever came before; what ended in time never is."""
    durations = [0.0, 4.9, 4.9, 12.0, 0.1, 0.1, 4.9, 5.1, 100.0, 0.0]
    expected = [[pytest.approx(LIMIT_S)] if duration_s > LIMIT_S else [] for duration_s in durations]
    assert await late(durations, pause_s) == expected


async def test_a_call_that_fails_is_over(autojump_clock):
    """Nothing is told of it later."""
    told = []
    timer = ResponseTimer(LIMIT_S, lambda: told.append(trio.current_time()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timer.run)
        with pytest.raises(OSError, match="gone"), timer.watched():
            raise OSError("gone")
        await trio.sleep(3 * LIMIT_S)
        nursery.cancel_scope.cancel()
    assert told == []
